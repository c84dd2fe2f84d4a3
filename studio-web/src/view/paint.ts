// Painting a heat-map: the cells on one canvas, the marks of the chosen cell on another above it.
import { CAPTION_INK, LINED_CELL, NAN_INK, NUMBER_CELL, numbersOf, numberSize, winnerFold, type CellPicture } from "../model/cells.ts";
import { GAP, origin, type Montage } from "../model/montage.ts";
import type { Mark } from "../model/relations.ts";
import { colourOf, css, textOn, type Scale, type Theme } from "../model/scale.ts";
import type { Grid, Layout } from "../model/slices.ts";

export const MARK: Record<Theme, { line: string; halo: string }> = {
  light: { line: "#d6006c", halo: "#ffffff" },
  dark: { line: "#ff5fb0", halo: "#10131a" },
};

/** What each heat-map on the page shows, for the picture of the graph. */
export const pictures = new WeakMap<Element, CellPicture>();

/** Sharp on any screen and up to twice the size on the canvas of blocks. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = Math.min(3, Math.max(2, devicePixelRatio || 1));
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function hatch(context: CanvasRenderingContext2D, x: number, y: number, size: number, theme: Theme): void {
  context.fillStyle = NAN_INK[theme].ground;
  context.fillRect(x, y, size, size);
  context.save();
  context.beginPath();
  context.rect(x, y, size, size);
  context.clip();
  context.strokeStyle = NAN_INK[theme].line;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = -size; at < size; at += Math.max(2, Math.min(4, size / 3))) {
    context.moveTo(x + at, y + size);
    context.lineTo(x + at + size, y);
  }
  context.stroke();
  context.restore();
}

export function paintCells(canvas: HTMLCanvasElement, picture: CellPicture): void {
  const { montage, grids, captions, scale, theme } = picture;
  const context = prepare(canvas, montage.width, montage.height);
  const side = montage.cell;
  const line = side >= LINED_CELL ? 1 : 0;
  const fontSize = numberSize(side);
  const texts = numbersOf(picture);
  grids.forEach((grid, panel) => {
    const corner = origin(montage, panel);
    if (montage.caption > 0) {
      context.font = "10px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
      context.fillStyle = CAPTION_INK[theme];
      context.textAlign = "left";
      context.textBaseline = "alphabetic";
      context.fillText(captions[panel] ?? "", corner.x, corner.y - 4);
    }
    context.font = `${fontSize}px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    if (line === 0) {
      paintSmall(context, grid, scale, corner, side, theme);
      return;
    }
    for (let r = 0; r < grid.rows; r += 1) {
      for (let c = 0; c < grid.columns; c += 1) {
        const value = grid.values[r * grid.columns + c]!;
        const [x, y] = [corner.x + c * side, corner.y + r * side];
        if (value !== value) {
          hatch(context, x, y, side - line, theme);
          continue;
        }
        const colour = colourOf(scale, value);
        context.fillStyle = css(colour);
        context.fillRect(x, y, side - line, side - line);
        const text = texts?.[panel]![r * grid.columns + c];
        if (text) {
          context.fillStyle = css(textOn(colour));
          context.fillText(text, x + (side - line) / 2, y + (side - line) / 2 + 0.5);
        }
      }
    }
  });
}

/** Cells too small for lines and numbers are one pixel each, enlarged: 65,536 of them take 2 ms instead of 200. */
function paintSmall(context: CanvasRenderingContext2D, grid: Grid, scale: Scale, corner: { x: number; y: number }, side: number, theme: Theme): void {
  const pixels = new ImageData(grid.columns, grid.rows);
  const missing: number[] = [];
  for (let n = 0; n < grid.values.length; n += 1) {
    const value = grid.values[n]!;
    if (value !== value) missing.push(n);
    else {
      const colour = colourOf(scale, value);
      pixels.data[4 * n] = colour[0];
      pixels.data[4 * n + 1] = colour[1];
      pixels.data[4 * n + 2] = colour[2];
      pixels.data[4 * n + 3] = 255;
    }
  }
  const small = document.createElement("canvas");
  [small.width, small.height] = [grid.columns, grid.rows];
  small.getContext("2d")!.putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, corner.x, corner.y, grid.columns * side, grid.rows * side);
  for (const n of missing) hatch(context, corner.x + (n % grid.columns) * side, corner.y + Math.floor(n / grid.columns) * side, side, theme);
}

