import assert from "node:assert/strict";
import test from "node:test";
import * as graphs from "../src/model/graph.ts";
import { begin, record, redo, undo } from "../src/model/history.ts";
import { candidates, fittingPin, offers, runOrder, wireProblem } from "../src/model/wiring.ts";
import { addGradient } from "../src/model/gradient.ts";
import { freePlace } from "../src/model/place.ts";
import { block, catalogue, graphOf } from "./fixtures.ts";

const pair = graphOf([block("a", "Tensor"), block("b", "AvgPool")], [{ from: ["a", "tensor"], to: ["b", "value"] }]);

test("removing a block takes its wires along and leaves the rest as it was", () => {
  const next = graphs.removeBlocks(pair, new Set(["a"]));
  assert.deepEqual(next.wires, []);
  assert.equal(next.blocks[0], pair.blocks[1]);
});

test("a pin takes one wire", () => {
  const more = graphs.addBlock(pair, block("c", "Tensor"));
  const next = graphs.connect(more, { from: ["c", "tensor"], to: ["b", "value"] });
  assert.deepEqual(next.wires, [{ from: ["c", "tensor"], to: ["b", "value"] }]);
});

test("paste gives new ids, keeps inner wires and drops outer ones", () => {
  const whole = graphs.paste(pair, pair, 10, 20);
  assert.equal(whole.graph.blocks.length, 4);
  assert.equal(new Set(whole.graph.blocks.map((entry) => entry.id)).size, 4);
  assert.deepEqual(whole.graph.wires[1], { from: [whole.ids[0], "tensor"], to: [whole.ids[1], "value"] });
  const part = graphs.copyOf(pair, new Set(["b"]));
  assert.deepEqual(part.wires, []);
});

test("a fix is applied as one graph", () => {
  const next = graphs.applyEdits(pair, [{ set: ["a", "shape", "1,2,2,1"] }, { add_block: block("s", "ShapeOf") }, { add_wire: { from: ["a", "tensor"], to: ["s", "tensor"] } }, { remove_wire: ["b", "value"] }]);
  assert.equal(graphs.blockOf(next, "a")!.properties.shape, "1,2,2,1");
  assert.deepEqual(next.wires, [{ from: ["a", "tensor"], to: ["s", "tensor"] }]);
});

test("undo takes back one act; typing counts as one", () => {
  let history = begin(0);
  history = record(history, 1);
  history = record(history, 2, "type", 1000);
  history = record(history, 3, "type", 1500);
  assert.equal(undo(history).present, 1);
  assert.equal(redo(undo(history)).present, 3);
  history = record(history, 4, "type", 9000);
  assert.equal(undo(history).present, 3);
  assert.equal(undo(undo(undo(undo(history)))).present, 0);
  assert.equal(record(undo(history), 9).future.length, 0);
});

test("impossible wires are refused with the reason", () => {
  const graph = graphOf([block("t", "Tensor"), block("p", "AvgPool"), block("q", "AvgPool"), block("g", "AvgPoolGrad"), block("s", "ShapeOf")], [{ from: ["p", "output"], to: ["q", "value"] }]);
  const out = (id: string, pin: string) => ({ end: [id, pin] as const, direction: "out" as const });
  const into = (id: string, pin: string) => ({ end: [id, pin] as const, direction: "in" as const });
  assert.match(wireProblem(graph, catalogue, out("t", "tensor"), out("p", "output"))!, /Two outputs/);
  assert.match(wireProblem(graph, catalogue, into("p", "value"), into("q", "value"))!, /Two inputs/);
  assert.match(wireProblem(graph, catalogue, out("p", "output"), into("p", "value"))!, /feed itself/);
  assert.match(wireProblem(graph, catalogue, out("q", "output"), into("p", "value"))!, /loop/);
  assert.match(wireProblem(graph, catalogue, out("t", "tensor"), into("g", "orig_input_shape"))!, /takes a shape; tensor gives a tensor .*ShapeOf/);
  assert.equal(wireProblem(graph, catalogue, into("g", "orig_input_shape"), out("s", "shape")), null);
  assert.deepEqual(candidates(graph, catalogue, into("p", "value")), [["t", "tensor"], ["g", "output"]]);
});

test("blocks are read in the order in which they run", () => {
  const graph = graphOf([block("late", "Viewer", -50), block("b", "AvgPool", 5), block("a", "Tensor", 10)], [{ from: ["a", "tensor"], to: ["b", "value"] }, { from: ["b", "output"], to: ["late", "tensor"] }]);
  assert.deepEqual(runOrder(graph).map((entry) => entry.id), ["a", "b", "late"]);
});

