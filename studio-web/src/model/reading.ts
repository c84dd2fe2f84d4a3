// Text or data that claims to be a graph, checked field by field with the server's own rules: what gets past here can be drawn
// and run. Only views (`ui`) are mended, because the server ignores them; anything else that is wrong is refused with the reason.
import type { Parsed } from "./properties.ts";
import type { Block, End, Graph, Limits, View, Wire } from "./types.ts";

export type PageLimits = Pick<Limits, "blocks" | "wires" | "rank" | "elements">;

class Refusal extends Error {}

export function parseGraph(text: string, limits: PageLimits): Parsed<Graph> {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    return { ok: false, message: "this is not JSON" };
  }
  return readGraph(data, limits);
}

export function readGraph(data: unknown, limits: PageLimits): Parsed<Graph> {
  try {
    return { ok: true, value: graphOf(data, limits) };
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, message: error.message };
    throw error;
  }
}

/** Why a graph is too large for the server, with the number and the limit, or null. */
export function sizeProblem(graph: { readonly blocks: readonly unknown[]; readonly wires: readonly unknown[] }, limits: Pick<Limits, "blocks" | "wires">): string | null {
  for (const part of ["blocks", "wires"] as const) {
    if (graph[part].length > limits[part]) return `it has ${graph[part].length} ${part}; a page holds at most ${limits[part]}`;
  }
  return null;
}

function graphOf(data: unknown, limits: PageLimits): Graph {
  if (!isRecord(data)) throw new Refusal("a graph is a JSON object with version, blocks and wires");
  if (data.version !== 1) throw new Refusal(`this page reads graphs of version 1; this one says ${short(data.version)}`);
  onlyKeys(data, ["version", "title", "summary", "blocks", "wires", "ui"], "the graph");
  const { blocks, wires } = data;
  if (!Array.isArray(blocks) || !Array.isArray(wires)) throw new Refusal("blocks and wires must be lists");
  const large = sizeProblem({ blocks, wires }, limits);
  if (large !== null) throw new Refusal(large);
  const ids = new Set<string>();
  const pins = new Set<string>();
  const { ui, ...rest } = data;
  return {
    ...rest, ...(isRecord(ui) ? { ui } : {}), version: 1, title: textOf(data.title ?? "Untitled", "the title"), summary: textOf(data.summary ?? "", "the summary"),
    blocks: blocks.map((block, n) => blockOf(block, n, ids, limits)), wires: wires.map((wire, n) => wireOf(wire, n, ids, pins)),
  };
}

function blockOf(block: unknown, n: number, ids: Set<string>, limits: PageLimits): Block {
  if (!isRecord(block) || typeof block.id !== "string" || typeof block.op !== "string") throw new Refusal(`block ${n} needs an id and an op`);
  const { id, op, x = 0, y = 0, properties = {}, label, ui, ...rest } = block;
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(id) || isTaken(id)) throw new Refusal(`block id ${short(id)} may only have letters, digits, _ and -, and be no word of JavaScript's own objects`);
  if (ids.has(id)) throw new Refusal(`block id ${id} is there twice`);
  onlyKeys(rest, [], `block ${id}`);
  if (!isPlace(x) || !isPlace(y)) throw new Refusal(`block ${id} needs numbers x and y between -1e9 and 1e9`);
  if (!isRecord(properties) || !Object.values(properties).every((value) => typeof value === "string")) throw new Refusal(`block ${id} needs properties that are texts`);
  textOf(op, `the op of block ${id}`, NAME_LIMIT);
  for (const [name, text] of Object.entries(properties)) {
    textOf(name, `the name of a property of block ${id}`, NAME_LIMIT);
    textOf(text, `${name} of block ${id}`);
  }
  ids.add(id);
  const view = viewOf(ui, limits);
  return {
    id, op, x, y, properties: properties as Record<string, string>,
    ...(label === undefined ? {} : { label: textOf(label, `the label of block ${id}`, LABEL_LIMIT) }), ...(view === null ? {} : { ui: view }),
  };
}

function wireOf(wire: unknown, n: number, ids: ReadonlySet<string>, pins: Set<string>): Wire {
  if (!isRecord(wire) || !isEnd(wire.from) || !isEnd(wire.to)) throw new Refusal(`wire ${n} needs from and to, each [block, pin]`);
  onlyKeys(wire, ["from", "to", "ui"], `wire ${n}`);
  for (const [block, pin] of [wire.from, wire.to]) {
    if (!ids.has(block)) throw new Refusal(`wire ${n} names a block that is not there`);
    textOf(pin, `a pin of wire ${n}`, NAME_LIMIT);
    if (isTaken(pin)) throw new Refusal(`wire ${n} names a pin ${short(pin)}, which no block has`);
  }
  const pin = JSON.stringify(wire.to);
  if (pins.has(pin)) throw new Refusal(`wire ${n} is a second wire into ${wire.to.join(" ")}; a pin takes one`);
  pins.add(pin);
  const { from, to, ui } = wire;
  return { from, to, ...(isRecord(ui) ? { ui } : {}) };
}

const VIEWS: { readonly [Key in keyof Required<View>]: (value: unknown, limits: PageLimits) => boolean } = {
  index: (value, limits) => Array.isArray(value) && value.length <= limits.rank && value.every((at) => Number.isInteger(at) && at >= 0 && at < limits.elements),
  slices: (value) => value === "all" || value === "one",
  scale: (value) => value === "sequential" || value === "diverging",
  output: (value) => typeof value === "string" && value.length <= NAME_LIMIT && !HALF.test(value),
};

/** A setting that this page does not know is left out: the picture then looks as it does at first. Other keys are kept. */
function viewOf(ui: unknown, limits: PageLimits): View | null {
  if (!isRecord(ui)) return null;
  return Object.fromEntries(Object.entries(ui).filter(([name, value]) => !Object.hasOwn(VIEWS, name) || VIEWS[name as keyof View](value, limits)));
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const isEnd = (value: unknown): value is End => Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === "string");
const isPlace = (value: unknown): value is number => typeof value === "number" && Math.abs(value) < 1e9;
/** `constructor` and its like: results are looked up by id and by pin in plain objects, which have these already. */
const isTaken = (name: string): boolean => name in {};

/** As the server counts them, in characters: those beyond 16 bits are two of JavaScript's. */
export const LABEL_LIMIT = 1000;
const NAME_LIMIT = 100;
/** Half of a surrogate pair: with `u` whole pairs are other characters. */
const HALF = /\p{Surrogate}/u;

function textOf(value: unknown, what: string, most = Infinity): string {
  if (typeof value !== "string") throw new Refusal(`${what} must be a text; it is ${short(value)}`);
  if (value.length > most && [...value].length > most) throw new Refusal(`${what} has ${[...value].length} characters; the limit is ${most}`);
  if (HALF.test(value)) throw new Refusal(`${what} has half of a surrogate pair, which is no character`);
  return value;
}

function onlyKeys(record: Readonly<Record<string, unknown>>, allowed: readonly string[], what: string): void {
  const unknown = Object.keys(record).find((name) => !allowed.includes(name));
  if (unknown !== undefined) throw new Refusal(`${what} has ${short(unknown)}, which a page does not know; extras go under "ui"`);
}

/** A value in a message, cut where it would fill the screen. */
function short(value: unknown): string {
  const text = JSON.stringify(value) ?? "missing";
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
