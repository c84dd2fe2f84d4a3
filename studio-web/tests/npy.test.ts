import assert from "node:assert/strict";
import test from "node:test";
import { cropShape, cropText, isWhole, readHeader, runs, suggestCrop, swapBytes, writeNpy, type Crop, type Header } from "../src/model/npy.ts";

const bytes = (values: number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);

test("what is written is read back", () => {
  const file = writeNpy("float32", [2, 3], bytes([0, 1, 2, 3, 4, 5]));
  const header = readHeader(file);
  assert.deepEqual([header.dtype, header.shape, header.fortran, header.littleEndian, header.itemSize], ["float32", [2, 3], false, true, 4]);
  assert.equal(header.offset % 64, 0);
  assert.deepEqual([...new Float32Array(file.slice(header.offset).buffer)], [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(readHeader(writeNpy("uint8", [3], new Uint8Array(3))).shape, [3]);
  assert.equal(readHeader(writeNpy("bfloat16", [1], new Uint8Array(2))).dtype, "bfloat16");
});

test("what is no plain array is refused with the reason", () => {
  assert.throws(() => readHeader(new TextEncoder().encode("PK not numpy")), /not a \.npy/);
  const pickled = new TextEncoder().encode("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n");
  const file = new Uint8Array(10 + pickled.length);
  file.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, pickled.length, 0]);
  file.set(pickled, 10);
  assert.throws(() => readHeader(file), /holds \|O/);
  for (const length of [6, 7, 8, 9]) assert.throws(() => readHeader(writeNpy("float32", [1], bytes([0])).slice(0, length)), /not a \.npy/);
  const second = Uint8Array.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 2, 0, 0, 0, 0]);
  assert.throws(() => readHeader(second), /not a \.npy/);
  const shape = (text: string) => {
    const header = new TextEncoder().encode(`{'descr': '<f4', 'fortran_order': False, 'shape': ${text}, }\n`);
    return Uint8Array.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length, 0, ...header]);
  };
  assert.deepEqual(readHeader(shape("(3, 1)")).shape, [3, 1]);
  assert.throws(() => readHeader(shape("(3L, 1L)")), /Python 2/);
  assert.throws(() => readHeader(shape("(-3, 1)")), /-3, which is no size/);
});

function cut(header: Header, file: Uint8Array, crop: Crop): number[] {
  const parts = [...runs(header, crop)].flatMap(([offset, length]) => [...file.slice(offset, offset + length)]);
  return [...new Float32Array(Uint8Array.from(parts).buffer)];
}

test("a crop is cut out of C and Fortran files alike", () => {
  const values = Array.from({ length: 24 }, (_, i) => i);
  const file = writeNpy("float32", [2, 3, 4], bytes(values));
  const header = readHeader(file);
  const crop = { start: [1, 0, 1], stop: [2, 2, 3] };
  assert.deepEqual(cropShape(crop), [1, 2, 2]);
  assert.deepEqual(cut(header, file, crop), [13, 14, 17, 18]);
  assert.equal([...runs(header, { start: [1, 0, 0], stop: [2, 3, 4] })].length, 1, "whole trailing axes are one run");
  const fortran = readHeader(writeNpy("float32", [2, 3], bytes([0, 3, 1, 4, 2, 5]), true));
  assert.deepEqual(cut(fortran, writeNpy("float32", [2, 3], bytes([0, 3, 1, 4, 2, 5]), true), { start: [0, 1], stop: [2, 3] }), [1, 4, 2, 5]);
});

test("the crop first offered fits the limit", () => {
  const crop = suggestCrop([10, 1000, 1000, 3], 4194304);
  assert.deepEqual(cropShape(crop), [1, 1000, 1000, 3]);
  assert.deepEqual(cropShape(suggestCrop([100, 100, 100], 5000)), [1, 50, 100]);
});

test("an empty array is offered whole", () => {
  for (const shape of [[0, 3], [3, 0], [0]]) assert.ok(isWhole(shape, suggestCrop(shape, 100)), String(shape));
  assert.deepEqual(cropShape(suggestCrop([1000, 0], 100)), [100, 0]);
  const header = readHeader(writeNpy("float32", [0, 5], new Uint8Array(0)));
  assert.deepEqual([...runs(header, { start: [0, 1], stop: [0, 3] })], []);
});

test("a crop is kept as text for exported code, all of the file as none", () => {
  assert.equal(cropText([10, 1000], { start: [2, 0], stop: [3, 900] }), "2:3,0:900");
  assert.equal(cropText([10, 1000], { start: [0, 0], stop: [10, 1000] }), "");
  assert.equal(cropText([10, 1000], null), "");
});

test("big-endian elements are turned round", () => {
  const data = Uint8Array.from([1, 2, 3, 4]);
  swapBytes(data, 2);
  assert.deepEqual([...data], [2, 1, 4, 3]);
});