export interface Overlay {
  readonly montage: Montage;
  readonly step: number;
  readonly layout: Layout;
  readonly panelAxis: number | null;             // the axis that the panels run along, when they are shown
  readonly index: readonly number[];
  readonly marks: readonly Mark[];
  readonly winners: readonly (readonly number[])[];
  readonly theme: Theme;
}

/** Panels on which a region of the tensor is seen: those it spans, given where the other axes stand. */
function panelsOf(overlay: Overlay, spans: readonly (readonly [number, number])[]): number[] {
  const seen = spans.every(([start, stop], axis) => axis === overlay.layout.rows || axis === overlay.layout.columns || axis === overlay.panelAxis || (overlay.index[axis]! >= start && overlay.index[axis]! < stop));
  if (!seen) return [];
  if (overlay.panelAxis === null) return [0];
  const [start, stop] = spans[overlay.panelAxis]!;
  return Array.from({ length: Math.max(0, Math.min(stop, overlay.montage.panels) - start) }, (_, k) => start + k);
}

export function paintMarks(canvas: HTMLCanvasElement, overlay: Overlay): void {
  const { montage, step, layout, theme } = overlay;
  // A margin around the cells: a box at the edge is drawn whole.
  const margin = GAP / 2;
  const context = prepare(canvas, montage.width + 2 * margin, montage.height + 2 * margin);
  context.translate(margin, margin);
  const ink = MARK[theme];
  for (const mark of overlay.marks) {
    if (mark.spans.some(([start, stop]) => start >= stop)) continue;
    const [top, bottom] = layout.rows === null ? [0, 1] : mark.spans[layout.rows]!;
    const [left, right] = layout.columns === null ? [0, 1] : mark.spans[layout.columns]!;
    const x = Math.floor(left / step) * montage.cell;
    const y = Math.floor(top / step) * montage.cell;
    const width = Math.max(3, Math.ceil(right / step) * montage.cell - x - 1);
    const height = Math.max(3, Math.ceil(bottom / step) * montage.cell - y - 1);
    for (const panel of panelsOf(overlay, mark.spans)) {
      const corner = origin(montage, panel);
      const box = (grow: number, colour: string, thick: number, dash: number[]): void => {
        context.strokeStyle = colour;
        context.lineWidth = thick;
        context.setLineDash(dash);
        context.strokeRect(corner.x + x - grow, corner.y + y - grow, width + 2 * grow, height + 2 * grow);
      };
      box(0.5, ink.halo, 4.5, []);
      box(0.5, ink.line, mark.role === "same" ? 2.5 : 2, mark.role === "reach" ? [4, 2.5] : []);
    }
  }
  context.setLineDash([]);
  for (const index of overlay.winners) {
    const row = layout.rows === null ? 0 : Math.floor(index[layout.rows]! / step);
    const column = layout.columns === null ? 0 : Math.floor(index[layout.columns]! / step);
    for (const panel of panelsOf(overlay, index.map((at) => [at, at + 1] as const))) {
      const corner = origin(montage, panel);
      const [x, y] = [corner.x + column * montage.cell, corner.y + row * montage.cell];
      context.beginPath();
      if (montage.cell >= NUMBER_CELL) {
        // A folded corner: the number, in the middle third of the cell's height, stays clear of it.
        const fold = winnerFold(montage.cell);
        context.moveTo(x, y);
        context.lineTo(x + fold, y);
        context.lineTo(x, y + fold);
        context.closePath();
      } else context.arc(x + montage.cell / 2, y + montage.cell / 2, Math.max(1.5, montage.cell * 0.25), 0, 2 * Math.PI);
      context.fillStyle = ink.line;
      context.strokeStyle = ink.halo;
      context.lineWidth = 1.5;
      context.stroke();
      context.fill();
    }
  }
}
