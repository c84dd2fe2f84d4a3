// Which cells of which tensors belong together. Blocks with the same window table in one connected part of the graph form a
// group, so that hovering an output of AvgPool3D boxes its window in the input and in the gradient alike, though no wire joins the two directly.
import { tensorKey, typeOf, wireInto } from "./graph.ts";
import { coverRegion, isKnown, windowRegion, type Span } from "./windows.ts";
import type { BlockResult, BlockType, Catalogue, End, Graph, Side, Windows } from "./types.ts";

export interface Cell { readonly key: string; readonly index: readonly number[] }
export interface Member { readonly key: string; readonly side: Side; readonly block: string; readonly pin: string }
export interface Group { readonly windows: Windows; readonly members: readonly Member[] }

/** `same`: the cell itself, on a tensor of the same grid; `window`: what an output reads; `reach`: the outputs that read an input. */
export interface Mark { readonly role: "same" | "window" | "reach"; readonly spans: readonly Span[] }

export type Results = Readonly<Record<string, BlockResult>>;

/** The end that feeds a pin, or the output itself. */
export const sourceOf = (graph: Graph, block: string, type: BlockType, name: string): End | undefined =>
  type.outputs.some((output) => output.name === name) ? [block, name] : wireInto(graph, block, name)?.from;

export function groupsOf(graph: Graph, catalogue: Catalogue, results: Results): Group[] {
  const groups = new Map<string, { windows: Windows; members: Member[] }>();
  const part = partsOf(graph);
  for (const block of graph.blocks) {
    const windows = results[block.id]?.windows;
    const type = typeOf(catalogue, block.op);
    if (!windows || !type || !isKnown(windows)) continue;
    const name = `${part.get(block.id)} ${JSON.stringify(windows)}`;
    const group = groups.get(name) ?? { windows, members: [] };
    groups.set(name, group);
    for (const [pin, side] of Object.entries(type.sides)) {
      const source = sourceOf(graph, block.id, type, pin);
      if (source && fits(results, source, windows, side)) group.members.push({ key: tensorKey(source), side, block: block.id, pin });
    }
  }
  return [...groups.values()];
}

/** For every block one block that stands for its connected part of the graph. */
function partsOf(graph: Graph): Map<string, string> {
  const parent = new Map(graph.blocks.map((block) => [block.id, block.id]));
  const root = (id: string): string => {
    let at = id;
    while (parent.get(at) !== at) at = parent.get(at)!;
    parent.set(id, at);
    return at;
  };
  for (const wire of graph.wires) parent.set(root(wire.from[0]), root(wire.to[0]));
  return new Map(graph.blocks.map((block) => [block.id, root(block.id)]));
}

/** A tensor whose sizes are not the table's cannot be boxed (a wrong graph keeps its old windows for a moment). */
function fits(results: Results, source: End, windows: Windows, side: Side): boolean {
  const shape = results[source[0]]?.outputs[source[1]]?.shape;
  const sizes = side === "input" ? windows.input_size : windows.output_size;
  return shape !== undefined && windows.axes.every((axis, place) => shape[axis] === sizes[place]);
}

/** What to draw on every tensor for one cell. */
export function marksFor(groups: readonly Group[], cell: Cell): Map<string, Mark[]> {
  const marks = new Map<string, Mark[]>([[cell.key, [{ role: "same", spans: cell.index.map((at) => [at, at + 1] as const) }]]]);
  const put = (key: string, mark: Mark): void => {
    const list = marks.get(key) ?? [];
    const text = JSON.stringify(mark);
    if (!list.some((other) => JSON.stringify(other) === text)) marks.set(key, [...list, mark]);
  };
  for (const group of groups) {
    for (const side of new Set(group.members.filter((member) => member.key === cell.key).map((member) => member.side))) {
      const other: Mark = side === "pooled"
        ? { role: "window", spans: windowRegion(group.windows, cell.index) }
        : { role: "reach", spans: coverRegion(group.windows, cell.index) };
      for (const member of group.members) {
        if (member.side !== side) put(member.key, other);
        else if (member.key !== cell.key) put(member.key, { role: "same", spans: cell.index.map((at) => [at, at + 1] as const) });
      }
    }
  }
  return marks;
}

/** The pooled axes of a tensor, known from any block that uses it; they say which axes are height and width. */
export function axesOf(groups: readonly Group[]): Map<string, readonly number[]> {
  const axes = new Map<string, readonly number[]>();
  for (const group of groups) for (const member of group.members) if (!axes.has(member.key)) axes.set(member.key, group.windows.axes);
  return axes;
}

/** The pin that takes a gradient. A backward op (its result lies on the input grid) has it last among its pooled tensors; a second-order
 * op has two tensors on the input grid, the data and then the gradient; a forward op has none. */
export function gradientPin(type: BlockType): string | null {
  const backward = type.sides[type.outputs[0]?.name ?? ""] === "input";
  const pins = type.pins.filter((pin) => pin.kind === "tensor" && type.sides[pin.name] === (backward ? "pooled" : "input"));
  return backward || pins.length > 1 ? pins.at(-1)?.name ?? null : null;
}

/** Tensors that are gradients or differences by what made them: shown on a scale about 0. */
export function gradientKeys(graph: Graph, catalogue: Catalogue): Set<string> {
  const keys = new Set<string>();
  for (const block of graph.blocks) {
    const type = typeOf(catalogue, block.op);
    if (!type || (gradientPin(type) === null && type.name !== "Difference")) continue;
    type.outputs.forEach((output) => keys.add(tensorKey([block.id, output.name])));
  }
  return keys;
}
