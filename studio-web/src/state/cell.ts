// The cell a person looks at: hovered, or pinned by a click. Kept apart from the document so that moving the pointer redraws
// only the overlays of the heat-maps and the line with the formula.
import { winnerOf, wonBy } from "../model/formula.ts";
import { tensorKey, typeOf } from "../model/graph.ts";
import { marksFor, sourceOf, type Cell, type Mark } from "../model/relations.ts";
import { layoutOf } from "../model/slices.ts";
import type { End, TensorInfo } from "../model/types.ts";
import { app, derived, graphNow } from "./app.ts";
import { Store } from "./store.ts";
import { tensorAt } from "./tensors.ts";

export interface CellState {
  readonly hovered: Cell | null;
  readonly pinned: Cell | null;
  readonly playing: boolean;
  readonly marks: ReadonlyMap<string, readonly Mark[]>;
  readonly winners: ReadonlyMap<string, readonly (readonly number[])[]>;
}

const NOTHING = { marks: new Map(), winners: new Map() };
export const cellStore = new Store<CellState>({ hovered: null, pinned: null, playing: false, ...NOTHING });

export const activeCell = (state: CellState): Cell | null => state.pinned ?? state.hovered;
export const endOf = (key: string): End => {
  const at = key.indexOf("/");
  return [key.slice(0, at), key.slice(at + 1)];
};

function refresh(): void {
  const cell = activeCell(cellStore.get());
  if (!cell) return cellStore.set(NOTHING);
  const { groups } = derived(app.get());
  cellStore.set({ marks: marksFor(groups, cell), winners: winnersFor(cell) });
}

/** Where the maximum came from: for a pooled cell its winner, for an input cell the outputs it wins. */
function winnersFor(cell: Cell): Map<string, number[][]> {
  const state = app.get();
  const graph = graphNow();
  const results = state.result?.blocks ?? {};
  // By their text, because a tensor in several groups gets a winner from each: indices typed by hand can name one cell 65,536 times.
  const found = new Map<string, Map<string, number[]>>();
  const put = (key: string, index: number[]): void => {
    if (!found.has(key)) found.set(key, new Map());
    found.get(key)!.set(index.join(), index);
  };
  for (const group of derived(state).groups) {
    const own = group.members.find((member) => member.key === cell.key);
    const max = group.members.find((member) => typeOf(state.catalogue, graph.blocks.find((block) => block.id === member.block)!.op)!.family === "max");
    if (!own || !max) continue;
    if (own.side === "pooled") {
      const index = winnerOf(graph, state.catalogue, results, tensorAt, max.block, cell.index);
      if (index) for (const member of group.members) if (member.side === "input") put(member.key, index);
    } else {
      for (const output of wonBy(graph, state.catalogue, results, tensorAt, max.block, cell.index)) {
        for (const member of group.members) if (member.side === "pooled") put(member.key, output);
      }
    }
  }
  return new Map([...found].map(([key, indices]) => [key, [...indices.values()]]));
}

const sameCell = (a: Cell | null, b: Cell | null): boolean => a === b || (a !== null && b !== null && a.key === b.key && a.index.join() === b.index.join());

export function hover(cell: Cell | null): void {
  if (sameCell(cellStore.get().hovered, cell)) return;
  cellStore.set({ hovered: cell });
  if (cellStore.get().pinned === null) refresh();
}

export function pin(cell: Cell | null): void {
  const now = cellStore.get();
  const next = sameCell(now.pinned, cell) ? null : cell;
  cellStore.set({ pinned: next, playing: next !== null && now.playing });
  refresh();
}

/** Goes to a cell without the toggle of a click. */
function goTo(cell: Cell): void {
  cellStore.set({ pinned: cell });
  refresh();
}

const infoOf = (key: string): TensorInfo | undefined => {
  const [block, output] = endOf(key);
  return app.get().result?.blocks[block]?.outputs[output];
};

