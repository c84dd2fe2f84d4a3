import assert from "node:assert/strict";
import test from "node:test";
import { toText } from "../src/model/graph.ts";
import { parseGraph, readGraph, sizeProblem } from "../src/model/reading.ts";
import { block, catalogue, graphOf } from "./fixtures.ts";

const { limits } = catalogue;
const pair = graphOf([block("a", "Tensor"), block("b", "AvgPool")], [{ from: ["a", "tensor"], to: ["b", "value"] }]);
const one = (extra: object): object => ({ ...graphOf([]), blocks: [{ ...block("a", "Tensor"), ...extra }] });

test("text goes out and comes back, with label, view and extras under ui", () => {
  const graph = { ...pair, ui: { from: "elsewhere" }, blocks: [{ ...block("a", "Tensor", -3.5, 1e6), label: "x", ui: { scale: "diverging" as const, index: [0, 3], note: { mine: 1 } } }, pair.blocks[1]!] };
  const back = parseGraph(toText(graph), limits);
  assert.ok(back.ok);
  assert.deepEqual(back.value, graph);
});

test("what the server lets a page leave out is filled in", () => {
  const back = readGraph({ version: 1, blocks: [{ id: "a", op: "Tensor" }], wires: [] }, limits);
  assert.ok(back.ok);
  assert.deepEqual(back.value, { version: 1, title: "Untitled", summary: "", blocks: [block("a", "Tensor")], wires: [] });
});

test("what cannot be drawn or run is refused, and the message says where", () => {
  for (const [data, words] of [
    [[], /object/], [null, /object/], [{ version: 2 }, /version 1; this one says 2/], [{ version: 1, blocks: {}, wires: [] }, /lists/],
    [{ ...pair, author: "me" }, /the graph has "author".*ui/], [{ ...pair, title: 5 }, /the title must be a text; it is 5/], [{ ...pair, summary: {} }, /the summary must be a text/],
    [{ ...pair, blocks: [block("a", "Tensor"), block("a", "Tensor")], wires: [] }, /twice/],
    [{ ...pair, blocks: [3], wires: [] }, /block 0 needs an id/],
    [one({ id: "a/b" }), /letters, digits/], [one({ id: "constructor" }), /"constructor"/], [one({ id: "__proto__" }), /__proto__/],
    [one({ x: null }), /x and y/], [one({ x: "3" }), /x and y/], [one({ x: 1e300 }), /between -1e9 and 1e9/], [one({ y: -1e9 }), /between/],
    [one({ properties: { shape: 3 } }), /texts/], [one({ properties: [] }), /texts/], [one({ colour: "red" }), /block a has "colour"/],
    [one({ label: { a: 1 } }), /the label of block a must be a text; it is {"a":1}/], [one({ label: 5 }), /label/], [one({ label: null }), /label/],
    [one({ label: ["long ".repeat(1000)] }), /…$/],
    [one({ label: "x".repeat(1001) }), /label of block a has 1001 characters; the limit is 1000/], [one({ op: "x".repeat(101) }), /op of block a has 101/],
    [one({ properties: { ["x".repeat(101)]: "" } }), /name of a property.*101/], [{ ...pair, wires: [{ from: ["a", "x".repeat(101)], to: ["b", "value"] }] }, /pin of wire 0 has 101/],
    [{ ...pair, title: "\ud800" }, /title has half/], [{ ...pair, summary: "a\udc00" }, /summary has half/], [one({ label: "\ud83d" }), /label of block a has half/],
    [one({ properties: { shape: "\ud800" } }), /shape of block a has half/], [{ ...pair, wires: [{ from: ["a", "\ud800"], to: ["b", "value"] }] }, /pin of wire 0 has half/],
    [{ ...pair, wires: [{ from: ["zz", "tensor"], to: ["b", "value"] }] }, /not there/],
    [{ ...pair, wires: [{ from: ["a"], to: ["b", "value"] }] }, /wire 0 needs from and to/],
    [{ ...pair, wires: [{ from: ["a", "toString"], to: ["b", "value"] }] }, /no block has/],
    [{ ...pair, wires: [{ ...pair.wires[0], colour: "red" }] }, /wire 0 has "colour"/],
    [{ ...pair, wires: [pair.wires[0], { from: ["b", "output"], to: ["b", "value"] }] }, /wire 1 is a second wire into b value/],
  ] as const) {
    const parsed = parseGraph(JSON.stringify(data), limits);
    assert.ok(!parsed.ok, JSON.stringify(data));
    assert.match(parsed.message, words);
  }
  const parsed = parseGraph("nonsense", limits);
  assert.ok(!parsed.ok && /not JSON/.test(parsed.message));
});

test("views that this page does not know are left out", () => {
  const ui = { scale: "zz", slices: 3, index: [0.5], output: {}, other: "kept" };
  const parsed = readGraph(one({ ui }), limits);
  assert.ok(parsed.ok);
  assert.deepEqual(parsed.value.blocks[0]!.ui, { other: "kept" });
  for (const broken of [3, "text", null, [1]]) {
    const mended = readGraph(one({ ui: broken }), limits);
    assert.ok(mended.ok && !("ui" in mended.value.blocks[0]!));
    const page = readGraph({ ...pair, ui: broken, wires: [{ ...pair.wires[0], ui: broken }] }, limits);
    assert.ok(page.ok && !("ui" in page.value) && !("ui" in page.value.wires[0]!), "the server would refuse these");
  }
});

test("texts are counted in characters as the server counts them", () => {
  assert.ok(readGraph(one({ label: "😀".repeat(1000) }), limits).ok);
  assert.ok(!readGraph(one({ label: "😀".repeat(1001) }), limits).ok);
});

test("views that the server would refuse are left out", () => {
  for (const ui of [{ index: [0, 0, 0, 0, 0, 0, 0] }, { index: [4194304] }, { output: "x".repeat(101) }, { output: "\ud800" }]) {
    const parsed = readGraph(one({ ui }), limits);
    assert.ok(parsed.ok);
    assert.deepEqual(parsed.value.blocks[0]!.ui, {});
  }
});

test("a page that is too large is refused with the number and the limit", () => {
  const many = (count: number) => graphOf(Array.from({ length: count }, (_, n) => block(`b${n}`, "Tensor")));
  assert.ok(readGraph(many(256), limits).ok);
  const parsed = readGraph(many(257), limits);
  assert.ok(!parsed.ok);
  assert.match(parsed.message, /257 blocks.*256/);
  assert.match(sizeProblem({ blocks: [], wires: new Array(1025) }, limits)!, /1025 wires.*1024/);
});
