// What a person types into a property, read leniently. The graph keeps the text and the server has the last word;
// this only says at once what cannot be read at all. Accepted lists: `1,4,3,2,1`, `3;5`, `{1,3}`, `[1, 2]`, `(1 2)`. Accepted attributes: `data_format_ = NDHWC; padding = SAME`.
import type { Block, BlockType, Property } from "./types.ts";

export type Parsed<T> = { ok: true; value: T } | { ok: false; message: string };

const good = <T>(value: T): Parsed<T> => ({ ok: true, value });
const bad = (message: string): Parsed<never> => ({ ok: false, message });

const words = (text: string): string[] => text.replace(/[[\](){}]/g, " ").split(/[\s,;]+/).filter((word) => word !== "");

export function parseIntegers(text: string): Parsed<number[]> {
  const value: number[] = [];
  for (const word of words(text)) {
    if (!/^[+-]?\d+$/.test(word)) return bad(`"${word}" is not a whole number; write a list such as 1,2,2,1`);
    const number = Number(word);
    if (!Number.isSafeInteger(number)) return bad(`${word} is too large to be exact`);
    value.push(number);
  }
  return good(value);
}

export function parseInteger(text: string): Parsed<number> {
  const list = parseIntegers(text);
  if (!list.ok) return list;
  return list.value.length === 1 ? good(list.value[0]!) : bad("write one whole number");
}

const special: Record<string, number> = { nan: NaN, inf: Infinity, "+inf": Infinity, "-inf": -Infinity, infinity: Infinity, "-infinity": -Infinity };

export function parseNumbers(text: string): Parsed<number[]> {
  const value: number[] = [];
  for (const word of words(text)) {
    const number = special[word.toLowerCase()] ?? Number(word);
    if (Number.isNaN(number) && word.toLowerCase() !== "nan") return bad(`"${word}" is not a number; nan and inf are allowed`);
    value.push(number);
  }
  return good(value);
}

export function parseFlag(text: string): Parsed<boolean> {
  const word = text.trim().toLowerCase();
  if (["true", "1", "yes", "on"].includes(word)) return good(true);
  if (["false", "0", "no", "off"].includes(word)) return good(false);
  return bad(`"${text}" is neither true nor false`);
}

/** Reads `name = value; name_ = value` into pairs, as the server does: a `;` ends a value only where a name and `=` or nothing follows. */
export function parseAssignments(text: string): Parsed<[string, string][]> {
  const value: [string, string][] = [];
  for (const part of text.split(/;(?=\s*(?:[A-Za-z][A-Za-z0-9_]*\s*=|$))/)) {
    if (/^[ ;\n\t]*$/.test(part)) continue;
    const found = /^\s*([A-Za-z][A-Za-z0-9_]*?)_?\s*=\s*([^]*)$/.exec(part);
    if (!found) return bad(part.includes("=") ? `"${part.trim()}" has no name before "="` : `"${part.trim()}" has no "="; write name = value`);
    value.push([found[1]!, found[2]!.trim()]);
  }
  return good(value);
}

/** Whether a flag of a block is set: what the attributes as text say wins over the flag's own field, as it does on the server. */
export function isSet(block: Pick<Block, "properties">, name: string): boolean {
  const pairs = parseAssignments(block.properties.attrs ?? "");
  let text = block.properties[name] ?? "";
  for (const [attribute, value] of pairs.ok ? pairs.value : []) if (attribute === name) text = value;
  const flag = parseFlag(text.replace(/^[^=]*=/, "").replace(/[;\s]+$/, ""));
  return flag.ok && flag.value;
}

/** Whether a property matters now. One that is left out counts as its default, as it does on the server. */
export const isShown = (property: Property, block: Pick<Block, "properties">, type: Pick<BlockType, "properties">): boolean =>
  Object.entries(property.when ?? {}).every(([name, values]) => values.includes(block.properties[name] ?? type.properties.find((other) => other.name === name)?.default ?? ""));

/** What is wrong with the text of a property of this kind, or null. Kinds that any text may fill are the server's to judge. */
export function textProblem(kind: string, text: string): string | null {
  let value = text;
  if (text.includes("=")) {
    const pairs = parseAssignments(text);
    if (!pairs.ok) return pairs.message;
    if (kind === "attrs" || pairs.value.length !== 1) return null;
    value = pairs.value[0]![1];
  }
  const parsed = read(kind, value);
  return parsed === null || parsed.ok ? null : parsed.message;
}

function read(kind: string, text: string): Parsed<unknown> | null {
  switch (kind) {
    case "sizes": case "shape": case "position": case "paddings": return parseIntegers(text);
    case "ratios": case "values": return parseNumbers(text);
    case "integer": return parseInteger(text);
    case "flag": return parseFlag(text);
    case "attrs": return text.trim() === "" ? null : parseAssignments(text);
    default: return null;
  }
}
