import assert from "node:assert/strict";
import { test } from "node:test";
import { typeOf } from "../src/model/graph.ts";
import { copyOffset, freeSpot, shapedFor, startingShape } from "../src/model/place.ts";
import { block, catalogue, graphOf } from "./fixtures.ts";

const SIZE = { width: 200, height: 100 };
const sizes = () => SIZE;
const view = { x: 0, y: 0, width: 700, height: 300 };
const empty = graphOf([]);

test("a free place that a person pointed at is taken as it is, in sight or not", () => {
  assert.deepEqual(freeSpot(empty, { x: 650, y: 250 }, SIZE, sizes, view, true), { x: 650, y: 250 });
});

test("a place out of sight is moved into it", () => {
  const spot = freeSpot(empty, { x: 900, y: -400 }, SIZE, sizes, view, false);
  assert.ok(spot.x + SIZE.width <= 700 && spot.x > 450 && spot.y >= 0 && spot.y < 30, JSON.stringify(spot));
});

test("a taken place gives way to the nearest free one in sight", () => {
  const graph = graphOf([block("a", "Tensor", 0, 0), block("b", "Tensor", 0, 130)]);
  const spot = freeSpot(graph, { x: 0, y: 0 }, SIZE, sizes, view, true);
  assert.ok(spot.x >= 216 && spot.x < 250 && spot.y < 30, JSON.stringify(spot));
});

test("a view without room leaves the first free place below", () => {
  const graph = graphOf([block("a", "Tensor", 0, 0), block("b", "Tensor", 0, 130)]);
  const spot = freeSpot(graph, { x: 20, y: 20 }, SIZE, sizes, { ...view, width: 220 }, false);
  assert.deepEqual(spot, { x: 20, y: 254 });
});

test("a new shape has the rank of the block beside it, or of the graph", () => {
  const first = { ...block("p", "AvgPool"), properties: { data_format: "NCHW" } };
  const graph = graphOf([first, block("v", "AvgPool3D"), { ...block("t", "Tensor"), properties: { shape: "2,8,6,4,1" } }, block("see", "Viewer")]);
  assert.equal(startingShape(graph, catalogue, "p"), "1,1,4,4");
  assert.equal(startingShape(graph, catalogue, "v"), "1,4,4,4,1");
  assert.equal(startingShape(graph, catalogue, "t"), "2,8,6,4,1");
  assert.equal(startingShape(graph, catalogue, "see"), "1,4,4,4,1");
  assert.equal(startingShape(graph, catalogue, null), "1,4,4,4,1");
  assert.equal(startingShape(empty, catalogue, null), null);
});

test("only a block with a shape of its own takes it", () => {
  assert.equal(shapedFor(block("a", "Shape"), typeOf(catalogue, "Shape")!, "1,2").properties.values, "1,2");
  assert.deepEqual(shapedFor(block("a", "AvgPool"), typeOf(catalogue, "AvgPool")!, "1,2").properties, {});
});

test("copies lie below what they were copied from, or beside it where that is taken", () => {
  const one = block("a", "Tensor", 10, 10);
  assert.deepEqual(copyOffset(graphOf([one]), graphOf([one]), sizes), { x: 0, y: 124 });
  const wall = Array.from({ length: 8 }, (_, n) => block(`w${n}`, "Tensor", 10, 124 * n + 20));
  assert.deepEqual(copyOffset(graphOf([one, ...wall]), graphOf([one]), sizes), { x: 224, y: 0 });
});
