// Keys of the whole page. Fields keep their own; a dialog keeps all.
import { useEffect } from "react";
import { toText, typeOf } from "../model/graph.ts";
import { parseGraph } from "../model/reading.ts";
import { app, firstField, fitAgain, gradientOf, graphNow, pastePiece, redoEdit, removeSelected, say, select, selectedCopy, undoEdit } from "../state/app.ts";
import { cellStore, pin, play, walkCell } from "../state/cell.ts";
import { openFile, savePage } from "./files.ts";
import { openPaletteByKey } from "./Toolbar.tsx";

const isField = (target: EventTarget | null): boolean => target instanceof HTMLElement && (target.isContentEditable || ["TEXTAREA", "SELECT"].includes(target.tagName) || (target instanceof HTMLInputElement && !["checkbox", "range"].includes(target.type)));

function command(event: KeyboardEvent): boolean {
  const key = event.key.toLowerCase();
  if (key === "s") savePage();
  else if (key === "o") openFile();
  else if (isField(event.target)) return false;
  else if (key === "z") event.shiftKey ? redoEdit() : undoEdit();
  else if (key === "y") redoEdit();
  else if (key === "a") select(graphNow().blocks.map((block) => block.id));
  else if (key === "d" && app.get().selected.size > 0) pastePiece(selectedCopy());
  else return false;
  return true;
}

/** Keys that change the graph or lead to a change. */
function editing(key: string): boolean {
  const { selected, catalogue } = app.get();
  const block = selected.size === 1 ? graphNow().blocks.find((entry) => selected.has(entry.id)) : undefined;
  const type = block && typeOf(catalogue, block.op);
  switch (key) {
    case "/": openPaletteByKey(); return true;
    case "Delete": case "Backspace": removeSelected(); return true;
    case "g": case "G":
      if (block && type?.gradient) gradientOf(block.id, "ones");
      return true;
    case "e": case "E":
      if (type) app.set({ focusField: firstField(type) });
      return true;
    default: return false;
  }
}

function single(event: KeyboardEvent): boolean {
  const pinned = cellStore.get().pinned !== null;
  if (!app.get().readOnly && editing(event.key)) return true;
  switch (event.key) {
    case "?": app.set({ dialog: "help" }); return true;
    case "p": case "P": play(!cellStore.get().playing); return true;
    case "f": case "F": app.set((now) => ({ fit: fitAgain(now, "whole") })); return true;
    case "Escape": if (pinned) pin(null); else { select([]); app.set({ side: false }); } return true;
    default: return pinned && !(event.target as Element).closest?.(".react-flow__node, input") && walkCell(event.key);
  }
}

function onKey(event: KeyboardEvent): void {
  if (app.get().dialog !== null || app.get().palette !== null || event.defaultPrevented) return;
  if (event.ctrlKey || event.metaKey) {
    if (!app.get().readOnly && !event.altKey && command(event)) event.preventDefault();
    return;
  }
  if (isField(event.target)) {
    // Escape leaves the field, so that the keys of the page work again.
    if (event.key === "Escape") (event.target as HTMLElement).blur();
    return;
  }
  if (single(event)) event.preventDefault();
}

/** Copy, cut and paste go through the browser's own events: no permission is asked, and text from elsewhere works. */
function onCopy(event: ClipboardEvent): void {
  if (isField(event.target) || app.get().selected.size === 0 || !getSelection()?.isCollapsed) return;
  event.clipboardData?.setData("text/plain", toText(selectedCopy()));
  event.preventDefault();
  if (event.type === "cut" && !app.get().readOnly) removeSelected();
}

function onPaste(event: ClipboardEvent): void {
  if (isField(event.target) || app.get().dialog !== null || app.get().readOnly) return;
  const text = event.clipboardData?.getData("text/plain") ?? "";
  const parsed = parseGraph(text, app.get().catalogue.limits);
  if (parsed.ok) {
    event.preventDefault();
    pastePiece(parsed.value);
  } else if (text.trim() !== "") say(`The clipboard holds no graph that can be pasted: ${parsed.message}`, "bad");
}

export function useKeys(): void {
  useEffect(() => {
    addEventListener("keydown", onKey);
    for (const name of ["copy", "cut"] as const) addEventListener(name, onCopy);
    addEventListener("paste", onPaste);
    return () => {
      removeEventListener("keydown", onKey);
      for (const name of ["copy", "cut"] as const) removeEventListener(name, onCopy);
      removeEventListener("paste", onPaste);
    };
  }, []);
}
