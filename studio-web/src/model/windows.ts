// Windows, covers and divisors of an axis, from the table the library sent with the result: hover costs no request.
import type { Rule, Windows } from "./types.ts";

export type Span = readonly [start: number, stop: number];
export const EMPTY: Span = [0, 0];

export function windowOf(rule: Rule, output: number): Span {
  if (rule.type === "listed") return rule.start && rule.stop ? [rule.start[output]!, rule.stop[output]!] : EMPTY;
  const begin = output * rule.stride - rule.before;
  return [Math.max(0, begin), Math.min(rule.input_size, begin + rule.window)];
}

export function divisorOf(rule: Rule, output: number): number {
  if (rule.type === "listed") return rule.divisor?.[output] ?? 1;
  const begin = output * rule.stride - rule.before;
  return rule.divisor || Math.min(begin + rule.window, rule.input_size + rule.count_after) - Math.max(begin, -rule.count_before);
}

/** The outputs that reach input `i`: one run, possibly empty. */
export function coverOf(rule: Rule, input: number): Span {
  if (rule.type === "listed") {
    const { start, stop } = rule;
    if (!start || !stop) return EMPTY;
    // Both lists are non-decreasing: the first window that ends after `input`, up to the first that begins after it.
    const low = firstWhere(rule.output_size, (o) => stop[o]! > input);
    const high = firstWhere(rule.output_size, (o) => start[o]! > input);
    return low < high ? [low, high] : EMPTY;
  }
  const low = Math.max(0, Math.floor((input + rule.before - rule.window) / rule.stride) + 1);
  const high = Math.min(rule.output_size, Math.floor((input + rule.before) / rule.stride) + 1);
  return low < high ? [low, high] : EMPTY;
}

function firstWhere(length: number, holds: (index: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Whether the server sent the table whole (it leaves out lists over 16,384 windows). */
export const isKnown = (windows: Windows): boolean => windows.rules.every((rule) => rule.type === "regular" || rule.start !== null);

/** The region of the other grid that belongs to one cell: `spanOf` on pooled axes, the cell's own index on the others. */
function region(windows: Windows, index: readonly number[], spanOf: (rule: Rule, at: number) => Span): Span[] {
  return index.map((at, axis) => {
    const place = windows.axes.indexOf(axis);
    return place < 0 ? [at, at + 1] : spanOf(windows.rules[place]!, at);
  });
}

export const windowRegion = (windows: Windows, output: readonly number[]): Span[] => region(windows, output, windowOf);
export const coverRegion = (windows: Windows, input: readonly number[]): Span[] => region(windows, input, coverOf);

export const divisor = (windows: Windows, output: readonly number[]): number =>
  windows.rules.reduce((product, rule, place) => product * divisorOf(rule, output[windows.axes[place]!]!), 1);

/** An upper bound of the cells in any one window. */
export const windowCells = (windows: Windows): number =>
  windows.rules.reduce((product, rule) => product * (rule.type === "regular" ? Math.min(rule.window, rule.input_size) : Math.max(0, ...(rule.start ?? []).map((start, o) => rule.stop![o]! - start))), 1);

export const cells = (spans: readonly Span[]): number => spans.reduce((product, [start, stop]) => product * Math.max(0, stop - start), 1);
export const isEmpty = (spans: readonly Span[]): boolean => cells(spans) === 0;

/** Every index of a region in row-major order. */
export function* walk(spans: readonly Span[]): Generator<number[]> {
  if (isEmpty(spans)) return;
  const index = spans.map(([start]) => start);
  for (;;) {
    yield [...index];
    let axis = spans.length - 1;
    for (; axis >= 0; axis -= 1) {
      index[axis]! += 1;
      if (index[axis]! < spans[axis]![1]) break;
      index[axis] = spans[axis]![0];
    }
    if (axis < 0) return;
  }
}
