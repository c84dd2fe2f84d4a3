// What opens on top of the page. All are native <dialog> elements: focus stays inside and Escape closes.
import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { emptyGraph, toText } from "../model/graph.ts";
import { app, graphNow, openGraph, say } from "../state/app.ts";
import { otherDrafts } from "../state/drafts.ts";
import { useStore } from "../state/store.ts";
import { download, openText } from "./files.ts";
import { Icon } from "./Icon.tsx";
import { OpenNpy } from "./OpenNpy.tsx";
import { ToastLine } from "./Toast.tsx";

export const closeDialog = (): void => app.set({ dialog: null });

export function Frame({ title, wide, children }: { title: string; wide?: boolean; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current!.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog ref={dialog} className={`dialog${wide ? " dialog-wide" : ""}`} aria-labelledby="dialog-title" onClose={closeDialog} onCancel={closeDialog}
      onClick={(event) => { if (event.target === dialog.current) closeDialog(); }}>
      <div className="dialog-body">
        <div className="inspector-head"><h2 id="dialog-title">{title}</h2><button type="button" className="icon" onClick={closeDialog} aria-label="Close"><Icon name="close" /></button></div>
        {children}
      </div>
      <ToastLine />
    </dialog>
  );
}

export function Dialogs() {
  const dialog = useStore(app, (state) => state.dialog);
  if (dialog === null) return null;
  if (dialog === "gallery") return <Gallery />;
  if (dialog === "help") return <Help />;
  if (dialog === "paste") return <PasteText />;
  if (dialog === "new") return <NewPage />;
  if ("python" in dialog) return <Python code={dialog.python} target={dialog.target} />;
  if ("unreadable" in dialog) return <Unreadable text={dialog.unreadable} reason={dialog.reason} />;
  return <OpenNpy request={dialog.open} />;
}

function Gallery() {
  const gallery = useStore(app, (state) => state.gallery);
  return (
    <Frame title="Gallery" wide>
      <p className="quiet-text">Each opens as a page of its own to change and play with. Undo brings back what you had.</p>
      <ul className="gallery">
        {gallery.map((entry, n) => (
          <li key={entry.id}>
            <button type="button" onClick={() => openGraph(entry.graph)}>
              <span className="gallery-number">{n + 1}</span><span className="gallery-title">{entry.title}</span><span className="gallery-summary">{entry.summary}</span>
            </button>
          </li>
        ))}
      </ul>
      <Drafts />
    </Frame>
  );
}

/** What other tabs of this browser hold, or held when they were closed. */
function Drafts() {
  const limits = useStore(app, (state) => state.catalogue.limits);
  const drafts = useMemo(() => otherDrafts(limits), [limits]);
  if (drafts.length === 0) return null;
  return (
    <section className="drafts">
      <h3>Drafts of your other tabs</h3>
      <ul>
        {drafts.map(({ graph, at }) => (
          <li key={at}><button type="button" className="link" onClick={() => openGraph(graph)}>{graph.title || "Untitled"}</button> <span className="quiet-text">{graph.blocks.length} block{graph.blocks.length === 1 ? "" : "s"}, {new Date(at).toLocaleString()}</span></li>
        ))}
      </ul>
    </section>
  );
}

function NewPage() {
  return (
    <Frame title="New page">
      <p>The blocks of this page go away. Undo brings them back.</p>
      <div className="button-row"><button type="button" className="primary" onClick={() => openGraph(emptyGraph())}>Start an empty page</button><button type="button" onClick={closeDialog}>Keep this one</button></div>
    </Frame>
  );
}

/** The draft of an earlier visit that this page cannot open. */
function Unreadable({ text, reason }: { text: string; reason: string }) {
  return (
    <Frame title="Your draft could not be opened">
      <p>The draft that this browser kept is not a page that this studio can show: {reason}.</p>
      <p className="quiet-text">It is set aside in this browser’s storage and not overwritten. Save it as a file to mend it.</p>
      <div className="button-row"><button type="button" className="primary" onClick={() => download(text, "draft.json", "application/json")}>Save the draft</button><button type="button" onClick={closeDialog}>Go on without it</button></div>
    </Frame>
  );
}

function PasteText() {
  const [text, setText] = useState(() => toText(graphNow()));
  const [problem, setProblem] = useState<string | null>(null);
  return (
    <Frame title="Graph as text" wide>
      <p className="quiet-text">This is the page as text. Copy it, or put another one in its place and open it.</p>
      <textarea className="code" rows={16} value={text} aria-label="Graph as text" spellCheck={false} onChange={(event) => { setText(event.target.value); setProblem(null); }} onFocus={(event) => event.target.select()} />
      <p className="text-problem" role="alert">{problem}</p>
      <div className="button-row"><button type="button" className="primary" onClick={() => setProblem(openText(text))}>Open this text</button></div>
    </Frame>
  );
}

function Python({ code, target }: { code: string; target: string }) {
  const copy = (): void => void navigator.clipboard.writeText(code).then(() => say("Code copied"), () => say("This browser does not let the page copy: select the text", "bad"));
  return (
    <Frame title={target === "poolgrad" ? "Python with poolgrad" : "Python with tf.raw_ops"} wide>
      <p className="quiet-text">{target === "poolgrad" ? "Run it and it gives the same bits as this page." : "Run it and it gives the same values, to the precision of the type, unless a comment says otherwise."}</p>
      <pre className="code" tabIndex={0}>{code}</pre>
      <div className="button-row"><button type="button" className="primary" onClick={copy}>Copy</button><button type="button" onClick={() => download(code, target === "poolgrad" ? "pooling.py" : "pooling_tensorflow.py", "text/x-python")}>Save file</button></div>
    </Frame>
  );
}

const KEYS: readonly (readonly [string, string])[] = [
  ["/ or double-click", "add a block by typing its name"], ["drag from a pin", "draw a wire; let go on the empty canvas to add what fits"], ["G", "add the gradient of the selected block"],
  ["Tab, Enter", "go from block to block, select one"], ["E", "edit the selected block; Escape leaves the field"], ["arrows", "move the selected block, or walk the pinned cell"], ["PageUp, PageDown", "walk through the slices of a volume"], ["[ and ]", "walk through the channels"],
  ["P", "play: sweep through the cells"], ["Escape", "let go of the pinned cell"], ["F", "show the whole graph"], ["Delete", "remove what is selected"],
  ["Ctrl Z, Ctrl Shift Z", "undo, redo"], ["Ctrl C, X, V, D", "copy, cut, paste, duplicate"], ["Ctrl S, Ctrl O", "save, open a page"], ["Ctrl A", "select all"],
];

function Help() {
  return (
    <Frame title="Help and keys" wide>
      <p>Blocks are the library’s ops. Wire them, change a property, and everything that depends on it runs again. Point at a cell of an output to see the window it was made from; point at a cell of an input to see every output it reaches.</p>
      <dl className="keys">{KEYS.map(([keys, what]) => <div key={keys}><dt>{keys}</dt><dd>{what}</dd></div>)}</dl>
      <p className="quiet-text">Everything works without a mouse: wires are lists in the inspector. The page talks only to its own server on this machine.</p>
    </Frame>
  );
}
