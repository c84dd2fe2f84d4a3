// "Add its gradient": the gradient block of a pooling block, wired as the op table says.
import { addBlock, blockOf, connect, makeBlock, setProperty, typeOf, wireInto } from "./graph.ts";
import { freePlace, type Sizes } from "./place.ts";
import type { Block, Catalogue, End, Graph } from "./types.ts";

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
  // Beside the block, so that what both share goes straight across; its other inputs stand below.
  const gradient = add(rule.op, block.x + 620, block.y);
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
      const tensor = add("Tensor", block.x + 310, top);
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
