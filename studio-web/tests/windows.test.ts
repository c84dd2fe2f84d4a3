import assert from "node:assert/strict";
import test from "node:test";
import { coverOf, divisorOf, windowOf, walk } from "../src/model/windows.ts";
import type { Rule } from "../src/model/types.ts";
import { regular } from "./fixtures.ts";

const rules: [string, Rule][] = [
  ["valid", regular(7, 3, 2, 2)], ["same", regular(6, 3, 3, 2, 0)], ["padded", regular(5, 5, 3, 1, 1)], ["gaps", regular(8, 2, 2, 4)], ["huge window", regular(4, 2, 100, 2, 49)],
  ["listed, overlapping", { type: "listed", input_size: 7, output_size: 3, start: [0, 2, 4], stop: [3, 5, 7], divisor: [3, 3, 3] }],
  ["listed, uncovered ends", { type: "listed", input_size: 9, output_size: 2, start: [1, 3], stop: [3, 6], divisor: [2, 3] }],
];

for (const [name, rule] of rules) {
  test(`cover is the inverse of window: ${name}`, () => {
    for (let input = 0; input < rule.input_size; input += 1) {
      const reached = Array.from({ length: rule.output_size }, (_, o) => o).filter((o) => windowOf(rule, o)[0] <= input && input < windowOf(rule, o)[1]);
      const [low, high] = coverOf(rule, input);
      assert.deepEqual(Array.from({ length: high - low }, (_, k) => low + k), reached, `input ${input}`);
    }
    for (let output = 0; output < rule.output_size; output += 1) {
      const [start, stop] = windowOf(rule, output);
      assert.equal(divisorOf(rule, output), stop - start);
    }
  });
}

test("a divisor may be fixed or count padding", () => {
  assert.equal(divisorOf({ ...regular(5, 5, 3, 1, 1), divisor: 9 } as Rule, 0), 9);
  assert.equal(divisorOf({ ...regular(5, 5, 3, 1, 1), count_before: 1, count_after: 1 } as Rule, 0), 3);
});

test("a region is walked in row-major order", () => {
  assert.deepEqual([...walk([[0, 1], [2, 4], [5, 7]])], [[0, 2, 5], [0, 2, 6], [0, 3, 5], [0, 3, 6]]);
  assert.deepEqual([...walk([[0, 1], [3, 3]])], []);
});

test("a table that was left out has no windows", () => {
  const rule: Rule = { type: "listed", input_size: 40000, output_size: 20000, start: null, stop: null, divisor: null };
  assert.deepEqual(windowOf(rule, 3), [0, 0]);
  assert.deepEqual(coverOf(rule, 3), [0, 0]);
});
