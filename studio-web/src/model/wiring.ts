// Which wires can exist, and which blocks fit the end of a loose one.
import { blockOf, typeOf } from "./graph.ts";
import type { Block, BlockType, Catalogue, End, Graph, Kind, Pin, Wire } from "./types.ts";

export interface PinEnd { readonly end: End; readonly direction: "in" | "out" }

export const takes = (catalogue: Catalogue, pin: Kind, output: Kind): boolean => (catalogue.accepts[pin] ?? []).includes(output);

const WORDS: Record<Kind, string> = { tensor: "a tensor", shape: "a shape", sequence: "a pooling sequence", indices: "indices", any: "anything" };

/** Why a wire from `a` to `b` (drawn in either direction) is impossible, or null. A shape or dtype that does not match is no reason here: the run says so. */
export function wireProblem(graph: Graph, catalogue: Catalogue, a: PinEnd, b: PinEnd): string | null {
  if (a.direction === b.direction) return a.direction === "out" ? "Two outputs cannot be joined: end the wire on an input pin" : "Two inputs cannot be joined: start the wire from an output";
  const [from, to] = a.direction === "out" ? [a.end, b.end] : [b.end, a.end];
  if (from[0] === to[0]) return "A block cannot feed itself";
  const source = blockOf(graph, from[0]);
  const target = blockOf(graph, to[0]);
  const output = source && typeOf(catalogue, source.op)?.outputs.find((entry) => entry.name === from[1]);
  const pin = target && typeOf(catalogue, target.op)?.pins.find((entry) => entry.name === to[1]);
  if (!output || !pin) return "This pin does not exist";
  if (!takes(catalogue, pin.kind, output.kind)) return `${pin.name} takes ${WORDS[pin.kind]}; ${output.name} gives ${WORDS[output.kind]}${hint(pin, output.kind)}`;
  if (reaches(graph, to[0], from[0])) return "This would make a loop: the block would wait for itself";
  return null;
}

const hint = (pin: Pin, given: Kind): string => (pin.kind === "shape" && given === "tensor" ? " (put a ShapeOf block between)" : "");

const followers = new WeakMap<readonly Wire[], Map<string, string[]>>();

/** The blocks that each block feeds, worked out once for a set of wires. */
function fedBy(wires: readonly Wire[]): Map<string, string[]> {
  const known = followers.get(wires);
  if (known) return known;
  const map = new Map<string, string[]>();
  for (const { from, to } of wires) map.set(from[0], [...(map.get(from[0]) ?? []), to[0]]);
  followers.set(wires, map);
  return map;
}

/** Whether data from `start` arrives at `goal`. */
export function reaches(graph: Graph, start: string, goal: string): boolean {
  const next = fedBy(graph.wires);
  const seen = new Set([start]);
  const queue = [start];
  while (queue.length > 0) {
    const block = queue.pop()!;
    if (block === goal) return true;
    for (const fed of next.get(block) ?? []) {
      if (seen.has(fed)) continue;
      seen.add(fed);
      queue.push(fed);
    }
  }
  return false;
}

/** Sources first. Blocks that do not wait for each other keep their place from left to right. */
export function runOrder(graph: Graph): Block[] {
  const left = [...graph.blocks].sort((a, b) => a.x - b.x || a.y - b.y);
  const order: Block[] = [];
  while (left.length > 0) {
    const next = left.findIndex((block) => !left.some((other) => other !== block && reaches(graph, other.id, block.id)));
    order.push(...left.splice(Math.max(0, next), 1));
  }
  return order;
}

/** The other ends that a pin or output could be wired to, for wiring by keyboard. */
export function candidates(graph: Graph, catalogue: Catalogue, end: PinEnd): End[] {
  const ends: End[] = [];
  for (const block of graph.blocks) {
    const type = typeOf(catalogue, block.op);
    if (!type) continue;
    const direction = end.direction === "in" ? "out" : "in";
    for (const entry of direction === "out" ? type.outputs : type.pins) {
      const other: End = [block.id, entry.name];
      if (wireProblem(graph, catalogue, end, { end: other, direction }) === null) ends.push(other);
    }
  }
  return ends;
}

export interface Loose { readonly kind: Kind; readonly direction: "in" | "out"; readonly rank: number | null }

/** The pin or output of `type` that a loose wire end would go to, or null. A known rank leaves out ops of another rank. */
export function fittingPin(catalogue: Catalogue, type: BlockType, loose: Loose): string | null {
  if (loose.direction === "in") return type.outputs.find((output) => takes(catalogue, loose.kind, output.kind))?.name ?? null;
  if (loose.rank !== null && type.spatial > 0 && loose.kind === "tensor" && loose.rank !== type.spatial + 2) return null;
  // A pin of exactly this kind is the better end than one that merely takes it.
  const pin = type.pins.find((entry) => entry.kind === loose.kind) ?? type.pins.find((entry) => takes(catalogue, entry.kind, loose.kind));
  return pin?.name ?? null;
}

export interface Offer { readonly type: BlockType; readonly pin: string | null }

/** Blocks for the palette: those that fit, best match of the typed text first. */
export function offers(catalogue: Catalogue, query: string, loose: Loose | null): Offer[] {
  const text = query.trim().toLowerCase();
  const scored = catalogue.blocks.flatMap((type, order) => {
    const pin = loose ? fittingPin(catalogue, type, loose) : null;
    if (loose && pin === null) return [];
    const score = matchScore(type, text);
    return score === null ? [] : [{ type, pin, score, order }];
  });
  return scored.sort((a, b) => a.score - b.score || a.order - b.order);
}

/** Smaller is better; null is no match. Letters of the name in order count too: `ap3g` finds AvgPool3DGrad. */
function matchScore(type: BlockType, text: string): number | null {
  const name = type.name.toLowerCase();
  if (text === "" || name === text) return 0;
  if (name.startsWith(text)) return 1;
  if (name.includes(text)) return 2;
  let at = 0;
  for (const letter of name) if (letter === text[at]) at += 1;
  if (at === text.length) return 3;
  return type.summary.toLowerCase().includes(text) ? 4 : null;
}
