import assert from "node:assert/strict";
import test from "node:test";
import { gradientKeys } from "../src/model/relations.ts";
import { isFlat, makeScale, scaleKind } from "../src/model/scale.ts";
import { block, catalogue, graphOf } from "./fixtures.ts";

const range = (low: number, high: number) => ({ low, high, nan: 0, infinite: 0 });

test("a gradient is about 0 whatever is in it; another tensor only where it holds numbers of both signs", () => {
  assert.equal(scaleKind(true, range(0, 1)), "diverging");
  assert.equal(scaleKind(false, range(-1, 1)), "diverging");
  for (const [low, high] of [[0, 1], [1, 1], [-3, 0], [-3, -1], [2, 9]] as const) assert.equal(scaleKind(false, range(low, high)), "sequential");
});

test("a tensor has the same colours whatever it is wired to", () => {
  const blocks = [block("ones", "Tensor"), block("pool", "AvgPool"), block("grad", "AvgPoolGrad"), block("shape", "Shape")];
  const alone = gradientKeys(graphOf(blocks), catalogue);
  const wired = gradientKeys(graphOf(blocks, [{ from: ["ones", "tensor"], to: ["grad", "grad"] }, { from: ["shape", "shape"], to: ["grad", "orig_input_shape"] }]), catalogue);
  assert.deepEqual([...wired], [...alone]);
  assert.deepEqual([...wired], ["grad/output"]);
});

test("equal numbers have no scale, except about 0", () => {
  assert.ok(isFlat(makeScale("sequential", range(1, 1), "light")));
  assert.ok(!isFlat(makeScale("diverging", range(1, 1), "light")));
});
