import assert from "node:assert/strict";
import test from "node:test";
import { graphPicture } from "../src/model/picture.ts";
import type { Tensor } from "../src/model/tensor.ts";
import { block, catalogue, graphOf, info } from "./fixtures.ts";

const graph = { ...graphOf([{ ...block("a", "Tensor"), label: "<x> & y" }, block("b", "AvgPool", 400, 50)], [{ from: ["a", "tensor"], to: ["b", "value"] }]), title: "a <b> \"c\"" };
const tensor: Tensor = { shape: [1, 2, 2, 1], dtype: "float32", values: Float32Array.from([1, -2, NaN, 4]) };

test("a picture has every block, wire and cell, and no markup from the page's texts", () => {
  const text = graphPicture({
    graph, catalogue, theme: "light", axes: new Map([["a/tensor", [1, 2]]]), gradients: new Set(),
    infoAt: ([id]) => (id === "a" ? { ...info([1, 2, 2, 1]), minimum: -2, maximum: 4 } : undefined), tensorAt: ([id]) => (id === "a" ? tensor : null),
  });
  assert.ok(text.startsWith("<svg ") && text.endsWith("</svg>"));
  assert.ok(text.includes("&lt;x&gt; &amp; y") && text.includes("<title>a &lt;b&gt; &quot;c&quot;</title>"));
  assert.equal(text.match(/<path d="M/g)!.length, 1, "one wire");
  assert.equal(text.match(/stroke-dasharray/g)!.length, 1, "one NaN cell");
  assert.ok(!text.includes("style="), "only attributes: a strict policy blocks styles");
});

test("characters that XML cannot hold do not break the picture", () => {
  const graph = { ...graphOf([{ ...block("a", "Tensor"), label: "a\x00b\x08c" }]), title: "t\x1b\ud800" };
  const text = graphPicture({ graph, catalogue, theme: "light", axes: new Map(), gradients: new Set(), infoAt: () => undefined, tensorAt: () => null });
  assert.ok(text.includes("a\ufffdb\ufffdc") && text.includes("<title>t\ufffd\ufffd</title>"));
});

test("an empty page is a picture too", () => {
  const text = graphPicture({ graph: graphOf([]), catalogue, theme: "dark", axes: new Map(), gradients: new Set(), infoAt: () => undefined, tensorAt: () => null });
  assert.match(text, /width="\d+" height="\d+"/);
});
