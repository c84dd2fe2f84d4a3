// Where the cells of a heat-map lie: panels side by side (the slices of a volume), each a grid of square cells.

export interface Montage {
  readonly cell: number;      // side of a cell in pixels
  readonly across: number;    // panels in a row
  readonly rows: number;
  readonly columns: number;
  readonly panels: number;
  readonly caption: number;   // height of the line above a panel; 0 for a single one
  readonly width: number;
  readonly height: number;
}

export interface Room { readonly width: number; readonly height: number; readonly largestCell: number }

export const GAP = 10;
const CAPTION = 14;

/** The arrangement with the largest cells that fits the room. */
export function montage(rows: number, columns: number, panels: number, room: Room): Montage {
  const caption = panels > 1 ? CAPTION : 0;
  let best: Montage | null = null;
  for (let across = 1; across <= panels; across += 1) {
    const down = Math.ceil(panels / across);
    const wide = (room.width - (across - 1) * GAP) / (across * columns);
    const high = (room.height - (down - 1) * GAP - down * caption) / (down * rows);
    const side = Math.min(wide, high, room.largestCell);
    const cell = side >= 2 ? Math.floor(side) : Math.max(side, 0.25);
    // Of equal cells the arrangement with fewer empty places, then the flatter one: blocks stay low.
    const spare = (at: number): number => at * Math.ceil(panels / at) - panels;
    if (best !== null && (cell < best.cell || (cell === best.cell && spare(across) > spare(best.across)))) continue;
    best = {
      cell, across, rows, columns, panels, caption,
      width: across * columns * cell + (across - 1) * GAP,
      height: down * (rows * cell + caption) + (down - 1) * GAP,
    };
  }
  return best!;
}

/** The top left corner of a panel's cells. */
export function origin(layout: Montage, panel: number): { x: number; y: number } {
  const column = panel % layout.across;
  const row = Math.floor(panel / layout.across);
  return {
    x: column * (layout.columns * layout.cell + GAP),
    y: row * (layout.rows * layout.cell + layout.caption + GAP) + layout.caption,
  };
}

export interface Hit { readonly panel: number; readonly row: number; readonly column: number }

export function hit(layout: Montage, x: number, y: number): Hit | null {
  for (let panel = 0; panel < layout.panels; panel += 1) {
    const corner = origin(layout, panel);
    const row = Math.floor((y - corner.y) / layout.cell);
    const column = Math.floor((x - corner.x) / layout.cell);
    if (row >= 0 && row < layout.rows && column >= 0 && column < layout.columns) return { panel, row, column };
  }
  return null;
}
