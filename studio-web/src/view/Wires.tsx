// Wiring without a mouse: each pin is a list of the outputs that could feed it, each output a list of the pins it could go to.
import { useEffect } from "react";
import { blockOf, connect, disconnect, typeOf, wireInto } from "../model/graph.ts";
import { candidates } from "../model/wiring.ts";
import { shapeText } from "../model/tensor.ts";
import type { Block, BlockType, End, Problem } from "../model/types.ts";
import { app, contentOf, edit, graphNow } from "../state/app.ts";
import { useStore } from "../state/store.ts";
import { KIND_WORDS, Problems } from "./BlockNode.tsx";
import { Icon } from "./Icon.tsx";

const SEPARATOR = "/";
const encode = (end: End): string => end.join(SEPARATOR);
const decode = (text: string): End => [text.slice(0, text.indexOf(SEPARATOR)), text.slice(text.indexOf(SEPARATOR) + 1)];

const names = new WeakMap<readonly Block[], Map<string, string>>();

/** How a person knows a block: its label or op, with its number where there are several of the kind. */
export function blockName(id: string): string {
  const { blocks } = graphNow();
  let known = names.get(blocks);
  if (!known) {
    const alike = new Map<string, Block[]>();
    for (const block of blocks) if (!block.label) alike.set(block.op, [...(alike.get(block.op) ?? []), block]);
    known = new Map(blocks.map((block) => [block.id, block.label || block.op]));
    for (const [op, several] of alike) if (several.length > 1) several.forEach((block, n) => known!.set(block.id, `${op} ${n + 1}`));
    names.set(blocks, known);
  }
  return known.get(id) ?? id;
}

function endText(end: End): string {
  const info = app.get().result?.blocks[end[0]]?.outputs[end[1]];
  const block = blockOf(graphNow(), end[0]);
  const single = block && typeOf(app.get().catalogue, block.op)?.outputs.length === 1;
  return `${blockName(end[0])}${single ? "" : `.${end[1]}`}${info && info.kind !== "shape" ? ` ${shapeText(info.shape)}` : ""}`;
}

export function Wires({ block, type, problems }: { block: Block; type: BlockType; problems: readonly Problem[] }) {
  const graph = useStore(app, contentOf);
  const catalogue = useStore(app, (state) => state.catalogue);
  useStore(app, (state) => state.result);
  const wanted = useStore(app, (state) => (type.properties.length === 0 ? state.focusField : null));
  useEffect(() => {
    if (wanted === null) return;
    app.set({ focusField: null });
    document.getElementById(`wire-in-${wanted}`)?.focus();
  }, [wanted]);
  return (
    <section>
      <h3>Wires</h3>
      {type.pins.map((pin) => {
        const wire = wireInto(graph, block.id, pin.name);
        const ends = candidates(graph, catalogue, { end: [block.id, pin.name], direction: "in" });
        const value = wire ? encode(wire.from) : "";
        const id = `wire-in-${pin.name}`;
        return (
          <div className="field" key={pin.name}>
            <label htmlFor={id}><span className={`swatch kind-${pin.kind}`} aria-hidden="true" /> {pin.name} <span className="kind-word">{KIND_WORDS[pin.kind]}{pin.required ? "" : ", optional"}</span></label>
            <select id={id} value={value} onChange={(event) => edit(event.target.value === "" ? disconnect(graphNow(), [block.id, pin.name]) : connect(graphNow(), { from: decode(event.target.value), to: [block.id, pin.name] }))}>
              <option value="">not wired</option>
              {wire && !ends.some((end) => encode(end) === value) && <option value={value}>{endText(wire.from)}</option>}
              {ends.map((end) => <option key={encode(end)} value={encode(end)}>{endText(end)}</option>)}
            </select>
            <Problems problems={problems.filter((problem) => problem.pin === pin.name)} />
          </div>
        );
      })}
      {type.outputs.map((output) => {
        const from: End = [block.id, output.name];
        const goes = graph.wires.filter((wire) => wire.from[0] === block.id && wire.from[1] === output.name);
        const open = candidates(graph, catalogue, { end: from, direction: "out" }).filter((end) => !wireInto(graph, ...end));
        const id = `wire-out-${output.name}`;
        return (
          <div className="field" key={output.name}>
            <label htmlFor={id}><span className={`swatch kind-${output.kind}`} aria-hidden="true" /> {output.name} <span className="kind-word">{KIND_WORDS[output.kind]}, out</span></label>
            {goes.map((wire) => (
              <div className="wire-row" key={encode(wire.to)}>
                <span>→ {blockName(wire.to[0])}.{wire.to[1]}</span>
                <button type="button" className="icon small" aria-label={`Remove the wire to ${blockName(wire.to[0])} ${wire.to[1]}`} onClick={() => edit(disconnect(graphNow(), wire.to))}><Icon name="close" /></button>
              </div>
            ))}
            <select id={id} value="" onChange={(event) => { if (event.target.value) edit(connect(graphNow(), { from, to: decode(event.target.value) })); }}>
              <option value="">wire to…</option>
              {open.map((end) => <option key={encode(end)} value={encode(end)}>{blockName(end[0])}.{end[1]}</option>)}
            </select>
          </div>
        );
      })}
    </section>
  );
}
