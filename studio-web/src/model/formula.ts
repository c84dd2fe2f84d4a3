// The arithmetic of one cell, in words of the tensors: dx[0,1,2,3,0] = g[0,0,1,1,0]/8 + ...
import { typeOf } from "./graph.ts";
import { isSet } from "./properties.ts";
import { gradientPin, sourceOf, type Results } from "./relations.ts";
import { flatIndex, unflatten } from "./slices.ts";
import { briefText, exactText, type Tensor } from "./tensor.ts";
import { cells, coverRegion, divisor, walk, windowCells, windowRegion, type Span } from "./windows.ts";
import type { BlockType, Catalogue, End, Graph, Windows } from "./types.ts";

/** The values of a tensor if the page has them. */
export type Lookup = (end: End) => Tensor | null;

export interface Formula {
  readonly left: string;
  readonly terms: readonly string[];
  readonly join: string;       // between the terms
  readonly wrap: readonly [string, string];
  readonly more: number;       // terms left out
  readonly numbers: string;    // the same with the values put in, or ""
  readonly value: string;
  readonly note: string;
}

/** A window of 3 x 3 is told whole. */
const SHOWN = 9;
/** More cells than this are not searched for winners while the pointer moves: 65,536 take about 10 ms. */
const SEARCHED = 65536;
/** Whether the winners of every output in a region can be found in that time. */
const isSearchable = (windows: Windows, region: readonly Span[]): boolean => cells(region) * windowCells(windows) <= SEARCHED;

interface Situation { type: BlockType; windows: Windows; data: End | undefined; gradient: End | undefined; indices: End | undefined; second: boolean; backward: boolean; wholeBatch: boolean }

function situationOf(graph: Graph, catalogue: Catalogue, results: Results, id: string): Situation | null {
  const block = graph.blocks.find((entry) => entry.id === id);
  const type = block && typeOf(catalogue, block.op);
  const windows = results[id]?.windows;
  if (!block || !type || !windows || type.family === null) return null;
  const gradient = gradientPin(type);
  const find = (test: (name: string) => boolean): End | undefined => {
    const pin = type.pins.find((entry) => test(entry.name));
    return pin && sourceOf(graph, id, type, pin.name);
  };
  const backward = type.sides[type.outputs[0]!.name] === "input";
  return {
    type, windows, backward,
    second: !backward && gradient !== null,
    data: find((name) => type.sides[name] === "input" && name !== gradient),
    gradient: gradient === null ? undefined : sourceOf(graph, id, type, gradient),
    indices: find((name) => type.pins.some((pin) => pin.name === name && pin.kind === "indices")),
    wholeBatch: isSet(block, "include_batch_in_index"),
  };
}

/** The winner of a window: where the given indices say, else the first maximum in row-major order, the first NaN before any number. */
function winnerIn(at: Situation, lookup: Lookup, output: readonly number[]): number[] | null {
  const data = at.data && lookup(at.data);
  const indices = at.indices && lookup(at.indices);
  if (indices && data) {
    const flat = Number(indices.values[flatIndex(indices.shape, output)]!);
    const image = data.values.length / (data.shape[0] || 1);
    return unflatten(data.shape, at.wholeBatch ? flat : flat + output[0]! * image);
  }
  const region = windowRegion(at.windows, output);
  if (!data || cells(region) > SEARCHED) return null;
  let best: number[] | null = null;
  let top: number | bigint = -Infinity;
  for (const index of walk(region)) {
    const value = data.values[flatIndex(data.shape, index)]!; // Not as a Number: 2**53 and 2**53 + 1 are different int64
    if (value !== value) return index;
    if (best === null || value > top) [best, top] = [index, value];
  }
  return best;
}

/** The outputs that an input cell wins, or null where they are too many to search. Given indices may name a cell that their window does not reach. */
function wonIn(at: Situation, lookup: Lookup, index: readonly number[]): number[][] | null {
  const data = at.data && lookup(at.data);
  const indices = at.indices && lookup(at.indices);
  if (indices && data) {
    const images = at.wholeBatch ? 1 : data.shape[0] || 1;
    const image = at.wholeBatch ? 0 : index[0]!;
    const flat = flatIndex(data.shape, index) - image * (data.values.length / images);
    const end = (indices.values.length / images) * (image + 1);
    // indexOf is one native loop: 4 Mi indices take about 7 ms.
    const find = (from: number): number => (indices.values as { indexOf(value: number | bigint, from: number): number }).indexOf(typeof indices.values[0] === "bigint" ? BigInt(flat) : flat, from);
    const found: number[][] = [];
    for (let place = find(end - indices.values.length / images); place >= 0 && place < end; place = find(place + 1)) {
      if (found.length === SEARCHED) return null;
      found.push(unflatten(indices.shape, place));
    }
    return found;
  }
  const region = coverRegion(at.windows, index);
  if (!isSearchable(at.windows, region)) return null;
  const own = index.join();
  return [...walk(region)].filter((output) => winnerIn(at, lookup, output)?.join() === own);
}

export function wonBy(graph: Graph, catalogue: Catalogue, results: Results, lookup: Lookup, block: string, index: readonly number[]): number[][] {
  const at = situationOf(graph, catalogue, results, block);
  return (at && at.type.family === "max" && wonIn(at, lookup, index)) || [];
}

