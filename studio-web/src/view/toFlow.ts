// The document as React Flow wants it. Blocks that did not change give the same objects, so that React Flow skips them.
import { onlyMoved, tensorKey } from "../model/graph.ts";
import type { Block, BlockType, End, Graph, Output } from "../model/types.ts";
import type { BlockNodeType } from "./BlockNode.tsx";
import type { WireEdgeType } from "./WireEdge.tsx";

const cache = new WeakMap<Block, BlockNodeType>();

/** Unchanged blocks give the same node object; moved ones keep their data, so that they are not drawn anew. */
export function toNode(block: Block, selected: boolean, before: BlockNodeType | undefined): BlockNodeType {
  const known = before && onlyMoved(before.data.block, block) ? before : cache.get(block);
  if (known && Boolean(known.selected) === selected && known.position.x === block.x && known.position.y === block.y) return known;
  const node: BlockNodeType = {
    ...(before ?? { type: "block" }), id: block.id, type: "block", position: { x: block.x, y: block.y }, selected,
    data: before && onlyMoved(before.data.block, block) ? before.data : { block }, ariaLabel: `${block.label ? `${block.label}, ` : ""}${block.op} block`,
  };
  cache.set(block, node);
  return node;
}

/** A wire to a pin that this library does not have stays in the graph, where the run tells of it, but cannot be drawn. */
export function toEdges(graph: Graph, types: ReadonlyMap<string, BlockType | undefined>, selected: ReadonlySet<string>): WireEdgeType[] {
  const output = ([id, pin]: End): Output | undefined => types.get(id)?.outputs.find((entry) => entry.name === pin);
  const drawable = graph.wires.filter((wire) => output(wire.from) && types.get(wire.to[0])?.pins.some((pin) => pin.name === wire.to[1]));
  return drawable.map((wire) => ({
    id: tensorKey(wire.to), type: "wire", data: {}, source: wire.from[0], sourceHandle: wire.from[1], target: wire.to[0], targetHandle: wire.to[1],
    className: `wire kind-${output(wire.from)!.kind}`, selected: selected.has(tensorKey(wire.to)),
    ariaLabel: `wire from ${wire.from.join(" ")} to ${wire.to.join(" ")}`,
  }));
}
