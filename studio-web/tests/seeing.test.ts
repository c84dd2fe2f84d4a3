import assert from "node:assert/strict";
import test from "node:test";
import { hit, montage, origin } from "../src/model/montage.ts";
import { colourOf, contrast, makeScale, rangeOf, step, textOn } from "../src/model/scale.ts";
import { flatIndex, grid, layoutOf, sliderAxes, unflatten } from "../src/model/slices.ts";
import { briefText, cellTexts, decode, exactText, halfToFloat, shortestFloat32, shortText, type Tensor } from "../src/model/tensor.ts";

const counting = (shape: number[]): Tensor => ({ shape, dtype: "float64", values: Float64Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => i) });

test("half and bfloat16 bits become the numbers they stand for", () => {
  assert.deepEqual([0x3c00, 0xc000, 0x0001, 0x7c00, 0xfc00].map(halfToFloat), [1, -2, 2 ** -24, Infinity, -Infinity]);
  assert.ok(Number.isNaN(halfToFloat(0x7e00)));
  const brain = decode("bfloat16", [2], Uint16Array.from([0x3f80, 0xc0a0]).buffer);
  assert.deepEqual([...brain.values], [1, -5]);
});

test("64-bit integers stay whole", () => {
  const tensor = decode("int64", [1], BigInt64Array.from([9007199254740993n]).buffer);
  assert.equal(exactText(tensor, 0), "9007199254740993");
});

test("a tensor of the wrong length is refused", () => {
  assert.throws(() => decode("float32", [3], new ArrayBuffer(8)), /12 bytes; 8 came/);
});

test("texts of numbers", () => {
  assert.equal(shortestFloat32(Math.fround(0.1)), "0.1");
  assert.equal(Math.fround(Number(shortestFloat32(Math.fround(1 / 3)))), Math.fround(1 / 3));
  assert.equal(shortText(0.125, 4), ".125");
  assert.equal(shortText(0.125, 5), "0.125");
  assert.equal(shortText(-0.333333, 4), "-.33");
  assert.equal(shortText(-0.0654, 4), "-.07");
  assert.equal(shortText(0.654, 2), null);
  assert.equal(shortText(123456, 3), null);
  assert.equal(shortText(NaN, 2), null);
});

test("a rounded number does not look whole, and nan, inf and -0 have one name", () => {
  assert.deepEqual([16777217, 12345.678, 12345.001, 1 / 3, 0.999999, -16777216, 1e-7, 2 ** 60].map((value) => briefText(value, 4)), ["16777217", "12345.68", "12345.00", "0.3333", "1.000", "-16777216", "1e-7", "1.153e+18"]);
  assert.deepEqual([NaN, Infinity, -Infinity, -0].map((value) => briefText(value, 4)), ["nan", "inf", "-inf", "-0"]);
  assert.deepEqual([NaN, Infinity, -Infinity, -0].map((value) => shortText(value, 4)), ["nan", "inf", "-inf", "-0"]);
  for (const dtype of ["float32", "float64"]) assert.deepEqual([0, 1, 2, 3].map((n) => exactText({ dtype, shape: [4], values: Float64Array.of(NaN, Infinity, -Infinity, -0) }, n)), ["nan", "inf", "-inf", "-0"]);
  assert.deepEqual([shortText(Infinity, 2), shortText(-0, 1)], ["∞", "0"]);
  assert.deepEqual([shortText(16777217, 8), shortText(16777217, 7), shortText(12345.678, 5), shortText(12345.678, 4)], ["16777217", null, "12346", null]);
  assert.equal(shortText(1.2345678e30, 9), "1.235e+30");
});

test("numbers stand in cells only where nearly all of them fit", () => {
  assert.deepEqual(cellTexts([[1, 0.25], [-3]], 4, 3), [["1", "0.25"], ["-3"]]);
  assert.deepEqual(cellTexts([[1, 0.000123]], 4, 1), [["1", "~0"]]);
  assert.equal(cellTexts([[123456], [1, 2]], 4, 123456), null);
});

