import { ReactFlowProvider } from "@xyflow/react";
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
import { NARROW, TABLET, useMedia } from "./useMedia.ts";
import { useKeys } from "./keys.ts";

export function App() {
  const phase = useStore(app, (state) => state.phase);
  const failure = useStore(app, (state) => state.failure);
  const palette = useStore(app, (state) => state.palette);
  const dialog = useStore(app, (state) => state.dialog !== null);
  const readOnly = useStore(app, (state) => state.readOnly);
  const empty = useStore(app, (state) => state.history.present.blocks.length === 0);
  const narrow = useMedia(NARROW);
  const tablet = useMedia(TABLET);
  const side = useStore(app, (state) => state.side || state.selected.size > 0);
  useKeys();
  if (phase === "loading") return <main className="plain-page" aria-busy="true"><p>Opening the studio…</p></main>;
  if (phase === "failed") return <main className="plain-page"><h1>poolgrad studio</h1><p>{failure}</p></main>;
  return (
    <div className={`app${narrow ? " app-narrow" : ""}${tablet ? " app-tablet" : ""}${readOnly ? " app-read-only" : ""}`}>
      <Toolbar />
      {(readOnly || tablet) && !narrow && <Story titled={!readOnly} />}
      {narrow ? <Reader /> : (
        <main className="work">
          <ReactFlowProvider><Canvas /></ReactFlowProvider>
          {empty && !readOnly && <p className="canvas-hint">Press <kbd>/</kbd> or double-click to add a block</p>}
        </main>
      )}
      {!narrow && !readOnly && (!tablet || side) && <Inspector />}
      <CellBar />
      {palette && <Palette request={palette} />}
      <Dialogs />
      {!dialog && <ToastLine />}
    </div>
  );
}

/** What the page is about, where no inspector says it: on a saved page and on a tablet, whose toolbar has no room for the title. */
function Story({ titled }: { titled: boolean }) {
  const { title, summary } = useStore(app, (state) => state.history.present);
  if (summary === "" && !titled) return null;
  return <section className="story" aria-label="What this page shows">{titled && <b>{title}</b>} {summary}</section>;
}
