// The graph as an SVG text: boxes, pins, wires and heat-maps as plain shapes with attributes, so that it opens anywhere.
import { tensorKey, typeOf, wireInto } from "./graph.ts";
import { montage, origin } from "./montage.ts";
import { colourOf, css, makeScale, textOn, type Theme } from "./scale.ts";
import { grid, layoutOf } from "./slices.ts";
import { cellTexts, shapeText, type Tensor } from "./tensor.ts";
import type { Block, BlockType, Catalogue, End, Graph, Kind, TensorInfo } from "./types.ts";

export interface PictureInput {
  readonly graph: Graph;
  readonly catalogue: Catalogue;
  readonly theme: Theme;
  readonly infoAt: (end: End) => TensorInfo | undefined;
  readonly tensorAt: (end: End) => Tensor | null;
  readonly axes: ReadonlyMap<string, readonly number[]>;
  readonly gradients: ReadonlySet<string>;
}

const INK = {
  light: { paper: "#f5f6f8", box: "#ffffff", line: "#cfd5dd", text: "#1b2330", quiet: "#566070", kinds: { tensor: "#2563b8", shape: "#9a6100", sequence: "#7a3fb0", indices: "#0d7a70", any: "#566070" } },
  dark: { paper: "#14171c", box: "#1d2229", line: "#363e49", text: "#e7eaef", quiet: "#9aa5b4", kinds: { tensor: "#7db1ff", shape: "#e3a94a", sequence: "#c79bf2", indices: "#56c9bc", any: "#9aa5b4" } },
} satisfies Record<Theme, { paper: string; box: string; line: string; text: string; quiet: string; kinds: Record<Kind, string> }>;

const WIDTH = 260;
const HEAD = 34;
const ROW = 22;
const MARGIN = 40;
const CELLS = 64;   // shown cells either way; a vector picture of more would be no use