test("the palette lists only what fits a loose wire", () => {
  const names = (list: ReturnType<typeof offers>): string[] => list.map((offer) => offer.type.name);
  assert.deepEqual(names(offers(catalogue, "", { kind: "shape", direction: "out", rank: 1 })), ["Tensor", "ShapeOf", "Viewer", "AvgPoolGrad"]);
  assert.ok(!names(offers(catalogue, "", { kind: "tensor", direction: "out", rank: 4 })).includes("AvgPool3D"));
  assert.deepEqual(names(offers(catalogue, "", { kind: "shape", direction: "in", rank: null })), ["Shape", "ShapeOf"]);
  assert.equal(fittingPin(catalogue, catalogue.blocks.find((type) => type.name === "AvgPoolGrad")!, { kind: "tensor", direction: "out", rank: 4 }), "grad");
  assert.equal(names(offers(catalogue, "avgpool", null))[0], "AvgPool");
  assert.ok(names(offers(catalogue, "apg", null)).includes("AvgPoolGrad"));
  assert.deepEqual(offers(catalogue, "zzz", null), []);
});

test("the gradient of an average is wired through shapes", () => {
  const done = addGradient(pair, catalogue, "b", { fill: "ones", dtype: "float64", shape: [1, 2, 2, 1], sizes: () => ({ width: 200, height: 100 }) })!;
  const feeds = (id: string, pin: string) => graphs.wireInto(done.graph, id, pin)!.from;
  const shape = feeds(done.gradient, "orig_input_shape");
  assert.deepEqual(feeds(shape[0], "tensor"), ["a", "tensor"]);
  const ones = feeds(done.gradient, "grad");
  assert.equal(graphs.blockOf(done.graph, ones[0])!.properties.dtype, "float64");
  assert.deepEqual(feeds(feeds(ones[0], "shape")[0], "tensor"), ["b", "output"]);
  const again = addGradient(done.graph, catalogue, "b", { fill: "one-hot", dtype: null, shape: [1, 2, 2, 1], sizes: () => ({ width: 200, height: 100 }) })!;
  assert.equal(again.graph.blocks.filter((entry) => entry.op === "ShapeOf").length, 2, "the ShapeOf blocks are used again");
  assert.ok(again.graph.blocks.some((entry) => entry.properties.fill === "one-hot" && entry.properties.position === "0,1,1,0"));
});

test("the gradient of a maximum takes input and output themselves", () => {
  const graph = graphOf([block("a", "Tensor"), block("m", "MaxPool")], [{ from: ["a", "tensor"], to: ["m", "input"] }]);
  const done = addGradient(graph, catalogue, "m", { fill: "ones", dtype: null, shape: null, sizes: () => ({ width: 200, height: 100 }) })!;
  assert.deepEqual(graphs.wireInto(done.graph, done.gradient, "orig_input")!.from, ["a", "tensor"]);
  assert.deepEqual(graphs.wireInto(done.graph, done.gradient, "orig_output")!.from, ["m", "output"]);
  assert.equal(addGradient(graph, catalogue, "a", { fill: "ones", dtype: null, shape: null, sizes: () => ({ width: 1, height: 1 }) }), null);
});

test("a new block does not lie on another", () => {
  const graph = graphOf([block("a", "Tensor", 0, 0), block("b", "Tensor", 0, 130)]);
  const place = freePlace(graph, block("c", "Tensor", 20, 20), () => ({ width: 200, height: 100 }));
  assert.ok(place.y >= 230);
});

test("a moved block is the same but for its place, and knows its wired pins", () => {
  const moved = graphs.moveBlocks(pair, new Map([["a", { x: 5, y: 5 }]]));
  assert.ok(graphs.onlyMoved(pair.blocks[0]!, moved.blocks[0]!));
  assert.ok(!graphs.onlyMoved(pair.blocks[0]!, graphs.setProperty(pair, "a", "fill", "zeros").blocks[0]!));
  assert.equal(graphs.wiredPins(pair, "b"), "value");
  assert.equal(graphs.wiredPins(pair, "a"), "");
});

test("a change names the one block that it added and the one that it edited or wired", () => {
  const added = graphs.addBlock(pair, block("v", "Viewer"));
  assert.deepEqual(graphs.touched(pair, added), { added: "v", edited: null });
  assert.deepEqual(graphs.touched(added, graphs.connect(added, { from: ["b", "output"], to: ["v", "tensor"] })), { added: null, edited: "v" });
  assert.deepEqual(graphs.touched(pair, graphs.setProperty(pair, "b", "ksize", "1,3,3,1")), { added: null, edited: "b" });
  assert.deepEqual(graphs.touched(pair, graphs.moveBlocks(pair, new Map([["a", { x: 9, y: 9 }]]))), { added: null, edited: null });
  assert.deepEqual(graphs.touched(graphOf([], []), pair), { added: null, edited: null });
});
