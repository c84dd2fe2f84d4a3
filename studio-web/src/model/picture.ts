// The graph as an SVG text: plain shapes with attributes, so that it opens anywhere. The page measures where everything stands
// (view/snapshot.ts) and this writes it down.
import { CAPTION_INK, NAN_INK, numberSize, numbersOf, type CellPicture } from "./cells.ts";
import { origin } from "./montage.ts";
import type { Area, Place } from "./place.ts";
import { colourOf, css, textOn, type Theme } from "./scale.ts";
import type { Kind } from "./types.ts";

/** The same on all four sides of the graph. */
export const MARGIN = 40;

/** XML has no way to write control characters and halves of surrogate pairs: they become the sign for "no character". */
export const escape = (text: string): string => text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\p{Cs}]/gu, "\ufffd").replace(/[&<>"]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[letter]!);

const short = (value: number): string => String(Number(value.toFixed(2)));

export interface Sheet { readonly title: string; readonly theme: Theme; readonly paper: string; readonly sans: string; readonly mono: string }

/** The whole picture: what lies in `areas`, with the same margin on every side. */
export function sheet({ title, theme, paper, sans }: Sheet, areas: readonly Area[], content: string): string {
  const edge = (side: "min" | "max", places: number[]): number => (places.length === 0 ? 0 : Math[side](...places));
  const left = edge("min", areas.map((area) => area.x)) - MARGIN;
  const top = edge("min", areas.map((area) => area.y)) - MARGIN;
  const width = Math.max(2 * MARGIN, edge("max", areas.map((area) => area.x + area.width)) + MARGIN - left);
  const height = Math.max(2 * MARGIN, edge("max", areas.map((area) => area.y + area.height)) + MARGIN - top);
  const nan = NAN_INK[theme];
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${short(width)}" height="${short(height)}" viewBox="${[left, top, width, height].map(short).join(" ")}" font-family="${escape(sans)}">`
    + `<title>${escape(title)}</title>`
    + `<defs><pattern id="nan" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect width="4" height="4" fill="${nan.ground}"/><rect width="4" height="1" fill="${nan.line}"/></pattern></defs>`
    + `<rect x="${short(left)}" y="${short(top)}" width="${short(width)}" height="${short(height)}" fill="${escape(paper)}"/>${content}</svg>`;
}

export const box = (area: Area, look: { fill: string; stroke?: string; round?: number; name?: string }): string =>
  `<rect${look.name === undefined ? "" : ` data-block="${escape(look.name)}"`} x="${short(area.x)}" y="${short(area.y)}" width="${short(area.width)}" height="${short(area.height)}"${look.round ? ` rx="${look.round}"` : ""} fill="${escape(look.fill)}"${look.stroke ? ` stroke="${escape(look.stroke)}"` : ""}/>`;

export const line = (from: Place, to: Place, colour: string, thick = 1): string =>
  `<path d="M${short(from.x)} ${short(from.y)}L${short(to.x)} ${short(to.y)}" stroke="${escape(colour)}" stroke-width="${thick}"/>`;

export const wire = (path: string, colour: string, dashed: boolean): string =>
  `<path data-wire="" d="${escape(path)}" fill="none" stroke="${escape(colour)}" stroke-width="2" stroke-opacity="${dashed ? 1 : 0.75}"${dashed ? ' stroke-dasharray="7 4"' : ""}/>`;

/** One line of text as wide as it was on the page, whatever fonts the reader has. */
export interface Words { readonly text: string; readonly x: number; readonly baseline: number; readonly width: number; readonly size: number; readonly weight: string; readonly family: string; readonly colour: string }

export const words = ({ text, x, baseline, width, size, weight, family, colour }: Words): string =>
  `<text x="${short(x)}" y="${short(baseline)}" font-size="${size}" font-weight="${weight}" font-family="${escape(family)}" fill="${escape(colour)}" textLength="${short(width)}" lengthAdjust="spacingAndGlyphs" xml:space="preserve">${escape(text)}</text>`;

export function pinShape({ x, y }: Place, kind: Kind, colour: string, ground: string): string {
  const look = `fill="${escape(kind === "any" ? ground : colour)}" stroke="${escape(kind === "any" ? colour : ground)}"`;
  const at = `transform="translate(${short(x)} ${short(y)})"`;
  if (kind === "shape") return `<rect data-pin="" ${at} x="-6" y="-6" width="12" height="12" rx="2" ${look} stroke-width="2"/>`;
  if (kind === "sequence") return `<path data-pin="" ${at} d="M0 -8L8 0L0 8L-8 0z" ${look} stroke-width="2"/>`;
  if (kind === "indices") return `<path data-pin="" ${at} d="M-6 6L0 -6L6 6z" ${look}/>`;
  return `<circle data-pin="" ${at} r="${kind === "any" ? 4.5 : 6}" ${look} stroke-width="${kind === "any" ? 3 : 2}"/>`;
}

/** The cells of a heat-map at a place, with their numbers. */
export function cellShapes(picture: CellPicture, at: Place, mono: string): string {
  const { montage, grids, captions, scale, theme } = picture;
  const side = montage.cell - 1;
  const size = numberSize(montage.cell);
  const numbers = numbersOf(picture);
  const parts = grids.map((grid, panel) => {
    const corner = origin(montage, panel);
    const caption = montage.caption === 0 ? "" : `<text x="${corner.x}" y="${corner.y - 4}" font-size="10" fill="${CAPTION_INK[theme]}">${escape(captions[panel] ?? "")}</text>`;
    return caption + Array.from(grid.values, (value, n) => {
      const [x, y] = [corner.x + (n % grid.columns) * montage.cell, corner.y + Math.floor(n / grid.columns) * montage.cell];
      const colour = value !== value ? null : colourOf(scale, value);
      const text = colour && numbers?.[panel]![n];
      return `<rect data-cell="" x="${x}" y="${y}" width="${side}" height="${side}" fill="${colour ? css(colour) : "url(#nan)"}"/>`
        + (text ? `<text x="${x + side / 2}" y="${y + side / 2 + size * 0.36}" text-anchor="middle" font-size="${size}" fill="${css(textOn(colour))}">${text}</text>` : "");
    }).join("");
  });
  return `<g transform="translate(${short(at.x)} ${short(at.y)})" font-family="${escape(mono)}">${parts.join("")}</g>`;
}

/** A picture within the picture: cells too small to be shapes, and the marks of a pinned cell. `address` is a data: address. */
export const image = (address: string, area: Area): string =>
  `<image href="${escape(address)}" x="${short(area.x)}" y="${short(area.y)}" width="${short(area.width)}" height="${short(area.height)}"/>`;
