// What the browser keeps: the draft (apart from the saved file), the theme, and the bytes of opened .npy files.
import { parseGraph, toText } from "../model/graph.ts";
import type { Graph } from "../model/types.ts";
import { app, graphNow } from "./app.ts";

const DRAFT = "poolgrad-draft";

export function readDraft(): Graph | null {
  try {
    const text = localStorage.getItem(DRAFT);
    const parsed = text === null ? null : parseGraph(text);
    return parsed?.ok ? parsed.value : null;
  } catch {
    return null; // storage can be switched off; the page works without it
  }
}

export function keepDrafts(): void {
  let last = graphNow();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const write = (): void => {
    try { localStorage.setItem(DRAFT, toText(graphNow())); } catch { /* full or switched off: the file on disk is the safe place */ }
  };
  app.subscribe(() => {
    if (graphNow() === last) return;
    last = graphNow();
    clearTimeout(timer);
    timer = setTimeout(write, 300);
  });
  addEventListener("pagehide", write);
}

export interface Kept { readonly name: string; readonly dtype: string | null; readonly bytes: ArrayBuffer }

function database(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const open = indexedDB.open("poolgrad", 1);
    open.onupgradeneeded = () => open.result.createObjectStore("uploads");
    open.onsuccess = () => resolve(open.result);
    open.onerror = () => reject(open.error);
  });
}

export async function keepUpload(id: string, kept: Kept): Promise<void> {
  const store = (await database()).transaction("uploads", "readwrite").objectStore("uploads");
  store.put(kept, id);
}

export async function keptUpload(id: string): Promise<Kept | null> {
  const store = (await database()).transaction("uploads").objectStore("uploads");
  return new Promise((resolve) => {
    const got = store.get(id);
    got.onsuccess = () => resolve((got.result as Kept | undefined) ?? null);
    got.onerror = () => resolve(null);
  });
}
