// Where a new block goes: near the place that was meant, in sight, and on top of no other; and what it starts with there.
import { blockOf, typeOf } from "./graph.ts";
import type { Block, BlockType, Catalogue, Graph } from "./types.ts";

export interface Size { readonly width: number; readonly height: number }
export type Sizes = (id: string) => Size;
export interface Place { readonly x: number; readonly y: number }
export type Area = Place & Size;

const BETWEEN = 16;
const STEP = 24;
/** From the top of a block to the middle of its first pin. */
export const FIRST_PIN = 52;

/** About as large as the block will be once it has run. */
export function expectedSize(type: BlockType): Size {
  const pictures = type.outputs.some((output) => output.kind === "tensor" || output.kind === "indices");
  const rows = Math.max(type.pins.length, type.outputs.length);
  const properties = type.properties.filter((property) => property.when === null).length;
  if (type.outputs.length === 0) return { width: 424, height: 300 };
  return { width: 262, height: 48 + 25 * rows + 22 * Math.min(4, properties) + (pictures ? 150 : 24) };
}

const overlaps = (a: Area, b: Area): boolean =>
  a.x < b.x + b.width + BETWEEN && b.x < a.x + a.width + BETWEEN && a.y < b.y + b.height + BETWEEN && b.y < a.y + a.height + BETWEEN;

export const inside = (area: Area, view: Area): boolean =>
  area.x >= view.x && area.y >= view.y && area.x + area.width <= view.x + view.width && area.y + area.height <= view.y + view.height;

/** The free place in `view` that is nearest to `wanted`; where the view has none, the first free one below. A place that a person
 * pointed at (`exact`) is taken as it is if it is free. */
export function freeSpot(graph: Graph, wanted: Place, size: Size, sizes: Sizes, view: Area, exact: boolean): Place {
  const taken = graph.blocks.map((block) => ({ x: block.x, y: block.y, ...sizes(block.id) }));
  const isFree = (place: Place): boolean => !taken.some((other) => overlaps({ ...place, ...size }, other));
  if (isFree(wanted) && (exact || inside({ ...wanted, ...size }, view))) return wanted;
  const away = (place: Place): number => Math.abs(place.x - wanted.x) + Math.abs(place.y - wanted.y);
  let best: Place | null = null;
  for (let y = view.y + BETWEEN; y + size.height <= view.y + view.height; y += STEP) {
    for (let x = view.x + BETWEEN; x + size.width <= view.x + view.width; x += STEP) {
      if ((best === null || away({ x, y }) < away(best)) && isFree({ x, y })) best = { x, y };
    }
  }
  return best ?? below(taken, { ...wanted, ...size });
}

/** Moves down until nothing overlaps. */
function below(taken: readonly Area[], area: Area): Place {
  let { y } = area;
  for (let tries = 0; tries <= taken.length; tries += 1) {
    const hit = taken.find((other) => overlaps({ ...area, y }, other));
    if (!hit) break;
    y = Math.round(hit.y + hit.height + STEP);
  }
  return { x: area.x, y };
}

/** Moves a block down until it overlaps none. */
export const freePlace = (graph: Graph, block: Block, sizes: Sizes): Place =>
  below(graph.blocks.map((other) => ({ x: other.x, y: other.y, ...sizes(other.id) })), { x: block.x, y: block.y, ...sizes(block.id) });

/** How far to move copies of blocks so that they lie on no other: below, else right of where they were; else a little aside. */
export function copyOffset(graph: Graph, piece: Graph, sizes: Sizes): Place {
  const area = ({ id, x, y }: Block): Area => ({ x, y, ...sizes(id) });
  const taken = graph.blocks.map(area);
  const copies = piece.blocks.map(area);
  const span = (start: (at: Area) => number, length: (at: Area) => number): number =>
    Math.max(...copies.map((at) => start(at) + length(at))) - Math.min(...copies.map(start)) + STEP;
  const [right, down] = [span((at) => at.x, (at) => at.width), span((at) => at.y, (at) => at.height)];
  for (let n = 1; n <= 6; n += 1) {
    for (const { x, y } of [{ x: 0, y: n * down }, { x: n * right, y: 0 }]) {
      if (!copies.some((at) => taken.some((other) => overlaps({ ...at, x: at.x + x, y: at.y + y }, other)))) return { x, y };
    }
  }
  return { x: 2 * STEP, y: 2 * STEP };
}

/** A shape for a new block beside `near` (or in the graph at large): that of its neighbour, else one of the rank of the ops around it. */
export function startingShape(graph: Graph, catalogue: Catalogue, near: string | null): string | null {
  const beside = near === null ? undefined : blockOf(graph, near);
  const type = beside && typeOf(catalogue, beside.op);
  const typed = type?.properties.find((property) => property.kind === "shape");
  if (beside && typed) return beside.properties[typed.name] ?? typed.default;
  const isOp = (block: Block): boolean => (typeOf(catalogue, block.op)?.spatial ?? 0) > 0;
  const op = beside && isOp(beside) ? beside : graph.blocks.findLast(isOp);
  if (!op) return null;
  const { spatial, formats } = typeOf(catalogue, op.op)!;
  const sizes = new Array<string>(spatial).fill("4");
  return ((op.properties.data_format ?? formats[0] ?? "").startsWith("NC") ? ["1", "1", ...sizes] : ["1", ...sizes, "1"]).join(",");
}

/** The block with the shape that fits where it is put. */
export function shapedFor(block: Block, type: BlockType, shape: string | null): Block {
  const typed = type.properties.find((property) => property.kind === "shape");
  return shape === null || !typed ? block : { ...block, properties: { ...block.properties, [typed.name]: shape } };
}

/** Below this zoom the small print of a block, 13.5 pixels, is smaller than 10. */
const READABLE = 0.745;
/** A page that would have to be smaller than this to be whole is a map: its words cannot be read either way. */
const MAP = 0.5;

/** What a fitted canvas shows: all of the page at any size; all of it, or its beginning where all would be a little too small to be
 * read; or a size that can be read in any case. */
export type Show = "whole" | "read" | "near";

/** Where the canvas stands so that `bounds` is in sight, in the middle where there is room and from its beginning where there is not. */
export function viewportFor(bounds: Area, room: Size, edges: { top: number; right: number; bottom: number; left: number }, most: number, show: Show): Place & { readonly zoom: number } {
  const [wide, high] = [room.width - edges.left - edges.right, room.height - edges.top - edges.bottom];
  const whole = Math.min(most, wide / Math.max(1, bounds.width), high / Math.max(1, bounds.height));
  const zoom = show === "near" || (show === "read" && whole >= MAP) ? Math.max(whole, READABLE) : Math.max(whole, 0.04);
  const along = (start: number, length: number, first: number, space: number): number => first + Math.max(0, space - length * zoom) / 2 - start * zoom;
  return { x: along(bounds.x, bounds.width, edges.left, wide), y: along(bounds.y, bounds.height, edges.top, high), zoom };
}
