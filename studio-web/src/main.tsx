import "@xyflow/react/dist/base.css";
import "./style/theme.css";
import "./style/page.css";
import "./style/blocks.css";
import "./style/overlays.css";
import { createRoot } from "react-dom/client";
import { begin } from "./model/history.ts";
import { api, takeToken } from "./state/api.ts";
import { app } from "./state/app.ts";
import { keepDrafts, readDraft } from "./state/drafts.ts";
import { startRunner } from "./state/runner.ts";
import { useBytesFrom } from "./state/tensors.ts";
import { App } from "./view/App.tsx";
import type { Embedded } from "./view/files.ts";

const bytesOf = (text: string): ArrayBuffer => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;

/** A saved page carries everything in itself. */
function startEmbedded(text: string): void {
  const data = JSON.parse(text) as Embedded;
  useBytesFrom((id) => Promise.resolve(bytesOf(data.tensors[id] ?? "")));
  app.set({ phase: "ready", readOnly: true, catalogue: data.catalogue, result: data.result, history: begin(data.graph) });
}

/** A page named on the command line wins over the draft; the draft wins over the first example. */
async function startLive(): Promise<void> {
  takeToken();
  try {
    const [catalogue, gallery, page] = await Promise.all([api.catalogue(), api.gallery(), api.page()]);
    const draft = page.from === "file" ? null : readDraft();
    app.set({ phase: "ready", catalogue, gallery, history: begin(draft ?? page.graph) });
    keepDrafts();
    startRunner();
  } catch (error) {
    app.set({ phase: "failed", failure: (error as Error).message });
  }
}

const embedded = document.getElementById("poolgrad-page")?.textContent;
createRoot(document.getElementById("root")!).render(<App />);
if (embedded) startEmbedded(embedded);
else void startLive();
