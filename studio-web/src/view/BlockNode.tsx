// A block on the canvas: its name, its typed pins with what is wrong at them, its properties at a glance, and what it gives.
import { Handle, Position, type Node, type NodeProps } from "@xyflow/react";
import { memo } from "react";
import { typeOf, wiredPins } from "../model/graph.ts";
import { isShown } from "../model/properties.ts";
import type { Block, BlockType, Kind, Problem, Property } from "../model/types.ts";
import { app, derived, mend, select } from "../state/app.ts";
import { useStore } from "../state/store.ts";
import { BlockPicture } from "./BlockPicture.tsx";

export type BlockNodeType = Node<{ block: Block }, "block">;

const NO_PROBLEMS: readonly Problem[] = [];
/** Whether the result below says the property again: the shape and dtype of a tensor, the numbers of a shape or sequence. */
const isSeen = ({ kind, name }: Property, type: BlockType): boolean =>
  ["shape", "dtype"].includes(kind) || (name === "values" && type.outputs.every((output) => output.kind !== "tensor"));
/** Properties that are not told on the block itself: long or technical ones stay in the inspector. */
const HIDDEN = new Set(["file", "file_name", "crop", "attrs"]);

/** React Flow hands the position down too; a block does not draw itself by it, so moving 200 of them draws none anew. */
const sameBlock = (a: NodeProps<BlockNodeType>, b: NodeProps<BlockNodeType>): boolean => a.data === b.data && a.selected === b.selected;

export const BlockNode = memo(function BlockNode({ data: { block }, selected }: NodeProps<BlockNodeType>) {
  const type = useStore(app, (state) => typeOf(state.catalogue, block.op));
  const result = useStore(app, (state) => state.result?.blocks[block.id]);
  const problems = useStore(app, (state) => derived(state).problems.get(block.id)) ?? NO_PROBLEMS;
  // While the server does not answer, what is shown belongs to an earlier graph.
  const stale = useStore(app, (state) => state.runError !== null);
  const status = stale ? "stale" : problems.some((problem) => problem.code !== "unwired") ? "problem" : problems.length > 0 ? "waiting" : result?.status ?? "waiting";
  if (!type) return <div className="block block-problem"><header><h2>{block.op}</h2></header><p className="problem-text">This library has no block of this name</p></div>;
  const rows = Math.max(type.pins.length, type.outputs.length);
  return (
    <div className={`block block-${status}${selected ? " block-selected" : ""} block-${type.name === "Viewer" ? "wide" : "plain"} group-${type.group.toLowerCase()}`}>
      <header>
        <h2>{block.label || type.name}</h2>
        {block.label && <span className="block-op">{type.name}</span>}
        <span className={`status status-${status}`} title={STATUS[status]}><span className="hidden">{STATUS[status]}</span></span>
      </header>
      <div className="pins">
        {Array.from({ length: rows }, (_, row) => <PinRow key={row} type={type} row={row} problems={problems} />)}
      </div>
      <Problems problems={problems.filter((problem) => !type.pins.some((pin) => pin.name === problem.pin))} />
      <Summary block={block} type={type} />
      <BlockPicture block={block} type={type} />
    </div>
  );
}, sameBlock);

const STATUS: Record<string, string> = { ok: "has run", problem: "has a problem", waiting: "waits for its inputs", stale: "has not run as it is now" };

function PinRow({ type, row, problems }: { type: BlockType; row: number; problems: readonly Problem[] }) {
  const pin = type.pins[row];
  const output = type.outputs[row];
  const here = pin ? problems.filter((problem) => problem.pin === pin.name) : NO_PROBLEMS;
  const wrong = here.filter((problem) => problem.code !== "unwired");
  return (
    <>
      <div className="pin-row">
        {pin && <PinHandle name={pin.name} kind={pin.kind} side="in" wrong={wrong.length > 0} optional={!pin.required} open={here.length > wrong.length} />}
        {output && <PinHandle name={output.name} kind={output.kind} side="out" wrong={false} optional={false} open={false} />}
      </div>
      <Problems problems={wrong} />
    </>
  );
}

export const KIND_WORDS: Record<Kind, string> = { tensor: "tensor", shape: "shape", sequence: "sequence", indices: "indices", any: "any" };

function PinHandle({ name, kind, side, wrong, optional, open }: { name: string; kind: Kind; side: "in" | "out"; wrong: boolean; optional: boolean; open: boolean }) {
  return (
    <div className={`pin-end pin-${side}${wrong ? " pin-wrong" : ""}`} title={`${name}: ${KIND_WORDS[kind]}${optional ? " (optional)" : ""}`}>
      <Handle id={name} type={side === "in" ? "target" : "source"} position={side === "in" ? Position.Left : Position.Right} className={`pin kind-${kind}`} />
      <span className="pin-name">{name}{open && <span className="pin-open"> · not wired</span>}</span>
    </div>
  );
}

export function Problems({ problems }: { problems: readonly Problem[] }) {
  const readOnly = useStore(app, (state) => state.readOnly);
  return problems.map((problem, n) => (
    <div key={n} className={`problem${problem.code === "unwired" ? " problem-mild" : ""}`}>
      {problem.code !== "unwired" && problem.expected !== null && problem.got !== null
        ? <p className="problem-text" title={problem.message}><b>{problem.pin}</b>: expected <code>{problem.expected}</code>, got <code>{problem.got}</code></p>
        : <p className="problem-text">{problem.code === "unwired" ? `${problem.pin} is not wired` : problem.message}</p>}
      {problem.fix && !readOnly && <button type="button" className="fix nodrag" onClick={(event) => { event.stopPropagation(); mend(problem); }}>{problem.fix.label}</button>}
    </div>
  ));
}

/** The properties that matter now, as text; a click goes to the field in the inspector. */
function Summary({ block, type }: { block: Block; type: BlockType }) {
  // As a text, so that a change elsewhere in the graph draws no block anew.
  const wired = useStore(app, (state) => wiredPins(state.history.present, block.id));
  const ran = useStore(app, (state) => state.result?.blocks[block.id]?.status === "ok");
  const shown = type.properties.filter((property) => !wired.split(" ").includes(property.name) && !(ran && isSeen(property, type)) && !HIDDEN.has(property.name) && isShown(property, block, type) && worthSaying(block, property.name, property.default, type));
  const { attrs } = block.properties;
  if (shown.length === 0 && !attrs) return null;
  return (
    <dl className="summary">
      {shown.map((property) => (
        <div key={property.name} onDoubleClick={(event) => { event.stopPropagation(); select([block.id]); app.set({ focusField: property.name }); }}>
          <dt>{property.name}</dt>
          <dd>{block.properties[property.name] ?? property.default}</dd>
        </div>
      ))}
      {attrs && <div title="Attributes as text win over the properties above"><dt>attributes</dt><dd>{attrs}</dd></div>}
    </dl>
  );
}


/** Flags, numbers and the layout at their defaults say nothing; sizes always do. Typed numbers say by themselves that they are. */
function worthSaying(block: Block, name: string, normal: string, type: BlockType): boolean {
  const text = block.properties[name] ?? normal;
  if (text === "") return false;
  const kind = type.properties.find((property) => property.name === name)!.kind;
  if (name === "fill" && text === "values") return false;
  return !((["flag", "integer", "paddings"].includes(kind) || name === "data_format") && text === normal);
}
