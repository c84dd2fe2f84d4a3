import assert from "node:assert/strict";
import test from "node:test";
import { formulaOf, formulaText, winnerOf, wonBy, type Lookup } from "../src/model/formula.ts";
import { axesOf, gradientKeys, gradientPin, groupsOf, marksFor } from "../src/model/relations.ts";
import type { Tensor } from "../src/model/tensor.ts";
import type { BlockResult, Graph } from "../src/model/types.ts";
import { block, catalogue, graphOf, info, ran, regular, windows2d } from "./fixtures.ts";

const table = windows2d(regular(4, 2, 2, 2));
const average = graphOf(
  [block("x", "Tensor"), block("p", "AvgPool"), block("s", "Shape"), block("g", "Tensor"), block("d", "AvgPoolGrad"), block("v", "ShapeOf")],
  [{ from: ["x", "tensor"], to: ["p", "value"] }, { from: ["x", "tensor"], to: ["v", "tensor"] }, { from: ["v", "shape"], to: ["g", "shape"] }, { from: ["s", "shape"], to: ["d", "orig_input_shape"] }, { from: ["g", "tensor"], to: ["d", "grad"] }],
);
const averageResults: Record<string, BlockResult> = {
  x: ran({ tensor: info([1, 4, 4, 1]) }), g: ran({ tensor: info([1, 2, 2, 1]) }), s: ran({ shape: info([4], "shape") }),
  p: ran({ output: info([1, 2, 2, 1]) }, table), d: ran({ output: info([1, 4, 4, 1]) }, table),
};
const tensor = (shape: number[], values: number[]): Tensor => ({ shape, dtype: "float32", values: Float32Array.from(values) });

test("an output cell boxes its window in the input and in the gradient", () => {
  const groups = groupsOf(average, catalogue, averageResults);
  assert.equal(groups.length, 1, "equal tables are one group");
  const marks = marksFor(groups, { key: "p/output", index: [0, 1, 0, 0] });
  const window = [{ role: "window", spans: [[0, 1], [2, 4], [0, 2], [0, 1]] }];
  assert.deepEqual(marks.get("x/tensor"), window);
  assert.deepEqual(marks.get("d/output"), window);
  assert.equal(marks.get("g/tensor")![0]!.role, "same");
});

test("an input cell finds the outputs that reach it", () => {
  const marks = marksFor(groupsOf(average, catalogue, averageResults), { key: "d/output", index: [0, 3, 1, 0] });
  assert.deepEqual(marks.get("g/tensor"), [{ role: "reach", spans: [[0, 1], [1, 2], [0, 1], [0, 1]] }]);
  assert.equal(marks.get("x/tensor")![0]!.role, "same");
});

test("a like block in another part of the page is another group", () => {
  const apart = { ...average, wires: average.wires.filter((wire) => wire.from[0] !== "v") };
  assert.equal(groupsOf(apart, catalogue, averageResults).length, 2);
});

test("a tensor of other sizes is left alone", () => {
  const results = { ...averageResults, g: ran({ tensor: info([1, 3, 3, 1]) }) };
  assert.ok(!marksFor(groupsOf(average, catalogue, results), { key: "p/output", index: [0, 0, 0, 0] }).has("g/tensor"));
});

test("pooled axes and gradients are known per tensor", () => {
  assert.deepEqual(axesOf(groupsOf(average, catalogue, averageResults)).get("x/tensor"), [1, 2]);
  assert.deepEqual([...gradientKeys(average, catalogue)].sort(), ["d/output"]);
  const pins = Object.fromEntries(catalogue.blocks.map((type) => [type.name, gradientPin(type)]));
  assert.deepEqual([pins.AvgPool, pins.AvgPoolGrad, pins.MaxPool, pins.MaxPoolGrad, pins.MaxPoolGradGrad, pins.MaxPoolGradWithArgmax], [null, "grad", null, "grad", "grad", "grad"]);
});

const at = (values: Record<string, Tensor>): Lookup => ([id, pin]) => values[`${id}/${pin}`] ?? null;

