// A .npy file that is over the limit, or whose type only its owner knows: what part of it, and as what.
import { useState } from "react";
import { cropShape, isWhole, suggestCrop, type Crop } from "../model/npy.ts";
import { count, shapeText } from "../model/tensor.ts";
import { app, type OpenRequest } from "../state/app.ts";
import { maybeBrainFloat, openNpy } from "../state/npyfile.ts";
import { useStore } from "../state/store.ts";
import { closeDialog, Frame } from "./Dialogs.tsx";

export function OpenNpy({ request }: { request: OpenRequest }) {
  const limit = useStore(app, (state) => state.catalogue.limits.elements);
  const { header, file } = request;
  const [crop, setCrop] = useState<Crop>(() => suggestCrop(header.shape, limit));
  const [brainFloat, setBrainFloat] = useState(header.dtype === "bfloat16");
  const shape = cropShape(crop);
  const total = count(shape);
  const bad = shape.some((size, axis) => !(size > 0) && header.shape[axis] !== 0) || total > limit;
  const set = (axis: number, end: "start" | "stop", text: string): void =>
    setCrop((now) => ({ ...now, [end]: now[end].map((value, k) => (k === axis ? Math.max(0, Math.min(header.shape[axis]!, Math.trunc(Number(text) || 0))) : value)) }));
  const whole = isWhole(header.shape, crop) && header.littleEndian;
  return (
    <Frame title={`Open ${file.name}`}>
      <p>{shapeText(header.shape)} {header.dtype}, {count(header.shape).toLocaleString("en")} elements{count(header.shape) > limit ? `; a tensor here has at most ${limit.toLocaleString("en")}. Choose a part of it:` : "."}</p>
      <table className="crop">
        <thead><tr><th scope="col">axis</th><th scope="col">from</th><th scope="col">to (excluded)</th><th scope="col">of</th></tr></thead>
        <tbody>
          {header.shape.map((size, axis) => (
            <tr key={axis}><th scope="row">{axis}</th>
              <td><input type="number" min={0} max={Math.max(0, size - 1)} value={crop.start[axis]} aria-label={`axis ${axis} from`} onChange={(event) => set(axis, "start", event.target.value)} /></td>
              <td><input type="number" min={Math.min(1, size)} max={size} value={crop.stop[axis]} aria-label={`axis ${axis} to`} onChange={(event) => set(axis, "stop", event.target.value)} /></td>
              <td>{size}</td></tr>
          ))}
        </tbody>
      </table>
      <p role="status" className={bad ? "problem-text" : "quiet-text"}>{shapeText(shape)} has {total.toLocaleString("en")} elements{total > limit ? `, over the limit of ${limit.toLocaleString("en")}` : ""}</p>
      {maybeBrainFloat(header) && <label className="check"><input type="checkbox" checked={brainFloat} disabled={header.dtype === "bfloat16"} onChange={(event) => setBrainFloat(event.target.checked)} /> these 2-byte values are bfloat16</label>}
      <div className="button-row">
        <button type="button" className="primary" disabled={bad} onClick={() => void openNpy(request, whole ? null : crop, brainFloat ? "bfloat16" : null)}>Open this part</button>
        <button type="button" onClick={closeDialog}>Cancel</button>
      </div>
    </Frame>
  );
}
