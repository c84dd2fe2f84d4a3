// "Add its gradient": the gradient block of a pooling block, wired as the op table says.
import { addBlock, blockOf, connect, makeBlock, setProperty, typeOf, wireInto } from "./graph.ts";
import type { Block, Catalogue, End, Graph } from "./types.ts";

export interface Size { readonly width: number; readonly height: number }
export type Sizes = (id: string) => Size;

export interface GradientOptions {
  readonly fill: "ones" | "one-hot";
  readonly dtype: string | null;             // of the block's first output, where it is known
  readonly shape: readonly number[] | null;  // of the same, for the place of the one in one-hot
  readonly sizes: Sizes;
}

const GAP = 56;

export function addGradient(graph: Graph, catalogue: Catalogue, id: string, options: GradientOptions): { graph: Graph; ids: string[]; gradient: string } | null {
  const block = blockOf(graph, id);
  const rule = block && typeOf(catalogue, block.op)?.gradient;
  const type = rule && typeOf(catalogue, rule.op);
  if (!block || !rule || !type) return null;
  const ids: string[] = [];
  let now = graph;
  const top = block.y + options.sizes(id).height + GAP;
  const add = (op: string, x: number, y: number): Block => {
    const made = makeBlock(now, typeOf(catalogue, op)!, x, y);
    const placed = { ...made, ...freePlace(now, made, options.sizes) };
    now = addBlock(now, placed);
    ids.push(placed.id);
    return placed;
  };
  const shapeOf = (source: End, x: number, y: number): End => {
    const there = now.blocks.find((other) => other.op === "ShapeOf" && same(wireInto(now, other.id, "tensor")?.from, source));
    if (there) return [there.id, "shape"];
    const made = add("ShapeOf", x, y);
    now = connect(now, { from: source, to: [made.id, "tensor"] });
    return [made.id, "shape"];
  };
  const gradient = add(rule.op, block.x + 620, top);
  for (const name of rule.copy) if (block.properties[name] !== undefined) now = setProperty(now, gradient.id, name, block.properties[name]);
  if (block.properties.attrs) now = setProperty(now, gradient.id, "attrs", block.properties.attrs);
  const first = typeOf(catalogue, block.op)!.outputs[0]!.name;
  for (const [pin, source] of Object.entries(rule.wiring)) {
    let from: End | undefined;
    if (source.from === "input") from = wireInto(now, id, source.name)?.from;
    else if (source.from === "output") from = [id, source.name];
    else if (source.from === "shape_of") {
      const feeding = wireInto(now, id, source.name)?.from;
      from = feeding && shapeOf(feeding, block.x, top);
    } else {
      const shape = shapeOf([id, first], block.x, top + 120);
      const tensor = add("Tensor", block.x + 290, top + 60);
      now = setProperty(now, tensor.id, "fill", options.fill);
      if (options.dtype) now = setProperty(now, tensor.id, "dtype", options.dtype);
      if (options.fill === "one-hot" && options.shape) now = setProperty(now, tensor.id, "position", options.shape.map((size) => Math.floor(size / 2)).join(","));
      now = connect(now, { from: shape, to: [tensor.id, "shape"] });
      from = [tensor.id, "tensor"];
    }
    if (from) now = connect(now, { from, to: [gradient.id, pin] });
  }
  return { graph: now, ids, gradient: gradient.id };
}

const same = (a: End | undefined, b: End): boolean => a !== undefined && a[0] === b[0] && a[1] === b[1];

/** Moves a block down until it overlaps none. */
export function freePlace(graph: Graph, block: Block, sizes: Sizes): { x: number; y: number } {
  const own = sizes(block.id);
  let { y } = block;
  for (let tries = 0; tries < 200; tries += 1) {
    const hit = graph.blocks.find((other) => {
      const size = sizes(other.id);
      return block.x < other.x + size.width + 16 && other.x < block.x + own.width + 16 && y < other.y + size.height + 16 && other.y < y + own.height + 16;
    });
    if (!hit) break;
    y = Math.round(hit.y + sizes(hit.id).height + 24);
  }
  return { x: block.x, y };
}
