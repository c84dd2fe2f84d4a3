import { useEffect, useRef, useState, type ReactNode } from "react";
import { app, graphNow, redoEdit, undoEdit } from "../state/app.ts";
import { runAgain, stopRun } from "../state/runner.ts";
import { useStore } from "../state/store.ts";
import { themeStore, toggleTheme } from "../state/theme.ts";
import { copyText, copyPython, openFile, savePage, savePicture, saveWebPage } from "./files.ts";
import { Icon } from "./Icon.tsx";
import { TABLET, useMedia } from "./useMedia.ts";

export const openPaletteByKey = (): void => void dispatchEvent(new Event("poolgrad:palette"));

export function Toolbar() {
  const readOnly = useStore(app, (state) => state.readOnly);
  const canUndo = useStore(app, (state) => state.history.past.length > 0);
  const canRedo = useStore(app, (state) => state.history.future.length > 0);
  const title = useStore(app, (state) => state.history.present.title);
  const theme = useStore(themeStore, (state) => state.theme);
  const tablet = useMedia(TABLET);
  const side = useStore(app, (state) => state.side || state.selected.size > 0);
  const toggleSide = (): void => app.set({ side: !side, selected: new Set() });
  return (
    <header className="toolbar">
      <h1 className="brand"><Mark /> <span className="brand-name">poolgrad</span> <span className="brand-studio">studio</span></h1>
      <span className="toolbar-title" title={title}>{title}</span>
      {!readOnly && (
        <div className="tools" role="toolbar" aria-label="Graph">
          <button type="button" onClick={() => app.set({ dialog: "gallery" })}><Icon name="gallery" /> Gallery</button>
          <button type="button" className="only-wide" onClick={openPaletteByKey}><Icon name="add" /> Add block <kbd>/</kbd></button>
          <button type="button" className="icon" onClick={undoEdit} disabled={!canUndo} aria-label="Undo" title="Undo (Ctrl Z)"><Icon name="undo" /></button>
          <button type="button" className="icon only-wide" onClick={redoEdit} disabled={!canRedo} aria-label="Redo" title="Redo (Ctrl Shift Z)"><Icon name="redo" /></button>
          <FileMenu />
        </div>
      )}
      <span className="toolbar-gap" />
      {!readOnly && <RunStatus />}
      <button type="button" className="icon" onClick={toggleTheme} aria-label={theme === "dark" ? "Light colours" : "Dark colours"} title={theme === "dark" ? "Light colours" : "Dark colours"}><Icon name={theme === "dark" ? "sun" : "moon"} /></button>
      {!readOnly && <button type="button" className="icon only-wide" onClick={() => app.set({ dialog: "help" })} aria-label="Help and keys" title="Help and keys (?)"><Icon name="help" /></button>}
      {!readOnly && tablet && <button type="button" className="icon" onClick={toggleSide} aria-pressed={side} aria-label="Inspector" title="Inspector: the page, or the selected block"><Icon name="side" /></button>}
    </header>
  );
}

function Mark() {
  return (
    <svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true" className="mark">
      <rect x="1" y="1" width="9" height="9" rx="2" className="mark-a" /><rect x="12" y="1" width="9" height="9" rx="2" className="mark-b" />
      <rect x="1" y="12" width="9" height="9" rx="2" className="mark-b" /><rect x="12" y="12" width="9" height="9" rx="2" className="mark-c" />
    </svg>
  );
}

/** Problems that the same graph may not have the next time. */
const PASSING = new Set(["time", "memory", "killed", "crashed", "stopped"]);

