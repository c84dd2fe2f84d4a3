// The state of the page: the document with its history, what is selected, the last result, and what is open on top.
import { begin, record, redo, undo, type History } from "../model/history.ts";
import { addBlock, applyEdits, connect, copyOf, emptyGraph, makeBlock, onlyMoved, paste, removeBlocks, tensorKey, typeOf } from "../model/graph.ts";
import { addGradient } from "../model/gradient.ts";
import { copyOffset, expectedSize, FIRST_PIN, freeSpot, shapedFor, startingShape, type Area, type Place, type Show, type Size } from "../model/place.ts";
import { axesOf, gradientKeys, groupsOf, type Group } from "../model/relations.ts";
import { sizeProblem } from "../model/reading.ts";
import type { Header } from "../model/npy.ts";
import type { Loose } from "../model/wiring.ts";
import type { BlockType, Catalogue, Edit, End, GalleryEntry, Graph, Problem, RunResult, Wire } from "../model/types.ts";
import { Store } from "./store.ts";

export interface PaletteRequest {
  readonly screen: Place;
  readonly place: Place;          // on the canvas
  readonly exact: boolean;        // a person pointed there
  readonly view: Area;            // the part of the canvas that is in sight
  readonly near: string | null;   // block that the new one belongs to
  readonly loose: (Loose & { end: End }) | null;
}
/** A .npy file to be opened into a Tensor block: `header` is read already; over the limit a crop is asked for. */
export interface OpenRequest { readonly block: string; readonly file: File; readonly header: Header }

export type Dialog = "gallery" | "help" | "paste" | "new" | { readonly python: string; readonly target: string } | { readonly open: OpenRequest } | { readonly unreadable: string; readonly reason: string } | null;
export interface Toast { readonly text: string; readonly tone: "plain" | "bad" | "heard"; /* heard: for a screen reader only, the eye sees it anyway */ readonly at: number }

/** `request` counts up when the canvas should be fitted anew; `block` should be in sight whatever else is. */
export interface Fit { readonly request: number; readonly show: Show; readonly block: string | null }

export interface AppState {
  readonly phase: "loading" | "ready" | "failed";
  readonly failure: string;
  readonly catalogue: Catalogue;
  readonly gallery: readonly GalleryEntry[];
  readonly history: History<Graph>;
  readonly selected: ReadonlySet<string>;
  readonly selectedWires: ReadonlySet<string>;  // keys of the pins they go into
  readonly result: RunResult | null;
  readonly running: boolean;
  readonly runError: string | null;
  readonly readOnly: boolean;
  readonly palette: PaletteRequest | null;
  readonly dialog: Dialog;
  readonly toast: Toast | null;
  readonly reveal: string | null; // block that should be in sight
  readonly fit: Fit;
  readonly side: boolean;         // on a tablet: the inspector is open though no block is selected
  readonly focusField: string | null;  // property or pin that the inspector should focus
}

const NO_CATALOGUE: Catalogue = { library: "", graph_version: 1, limits: { graph_bytes: 0, upload_bytes: 0, blocks: 0, wires: 0, rank: 0, elements: 0 }, accepts: {}, dtypes: [], blocks: [] };

export const app = new Store<AppState>({
  phase: "loading", failure: "", catalogue: NO_CATALOGUE, gallery: [], history: begin(emptyGraph()), selected: new Set(), selectedWires: new Set(), result: null,
  running: false, runError: null, readOnly: false, palette: null, dialog: null, toast: null, reveal: null, fit: { request: 0, show: "read", block: null }, side: false, focusField: null,
});

export const graphNow = (): Graph => app.get().history.present;

/** Sizes of blocks as they are drawn, filled in by the canvas; used to place new blocks without overlap. */
export const drawnSizes = new Map<string, Size>();
export const sizeOf = (id: string): Size => drawnSizes.get(id) ?? { width: 264, height: 190 };

/** True if the change was made: a read-only page takes none, and no page grows beyond what the server runs. */
export function edit(next: Graph, group: string | null = null): boolean {
  const { readOnly, catalogue } = app.get();
  if (readOnly) return false;
  const large = next.blocks.length + next.wires.length > graphNow().blocks.length + graphNow().wires.length ? sizeProblem(next, catalogue.limits) : null;
  if (large !== null) say(`This is too much for one page: ${large}`, "bad");
  else app.set((now) => ({ history: record(now.history, next, group) }));
  return large === null;
}

/** A change of view (a slice, a scale): kept in the file, but not a step that undo would take back. Allowed on a read-only page too. */
export const amend = (next: Graph): void => app.set((now) => ({ history: { ...now.history, present: next } }));

export const undoEdit = (): void => app.set((now) => ({ history: undo(now.history) }));
export const redoEdit = (): void => app.set((now) => ({ history: redo(now.history) }));

export const select = (ids: Iterable<string>): void => app.set({ selected: new Set(ids) });
export const say = (text: string, tone: Toast["tone"] = "plain"): void => app.set({ toast: { text, tone, at: Date.now() } });

export const fitAgain = (now: AppState, show: Show = "read"): Fit => ({ request: now.fit.request + 1, show, block: null });

/** Puts another graph in place of this one; undo brings the old one back. */
export function openGraph(graph: Graph): void {
  app.set((now) => ({ history: record(now.history, graph), selected: new Set(), dialog: null, palette: null, fit: fitAgain(now) }));
}

/** After a failure: the page as it is on the first visit. What was there is not in the history, so undo cannot bring it back. */
export function startFromExample(): void {
  app.set((now) => ({
    history: begin(now.gallery[0]?.graph ?? emptyGraph()), selected: new Set(), selectedWires: new Set(), result: null, runError: null,
    palette: null, dialog: null, toast: null, reveal: null, focusField: null, fit: fitAgain(now),
  }));
}

