import assert from "node:assert/strict";
import test from "node:test";
import { isSet, isShown, parseAssignments, parseFlag, parseInteger, parseIntegers, parseNumbers, textProblem } from "../src/model/properties.ts";

test("lists are read in every spelling enuSpace and Python use", () => {
  for (const text of ["1,4,3,2,1", "1 4 3 2 1", "{1,4,3,2,1}", "[1, 4, 3, 2, 1]", "(1;4;3;2;1)", "1,4,3,2,1;"]) {
    assert.deepEqual(parseIntegers(text), { ok: true, value: [1, 4, 3, 2, 1] }, text);
  }
  assert.deepEqual(parseIntegers("3;5"), { ok: true, value: [3, 5] });
  assert.deepEqual(parseIntegers(""), { ok: true, value: [] });
});

test("what is no whole number is named", () => {
  for (const text of ["1,2.5", "1,x", "1,,0x3", "1e3"]) {
    const parsed = parseIntegers(text);
    assert.equal(parsed.ok, false, text);
  }
  assert.match((parseIntegers("1,two") as { message: string }).message, /"two" is not a whole number/);
  assert.equal(parseIntegers("9007199254740993").ok, false);
  assert.equal(parseInteger("1,2").ok, false);
});

test("numbers may be nan and inf", () => {
  assert.deepEqual(parseNumbers("1.5, nan, -inf, 2e3"), { ok: true, value: [1.5, NaN, -Infinity, 2000] });
  assert.equal(parseNumbers("1, nonsense").ok, false);
});

test("flags", () => {
  assert.deepEqual(parseFlag("Yes"), { ok: true, value: true });
  assert.equal(parseFlag("perhaps").ok, false);
});

test("attributes as enuSpace writes them", () => {
  assert.deepEqual(parseAssignments("data_format_ = NDHWC; padding_ = SAME;"), { ok: true, value: [["data_format", "NDHWC"], ["padding", "SAME"]] });
  assert.deepEqual(parseAssignments("ksize = {1;2;2;1}"), { ok: true, value: [["ksize", "{1;2;2;1}"]] });
  assert.equal(parseAssignments("NHWC").ok, false);
  assert.deepEqual(parseAssignments("padding= SAME ;ksize_ = 1;2;2;1;"), { ok: true, value: [["padding", "SAME"], ["ksize", "1;2;2;1"]] });
});

test("a flag in the attributes wins over its field", () => {
  const flag = (properties: Record<string, string>) => isSet({ properties }, "wide");
  assert.deepEqual([flag({}), flag({ wide: "1" }), flag({ wide: "wide_ = true;" }), flag({ attrs: "wide_ = yes; a = 1" })], [false, true, true, true]);
  assert.deepEqual([flag({ wide: "true", attrs: "wide = false" }), flag({ wide: "true", attrs: "a = 1; b" }), flag({ wide: "perhaps" })], [false, true, false]);
});

test("a field says at once what cannot be read", () => {
  assert.equal(textProblem("sizes", "1,2,2,1"), null);
  assert.equal(textProblem("sizes", "ksize_ = {1,2,2,1};"), null);
  assert.match(textProblem("sizes", "1,two")!, /"two"/);
  assert.match(textProblem("sizes", "ksize = 1,two")!, /"two"/);
  assert.match(textProblem("integer", "1,2")!, /one whole number/);
  assert.match(textProblem("attrs", "NDHWC")!, /no "="/);
  assert.equal(textProblem("attrs", ""), null);
  assert.equal(textProblem("dtype", "anything"), null);
});

test("a property that is left out counts as its default when others depend on it", () => {
  const property = (name: string, text: string, when: Record<string, string[]> | null = null) => ({ name, kind: "text", default: text, choices: [], help: "", when });
  const shape = property("shape", "1,2", { fill: ["ones", "random"] });
  const type = { properties: [property("fill", "ones"), shape] };
  assert.equal(isShown(shape, { properties: {} }, type), true);
  assert.equal(isShown(shape, { properties: { fill: "file" } }, type), false);
  assert.equal(isShown(type.properties[0]!, { properties: {} }, type), true);
});
