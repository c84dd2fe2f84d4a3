// The canvas as it stands, measured: every block, wire, pin and word at its true place and size, for the SVG of the graph.
import { LINED_CELL } from "../model/cells.ts";
import { box, cellShapes, image, line, pinShape, sheet, wire, words, type Sheet } from "../model/picture.ts";
import type { Area, Place } from "../model/place.ts";
import type { Theme } from "../model/scale.ts";
import type { Kind } from "../model/types.ts";
import { paintCells, pictures } from "./paint.ts";

const KINDS: readonly Kind[] = ["tensor", "shape", "sequence", "indices", "any"];

interface Measure { readonly area: (box: DOMRect) => Area; readonly ink: (name: string) => string; readonly page: Sheet }

export function snapshot(canvas: Element, title: string, theme: Theme): string {
  const matrix = new DOMMatrix(getComputedStyle(canvas.querySelector(".react-flow__viewport")!).transform);
  const frame = canvas.getBoundingClientRect();
  const ink = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const page: Sheet = { title, theme, paper: ink("paper"), sans: ink("sans"), mono: ink("mono") };
  const area = (found: DOMRect): Area => ({ x: (found.x - frame.x - matrix.e) / matrix.a, y: (found.y - frame.y - matrix.f) / matrix.a, width: found.width / matrix.a, height: found.height / matrix.a });
  const measure: Measure = { area, ink, page };
  // From afar small text is not painted; a picture has it.
  const far = canvas.className;
  canvas.classList.remove("canvas-far", "canvas-map");
  try {
    const blocks = [...canvas.querySelectorAll<HTMLElement>(".react-flow__node")];
    const paths = [...canvas.querySelectorAll<SVGPathElement>(".react-flow__edge-path")];
    const areas = [...blocks.map((block) => area(block.getBoundingClientRect())), ...paths.map((path) => path.getBBox())];
    const wires = paths.map((path) => wire(path.getAttribute("d")!, getComputedStyle(path).stroke, path.classList.contains("wire-wrong")));
    const marks = [...canvas.querySelectorAll(".wire-mark")].map((mark) => box(area(mark.getBoundingClientRect()), { fill: ink("bad"), round: 11 }) + textOf(mark, measure));
    return sheet(page, areas, wires.join("") + blocks.map((block) => blockShapes(block, measure)).join("") + marks.join(""));
  } finally {
    canvas.className = far;
  }
}

const middle = ({ x, y, width, height }: Area): Place => ({ x: x + width / 2, y: y + height / 2 });

function blockShapes(node: HTMLElement, measure: Measure): string {
  const { area, ink, page } = measure;
  const each = (selector: string, draw: (found: HTMLElement, at: Area) => string): string =>
    [...node.querySelectorAll<HTMLElement>(selector)].map((found) => draw(found, area(found.getBoundingClientRect()))).join("");
  const bad = node.querySelector(".block-problem") !== null;
  return box(area(node.getBoundingClientRect()), { fill: ink("surface"), stroke: ink(bad ? "bad-line" : "line"), round: 10, name: node.dataset.id ?? "" })
    + each(".summary, .picture", (_, at) => line(at, { x: at.x + at.width, y: at.y }, ink("line")))
    + each(".problem", (found, at) => box(at, { fill: getComputedStyle(found).backgroundColor, round: 6 }))
    + each(".status", (found, at) => box(at, { fill: getComputedStyle(found).backgroundColor, round: 4 }))
    + textOf(node, measure)
    + each(".legend svg", (found, at) => `<svg x="${at.x}" y="${at.y}" width="${at.width}" height="${at.height}"${found.hasAttribute("viewBox") ? ` viewBox="${found.getAttribute("viewBox")}" preserveAspectRatio="none"` : ""}>${found.innerHTML}</svg>`)
    + each(".legend-diverging .legend-bar", (_, at) => line({ x: at.x + at.width / 2, y: at.y - 2 }, { x: at.x + at.width / 2, y: at.y + at.height + 2 }, ink("quiet")))
    + each(".sliders input", (found, at) => sliderShape(found as HTMLInputElement, at, ink))
    + each(".heat-cells", (found, at) => heatShapes(found, at, page.mono))
    + each(".heat-overlay", (found, at) => image((found as HTMLCanvasElement).toDataURL(), at))
    + each(".pin", (found, at) => {
      const kind = KINDS.find((name) => found.classList.contains(`kind-${name}`)) ?? "any";
      return pinShape(middle(at), kind, ink(`kind-${kind}`), ink("surface"));
    });
}

function heatShapes(cells: HTMLElement, at: Area, mono: string): string {
  const picture = pictures.get(cells);
  if (!picture) return "";
  if (picture.montage.cell >= LINED_CELL) return cellShapes(picture, at, mono);
  const canvas = document.createElement("canvas");
  paintCells(canvas, picture);
  return image(canvas.toDataURL(), at);
}

function sliderShape(slider: HTMLInputElement, at: Area, ink: Measure["ink"]): string {
  const { x, y } = middle(at);
  const part = Number(slider.value) / Math.max(1, Number(slider.max));
  const knob = at.x + 6 + part * (at.width - 12);
  return line({ x: at.x, y }, { x: 2 * x - at.x, y }, ink("line-strong"), 2) + box({ x: knob - 5, y: y - 5, width: 10, height: 10 }, { fill: ink("accent"), round: 5 });
}

const pen = document.createElement("canvas").getContext("2d")!;

/** Every word within `root` that a reader of the picture needs; buttons are for the page alone. */
function textOf(root: Element, { area }: Measure): string {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const parts: string[] = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement!;
    if (node.textContent!.trim() === "" || parent.closest("button, .hidden, .wire-card")) continue;
    const style = getComputedStyle(parent);
    pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const { fontBoundingBoxAscent: above, fontBoundingBoxDescent: below } = pen.measureText("x");
    for (const { text, found } of linesOf(node as Text, parent, style)) {
      const at = area(found);
      parts.push(words({ text, x: at.x, baseline: at.y + (at.height * above) / (above + below), width: at.width, size: parseFloat(style.fontSize), weight: style.fontWeight, family: style.fontFamily, colour: style.color }));
    }
  }
  return parts.join("");
}

/** A text node line by line as it is broken on the page; one that is cut there ends in the same three dots. */
function linesOf(node: Text, parent: Element, style: CSSStyleDeclaration): { text: string; found: DOMRect }[] {
  const range = document.createRange();
  const over = (start: number, stop: number): DOMRect => { range.setStart(node, start); range.setEnd(node, stop); return range.getBoundingClientRect(); };
  const { data } = node;
  if (style.textOverflow === "ellipsis" && parent.scrollWidth > parent.clientWidth) {
    const { x, width } = parent.getBoundingClientRect();
    const dots = (parseFloat(style.fontSize) * width) / parent.clientWidth;
    let stop = data.length;
    while (stop > 1 && over(0, stop).width > width - dots) stop -= 1;
    const { y, height } = over(0, stop);
    return [{ text: `${data.slice(0, stop)}…`, found: new DOMRect(x, y, width, height) }];
  }
  const lines: { text: string; found: DOMRect }[] = [];
  for (let start = 0; start < data.length;) {
    const top = over(start, start + 1).top;
    let stop = start + 1;
    while (stop < data.length && (over(stop, stop + 1).width === 0 || Math.abs(over(stop, stop + 1).top - top) < 2)) stop += 1;
    const text = data.slice(start, stop).trimEnd();
    if (text.trim() !== "") lines.push({ text, found: over(start, start + text.length) });
    start = stop;
  }
  return lines;
}
