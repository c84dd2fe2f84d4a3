// What the browser keeps: the draft (apart from the saved file), the theme, and the bytes of opened .npy files.
import { toText } from "../model/graph.ts";
import { parseGraph, type PageLimits } from "../model/reading.ts";
import type { Graph } from "../model/types.ts";
import { serverMark } from "./api.ts";
import { app, graphNow } from "./app.ts";

const DRAFT = "poolgrad-draft";
const ASIDE = "poolgrad-draft-aside-";
const FILE_TAKEN = "poolgrad-file-taken";
/** Drafts set aside: the newest few, so that they never fill the browser's 5 MiB. */
const MOST_ASIDE = 3;

export interface Unreadable { readonly text: string; readonly reason: string }

/** A draft that cannot be read is set aside before another one takes its place. */
export function readDraft(limits: PageLimits): { graph: Graph | null; unreadable: Unreadable | null } {
  const text = stored(DRAFT);
  if (text === null) return { graph: null, unreadable: null };
  const parsed = parseGraph(text, limits);
  if (parsed.ok) return { graph: parsed.value, unreadable: null };
  setAside(text);
  return { graph: null, unreadable: { text, reason: parsed.message } };
}

export function setAside(text: string): void {
  try {
    const names = Object.keys(localStorage).filter((name) => name.startsWith(ASIDE)).sort();
    if (names.some((name) => localStorage.getItem(name) === text)) return;
    for (const name of names.slice(0, Math.max(0, names.length - MOST_ASIDE + 1))) localStorage.removeItem(name);
    localStorage.setItem(ASIDE + new Date().toISOString(), text);
  } catch { /* full or switched off: the person is offered the text as a file */ }
}

/** Whether the file that this server was started with was opened in this browser before. */
export const fileTaken = (): boolean => stored(FILE_TAKEN) === serverMark();

/** From now on the draft stands for the file. */
export function takeFile(): void {
  write();
  try { localStorage.setItem(FILE_TAKEN, serverMark()); } catch { /* then the file is opened again after a reload */ }
}

function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // storage can be switched off; the page works without it
  }
}

function write(): void {
  try { localStorage.setItem(DRAFT, toText(graphNow())); } catch { /* full or switched off: the file on disk is the safe place */ }
}

export function keepDrafts(): void {
  let last = graphNow();
  let timer: ReturnType<typeof setTimeout> | undefined;
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
