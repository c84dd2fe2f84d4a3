// What a heat-map shows, whether it is painted on the page or written into a picture: cells, and the numbers in them.
import type { Montage } from "./montage.ts";
import type { Scale, Theme } from "./scale.ts";
import type { Grid } from "./slices.ts";
import { cellTexts } from "./tensor.ts";

export interface CellPicture { readonly montage: Montage; readonly grids: readonly Grid[]; readonly captions: readonly string[]; readonly scale: Scale; readonly theme: Theme }

/** Cells from this side on have room for a number. */
export const NUMBER_CELL = 16;
/** Cells below this side touch each other; they are painted as pixels. */
export const LINED_CELL = 7;

export const numberSize = (side: number): number => Math.min(13, Math.max(8, Math.floor(side * 0.4)));
/** How far the winner's mark reaches along the edges of its cell: to where the number's line begins. */
export const winnerFold = (side: number): number => Math.floor((side - numberSize(side)) / 2);

export const CAPTION_INK: Record<Theme, string> = { light: "#56606e", dark: "#9aa5b4" };
export const NAN_INK: Record<Theme, { ground: string; line: string }> = { light: { ground: "#ffffff", line: "#6b7280" }, dark: { ground: "#181c22", line: "#9aa3b0" } };

/** The text of every cell of every panel, or null where there is no room for numbers. */
export function numbersOf({ montage, grids, scale }: CellPicture): (string | null)[][] | null {
  if (montage.cell < NUMBER_CELL) return null;
  const room = Math.floor((montage.cell - 3) / (numberSize(montage.cell) * 0.57));
  return cellTexts(grids.map((grid) => grid.values), room, Math.max(Math.abs(scale.low), Math.abs(scale.high)));
}