/** One step along rows (ArrowUp/Down), columns (ArrowLeft/Right), slices or, of a flat picture, the first axis (PageUp/Down), or channels ([ and ]). */
export function walkCell(keyName: string, from?: Cell): boolean {
  const cell = from ?? activeCell(cellStore.get());
  const info = cell && infoOf(cell.key);
  if (!cell || !info) return false;
  const layout = layoutOf(info.shape.length, derived(app.get()).axes.get(cell.key) ?? null);
  const other = layout.names.findIndex((name) => name === "C");
  const moves: Record<string, readonly [number | null, number]> = {
    ArrowLeft: [layout.columns, -1], ArrowRight: [layout.columns, 1], ArrowUp: [layout.rows, -1], ArrowDown: [layout.rows, 1],
    PageUp: [layout.panels ?? 0, -1], PageDown: [layout.panels ?? 0, 1], "[": [other < 0 ? null : other, -1], "]": [other < 0 ? null : other, 1],
  };
  const move = moves[keyName];
  if (!move || move[0] === null) return false;
  const [axis, by] = move as [number, number];
  const index = cell.index.map((at, k) => (k === axis ? Math.max(0, Math.min(info.shape[k]! - 1, at + by)) : at));
  goTo({ key: cell.key, index });
  return true;
}

/** The next cell in row-major order; from the last one on to the first. */
export function nextCell(by: 1 | -1 = 1): void {
  const cell = activeCell(cellStore.get());
  const info = cell && infoOf(cell.key);
  if (!cell || !info) return;
  const index = [...cell.index];
  for (let axis = index.length - 1; axis >= 0; axis -= 1) {
    index[axis]! += by;
    if (index[axis]! >= 0 && index[axis]! < info.shape[axis]!) break;
    index[axis] = by > 0 ? 0 : info.shape[axis]! - 1;
  }
  goTo({ key: cell.key, index });
}

const BEAT_MS = 420;
let timer: ReturnType<typeof setInterval> | undefined;

const still = matchMedia("(prefers-reduced-motion: reduce)");
/** Whoever asked for less motion sees one step of the sweep at a time, each on request. */
export const playSteps = (): boolean => still.matches;

export function play(on: boolean): void {
  clearInterval(timer);
  if (on && playSteps() && activeCell(cellStore.get()) !== null) return nextCell();
  if (on && activeCell(cellStore.get()) === null) {
    const first = startCell();
    if (first) goTo(first);
  }
  const cell = activeCell(cellStore.get());
  const moves = on && !playSteps();
  cellStore.set({ playing: moves && cell !== null, pinned: cell });
  if (moves && cell) timer = setInterval(() => (cellStore.get().playing ? nextCell() : clearInterval(timer)), BEAT_MS);
}

/** Play without a chosen cell begins with the first pooled tensor: one sees the window travel. */
export function startCell(): Cell | null {
  const state = app.get();
  for (const block of graphNow().blocks) {
    const type = typeOf(state.catalogue, block.op);
    if (!type || type.family === null) continue;
    for (const name of Object.keys(type.sides)) {
      const source = type.sides[name] === "pooled" ? sourceOf(graphNow(), block.id, type, name) : undefined;
      const info = source && infoOf(tensorKey(source));
      if (source && info && info.shape.every((size) => size > 0)) return { key: tensorKey(source), index: info.shape.map(() => 0) };
    }
  }
  return null;
}

/** After a run the pinned cell may be gone; what can stay does. */
app.subscribe(() => {
  const { pinned, hovered } = cellStore.get();
  if (!pinned && !hovered) return;
  const fits = (cell: Cell | null): boolean => {
    const shape = cell && infoOf(cell.key)?.shape;
    return !cell || (shape !== undefined && shape !== null && shape.length === cell.index.length && cell.index.every((at, axis) => at < shape[axis]!));
  };
  if (!fits(pinned)) cellStore.set({ pinned: null, playing: false });
  if (!fits(hovered)) cellStore.set({ hovered: null });
  refresh();
});
