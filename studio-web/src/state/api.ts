// Requests to the server that sent this page. The token came in the address's fragment and goes out as a header, never in a URL.
import type { Catalogue, GalleryEntry, Graph, Problem, RunResult } from "../model/types.ts";

const TOKEN = "poolgrad-token";
/** A name that no other page has. */
export const randomName = (): string => [...crypto.getRandomValues(new Uint32Array(2))].map((word) => word.toString(16)).join("");

/** Names this page among the open ones, so that its Stop ends its own run only. */
const TAB = randomName();

export class ApiError extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly problems: readonly Problem[] = []) {
    super(message);
  }
}

/** Takes the token, or the ticket that is exchanged for one, out of the address bar, so that it is not copied along with the
 * address. True if the page has a new token. */
export async function takeToken(): Promise<boolean> {
  const given = new URLSearchParams(location.hash.slice(1));
  const ticket = given.get("ticket");
  if (ticket === null && given.get("token") === null) return false;
  history.replaceState(null, "", location.pathname);
  const token = given.get("token") ?? await exchanged(ticket!);
  const isNew = token !== null && token !== sessionStorage.getItem(TOKEN);
  if (isNew) sessionStorage.setItem(TOKEN, token);
  return isNew;
}

/** The browser was opened with a ticket that works once; without a token the first request says what to do. */
async function exchanged(ticket: string): Promise<string | null> {
  try {
    return ((await (await post("ticket", { ticket })).json()) as { token: string }).token;
  } catch {
    return null;
  }
}

async function request(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  headers.set("X-Poolgrad-Token", sessionStorage.getItem(TOKEN) ?? "");
  headers.set("X-Poolgrad-Tab", TAB);
  let response: Response;
  try {
    response = await fetch(`/api/${path}`, { ...options, headers });
  } catch {
    throw new ApiError(0, "offline", "The studio's server does not answer. Is `poolgrad studio` still running?");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null) as { error?: { code: string; message: string }; problems?: Problem[] } | null;
  if (response.status === 401) throw new ApiError(401, "token", "This page has no key to the server. Open the address that the terminal printed.");
  throw new ApiError(response.status, body?.error?.code ?? "http", body?.error?.message ?? `The server answered ${response.status}`, body?.problems ?? []);
}

const post = (path: string, body: unknown, options: RequestInit = {}): Promise<Response> =>
  request(path, { ...options, method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });

export interface Page { readonly name: string | null; readonly graph: Graph; readonly from: "file" | "gallery"; readonly start: string /* tells one start of the server from another */ }
export interface Upload { readonly file: string; readonly name: string; readonly shape: readonly number[]; readonly dtype: string; readonly elements: number }

export const api = {
  catalogue: async (): Promise<Catalogue> => (await request("catalogue")).json(),
  gallery: async (): Promise<GalleryEntry[]> => ((await (await request("gallery")).json()) as { graphs: GalleryEntry[] }).graphs,
  page: async (): Promise<Page> => (await request("page")).json(),
  run: async (graph: Graph): Promise<RunResult> => (await post("run", { graph })).json(),
  stop: async (): Promise<void> => { await post("stop", {}, { keepalive: true }); },
  tensor: async (id: string): Promise<ArrayBuffer> => (await request(`tensor/${id}`)).arrayBuffer(),
  tensorFile: async (id: string, ending: "npy" | "csv"): Promise<Blob> => (await request(`tensor/${id}.${ending}`)).blob(),
  exported: async (graph: Graph, target: "poolgrad" | "tensorflow"): Promise<string> => (await post("export", { graph, target })).text(),
  upload: async (name: string, bytes: BlobPart, dtype: string | null): Promise<Upload> => {
    const headers: Record<string, string> = { "Content-Type": "application/octet-stream" };
    if (dtype !== null) headers["X-Poolgrad-Dtype"] = dtype;
    return (await request(`upload?name=${encodeURIComponent(name)}`, { method: "POST", body: new Blob([bytes]), headers })).json();
  },
};
