// Undo and redo over immutable documents. Edits that carry the same `group` within a second become one step
// (typing a number, nudging with the arrows), so one undo takes back what a person thinks of as one act.

export interface History<T> {
  readonly past: readonly T[];
  readonly present: T;
  readonly future: readonly T[];
  readonly group: string | null;
  readonly at: number;
}

const LIMIT = 200;
const TOGETHER_MS = 1000;

export const begin = <T>(present: T): History<T> => ({ past: [], present, future: [], group: null, at: 0 });

export function record<T>(history: History<T>, next: T, group: string | null = null, now = Date.now()): History<T> {
  if (next === history.present) return history;
  const joins = group !== null && group === history.group && now - history.at < TOGETHER_MS && history.past.length > 0;
  const past = joins ? history.past : [...history.past, history.present].slice(-LIMIT);
  return { past, present: next, future: [], group, at: now };
}

export function undo<T>(history: History<T>): History<T> {
  const previous = history.past.at(-1);
  if (previous === undefined) return history;
  return { past: history.past.slice(0, -1), present: previous, future: [history.present, ...history.future], group: null, at: 0 };
}

export function redo<T>(history: History<T>): History<T> {
  const [next, ...future] = history.future;
  if (next === undefined) return history;
  return { past: [...history.past, history.present], present: next, future, group: null, at: 0 };
}
