// Everything about the selected block, reachable by keyboard: properties, wires, view, downloads, its gradient.
import { setLabel, setView, tensorKey, typeOf } from "../model/graph.ts";
import { isShown } from "../model/properties.ts";
import { LABEL_LIMIT } from "../model/reading.ts";
import { shapeText } from "../model/tensor.ts";
import type { Block, BlockType, Problem, View } from "../model/types.ts";
import { amend, app, contentOf, derived, edit, gradientOf, graphNow, pastePiece, removeSelected, select, selectedCopy } from "../state/app.ts";
import { useStore } from "../state/store.ts";
import { Problems } from "./BlockNode.tsx";
import { ATTRIBUTES, Field } from "./Fields.tsx";
import { saveTensor } from "./files.ts";
import { Icon } from "./Icon.tsx";
import { PageInspector } from "./PageInspector.tsx";
import { Wires } from "./Wires.tsx";

const NONE: readonly Problem[] = [];

export function Inspector() {
  const graph = useStore(app, contentOf);
  const selected = useStore(app, (state) => state.selected);
  const catalogue = useStore(app, (state) => state.catalogue);
  const chosen = graph.blocks.filter((block) => selected.has(block.id));
  const only = chosen.length === 1 ? chosen[0] : undefined;
  const type = only && typeOf(catalogue, only.op);
  return (
    <aside className="inspector" aria-label="Inspector">
      {only && type ? <BlockInspector key={only.id} block={only} type={type} /> : chosen.length > 0 ? <Several count={chosen.length} /> : <PageInspector />}
    </aside>
  );
}

function Several({ count }: { count: number }) {
  return (
    <>
      <h2>{count} block{count === 1 ? "" : "s"} selected</h2>
      <p className="quiet-text">Drag or use the arrow keys to move what is selected. Ctrl C copies it, Delete removes it.</p>
      <div className="button-row"><button type="button" onClick={() => pastePiece(selectedCopy())}><Icon name="copy" /> Duplicate</button><button type="button" onClick={removeSelected}><Icon name="trash" /> Remove</button></div>
    </>
  );
}

function BlockInspector({ block, type }: { block: Block; type: BlockType }) {
  const problems = useStore(app, (state) => derived(state).problems.get(block.id)) ?? NONE;
  const names = new Set([...type.pins.map((pin) => pin.name), ...type.properties.map((property) => property.name), "attrs"]);
  const at = (name: string): Problem[] => problems.filter((problem) => problem.pin === name);
  const isOp = type.family !== null || type.spatial > 0;
  return (
    <>
      <div className="inspector-head">
        <h2>{type.name}</h2>
        <button type="button" className="icon" onClick={() => select([])} aria-label="Close: show the page" title="Show the page"><Icon name="close" /></button>
      </div>
      <p className="summary-text">{type.summary}</p>
      {type.formula && <p className="formula-text">{type.formula}</p>}
      <Problems problems={problems.filter((problem) => problem.pin === null || !names.has(problem.pin))} />
      {type.gradient && (
        <div className="button-row gradient-row">
          <button type="button" className="primary" onClick={() => gradientOf(block.id, "ones")} title="Adds the gradient block, wired (G)"><Icon name="gradient" /> Add its gradient</button>
          <button type="button" onClick={() => gradientOf(block.id, "one-hot")} title="The same with a gradient of one single 1">one-hot</button>
        </div>
      )}
      {(type.properties.length > 0 || isOp) && (
        <section>
          <h3>Properties</h3>
          {type.properties.filter((property) => isShown(property, block, type)).map((property) => <Field key={property.name} block={block} property={property} problems={at(property.name)} />)}
          {isOp && !type.properties.some((property) => property.name === "attrs") && <Field block={block} property={ATTRIBUTES} problems={at("attrs")} />}
        </section>
      )}
      <Wires block={block} type={type} problems={problems} />
      <Outputs block={block} type={type} />
      <section>
        <h3>Block</h3>
        <div className="field"><label htmlFor="block-label">label</label><input id="block-label" type="text" maxLength={LABEL_LIMIT} value={block.label ?? ""} placeholder={type.name} onChange={(event) => edit(setLabel(graphNow(), block.id, event.target.value), `${block.id} label`)} /></div>
        <div className="button-row"><button type="button" onClick={() => pastePiece(selectedCopy())}><Icon name="copy" /> Duplicate</button><button type="button" onClick={removeSelected}><Icon name="trash" /> Remove</button></div>
      </section>
      <About type={type} />
    </>
  );
}

function Outputs({ block, type }: { block: Block; type: BlockType }) {
  const result = useStore(app, (state) => state.result?.blocks[block.id]);
  const infos = type.outputs.flatMap((output) => (result?.outputs[output.name] ? [{ name: output.name, info: result.outputs[output.name]! }] : []));
  const pictures = infos.filter(({ info }) => info.kind === "tensor" || info.kind === "indices");
  const view = (next: View): void => amend(setView(graphNow(), block.id, next));
  const isViewer = type.outputs.length === 0;
  if (infos.length === 0 && !isViewer) return null;
  return (
    <section>
      <h3>Result</h3>
      {infos.map(({ name, info }) => (
        <div key={tensorKey([block.id, name])} className="result-row">
          <span><b>{name}</b> {shapeText(info.shape)} {info.dtype}</span>
          <span className="button-row">
            <button type="button" className="small" aria-label={`Save ${name} as .npy`} onClick={() => void saveTensor(info, "npy", `${type.name}-${name}`)}>.npy</button>
            <button type="button" className="small" aria-label={`Save ${name} as CSV`} onClick={() => void saveTensor(info, "csv", `${type.name}-${name}`)}>CSV</button>
          </span>
        </div>
      ))}
      {pictures.length > 1 && (
        <div className="field"><label htmlFor="view-output">shown</label>
          <select id="view-output" value={block.ui?.output ?? pictures[0]!.name} onChange={(event) => view({ output: event.target.value })}>{pictures.map(({ name }) => <option key={name}>{name}</option>)}</select></div>
      )}
      {(pictures.length > 0 || isViewer) && (
        <div className="field"><label htmlFor="view-scale">colours</label>
          <select id="view-scale" value={block.ui?.scale ?? ""} onChange={(event) => view({ scale: (event.target.value || undefined) as View["scale"] })}>
            <option value="">automatic</option><option value="sequential">lowest to highest</option><option value="diverging">about 0</option>
          </select></div>
      )}
      {result?.call && <p className="call">{result.call}</p>}
    </section>
  );
}

function About({ type }: { type: BlockType }) {
  if (!type.help && !type.example) return null;
  return (
    <details className="about">
      <summary>About {type.name}</summary>
      {type.help && <p className="help-text">{type.help}</p>}
      {type.dtypes.length > 0 && <p className="quiet-text">dtypes: {type.dtypes.join(", ")}</p>}
      {type.example && <pre tabIndex={0}>{type.example}</pre>}
    </details>
  );
}
