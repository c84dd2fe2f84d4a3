// What the browser keeps: a draft for each tab (apart from the saved file), and the bytes of opened .npy files.
import { toText } from "../model/graph.ts";
import { forgotten, latest, packDraft, unpackDraft, type Draft } from "../model/kept.ts";
import { parseGraph, type PageLimits } from "../model/reading.ts";
import type { Graph } from "../model/types.ts";
import { randomName } from "./api.ts";
import { app, graphNow } from "./app.ts";

const DRAFT = "poolgrad-draft-";
const ASIDE = "poolgrad-aside-";
const FILE_TAKEN = "poolgrad-file-taken";
const TAB = "poolgrad-tab";
/** Drafts that could not be read: the newest few, so that they never fill the browser's 5 MiB. */
const MOST_ASIDE = 3;

let tab = "";

/** The name under which this tab keeps its draft. A reload keeps it; a tab that the browser duplicates starts with the same one
 * and takes another as soon as the first tab answers. */
function takeTab(): void {
  try {
    tab = sessionStorage.getItem(TAB) ?? randomName();
    sessionStorage.setItem(TAB, tab);
  } catch {
    tab = randomName();
  }
  const own = randomName();
  const tabs = new BroadcastChannel("poolgrad-tabs");
  tabs.onmessage = ({ data }: MessageEvent<{ asks?: string; of?: string; taken?: string; to?: string }>) => {
    if (data.asks === tab && data.of !== own) tabs.postMessage({ taken: tab, to: data.of });
    if (data.taken !== tab || data.to !== own) return;
    tab = randomName();
    try { sessionStorage.setItem(TAB, tab); } catch { /* then a reload begins with the newest draft */ }
    write();
  };
  tabs.postMessage({ asks: tab, of: own });
}

function storedDrafts(): Draft[] {
  try {
    return Object.keys(localStorage).filter((name) => name.startsWith(DRAFT)).map((name) => unpackDraft(name.slice(DRAFT.length), localStorage.getItem(name)!));
  } catch {
    return []; // storage can be switched off; the page works without it
  }
}

/** Drafts of other tabs, open or closed, newest first. */
export function otherDrafts(limits: PageLimits): { readonly graph: Graph; readonly at: number }[] {
  const read = storedDrafts().filter((draft) => draft.tab !== tab).sort((a, b) => b.at - a.at)
    .map(({ text, at }) => ({ parsed: parseGraph(text, limits), at }));
  return read.flatMap(({ parsed, at }) => (parsed.ok ? [{ graph: parsed.value, at }] : []));
}

export interface Unreadable { readonly text: string; readonly reason: string }

/** The draft of this tab, or a copy of the newest one where the tab is new. One that cannot be read is set aside before
 * another takes its place. */
export function readDraft(limits: PageLimits): { graph: Graph | null; unreadable: Unreadable | null } {
  takeTab();
  const draft = latest(storedDrafts(), tab);
  if (draft === null) return { graph: null, unreadable: null };
  const parsed = parseGraph(draft.text, limits);
  if (parsed.ok) return { graph: parsed.value, unreadable: null };
  setAside(draft.text);
  try { localStorage.removeItem(DRAFT + draft.tab); } catch { /* it could be read, so it can be removed */ }
  return { graph: null, unreadable: { text: draft.text, reason: parsed.message } };
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
export function fileTaken(start: string): boolean {
  try {
    return localStorage.getItem(FILE_TAKEN) === start;
  } catch {
    return false;
  }
}

/** From now on the draft stands for the file. */
export function takeFile(start: string): void {
  write();
  try { localStorage.setItem(FILE_TAKEN, start); } catch { /* then the file is opened again after a reload */ }
}

/** Where storage is full, drafts of other tabs give way, oldest first. */
function write(): void {
  const drop = forgotten(storedDrafts(), tab);
  for (let tries = 0; tries < 3; tries += 1) {
    try {
      for (const name of drop) localStorage.removeItem(DRAFT + name);
      localStorage.setItem(DRAFT + tab, packDraft(toText(graphNow()), Date.now()));
      return;
    } catch {
      const [oldest] = storedDrafts().filter((draft) => draft.tab !== tab).sort((a, b) => a.at - b.at);
      if (!oldest) return; // switched off, or this page alone is too large: the file on disk is the safe place
      drop.push(oldest.tab);
    }
  }
}

export function keepDrafts(): void {
  let last = graphNow();
  let timer: ReturnType<typeof setTimeout> | undefined;
  app.subscribe(() => {
    if (graphNow() === last) return;
    last = graphNow();
    clearTimeout(timer);
    document.documentElement.dataset.draft = "pending"; // for tests, as `mark` in runner.ts
    timer = setTimeout(() => {
      write();
      document.documentElement.dataset.draft = "kept";
    }, 300);
  });
  addEventListener("pagehide", write);
  void dropUploads().catch(() => undefined);
}

export interface Kept { readonly name: string; readonly dtype: string | null; readonly bytes: ArrayBuffer; readonly at?: number }

/** A file that was opened this recently may belong to a draft that is not written yet. */
const FRESH_MS = 60_000;

/** Files that no draft speaks of any more leave the browser. */
async function dropUploads(): Promise<void> {
  const texts = [...storedDrafts().map((draft) => draft.text), toText(graphNow())];
  const store = (await database()).transaction("uploads", "readwrite").objectStore("uploads");
  const walk = store.openCursor();
  walk.onsuccess = () => {
    const at = walk.result;
    if (!at) return;
    const used = texts.some((text) => text.includes(String(at.key))) || Date.now() - ((at.value as Kept).at ?? 0) < FRESH_MS;
    if (!used) at.delete();
    at.continue();
  };
}

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
  store.put({ ...kept, at: Date.now() }, id);
}

export async function keptUpload(id: string): Promise<Kept | null> {
  const store = (await database()).transaction("uploads").objectStore("uploads");
  return new Promise((resolve) => {
    const got = store.get(id);
    got.onsuccess = () => resolve((got.result as Kept | undefined) ?? null);
    got.onerror = () => resolve(null);
  });
}