test("the formula of an average and of its gradient", () => {
  const counting = tensor([1, 4, 4, 1], Array.from({ length: 16 }, (_, i) => i));
  const lookup = at({ "x/tensor": counting, "g/tensor": tensor([1, 2, 2, 1], [1, 2, 3, -4]), "p/output": tensor([1, 2, 2, 1], [2.5, 4.5, 10.5, 12.5]), "d/output": tensor([1, 4, 4, 1], new Array(16).fill(-1)) });
  const forward = formulaOf(average, catalogue, averageResults, lookup, ["p", "output"], [0, 0, 1, 0])!;
  assert.equal(formulaText(forward), "y[0,0,1,0] = (x[0,0,2,0] + x[0,0,3,0] + x[0,1,2,0] + x[0,1,3,0]) / 4 = 4.5");
  assert.equal(forward.numbers, "(2 + 3 + 6 + 7) / 4");
  const backward = formulaOf(average, catalogue, averageResults, lookup, ["d", "output"], [0, 3, 3, 0])!;
  assert.equal(formulaText(backward), "dx[0,3,3,0] = g[0,1,1,0]/4 = -1");
  assert.equal(formulaOf(average, catalogue, averageResults, lookup, ["x", "tensor"], [0, 0, 0, 0]), null);
});

test("overlapping windows add up, and a cell no window reaches says so", () => {
  const overlap = windows2d(regular(5, 2, 3, 2));
  const results = { ...averageResults, d: ran({ output: info([1, 5, 5, 1]) }, overlap) };
  const lookup = at({ "g/tensor": tensor([1, 2, 2, 1], [1, -1, 1, 1]), "d/output": tensor([1, 5, 5, 1], new Array(25).fill(0)) });
  const middle = formulaOf(average, catalogue, results, lookup, ["d", "output"], [0, 2, 2, 0])!;
  assert.equal(middle.terms.length, 4);
  assert.equal(middle.numbers, "1/9 - 1/9 + 1/9 + 1/9");
  const gaps = { ...results, d: ran({ output: info([1, 8, 8, 1]) }, windows2d(regular(8, 2, 2, 4))) };
  const none = formulaOf(average, catalogue, gaps, at({ "d/output": tensor([1, 8, 8, 1], new Array(64).fill(0)) }), ["d", "output"], [0, 3, 3, 0])!;
  assert.equal(formulaText(none), "dx[0,3,3,0] = 0");
  assert.match(none.note, /no window/);
});

const maximum = (op: string, pins: Record<string, string>): Graph => graphOf(
  [block("x", "Tensor"), block("y", "Tensor"), block("g", "Tensor"), block("i", "Tensor"), block("m", op)],
  Object.entries(pins).map(([pin, from]) => ({ from: [from, "tensor"], to: ["m", pin] })),
);
const maxResults = (side: number): Record<string, BlockResult> => ({ m: ran({ output: info([1, side, side, 1]) }, table), x: ran({ tensor: info([1, 4, 4, 1]) }), y: ran({ tensor: info([1, 2, 2, 1]) }), g: ran({ tensor: info([1, 2, 2, 1]) }), i: ran({ tensor: info([1, 2, 2, 1]) }) });
const ties = tensor([1, 4, 4, 1], [1, 1, 0, 5, 1, 1, 5, 0, 0, NaN, 2, 2, 9, NaN, 2, 2]);

test("the first maximum wins, NaN before any number", () => {
  const graph = maximum("MaxPool", { input: "x" });
  const winner = (output: number[]) => winnerOf(graph, catalogue, maxResults(2), at({ "x/tensor": ties }), "m", output);
  assert.deepEqual(winner([0, 0, 0, 0]), [0, 0, 0, 0]);
  assert.deepEqual(winner([0, 0, 1, 0]), [0, 0, 3, 0]);
  assert.deepEqual(winner([0, 1, 0, 0]), [0, 2, 1, 0]);
});

test("a max gradient takes only what the cell won", () => {
  const graph = maximum("MaxPoolGrad", { orig_input: "x", orig_output: "y", grad: "g" });
  const lookup = at({ "x/tensor": ties, "g/tensor": tensor([1, 2, 2, 1], [7, 8, 9, 10]), "m/output": tensor([1, 4, 4, 1], new Array(16).fill(0)) });
  assert.deepEqual(formulaOf(graph, catalogue, maxResults(4), lookup, ["m", "output"], [0, 0, 3, 0])!.terms, ["g[0,0,1,0]"]);
  const loser = formulaOf(graph, catalogue, maxResults(4), lookup, ["m", "output"], [0, 1, 1, 0])!;
  assert.deepEqual(loser.terms, []);
  assert.match(loser.note, /wins 0/);
});

test("int64 values beyond 2**53 are told apart", () => {
  const values = new BigInt64Array(16).fill(2n ** 53n);
  values[5] = 2n ** 53n + 1n;
  const data: Tensor = { shape: [1, 4, 4, 1], dtype: "int64", values };
  const graph = maximum("MaxPool", { input: "x" });
  const lookup = at({ "x/tensor": data, "m/output": { shape: [1, 2, 2, 1], dtype: "int64", values: BigInt64Array.of(2n ** 53n + 1n, 0n, 0n, 0n) } });
  assert.deepEqual(winnerOf(graph, catalogue, maxResults(2), lookup, "m", [0, 0, 0, 0]), [0, 1, 1, 0]);
  assert.equal(formulaOf(graph, catalogue, maxResults(2), lookup, ["m", "output"], [0, 0, 0, 0])!.numbers, "max(9007199254740992, 9007199254740992, 9007199254740992, 9007199254740993)");
});

