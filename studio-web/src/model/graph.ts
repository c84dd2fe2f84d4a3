// The document: blocks and wires. Every function takes a graph and returns a new one; unchanged blocks keep their identity,
// so the view redraws only what changed.
import type { Block, BlockType, Catalogue, Edit, End, Graph, View, Wire } from "./types.ts";

export const emptyGraph = (): Graph => ({ version: 1, title: "Untitled", summary: "", blocks: [], wires: [] });

/** Finds what a list has under a name; the table is made once for each list. */
function indexed<Item extends object>(nameOf: (item: Item) => string): (list: readonly Item[], name: string) => Item | undefined {
  const tables = new WeakMap<readonly Item[], Map<string, Item>>();
  return (list, name) => {
    let table = tables.get(list);
    if (!table) tables.set(list, table = new Map(list.map((item) => [nameOf(item), item])));
    return table.get(name);
  };
}

const blockIn = indexed<Block>((block) => block.id);
const typeIn = indexed<BlockType>((type) => type.name);
export const blockOf = (graph: Graph, id: string): Block | undefined => blockIn(graph.blocks, id);
export const typeOf = (catalogue: Catalogue, op: string): BlockType | undefined => typeIn(catalogue.blocks, op);
export const wireInto = (graph: Graph, block: string, pin: string): Wire | undefined => graph.wires.find((wire) => wire.to[0] === block && wire.to[1] === pin);
export const sameEnd = (a: End, b: End): boolean => a[0] === b[0] && a[1] === b[1];
export const tensorKey = (end: End): string => `${end[0]}/${end[1]}`;

const wiredBy = new WeakMap<readonly Wire[], Map<string, string>>();

/** The wired pins of a block, names with a space between; worked out once for a set of wires. */
export function wiredPins(graph: Graph, block: string): string {
  let pins = wiredBy.get(graph.wires);
  if (!pins) {
    pins = new Map();
    for (const { to: [id, pin] } of graph.wires) pins.set(id, `${pins.has(id) ? `${pins.get(id)} ` : ""}${pin}`);
    wiredBy.set(graph.wires, pins);
  }
  return pins.get(block) ?? "";
}

export function newId(graph: Graph, prefix = "b"): string {
  const taken = new Set(graph.blocks.map((block) => block.id));
  for (let n = graph.blocks.length + 1; ; n += 1) if (!taken.has(`${prefix}${n}`)) return `${prefix}${n}`;
}

export function makeBlock(graph: Graph, type: BlockType, x: number, y: number): Block {
  const properties = Object.fromEntries(type.properties.map((property) => [property.name, property.default]));
  return { id: newId(graph), op: type.name, x: Math.round(x), y: Math.round(y), properties };
}

export const addBlock = (graph: Graph, block: Block): Graph => ({ ...graph, blocks: [...graph.blocks, block] });

const changeBlock = (graph: Graph, id: string, change: (block: Block) => Block): Graph =>
  ({ ...graph, blocks: graph.blocks.map((block) => (block.id === id ? change(block) : block)) });

export function removeBlocks(graph: Graph, ids: ReadonlySet<string>): Graph {
  if (ids.size === 0) return graph;
  return {
    ...graph,
    blocks: graph.blocks.filter((block) => !ids.has(block.id)),
    wires: graph.wires.filter((wire) => !ids.has(wire.from[0]) && !ids.has(wire.to[0])),
  };
}

/** Whether two states of a block differ in nothing but its place. */
export const onlyMoved = (a: Block, b: Block): boolean =>
  a === b || (a.id === b.id && a.op === b.op && a.properties === b.properties && a.label === b.label && a.ui === b.ui);

/** The block that a change added, and the one of the others that it changed or wired anew; null where there is none or are several. */
export function touched(before: Graph, after: Graph): { readonly added: string | null; readonly edited: string | null } {
  const known = new Map(before.blocks.map((block) => [block.id, block]));
  const wires = new Set(before.wires);
  const wired = new Set(after.wires.filter((wire) => !wires.has(wire)).map((wire) => wire.to[0]));
  const only = (blocks: readonly Block[]): string | null => (blocks.length === 1 ? blocks[0]!.id : null);
  return {
    added: only(after.blocks.filter((block) => !known.has(block.id))),
    edited: only(after.blocks.filter((block) => known.has(block.id) && (wired.has(block.id) || !onlyMoved(known.get(block.id)!, block)))),
  };
}

export function moveBlocks(graph: Graph, places: ReadonlyMap<string, { x: number; y: number }>): Graph {
  let moved = false;
  const blocks = graph.blocks.map((block) => {
    const place = places.get(block.id);
    if (!place || (place.x === block.x && place.y === block.y)) return block;
    moved = true;
    return { ...block, x: Math.round(place.x), y: Math.round(place.y) };
  });
  return moved ? { ...graph, blocks } : graph;
}

export const setProperty = (graph: Graph, id: string, name: string, text: string): Graph =>
  changeBlock(graph, id, (block) => (block.properties[name] === text ? block : { ...block, properties: { ...block.properties, [name]: text } }));

export const setLabel = (graph: Graph, id: string, label: string): Graph =>
  changeBlock(graph, id, ({ label: _, ...block }) => (label === "" ? block : { ...block, label }));

export const setView = (graph: Graph, id: string, view: View): Graph =>
  changeBlock(graph, id, (block) => ({ ...block, ui: { ...block.ui, ...view } }));

/** A pin takes one wire: a new one replaces the old. */
export const connect = (graph: Graph, wire: Wire): Graph =>
  ({ ...graph, wires: [...graph.wires.filter((other) => !sameEnd(other.to, wire.to)), wire] });

export const disconnect = (graph: Graph, to: End): Graph =>
  ({ ...graph, wires: graph.wires.filter((wire) => !sameEnd(wire.to, to)) });

/** What the server proposes to mend a problem, as one step. */
export function applyEdits(graph: Graph, edits: readonly Edit[]): Graph {
  return edits.reduce((now, edit) => {
    if ("set" in edit) return setProperty(now, ...edit.set);
    if ("add_block" in edit) return blockOf(now, edit.add_block.id) ? now : addBlock(now, edit.add_block);
    if ("add_wire" in edit) return connect(now, edit.add_wire);
    return disconnect(now, edit.remove_wire);
  }, graph);
}

export function copyOf(graph: Graph, ids: ReadonlySet<string>): Graph {
  return {
    ...graph,
    blocks: graph.blocks.filter((block) => ids.has(block.id)),
    wires: graph.wires.filter((wire) => ids.has(wire.from[0]) && ids.has(wire.to[0])),
  };
}

/** Adds the blocks of `piece` under new ids, moved by (dx, dy); wires among them come along. */
export function paste(graph: Graph, piece: Graph, dx: number, dy: number): { graph: Graph; ids: string[] } {
  const names = new Map<string, string>();
  let now = graph;
  for (const block of piece.blocks) {
    const id = newId(now);
    names.set(block.id, id);
    now = addBlock(now, { ...block, id, x: Math.round(block.x + dx), y: Math.round(block.y + dy) });
  }
  for (const wire of piece.wires) {
    const [from, to] = [names.get(wire.from[0]), names.get(wire.to[0])];
    if (from !== undefined && to !== undefined) now = connect(now, { from: [from, wire.from[1]], to: [to, wire.to[1]] });
  }
  return { graph: now, ids: [...names.values()] };
}

export const toText = (graph: Graph): string => JSON.stringify(graph, null, 1);
