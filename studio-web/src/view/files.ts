// Everything that leaves the page as a file, and pages that come in.
import { toText } from "../model/graph.ts";
import { parseGraph } from "../model/reading.ts";
import type { Graph, RunResult, TensorInfo } from "../model/types.ts";
import { api, ApiError } from "../state/api.ts";
import { app, graphNow, openGraph, say } from "../state/app.ts";
import { load } from "../state/tensors.ts";
import { themeStore } from "../state/theme.ts";
import { snapshot } from "./snapshot.ts";

export function download(content: BlobPart, name: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (ending: string): string => `${graphNow().title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "page"}.${ending}`;

export const savePage = (): void => download(toText(graphNow()), fileName("json"), "application/json");

export function pickFile(accept: string, use: (file: File) => void): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = accept;
  input.onchange = () => { if (input.files?.[0]) use(input.files[0]); };
  input.click();
}

export const openFile = (): void => pickFile(".json,application/json", (file) => void openPage(file));

/** Opens a page from its text; the answer is why it cannot be opened, or null. */
export function openText(text: string): string | null {
  const parsed = parseGraph(text, app.get().catalogue.limits);
  if (!parsed.ok) return `This page cannot be opened: ${parsed.message}`;
  openGraph(parsed.value);
  return null;
}

export async function openPage(file: File): Promise<void> {
  const problem = openText(await file.text());
  if (problem !== null) say(problem, "bad");
}

export async function copyText(): Promise<void> {
  try {
    await navigator.clipboard.writeText(toText(graphNow()));
    say("Graph copied as text");
  } catch {
    app.set({ dialog: "paste" }); // no clipboard here: the text can be taken from the dialog
  }
}

export async function copyPython(target: "poolgrad" | "tensorflow"): Promise<void> {
  try {
    app.set({ dialog: { python: await api.exported(graphNow(), target), target } });
  } catch (error) {
    const problems = error instanceof ApiError ? error.problems.length : 0;
    say(problems > 0 ? `The graph has ${problems} problem${problems === 1 ? "" : "s"}; mend ${problems === 1 ? "it" : "them"} before exporting` : (error as Error).message, "bad");
  }
}

export async function saveTensor(info: TensorInfo, ending: "npy" | "csv", name: string): Promise<void> {
  try {
    download(await api.tensorFile(info.id, ending), `${name}.${ending}`, ending === "csv" ? "text/csv" : "application/octet-stream");
    if (ending === "npy" && info.dtype === "bfloat16") say("Saved as uint16 bits: read it back with .view(ml_dtypes.bfloat16)");
  } catch (error) {
    say((error as Error).message, "bad");
  }
}

/** Everything the graph shows, loaded, so that a picture or a saved page is whole. */
async function loadAll(result: RunResult | null): Promise<Map<string, ArrayBuffer>> {
  const tensors = new Map<string, ArrayBuffer>();
  for (const block of Object.values(result?.blocks ?? {})) for (const info of Object.values(block.outputs)) tensors.set(info.id, (await load(info)).raw);
  return tensors;
}

const frame = (): Promise<unknown> => new Promise(requestAnimationFrame);

async function pictureText(): Promise<string> {
  await loadAll(app.get().result);
  // Heat-maps whose numbers came only now are drawn within two frames.
  await frame();
  await frame();
  return snapshot(document.querySelector(".canvas")!, graphNow().title, themeStore.get().theme);
}

export async function savePicture(kind: "svg" | "png"): Promise<void> {
  try {
    const text = await pictureText();
    if (kind === "svg") return download(text, fileName("svg"), "image/svg+xml");
    const picture = new Image();
    picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await picture.decode();
    // Twice the size for sharp text, within what browsers allow for a canvas.
    const zoom = Math.min(2, 8192 / Math.max(picture.width, picture.height));
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [Math.round(picture.width * zoom), Math.round(picture.height * zoom)];
    canvas.getContext("2d")!.drawImage(picture, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((resolve) => { canvas.toBlob(resolve, "image/png"); });
    if (blob) download(blob, fileName("png"), "image/png");
  } catch (error) {
    say(`The picture could not be made: ${(error as Error).message}`, "bad");
  }
  return undefined;
}

function base64(bytes: ArrayBuffer): string {
  let text = "";
  const view = new Uint8Array(bytes);
  for (let at = 0; at < view.length; at += 0x8000) text += String.fromCharCode(...view.subarray(at, at + 0x8000));
  return btoa(text);
}

export interface Embedded { readonly graph: Graph; readonly catalogue: ReturnType<typeof app.get>["catalogue"]; readonly result: RunResult; readonly tensors: Readonly<Record<string, string>> }

/** A page is mailed and put on course sites; over this it is no longer handy. */
const WEB_PAGE_BYTES = 32 * 1024 * 1024;

/** One HTML file with the page's own script and style, the graph and its results: read-only, with hover, without a server. */
export async function saveWebPage(): Promise<void> {
  const { result, catalogue } = app.get();
  if (!result) return say("There is no result yet", "bad");
  const total = Object.values(result.blocks).flatMap((block) => Object.values(block.outputs)).reduce((sum, info) => sum + info.bytes, 0);
  if (total > WEB_PAGE_BYTES) return say(`The results are ${(total / 2 ** 20).toFixed(0)} MiB; a web page holds at most ${WEB_PAGE_BYTES / 2 ** 20} MiB`, "bad");
  try {
    const [script, style, tensors] = await Promise.all([fetch("app.js").then((r) => r.text()), fetch("app.css").then((r) => r.text()), loadAll(result)]);
    const used = new Set(graphNow().blocks.map((block) => block.op));
    const data: Embedded = {
      graph: graphNow(), result, catalogue: { ...catalogue, blocks: catalogue.blocks.filter((type) => used.has(type.name)) },
      tensors: Object.fromEntries([...tensors].map(([id, raw]) => [id, base64(raw)])),
    };
    download(webPage(graphNow().title, script, style, JSON.stringify(data)), fileName("html"), "text/html");
  } catch (error) {
    say(`The web page could not be made: ${(error as Error).message}`, "bad");
  }
  return undefined;
}

/** `<` in data and `</script` in code must not end the element they stand in. */
const webPage = (title: string, script: string, style: string, data: string): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<title>${title.replace(/[&<>]/g, (letter) => `&#${letter.charCodeAt(0)};`)}</title><style>${style}</style></head>
<body><div id="root"></div><script type="application/json" id="poolgrad-page">${data.replace(/</g, "\\u003c")}</script>
<script>${script.replace(/<\/script/gi, "<\\/script")}</script></body></html>
`;
