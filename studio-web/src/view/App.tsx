import { ReactFlowProvider } from "@xyflow/react";
import { useEffect, useState } from "react";
import { app } from "../state/app.ts";
import { useStore } from "../state/store.ts";
import { Canvas } from "./Canvas.tsx";
import { CellBar } from "./CellBar.tsx";
import { Dialogs } from "./Dialogs.tsx";
import { Inspector } from "./Inspector.tsx";
import { Palette } from "./Palette.tsx";
import { Reader } from "./Reader.tsx";
import { ToastLine } from "./Toast.tsx";
import { Toolbar } from "./Toolbar.tsx";
import { useKeys } from "./keys.ts";

/** Below this the canvas and the inspector no longer fit side by side: the page is read step by step. */
const NARROW = "(max-width: 720px)";

function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const change = (): void => setNarrow(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return narrow;
}

export function App() {
  const phase = useStore(app, (state) => state.phase);
  const failure = useStore(app, (state) => state.failure);
  const palette = useStore(app, (state) => state.palette);
  const dialog = useStore(app, (state) => state.dialog !== null);
  const readOnly = useStore(app, (state) => state.readOnly);
  const empty = useStore(app, (state) => state.history.present.blocks.length === 0);
  const narrow = useNarrow();
  useKeys();
  if (phase === "loading") return <main className="plain-page" aria-busy="true"><p>Opening the studio…</p></main>;
  if (phase === "failed") return <main className="plain-page"><h1>poolgrad studio</h1><p>{failure}</p></main>;
  return (
    <div className={`app${narrow ? " app-narrow" : ""}${readOnly ? " app-read-only" : ""}`}>
      <Toolbar />
      {readOnly && !narrow && <Story />}
      {narrow ? <Reader /> : (
        <main className="work">
          <ReactFlowProvider><Canvas /></ReactFlowProvider>
          {empty && !readOnly && <p className="canvas-hint">Press <kbd>/</kbd> or double-click to add a block</p>}
        </main>
      )}
      {!narrow && !readOnly && <Inspector />}
      <CellBar />
      {palette && <Palette request={palette} />}
      <Dialogs />
      {!dialog && <ToastLine />}
    </div>
  );
}

/** The words of a saved page. */
function Story() {
  const summary = useStore(app, (state) => state.history.present.summary);
  return summary === "" ? null : <p className="story">{summary}</p>;
}
