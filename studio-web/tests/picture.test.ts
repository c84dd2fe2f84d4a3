import assert from "node:assert/strict";
import test from "node:test";
import { montage } from "../src/model/montage.ts";
import { box, cellShapes, MARGIN, pinShape, sheet, wire, words } from "../src/model/picture.ts";
import { makeScale } from "../src/model/scale.ts";
import { grid, layoutOf } from "../src/model/slices.ts";
import type { Tensor } from "../src/model/tensor.ts";

const page = { title: "a <b> \"c\"", theme: "light", paper: "#fff", sans: "sans", mono: "mono" } as const;
const viewBox = (text: string): number[] => /viewBox="([^"]+)"/.exec(text)![1]!.split(" ").map(Number);

test("the margin is the same on every side, wherever the blocks lie", () => {
  const areas = [{ x: 700, y: -300, width: 262, height: 120 }, { x: 1000, y: 40, width: 424, height: 380 }];
  assert.deepEqual(viewBox(sheet(page, areas, "")), [700 - MARGIN, -300 - MARGIN, 724 + 2 * MARGIN, 720 + 2 * MARGIN]);
});

test("a block has its own size, and no text of the page becomes markup", () => {
  const text = sheet(page, [], box({ x: 1, y: 2, width: 424, height: 380.125 }, { fill: "#fff", name: "\"v\"" })
    + words({ text: "<x> & y", x: 0, baseline: 9, width: 40, size: 13, weight: "400", family: "\"Noto Sans\"", colour: "#000" }) + wire("M0 0C1 1 2 2 3 3", "red", true) + pinShape({ x: 4, y: 5 }, "shape", "#111", "#fff"));
  assert.ok(text.startsWith("<svg ") && text.endsWith("</svg>"));
  assert.ok(text.includes("<title>a &lt;b&gt; &quot;c&quot;</title>") && text.includes("&lt;x&gt; &amp; y"));
  assert.ok(text.includes('data-block="&quot;v&quot;" x="1" y="2" width="424" height="380.13"'));
  assert.ok(text.includes('font-family="&quot;Noto Sans&quot;"') && text.includes('textLength="40"'));
  assert.ok(!text.includes("style="), "only attributes: a strict policy blocks styles");
});

test("every cell is drawn with its number; NaN is hatched", () => {
  const tensor: Tensor = { shape: [1, 2, 2, 1], dtype: "float32", values: Float32Array.from([1, -2, NaN, 4]) };
  const cells = grid(tensor, layoutOf(4, [1, 2]), [0, 0, 0, 0], 100);
  const picture = { montage: montage(2, 2, 1, { width: 236, height: 160, largestCell: 32 }), grids: [cells], captions: [], scale: makeScale("diverging", { low: -2, high: 4, nan: 1, infinite: 0 }, "light"), theme: "light" } as const;
  const text = cellShapes(picture, { x: 10, y: 20 }, "mono");
  assert.equal(text.match(/<rect data-cell="" x="\d+" y="\d+" width="31" height="31"/g)!.length, 4);
  assert.equal(text.match(/url\(#nan\)/g)!.length, 1);
  assert.deepEqual([...text.matchAll(/>([^<]+)<\/text>/g)].map((found) => found[1]), ["1", "-2", "4"]);
  assert.ok(text.includes("translate(10 20)"));
});

test("characters that XML cannot hold do not break the picture", () => {
  assert.ok(sheet({ ...page, title: "t\x1b\ud800" }, [], "").includes("<title>t\ufffd\ufffd</title>"));
});

test("an empty page is a picture too", () => {
  const [, , width, height] = viewBox(sheet(page, [], ""));
  assert.ok(width! > 0 && height! > 0);
});