function RunStatus() {
  const running = useStore(app, (state) => state.running);
  const error = useStore(app, (state) => state.runError);
  const result = useStore(app, (state) => state.result);
  const problems = result?.problems.filter((problem) => problem.code !== "unwired").length ?? 0;
  const passing = result?.problems.some((problem) => PASSING.has(problem.code)) ?? false;
  const unwired = (result?.problems.length ?? 0) - problems;
  if (running) return <span className="run-status running" role="status">running <button type="button" className="small" onClick={() => void stopRun()}>Stop</button></span>;
  if (error) return <span className="run-status bad" role="status"><span className="run-message" title={error}>{error}</span> <button type="button" className="small" onClick={runAgain}>Try again</button></span>;
  if (!result) return null;
  return (
    <span className={`run-status ${problems > 0 ? "bad" : unwired > 0 ? "wait" : "good"}`} role="status" title={`${result.computed.length} of ${graphNow().blocks.length} blocks computed in ${result.milliseconds.toFixed(1)} ms`}>
      {problems > 0 ? <button type="button" className="link" onClick={() => app.set({ selected: new Set(), side: true })}>{problems} problem{problems === 1 ? "" : "s"}</button> : unwired > 0 ? `${unwired} pin${unwired === 1 ? "" : "s"} to wire` : `ran in ${result.milliseconds < 10 ? result.milliseconds.toFixed(1) : Math.round(result.milliseconds)} ms`}
      {passing && <button type="button" className="small" onClick={runAgain}>Run again</button>}
    </span>
  );
}

/** A button with a list of actions below it: arrows move, Escape closes. */
export function Menu({ label, icon, children }: { label: string; icon: string; children: ReactNode }) {
  const [open, setOpen] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return undefined;
    const items = (): HTMLElement[] => [...frame.current!.querySelectorAll<HTMLElement>('[role="menuitem"]')];
    items()[0]?.focus();
    const outside = (event: Event): void => { if (!frame.current?.contains(event.target as Node)) setOpen(false); };
    const key = (event: KeyboardEvent): void => {
      const list = items();
      const at = list.indexOf(document.activeElement as HTMLElement);
      if (event.key === "Escape") { setOpen(false); frame.current?.querySelector("button")?.focus(); }
      else if (event.key === "ArrowDown") list[(at + 1) % list.length]?.focus();
      else if (event.key === "ArrowUp") list[(at - 1 + list.length) % list.length]?.focus();
      else if (event.key === "Tab") { setOpen(false); return; }
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    addEventListener("pointerdown", outside, true);
    addEventListener("keydown", key, true);
    return () => { removeEventListener("pointerdown", outside, true); removeEventListener("keydown", key, true); };
  }, [open]);
  return (
    <div className="menu" ref={frame}>
      <button type="button" aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}><Icon name={icon} /> {label} <Icon name="down" /></button>
      {open && <div className="menu-list" role="menu" aria-label={label} onClick={() => setOpen(false)}>{children}</div>}
    </div>
  );
}

export function MenuItem({ onClick, children, hint }: { onClick: () => void; children: ReactNode; hint?: string }) {
  return <button type="button" role="menuitem" tabIndex={-1} onClick={onClick}><span>{children}</span>{hint && <span className="menu-hint">{hint}</span>}</button>;
}

function FileMenu() {
  return (
    <Menu label="File" icon="file">
      <MenuItem onClick={() => app.set({ dialog: "new" })}>New page</MenuItem>
      <MenuItem onClick={openFile} hint="Ctrl O">Open page…</MenuItem>
      <MenuItem onClick={savePage} hint="Ctrl S">Save page</MenuItem>
      <hr />
      <MenuItem onClick={() => void copyText()}>Copy graph as text</MenuItem>
      <MenuItem onClick={() => app.set({ dialog: "paste" })}>Paste graph from text…</MenuItem>
      <hr />
      <MenuItem onClick={() => void copyPython("poolgrad")}>Export Python (poolgrad)</MenuItem>
      <MenuItem onClick={() => void copyPython("tensorflow")}>Export Python (tf.raw_ops)</MenuItem>
      <hr />
      <MenuItem onClick={() => void saveWebPage()} hint="read-only HTML">Save as web page</MenuItem>
      <MenuItem onClick={() => void savePicture("svg")}>Picture as SVG</MenuItem>
      <MenuItem onClick={() => void savePicture("png")}>Picture as PNG</MenuItem>
    </Menu>
  );
}
