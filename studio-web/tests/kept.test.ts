import assert from "node:assert/strict";
import { test } from "node:test";
import { forgotten, latest, packDraft, unpackDraft, type Draft } from "../src/model/kept.ts";

const draft = (tab: string, at: number): Draft => ({ tab, at, text: `page of ${tab}` });

test("a draft comes back with its time and its lines", () => {
  assert.deepEqual(unpackDraft("a", packDraft("{\n1\n}", 1700)), { tab: "a", at: 1700, text: "{\n1\n}" });
  assert.equal(unpackDraft("a", "{}").text, "{}");
});

test("a tab begins with its own draft, a new tab with the newest", () => {
  const drafts = [draft("a", 5), draft("b", 9), draft("c", 7)];
  assert.equal(latest(drafts, "a")!.tab, "a");
  assert.equal(latest(drafts, "new")!.tab, "b");
  assert.equal(latest([], "a"), null);
});

test("the oldest drafts make room, never the tab's own", () => {
  const drafts = Array.from({ length: 8 }, (_, n) => draft(`t${n}`, n));
  assert.deepEqual(forgotten(drafts, "new"), ["t2", "t1", "t0"]);
  assert.deepEqual(forgotten(drafts, "t0"), ["t2", "t1"]);
  assert.deepEqual(forgotten(drafts.slice(0, 5), "new"), []);
});
