import assert from "node:assert/strict";
import { test } from "node:test";
import { typeOf } from "../src/model/graph.ts";
import { copyOffset, freeSpot, shapedFor, startingShape, viewportFor } from "../src/model/place.ts";
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

test("a page is fitted into the room, in the middle; one that is a little too wide shows its beginning at a readable size", () => {
  const [room, edges] = [{ width: 768, height: 886 }, { top: 16, right: 24, bottom: 16, left: 64 }];
  const fits = viewportFor({ x: 10, y: 20, width: 880, height: 700 }, room, edges, 1.1, "read");
  assert.ok(Math.abs(fits.zoom - 680 / 880) < 1e-9);
  assert.ok(Math.abs(10 * fits.zoom + fits.x - 64) < 1e-9);
  assert.ok(Math.abs((20 + 350) * fits.zoom + fits.y - (16 + 854 / 2)) < 1e-9);
  const wide = viewportFor({ x: -100, y: 0, width: 1200, height: 500 }, room, edges, 1.1, "read");
  assert.equal(wide.zoom, 0.745);
  assert.equal(-100 * wide.zoom + wide.x, 64);
  assert.ok(Math.abs(viewportFor({ x: 0, y: 0, width: 1200, height: 500 }, room, edges, 1.1, "whole").zoom - 680 / 1200) < 1e-9);
});

test("a page of many blocks is shown whole as a map, unless one block is to be seen", () => {
  const [bounds, room, edges] = [{ x: 0, y: 0, width: 6000, height: 4000 }, { width: 976, height: 662 }, { top: 0, right: 0, bottom: 0, left: 0 }];
  assert.ok(viewportFor(bounds, room, edges, 1.1, "read").zoom < 0.2);
  assert.equal(viewportFor(bounds, room, edges, 1.1, "near").zoom, 0.745);
});
