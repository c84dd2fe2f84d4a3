// One property as a field. Text goes into the graph as it is typed; what the server makes of it stands below the field.
import { useEffect, useId, useRef } from "react";
import { setProperty } from "../model/graph.ts";
import { textProblem } from "../model/properties.ts";
import type { Block, Problem, Property } from "../model/types.ts";
import { app, edit, graphNow } from "../state/app.ts";
import { chooseNpy } from "../state/npyfile.ts";
import { useStore } from "../state/store.ts";
import { Problems } from "./BlockNode.tsx";
import { pickFile } from "./files.ts";

const LONG = new Set(["values"]);

export function Field({ block, property, problems }: { block: Block; property: Property; problems: readonly Problem[] }) {
  const id = useId();
  const value = block.properties[property.name] ?? property.default;
  const wanted = useStore(app, (state) => state.focusField === property.name);
  const box = useRef<HTMLInputElement & HTMLSelectElement & HTMLTextAreaElement>(null);
  useEffect(() => {
    if (!wanted) return;
    app.set({ focusField: null });
    box.current?.focus();
    box.current?.select?.();
  }, [wanted]);
  const change = (text: string): boolean => edit(setProperty(graphNow(), block.id, property.name, text), `${block.id} ${property.name}`);
  if (property.kind === "file") return <FileField block={block} problems={problems} />;
  if (property.name === "file_name") return null;
  if (property.kind === "slices") return <Problems problems={problems} />;
  const unreadable = property.choices.length > 0 ? null : textProblem(property.kind, value);
  const common = { id, ref: box, "aria-describedby": `${id}-help`, "aria-invalid": unreadable !== null || problems.length > 0 };
  let input;
  if (property.kind === "flag" && ["true", "false"].includes(value)) {
    input = <input {...common} type="checkbox" checked={value === "true"} onChange={(event) => change(event.target.checked ? "true" : "false")} />;
  } else if (property.choices.length > 0) {
    const known = property.choices.includes(value);
    input = (
      <select {...common} value={value} onChange={(event) => change(event.target.value)}>
        {!known && <option value={value}>{value} (not allowed)</option>}
        {property.choices.map((choice) => <option key={choice}>{choice}</option>)}
      </select>
    );
  } else if (property.kind === "values" && LONG.has(property.name) && block.op === "Tensor") {
    input = <textarea {...common} rows={4} value={value} spellCheck={false} onChange={(event) => change(event.target.value)} />;
  } else {
    input = <input {...common} type="text" value={value} spellCheck={false} autoComplete="off" inputMode={property.kind === "integer" ? "numeric" : "text"} onChange={(event) => change(event.target.value)} />;
  }
  return (
    <div className={`field field-${property.kind}`}>
      <label htmlFor={id}>{property.name === "attrs" ? "Attributes as text" : property.name}</label>
      {input}
      <p className="field-help" id={`${id}-help`}>{property.help}</p>
      {unreadable === null ? <Problems problems={problems} /> : <p className="problem problem-text">{unreadable}</p>}
    </div>
  );
}

function FileField({ block, problems }: { block: Block; problems: readonly Problem[] }) {
  return (
    <div className="field">
      <span className="field-label">file</span>
      <button type="button" onClick={() => pickFile(".npy", (file) => void chooseNpy(block.id, file))}>Open a .npy file…</button>
      <p className="field-help">{block.properties.file_name ? `${block.properties.file_name}${block.properties.crop ? ` [${block.properties.crop}]` : ""}` : "No file yet. The file stays on this machine."}</p>
      <Problems problems={problems} />
    </div>
  );
}

/** Any attribute as text, as enuSpace writes it: `data_format_ = NDHWC; padding_ = SAME;`. */
export const ATTRIBUTES: Property = { name: "attrs", kind: "attrs", default: "", choices: [], help: "Any property as text, for example data_format_ = NDHWC; it wins over the fields above", when: null };