test("whole numbers stand in the arithmetic as they are", () => {
  const data = tensor([1, 4, 4, 1], [12345678, -0, NaN, Infinity, 1 / 3, 12345.5, -Infinity, 2, ...new Array<number>(8).fill(0)]);
  const numbers = (column: number) => formulaOf(maximum("MaxPool", { input: "x" }), catalogue, maxResults(2), at({ "x/tensor": data }), ["m", "output"], [0, 0, column, 0])!.numbers;
  assert.equal(numbers(0), "max(12345678, -0, 0.33333, 12345.5)");
  assert.equal(numbers(1), "max(nan, inf, -inf, 2)");
});

test("given indices outside of their window are found, in their own image or in the whole batch", () => {
  const wired = maximum("MaxPoolGradWithArgmax", { input: "x", grad: "g", argmax: "i" });
  const data = tensor([2, 4, 4, 1], new Array<number>(32).fill(0));
  const gradient = tensor([2, 2, 2, 1], [1, 2, 3, 4, 5, 6, 7, 8]);
  const argmax: Tensor = { shape: [2, 2, 2, 1], dtype: "int64", values: BigInt64Array.of(15n, 2n, 15n, 9n, 15n, 16n, 31n, 0n) };
  const lookup = at({ "x/tensor": data, "g/tensor": gradient, "i/tensor": argmax });
  const terms = (graph: Graph, index: number[]) => formulaOf(graph, catalogue, maxResults(4), lookup, ["m", "output"], index)!.terms;
  assert.deepEqual(terms(wired, [0, 3, 3, 0]), ["g[0,0,0,0]", "g[0,1,0,0]"]);
  assert.deepEqual(terms(wired, [1, 3, 3, 0]), ["g[1,0,0,0]"]);
  assert.deepEqual(terms(wired, [1, 0, 0, 0]), ["g[1,1,1,0]"]);
  assert.deepEqual(wonBy(wired, catalogue, maxResults(4), lookup, "m", [0, 3, 3, 0]), [[0, 0, 0, 0], [0, 1, 0, 0]]);
  // Through the attributes as text, which win over the field.
  const properties = { include_batch_in_index: "false", attrs: "Targmax_ = int64; include_batch_in_index_ = Yes;" };
  const whole = { ...wired, blocks: wired.blocks.map((entry) => (entry.id === "m" ? { ...entry, properties } : entry)) };
  assert.deepEqual(terms(whole, [1, 3, 3, 0]), ["g[1,1,0,0]"]);
  assert.deepEqual(terms(whole, [0, 3, 3, 0]), ["g[0,0,0,0]", "g[0,1,0,0]", "g[1,0,0,0]"]);
  const none = formulaOf(whole, catalogue, maxResults(4), lookup, ["m", "output"], [0, 1, 1, 0])!;
  assert.deepEqual([none.terms, none.note], [[], "0 of the given indices name this cell"]);
});

test("given indices decide, counted per image", () => {
  const graph = maximum("MaxPoolGradWithArgmax", { input: "x", grad: "g", argmax: "i" });
  const lookup = at({ "x/tensor": ties, "i/tensor": tensor([1, 2, 2, 1], [5, 3, 9, 10]) });
  assert.deepEqual(winnerOf(graph, catalogue, maxResults(4), lookup, "m", [0, 0, 0, 0]), [0, 1, 1, 0]);
});

test("a second-order max takes at the winner", () => {
  const graph = maximum("MaxPoolGradGrad", { orig_input: "x", orig_output: "y", grad: "g" });
  const formula = formulaOf(graph, catalogue, maxResults(2), at({ "x/tensor": ties, "m/output": tensor([1, 2, 2, 1], [0, 1, 2, 3]) }), ["m", "output"], [0, 0, 1, 0])!;
  assert.deepEqual(formula.terms, ["g[0,0,3,0]"]);
});

test("too large a search is not begun", () => {
  const large = windows2d(regular(400, 400, 40, 1));
  const results = { ...maxResults(400), m: ran({ output: info([1, 400, 400, 1]) }, large) };
  const formula = formulaOf(maximum("MaxPoolGrad", { orig_input: "x", orig_output: "y", grad: "g" }), catalogue, results, at({}), ["m", "output"], [0, 200, 200, 0])!;
  assert.match(formula.note, /too many/);
});
