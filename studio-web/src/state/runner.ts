// Live runs: whenever the meaning of the graph changes (not its places or views) it goes to the server, one run at a time,
// always the newest. The server keeps what it has computed, so only what changed is computed again.
import type { Graph, RunResult } from "../model/types.ts";
import { setProperty } from "../model/graph.ts";
import { api, ApiError } from "./api.ts";
import { app, edit, graphNow, say } from "./app.ts";
import { keptUpload } from "./drafts.ts";

const WAIT_MS = 120;

let sent: string | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;
let busy = false;
/** A run was sent and no answer came. A page that goes aborts its requests before it is told so: by then it is no longer busy. */
let unanswered = false;

/** What decides the result. Two graphs with the same meaning need no second run. */
export const meaning = (graph: Graph): string =>
  JSON.stringify([graph.blocks.map(({ id, op, properties }) => [id, op, properties]), graph.wires]);

const plain = (graph: Graph): Graph => ({ ...graph, blocks: graph.blocks.map(({ ui: _, ...block }) => block) });

async function run(): Promise<void> {
  if (busy) return;
  const graph = graphNow();
  const text = meaning(graph);
  if (text === sent) return mark("done");
  busy = unanswered = true;
  sent = text;
  // The sign for "running" comes only after a moment: most runs are over before an eye could follow.
  const sign = setTimeout(() => app.set({ running: true }), 250);
  try {
    const result = await api.run(plain(graph));
    unanswered = false;
    app.set({ result: keepIdentity(app.get().result, result), runError: null });
    await restoreFiles(result);
  } catch (error) {
    sent = null;
    if (error instanceof ApiError && error.status !== 0) unanswered = false;
    app.set({ runError: error instanceof ApiError ? error.message : String(error) });
  } finally {
    clearTimeout(sign);
    busy = false;
    app.set({ running: false });
    if (meaning(graphNow()) !== text && app.get().runError === null) schedule();
    else mark("done");
  }
}

/** For tests and screenshots: "pending" from a change until its result is there. */
const mark = (state: "pending" | "done"): void => { document.documentElement.dataset.run = state; };

function schedule(): void {
  mark("pending");
  clearTimeout(timer);
  timer = setTimeout(() => void run(), WAIT_MS);
}

/** Parts of a result that did not change keep their identity, so that only blocks with news redraw. */
export function keepIdentity(before: RunResult | null, after: RunResult): RunResult {
  if (!before) return after;
  const blocks = Object.fromEntries(Object.entries(after.blocks).map(([id, block]) => {
    const old = before.blocks[id];
    const strip = (value: typeof block): string => JSON.stringify({ ...value, milliseconds: 0, cached: false });
    return [id, old && strip(old) === strip(block) ? old : block];
  }));
  return { ...after, blocks };
}

const restored = new Set<string>();

/** After a restart the server no longer has uploaded files; the browser kept them. Each is sent again once. */
async function restoreFiles(result: RunResult): Promise<void> {
  for (const problem of result.problems) {
    if (problem.code !== "file_missing" || problem.node === null) continue;
    const block = graphNow().blocks.find((entry) => entry.id === problem.node);
    const kept = block && (await keptUpload(block.properties.file ?? ""));
    if (!block || !kept || restored.has(block.properties.file!)) continue;
    restored.add(block.properties.file!);
    const upload = await api.upload(kept.name, kept.bytes, kept.dtype);
    sent = null;
    edit(setProperty(graphNow(), block.id, "file", upload.file), "restore");
    schedule();
  }
}

export function runAgain(): void {
  sent = null;
  schedule();
}

export async function stopRun(): Promise<void> {
  await api.stop().catch((error: Error) => say(error.message, "bad"));
}

export function startRunner(): void {
  let last = graphNow();
  app.subscribe(() => {
    if (app.get().phase !== "ready" || graphNow() === last) return;
    last = graphNow();
    if (meaning(last) !== sent) schedule();
  });
  // Nobody waits for the run of a page that goes; after a reload the next run would stand in line behind it.
  addEventListener("pagehide", () => { if (unanswered) void api.stop().catch(() => undefined); });
  schedule();
}
