import assert from "node:assert/strict";
import test from "node:test";
import { undo } from "../src/model/history.ts";
import { startWith } from "../src/model/start.ts";
import { block, graphOf } from "./fixtures.ts";

const [file, draft, example] = ["f", "d", "e"].map((id) => graphOf([block(id, "Tensor")])) as [ReturnType<typeof graphOf>, ReturnType<typeof graphOf>, ReturnType<typeof graphOf>];

test("the draft wins over the example", () => {
  assert.equal(startWith({ file: null, taken: false, draft, example }).present, draft);
  assert.equal(startWith({ file: null, taken: true, draft: null, example }).present, example);
});

test("a file wins once, then its edits survive a reload", () => {
  const first = startWith({ file, taken: false, draft, example });
  assert.equal(first.present, file);
  assert.equal(undo(first).present, draft, "the draft that was there is one undo away");
  assert.equal(startWith({ file, taken: true, draft, example }).present, draft);
  assert.equal(startWith({ file, taken: true, draft: null, example }).present, file);
});

test("a draft that says the same as the file leaves nothing to undo", () => {
  assert.equal(startWith({ file, taken: false, draft: structuredClone(file), example }).past.length, 0);
});