/** The first property is what a person types next; a block without any has wires to choose. */
export const firstField = (type: BlockType): string | null => type.properties[0]?.name ?? type.pins[0]?.name ?? null;

export function addFromPalette(op: string, pin: string | null, request: PaletteRequest): void {
  const { catalogue } = app.get();
  const graph = graphNow();
  const type = typeOf(catalogue, op)!;
  const size = expectedSize(type);
  // A loose end comes to lie at the new block's pin.
  const { x, y } = request.place;
  const wanted = request.loose ? { x: request.loose.direction === "in" ? x - size.width : x, y: y - FIRST_PIN } : request.place;
  const spot = freeSpot(graph, wanted, size, sizeOf, request.view, request.exact);
  const block = shapedFor(makeBlock(graph, type, spot.x, spot.y), type, startingShape(graph, catalogue, request.near));
  drawnSizes.set(block.id, size);
  let next = addBlock(graph, block);
  if (request.loose && pin !== null) {
    const wire: Wire = request.loose.direction === "out" ? { from: request.loose.end, to: [block.id, pin] } : { from: [block.id, pin], to: request.loose.end };
    next = connect(next, wire);
  }
  if (!edit(next)) return app.set({ palette: null });
  app.set({ palette: null, selected: new Set([block.id]), focusField: firstField(type), reveal: block.id });
  return say(`${op} added`, "heard");
}

export function mend(problem: Problem): void {
  if (!problem.fix) return;
  if (edit(applyEdits(graphNow(), problem.fix.patch as Edit[]))) say(problem.fix.label);
}

export function gradientOf(id: string, fill: "ones" | "one-hot"): void {
  const { catalogue, result } = app.get();
  const graph = graphNow();
  const block = graph.blocks.find((entry) => entry.id === id)!;
  const first = typeOf(catalogue, block.op)!.outputs[0]!.name;
  const info = result?.blocks[id]?.outputs[first];
  const done = addGradient(graph, catalogue, id, { fill, dtype: info?.dtype ?? null, shape: info?.shape ?? null, sizes: sizeOf });
  if (!done || !edit(done.graph)) return;
  app.set((now) => ({ selected: new Set([done.gradient]), fit: { ...fitAgain(now, "near"), block: done.gradient } }));
  say(`${typeOf(catalogue, block.op)!.gradient!.op} added and wired`, "heard");
}

export function removeSelected(): void {
  const { selected, selectedWires } = app.get();
  if (selected.size === 0 && selectedWires.size === 0) return;
  const graph = removeBlocks(graphNow(), selected);
  edit({ ...graph, wires: graph.wires.filter((wire) => !selectedWires.has(tensorKey(wire.to))) });
  app.set({ selected: new Set(), selectedWires: new Set() });
  say(selected.size > 0 ? `${selected.size} block${selected.size === 1 ? "" : "s"} removed` : "Wire removed");
}

export const selectedCopy = (): Graph => copyOf(graphNow(), app.get().selected);

export function pastePiece(piece: Graph): void {
  if (piece.blocks.length === 0) return;
  const { x, y } = copyOffset(graphNow(), piece, sizeOf);
  const done = paste(graphNow(), piece, x, y);
  if (!edit(done.graph)) return;
  app.set({ selected: new Set(done.ids), reveal: done.ids[0]! });
  say(`${done.ids.length} block${done.ids.length === 1 ? "" : "s"} pasted`);
}

export interface Derived {
  readonly groups: readonly Group[];
  readonly axes: ReadonlyMap<string, readonly number[]>;
  readonly gradients: ReadonlySet<string>;
  readonly problems: ReadonlyMap<string, readonly Problem[]>;
}

let memo: { graph: Graph; result: RunResult | null; catalogue: Catalogue; value: Derived } | null = null;

const sameButPlaces = (a: Graph, b: Graph): boolean =>
  a.wires === b.wires && a.blocks.length === b.blocks.length && a.blocks.every((block, n) => onlyMoved(block, b.blocks[n]!));

let content: Graph | null = null;

/** The graph for whoever does not care where its blocks lie: the same object as long as they only move. */
export function contentOf(state: AppState): Graph {
  const graph = state.history.present;
  if (content === null || !(content.title === graph.title && content.summary === graph.summary && sameButPlaces(content, graph))) content = graph;
  return content;
}

/** What follows from graph and result together; worked out once for each pair, and not again when blocks only move. */
export function derived(state: AppState): Derived {
  const { result, catalogue } = state;
  const graph = state.history.present;
  if (memo && memo.result === result && memo.catalogue === catalogue && (memo.graph === graph || sameButPlaces(memo.graph, graph))) {
    memo.graph = graph;
    return memo.value;
  }
  const groups = groupsOf(graph, catalogue, result?.blocks ?? {});
  const value: Derived = { groups, axes: axesOf(groups), gradients: gradientKeys(graph, catalogue), problems: problemsBy(result) };
  memo = { graph, result, catalogue, value };
  return value;
}

const NO_PROBLEMS = new Map<string, readonly Problem[]>();
let problemMemo: { result: RunResult; value: ReadonlyMap<string, readonly Problem[]> } | null = null;

function problemsBy(result: RunResult | null): ReadonlyMap<string, readonly Problem[]> {
  if (!result) return NO_PROBLEMS;
  if (problemMemo?.result === result) return problemMemo.value;
  const value = new Map<string, Problem[]>();
  for (const problem of result.problems) value.set(problem.node ?? "", [...(value.get(problem.node ?? "") ?? []), problem]);
  problemMemo = { result, value };
  return value;
}