/** XML has no way to write control characters and halves of surrogate pairs: they become the sign for "no character". */
const escape = (text: string): string => text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\p{Cs}]/gu, "\ufffd").replace(/[&<>"]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[letter]!);

interface Box { readonly block: Block; readonly type: BlockType; readonly lines: readonly string[]; readonly heat: { text: string; height: number } | null; readonly height: number }

export function graphPicture(input: PictureInput): string {
  const boxes = input.graph.blocks.flatMap((block) => {
    const type = typeOf(input.catalogue, block.op);
    return type ? [boxOf(input, block, type)] : [];
  });
  const left = Math.min(0, ...boxes.map((box) => box.block.x)) - MARGIN;
  const top = Math.min(0, ...boxes.map((box) => box.block.y)) - MARGIN;
  const width = Math.max(200, ...boxes.map((box) => box.block.x + WIDTH)) + MARGIN - left;
  const height = Math.max(120, ...boxes.map((box) => box.block.y + box.height)) + MARGIN - top;
  const ink = INK[input.theme];
  const byId = new Map(boxes.map((box) => [box.block.id, box]));
  const wires = input.graph.wires.flatMap((wire) => {
    const [from, to] = [byId.get(wire.from[0]), byId.get(wire.to[0])];
    if (!from || !to) return [];
    const a = pinPlace(from, wire.from[1], true);
    const b = pinPlace(to, wire.to[1], false);
    const bend = Math.max(40, Math.abs(b.x - a.x) / 2);
    const kind = from.type.outputs.find((output) => output.name === wire.from[1])?.kind ?? "any";
    return [`<path d="M${a.x} ${a.y}C${a.x + bend} ${a.y} ${b.x - bend} ${b.y} ${b.x} ${b.y}" fill="none" stroke="${ink.kinds[kind]}" stroke-width="2"/>`];
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="${left} ${top} ${width} ${height}" font-family="system-ui, sans-serif" font-size="12">`
    + `<title>${escape(input.graph.title)}</title><rect x="${left}" y="${top}" width="${width}" height="${height}" fill="${ink.paper}"/>`
    + wires.join("") + boxes.map((box) => drawBox(input, box)).join("") + "</svg>";
}

function pinPlace(box: Box, name: string, out: boolean): { x: number; y: number } {
  const list = out ? box.type.outputs : box.type.pins;
  const row = Math.max(0, list.findIndex((entry) => entry.name === name));
  return { x: box.block.x + (out ? WIDTH : 0), y: box.block.y + HEAD + row * ROW + ROW / 2 };
}

function boxOf(input: PictureInput, block: Block, type: BlockType): Box {
  const lines = type.properties.flatMap((property) => {
    const text = block.properties[property.name] ?? property.default;
    const applies = property.when === null || Object.entries(property.when).every(([name, values]) => values.includes(block.properties[name] ?? ""));
    return text === "" || !applies || wireInto(input.graph, block.id, property.name) || ["file", "attrs"].includes(property.name) || (text === property.default && ["flag", "integer"].includes(property.kind)) ? [] : [`${property.name}  ${text.length > 26 ? `${text.slice(0, 25)}…` : text}`];
  });
  const end: End | undefined = type.outputs[0] ? [block.id, type.outputs[0].name] : wireInto(input.graph, block.id, type.pins[0]?.name ?? "")?.from;
  const heat = end ? heatOf(input, end) : null;
  const rows = Math.max(type.pins.length, type.outputs.length);
  return { block, type, lines, heat, height: HEAD + rows * ROW + lines.length * 16 + (heat ? heat.height + 30 : 0) + 12 };
}

function heatOf(input: PictureInput, end: End): Box["heat"] {
  const [info, tensor] = [input.infoAt(end), input.tensorAt(end)];
  if (!info || !tensor || tensor.values.length === 0) return null;
  const ink = INK[input.theme];
  if (info.kind === "shape" || info.kind === "sequence") {
    const text = Array.from({ length: Math.min(12, tensor.values.length) }, (_, i) => String(tensor.values[i])).join(info.kind === "shape" ? " × " : ", ");
    return { text: `<text y="12" fill="${ink.text}" font-family="monospace">${text}</text>`, height: 16 };
  }
  const key = tensorKey(end);
  const layout = layoutOf(tensor.shape.length, input.axes.get(key) ?? null);
  const panels = layout.panels !== null && tensor.shape[layout.panels]! <= 16 ? tensor.shape[layout.panels]! : 1;
  const range = { low: info.minimum ?? 0, high: info.maximum ?? 0, nan: info.nan, infinite: info.infinite };
  const scale = makeScale(input.gradients.has(key) || (range.low < 0 && range.high > 0) ? "diverging" : "sequential", range, input.theme);
  const grids = Array.from({ length: panels }, (_, panel) => grid(tensor, layout, tensor.shape.map((_size, axis) => (panels > 1 && axis === layout.panels ? panel : 0)), CELLS));
  const place = montage(grids[0]!.rows, grids[0]!.columns, panels, { width: WIDTH - 24, height: 176, largestCell: 30 });
  const parts = [`<text y="10" fill="${ink.quiet}" font-family="monospace" font-size="11">${shapeText(tensor.shape)} ${tensor.dtype}</text>`];
  const texts = place.cell >= 16 ? cellTexts(grids.map((cells) => cells.values), Math.floor(place.cell / 5.5), Math.max(Math.abs(scale.low), Math.abs(scale.high))) : null;
  grids.forEach((cells, panel) => {
    const corner = origin(place, panel);
    if (panels > 1) parts.push(`<text x="${corner.x}" y="${14 + corner.y}" fill="${ink.quiet}" font-family="monospace" font-size="10">${layout.names[layout.panels!]} ${panel}</text>`);
    cells.values.forEach((value, n) => {
      const x = corner.x + (n % cells.columns) * place.cell;
      const y = 18 + corner.y + Math.floor(n / cells.columns) * place.cell;
      const side = place.cell - (place.cell >= 7 ? 1 : 0);
      const colour = Number.isNaN(value) ? null : colourOf(scale, value);
      parts.push(`<rect x="${x}" y="${y}" width="${side}" height="${side}" fill="${colour ? css(colour) : ink.paper}"${colour ? "" : ` stroke="${ink.quiet}" stroke-dasharray="2 2"`}/>`);
      const text = texts?.[panel]![n];
      if (text) parts.push(`<text x="${x + side / 2}" y="${y + side / 2 + 3}" text-anchor="middle" font-size="9" font-family="monospace" fill="${colour ? css(textOn(colour)) : ink.text}">${text}</text>`);
    });
  });
  return { text: parts.join(""), height: place.height + 18 };
}

function drawBox(input: PictureInput, box: Box): string {
  const ink = INK[input.theme];
  const { block, type } = box;
  const rows = Math.max(type.pins.length, type.outputs.length);
  const parts = [
    `<rect width="${WIDTH}" height="${box.height}" rx="8" fill="${ink.box}" stroke="${ink.line}"/>`,
    `<text x="12" y="22" font-weight="600" font-size="13" fill="${ink.text}">${escape(block.label || type.name)}</text>`,
  ];
  type.pins.forEach((pin, row) => parts.push(pinShape(0, HEAD + row * ROW + ROW / 2, ink.kinds[pin.kind], pin.kind), `<text x="14" y="${HEAD + row * ROW + 15}" fill="${ink.text}">${pin.name}</text>`));
  type.outputs.forEach((pin, row) => parts.push(pinShape(WIDTH, HEAD + row * ROW + ROW / 2, ink.kinds[pin.kind], pin.kind), `<text x="${WIDTH - 14}" y="${HEAD + row * ROW + 15}" text-anchor="end" fill="${ink.text}">${pin.name}</text>`));
  box.lines.forEach((line, n) => parts.push(`<text x="12" y="${HEAD + rows * ROW + n * 16 + 12}" font-size="11" font-family="monospace" fill="${ink.quiet}" xml:space="preserve">${escape(line)}</text>`));
  if (box.heat) parts.push(`<g transform="translate(12 ${HEAD + rows * ROW + box.lines.length * 16 + 14})">${box.heat.text}</g>`);
  return `<g transform="translate(${block.x} ${block.y})">${parts.join("")}</g>`;
}

function pinShape(x: number, y: number, colour: string, kind: Kind): string {
  if (kind === "shape") return `<rect x="${x - 5}" y="${y - 5}" width="10" height="10" fill="${colour}"/>`;
  if (kind === "sequence") return `<path d="M${x} ${y - 7}l7 7-7 7-7-7z" fill="${colour}"/>`;
  if (kind === "indices") return `<path d="M${x - 6} ${y + 5}l6-11 6 11z" fill="${colour}"/>`;
  return `<circle cx="${x}" cy="${y}" r="5.5" fill="${kind === "any" ? "none" : colour}" stroke="${colour}" stroke-width="2"/>`;
}
