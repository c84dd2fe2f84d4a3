// Drafts as the browser's storage holds them: one for each tab, with the time it was written.

export interface Draft { readonly tab: string; readonly at: number; readonly text: string }

/** Open tabs and the last closed ones; a page has at most 1 MiB, all of the storage 5. */
const MOST = 6;

export const packDraft = (text: string, at: number): string => `${at}\n${text}`;

export function unpackDraft(tab: string, stored: string): Draft {
  const end = stored.indexOf("\n");
  return { tab, at: Number(stored.slice(0, end)) || 0, text: stored.slice(end + 1) };
}

/** What a tab begins with: its own draft, else the newest of all. */
export function latest(drafts: readonly Draft[], tab: string): Draft | null {
  const newest = drafts.reduce<Draft | null>((best, draft) => (best === null || draft.at > best.at ? draft : best), null);
  return drafts.find((draft) => draft.tab === tab) ?? newest;
}

/** Tabs whose drafts make room: all but the newest, never this tab's own. */
export const forgotten = (drafts: readonly Draft[], tab: string): string[] =>
  drafts.filter((draft) => draft.tab !== tab).sort((a, b) => b.at - a.at).slice(MOST - 1).map((draft) => draft.tab);