test("the scale of a gradient is centred on 0", () => {
  const scale = makeScale("diverging", { low: -1, high: 4, nan: 0, infinite: 0 }, "light");
  assert.deepEqual([scale.low, scale.high], [-4, 4]);
  assert.equal(step(scale, 4), 255);
  assert.ok(Math.abs(step(scale, 0) - 127.5) <= 0.5);
  assert.equal(step(makeScale("sequential", { low: 2, high: 2, nan: 0, infinite: 0 }, "light"), 2), 128);
  assert.equal(step(scale, -Infinity), 0);
});

test("numbers in cells can be read on every colour", () => {
  for (const kind of ["sequential", "diverging"] as const) {
    for (const theme of ["light", "dark"] as const) {
      const scale = makeScale(kind, { low: -1, high: 1, nan: 0, infinite: 0 }, theme);
      for (let value = -1; value <= 1; value += 1 / 64) assert.ok(contrast(colourOf(scale, value), textOn(colourOf(scale, value))) >= 4.5, `${kind} ${theme} ${value}`);
    }
  }
});

test("range leaves NaN and infinities out and counts them", () => {
  assert.deepEqual(rangeOf([1, NaN, -2, Infinity]), { low: -2, high: 1, nan: 1, infinite: 1 });
  assert.deepEqual(rangeOf([NaN]), { low: 0, high: 0, nan: 1, infinite: 0 });
});

test("the layout follows the pooled axes", () => {
  assert.deepEqual(layoutOf(5, [1, 2, 3]), { rows: 2, columns: 3, panels: 1, names: ["N", "D", "H", "W", "C"] });
  assert.deepEqual(layoutOf(4, [2, 3]), { rows: 2, columns: 3, panels: null, names: ["N", "C", "H", "W"] });
  assert.deepEqual(layoutOf(1, null).columns, 0);
  assert.deepEqual(sliderAxes([2, 8, 6, 4, 3], layoutOf(5, [1, 2, 3]), true), [0, 4]);
  assert.deepEqual(sliderAxes([1, 8, 6, 4, 1], layoutOf(5, [1, 2, 3]), false), [1]);
});

test("flat indices and back", () => {
  assert.equal(flatIndex([2, 3, 4], [1, 2, 3]), 23);
  assert.deepEqual(unflatten([2, 3, 4], 23), [1, 2, 3]);
});

test("a slice is cut where the sliders stand", () => {
  const cut = grid(counting([1, 2, 2, 3, 1]), layoutOf(5, [1, 2, 3]), [0, 1, 0, 0, 0], 100);
  assert.deepEqual([...cut.values], [6, 7, 8, 9, 10, 11]);
});

test("a large slice keeps the largest magnitude of each block, and NaN", () => {
  const values = new Float64Array(16).fill(1);
  values[5] = -9;
  values[10] = NaN;
  const cut = grid({ shape: [4, 4], dtype: "float64", values }, layoutOf(2, null), [], 2);
  assert.equal(cut.step, 2);
  assert.deepEqual([...cut.values], [-9, 1, 1, NaN]);
  const odd = grid(counting([5, 3]), layoutOf(2, null), [], 2);
  assert.deepEqual([odd.rows, odd.columns, odd.step], [2, 1, 3]);
});

test("4 Mi elements are reduced in well under a tenth of a second", () => {
  const large: Tensor = { shape: [2048, 2048], dtype: "float32", values: new Float32Array(2048 * 2048) };
  const start = performance.now();
  grid(large, layoutOf(2, null), [], 236);
  assert.ok(performance.now() - start < 500, `${performance.now() - start} ms`);
});

test("cells are found again under the pointer", () => {
  const layout = montage(6, 4, 8, { width: 236, height: 176, largestCell: 30 });
  assert.ok(layout.width <= 236 && layout.height <= 176);
  for (const panel of [0, 3, 7]) {
    const corner = origin(layout, panel);
    assert.deepEqual(hit(layout, corner.x + 3.5 * layout.cell, corner.y + 5.5 * layout.cell), { panel, row: 5, column: 3 });
  }
  assert.equal(hit(layout, layout.width + 5, 0), null);
});
