import "@xyflow/react/dist/base.css";
import "./style/theme.css";
import "./style/page.css";
import "./style/blocks.css";
import "./style/overlays.css";
import { createRoot } from "react-dom/client";
import { emptyGraph } from "./model/graph.ts";
import { begin } from "./model/history.ts";
import { readGraph } from "./model/reading.ts";
import { startWith } from "./model/start.ts";
import { api, takeToken } from "./state/api.ts";
import { app, say } from "./state/app.ts";
import { fileTaken, keepDrafts, readDraft, takeFile } from "./state/drafts.ts";
import { startRunner } from "./state/runner.ts";
import { useBytesFrom } from "./state/tensors.ts";
import { App } from "./view/App.tsx";
import { Boundary } from "./view/Boundary.tsx";
import type { Embedded } from "./view/files.ts";

const bytesOf = (text: string): ArrayBuffer => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;

/** A saved page carries everything in itself. */
function startEmbedded(text: string): void {
  const data = JSON.parse(text) as Embedded;
  useBytesFrom((id) => Promise.resolve(bytesOf(data.tensors[id] ?? "")));
  app.set({ phase: "ready", readOnly: true, catalogue: data.catalogue, result: data.result, history: begin(data.graph) });
}

async function startLive(): Promise<void> {
  try {
    await takeToken();
    const [catalogue, gallery, page] = await Promise.all([api.catalogue(), api.gallery(), api.page()]);
    const parsed = page.from === "file" ? readGraph(page.graph, catalogue.limits) : null;
    const file = parsed?.ok ? parsed.value : null;
    const { graph: draft, unreadable } = readDraft(catalogue.limits);
    const history = startWith({ file, taken: fileTaken(page.start), draft, example: gallery[0]?.graph ?? emptyGraph() });
    app.set({ phase: "ready", catalogue, gallery, history, dialog: unreadable && { unreadable: unreadable.text, reason: unreadable.reason } });
    if (file) takeFile(page.start);
    if (parsed && !parsed.ok) say(`${page.name} cannot be opened: ${parsed.message}`, "bad");
    else if (history.past.length > 0) say(`${page.name} is open; Undo brings back the draft that was here`);
    keepDrafts();
    startRunner();
  } catch (error) {
    app.set({ phase: "failed", failure: (error as Error).message });
  }
}

const embedded = document.getElementById("poolgrad-page")?.textContent;
createRoot(document.getElementById("root")!).render(<Boundary><App /></Boundary>);
if (embedded) startEmbedded(embedded);
else {
  void startLive();
  // The address of a restarted server, pasted over the open page, changes only the fragment. A reload reads that server's page
  // and catalogue; the draft is written on the way out.
  addEventListener("hashchange", async () => { if (await takeToken() || app.get().phase === "failed") location.reload(); });
}