export function winnerOf(graph: Graph, catalogue: Catalogue, results: Results, lookup: Lookup, block: string, output: readonly number[]): number[] | null {
  const at = situationOf(graph, catalogue, results, block);
  return at && at.type.family === "max" ? winnerIn(at, lookup, output) : null;
}

const place = (name: string, index: readonly number[]): string => `${name}[${index.join(",")}]`;
/** A value in the arithmetic: whole digits of 64-bit integers, five digits of a fraction. */
function short(tensor: Tensor | null | undefined, index: readonly number[]): string {
  if (!tensor) return "?";
  const value = tensor.values[flatIndex(tensor.shape, index)]!;
  return typeof value === "bigint" ? String(value) : briefText(value, 5);
}

/** Terms with their signs: 1 + -2 reads better as 1 - 2. */
const signed = (terms: readonly string[]): string => terms.join(" + ").replaceAll("+ -", "- ");

export function formulaOf(graph: Graph, catalogue: Catalogue, results: Results, lookup: Lookup, key: End, index: readonly number[]): Formula | null {
  const at = situationOf(graph, catalogue, results, key[0]);
  if (!at) return null;
  const result = lookup(key);
  const value = result ? exactText(result, flatIndex(result.shape, index)) : "";
  const main = at.type.outputs[0]!.name === key[1];
  if (!main) return extraOutput(at, lookup, key[1], index, value);
  if (at.backward) return backward(at, lookup, index, value);
  return forward(at, lookup, index, value);
}

function forward(at: Situation, lookup: Lookup, index: readonly number[], value: string): Formula {
  const region = windowRegion(at.windows, index);
  const total = cells(region);
  const data = at.data && lookup(at.data);
  if (at.type.family === "average") {
    const by = divisor(at.windows, index);
    const shown = [...take(walk(region), SHOWN)];
    const numbers = total <= SHOWN ? `(${signed(shown.map((cell) => short(data, cell)))}) / ${by}` : "";
    return { left: place("y", index), terms: shown.map((cell) => place("x", cell)), join: " + ", wrap: ["(", `) / ${by}`], more: total - shown.length, numbers, value, note: `mean of ${by} cell${by === 1 ? "" : "s"}` };
  }
  const winner = winnerIn(at, lookup, index);
  if (at.second) {
    const terms = winner ? [place("g", winner)] : [];
    return { left: place("dy", index), terms, join: "", wrap: ["", ""], more: 0, numbers: "", value, note: winner ? `x${JSON.stringify(winner)} wins this window, so its gradient is taken` : "the winner is not known here" };
  }
  const shown = [...take(walk(region), SHOWN)];
  const numbers = total <= SHOWN ? `max(${shown.map((cell) => short(data, cell)).join(", ")})` : "";
  return { left: place("y", index), terms: shown.map((cell) => place("x", cell)), join: ", ", wrap: ["max(", ")"], more: total - shown.length, numbers, value, note: winner ? `the winner is ${place("x", winner)}` : "" };
}

function backward(at: Situation, lookup: Lookup, index: readonly number[], value: string): Formula {
  const region = coverRegion(at.windows, index);
  const gradient = at.gradient && lookup(at.gradient);
  const won = at.type.family === "max" ? wonIn(at, lookup, index) : null;
  const outputs = won ?? (at.type.family === "average" && cells(region) <= SEARCHED ? [...walk(region)] : []);
  let note = `${cells(region)} window${cells(region) === 1 ? "" : "s"} reach${cells(region) === 1 ? "es" : ""} this cell`;
  if (at.type.family === "max") {
    note += won ? `; it wins ${won.length}` : "; too many to search for those it wins";
    if (at.indices && won) note = `${won.length} of the given indices name${won.length === 1 ? "s" : ""} this cell`;
  }
  const shown = outputs.slice(0, SHOWN);
  const average = at.type.family === "average";
  const part = (output: number[], text: string): string => (average ? `${text}/${divisor(at.windows, output)}` : text);
  if (shown.length === 0) note = cells(region) === 0 && !at.indices ? "no window reaches this cell" : note;
  return {
    left: place("dx", index),
    terms: shown.map((output) => part(output, place("g", output))),
    join: " + ", wrap: ["", ""], more: outputs.length - shown.length,
    numbers: outputs.length > 0 && outputs.length <= SHOWN ? signed(shown.map((output) => part(output, short(gradient, output)))) : "",
    value, note,
  };
}

/** The argmax of a max op. Pooling sequences are not on a grid and have no formula. */
function extraOutput(at: Situation, lookup: Lookup, name: string, index: readonly number[], value: string): Formula | null {
  if (at.type.family !== "max" || at.type.sides[name] !== "pooled") return null;
  const winner = winnerIn(at, lookup, index);
  return { left: place(name, index), terms: [winner ? `flat index of ${place("x", winner)}` : "flat index of the winner"], join: "", wrap: ["", ""], more: 0, numbers: "", value, note: "" };
}

function* take<T>(items: Iterable<T>, most: number): Generator<T> {
  let n = 0;
  for (const item of items) {
    if (n === most) return;
    n += 1;
    yield item;
  }
}

export const formulaText = (formula: Formula): string => {
  const more = formula.more > 0 ? `${formula.join}… ${formula.more} more` : "";
  const right = formula.terms.length === 0 ? "" : ` = ${formula.wrap[0]}${formula.terms.join(formula.join)}${more}${formula.wrap[1]}`;
  return `${formula.left}${right} = ${formula.value}`;
};
