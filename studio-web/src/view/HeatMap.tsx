// One tensor as a heat-map with its sliders. Hover, click and arrow keys choose a cell; the marks follow without a request.
import { memo, useCallback, useEffect, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import type { CellPicture } from "../model/cells.ts";
import { GAP, hit, montage, type Montage, type Room } from "../model/montage.ts";
import type { Cell, Mark } from "../model/relations.ts";
import { makeScale, rangeOf, scaleKind } from "../model/scale.ts";
import { clampIndex, flatIndex, grid, layoutOf, sliderAxes } from "../model/slices.ts";
import { setView } from "../model/graph.ts";
import { exactText, shapeText, type Tensor } from "../model/tensor.ts";
import type { TensorInfo, View } from "../model/types.ts";
import { amend, app, derived, graphNow } from "../state/app.ts";
import { activeCell, cellStore, hover, pin, walkCell } from "../state/cell.ts";
import { useStore } from "../state/store.ts";
import { useTensor } from "../state/tensors.ts";
import { themeStore } from "../state/theme.ts";
import { paintCells, paintMarks, pictures } from "./paint.ts";
import { Legend } from "./Legend.tsx";

interface Props {
  readonly owner: string;          // block whose view settings are used
  readonly tensorKey: string;
  readonly info: TensorInfo;
  readonly view: View | undefined;
  readonly room: Room;
  readonly name: string;
}

/** Volumes of up to 16 slices are laid out side by side where their cells stay readable. */
const MOST_PANELS = 16;
const LEAST_CELL = 5;
const MOST_NUMBERS = 48;
const NONE: readonly never[] = [];

function arrange(info: TensorInfo, axes: readonly number[] | null, view: View | undefined, room: Room): { layout: ReturnType<typeof layoutOf>; picture: Montage; panelAxis: number | null; canPanel: boolean } {
  const layout = layoutOf(info.shape.length, axes);
  const limit = Math.floor(Math.min(room.width, room.height));
  const length = (axis: number | null): number => (axis === null ? 1 : info.shape[axis]!);
  const step = Math.max(1, Math.ceil(Math.max(length(layout.rows), length(layout.columns)) / limit));
  const rows = Math.ceil(length(layout.rows) / step);
  const columns = Math.ceil(length(layout.columns) / step);
  const panels = length(layout.panels);
  const together = montage(rows, columns, panels, room);
  const canPanel = panels > 1 && panels <= MOST_PANELS && together.cell >= LEAST_CELL;
  const shown = canPanel && view?.slices !== "one";
  return { layout, picture: shown ? together : montage(rows, columns, 1, room), panelAxis: shown ? layout.panels : null, canPanel };
}

export const HeatMap = memo(function HeatMap(props: Props) {
  const tensor = useTensor(props.info);
  if (props.info.shape.some((size) => size === 0)) return <p className="empty-tensor">{shapeText(props.info.shape)} has no elements</p>;
  if (!tensor) return <div className="heat-wait" style={{ height: 72 }}>reading {shapeText(props.info.shape)}…</div>;
  return <Drawn {...props} tensor={tensor} />;
});

function Drawn({ owner, tensorKey, info, view, room, name, tensor }: Props & { tensor: Tensor }) {
  const axes = useStore(app, (state) => derived(state).axes.get(tensorKey)) ?? null;
  const isGradient = useStore(app, (state) => derived(state).gradients.has(tensorKey));
  const theme = useStore(themeStore, (state) => state.theme);
  const marks = useStore(cellStore, (state) => (state.marks.get(tensorKey) ?? NONE) as readonly Mark[]);
  const winners = useStore(cellStore, (state) => (state.winners.get(tensorKey) ?? NONE) as readonly (readonly number[])[]);
  const { layout, picture, panelAxis, canPanel } = useMemo(() => arrange(info, axes, view, room), [info, axes, view, room]);

  // While a cell is chosen elsewhere, slices that would hide its window follow it.
  const own = useMemo(() => clampIndex(tensor.shape, view?.index ?? []), [tensor.shape, view?.index]);
  const followed = own.map((at, axis) => {
    const span = marks[0]?.spans[axis];
    return span && span[0] < span[1] && axis !== layout.rows && axis !== layout.columns && axis !== panelAxis ? Math.max(span[0], Math.min(span[1] - 1, at)) : at;
  });
  const followedText = followed.join();
  const index = useMemo(() => followedText.split(",").map(Number), [followedText]);

  const range = useMemo(() => (info.minimum !== null && info.maximum !== null ? { low: info.minimum, high: info.maximum, nan: info.nan, infinite: info.infinite } : rangeOf(tensor.values)), [info, tensor]);
  const kind = view?.scale ?? scaleKind(isGradient, range);
  const scale = useMemo(() => makeScale(kind, range, theme), [kind, range, theme]);
  const limit = Math.floor(Math.min(room.width, room.height));
  const grids = useMemo(() => Array.from({ length: picture.panels }, (_, panel) => grid(tensor, layout, panelAxis === null ? index : index.with(panelAxis, panel), limit)), [tensor, layout, panelAxis, index, picture.panels, limit]);
  const step = grids[0]!.step;

  const captions = useMemo(() => (panelAxis === null ? [] : grids.map((_, panel) => `${layout.names[panelAxis]} ${panel}`)), [panelAxis, grids, layout]);
  const shown = useMemo(() => ({ montage: picture, grids, captions, scale, theme }), [picture, grids, captions, scale, theme]);
  const address = usePicture(shown);
  const cells = useRef<HTMLDivElement>(null);
  useEffect(() => { pictures.set(cells.current!, shown); }, [shown]);
  const overlay = useRef<HTMLCanvasElement>(null);
  const marked = marks.length > 0 || winners.length > 0;
  useEffect(() => {
    if (overlay.current) paintMarks(overlay.current, { montage: picture, step, layout, panelAxis, index, marks, winners, theme });
  }, [picture, step, layout, panelAxis, index, marks, winners, theme]);

  const cellAt = useCallback((event: PointerEvent): Cell | null => {
    const box = event.currentTarget.getBoundingClientRect();
    const zoom = box.width / picture.width;
    const found = hit(picture, (event.clientX - box.left) / zoom, (event.clientY - box.top) / zoom);
    if (!found) return null;
    let at = index;
    if (layout.rows !== null) at = at.with(layout.rows, Math.min(info.shape[layout.rows]! - 1, found.row * step));
    if (layout.columns !== null) at = at.with(layout.columns, Math.min(info.shape[layout.columns]! - 1, found.column * step));
    if (panelAxis !== null) at = at.with(panelAxis, found.panel);
    return { key: tensorKey, index: at };
  }, [picture, index, layout, panelAxis, step, info.shape, tensorKey]);

  const onKey = (event: KeyboardEvent): void => {
    const active = activeCell(cellStore.get());
    const here: Cell = active?.key === tensorKey ? active : { key: tensorKey, index };
    if (event.key === "Enter" || event.key === " ") pin(here);
    else if (event.key === "Escape") pin(null);
    else if (active?.key !== tensorKey && event.key.startsWith("Arrow")) pin(here);
    else if (!walkCell(event.key, here)) return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div className="heat nodrag nopan">
      <div className="heat-cells" ref={cells} style={{ width: picture.width, height: picture.height }} tabIndex={0} role="application"
        aria-roledescription="heat-map" aria-label={`${name}, shape ${shapeText(info.shape)}, ${info.dtype}. Arrow keys walk, Enter pins a cell.`}
        data-tensor={tensorKey}
        onPointerMove={(event) => hover(cellAt(event))} onPointerLeave={() => hover(null)}
        onClick={(event) => { const cell = cellAt(event as unknown as PointerEvent); if (cell) pin(cell); }} onKeyDown={onKey}>
        {address && <img src={address} alt="" draggable={false} decoding="sync" width={picture.width} height={picture.height} />}
        {marked && <canvas ref={overlay} className="heat-overlay" style={{ width: picture.width + GAP, height: picture.height + GAP, left: -GAP / 2, top: -GAP / 2 }} />}
      </div>
      <Sliders owner={owner} shape={info.shape} names={layout.names} axes={sliderAxes(info.shape, layout, panelAxis !== null)} index={index} />
      <div className="heat-foot">
        <Legend scale={scale} range={range} />
        {canPanel && <SliceToggle owner={owner} all={panelAxis !== null} />}
      </div>
      {step > 1 && <p className="heat-note">Reduced: each cell shows the largest magnitude of {step}×{step}</p>}
    </div>
  );
}

/** The cells as an image. With 200 blocks on the page, canvases in the document cost 300 ms for every step of a drag; images cost nothing. */
function usePicture(picture: CellPicture): string | null {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    let wanted = true;
    const canvas = document.createElement("canvas");
    paintCells(canvas, picture);
    canvas.toBlob((blob) => { if (wanted && blob) setAddress(URL.createObjectURL(blob)); });
    return () => { wanted = false; };
  }, [picture]);
  useEffect(() => () => { if (address) URL.revokeObjectURL(address); }, [address]);
  return address;
}

function SliceToggle({ owner, all }: { owner: string; all: boolean }) {
  return (
    <button type="button" className="small" aria-pressed={all} onClick={() => amend(setView(graphNow(), owner, { slices: all ? "one" : "all" }))}>
      {all ? "one slice" : "all slices"}
    </button>
  );
}

function Sliders({ owner, shape, names, axes, index }: { owner: string; shape: readonly number[]; names: readonly string[]; axes: readonly number[]; index: readonly number[] }) {
  if (axes.length === 0) return null;
  return (
    <div className="sliders">
      {axes.map((axis) => (
        <label key={axis}>
          <span>{AXIS_WORDS[names[axis]!] ?? names[axis]}</span>
          <input type="range" min={0} max={shape[axis]! - 1} value={index[axis]}
            onChange={(event) => amend(setView(graphNow(), owner, { index: index.with(axis, Number(event.target.value)) }))} />
          <output>{index[axis]}/{shape[axis]! - 1}</output>
        </label>
      ))}
    </div>
  );
}

const AXIS_WORDS: Record<string, string> = { N: "batch", C: "channel", D: "depth", H: "row", W: "column" };

/** The value under the pointer, for the line below the canvas. */
export const valueText = (tensor: Tensor | null, index: readonly number[]): string => (tensor ? exactText(tensor, flatIndex(tensor.shape, index)) : "");

/** A shape, a sequence or another short list as text. */
export function Numbers({ info }: { info: TensorInfo }) {
  const tensor = useTensor(info);
  if (!tensor) return null;
  const shown = Array.from({ length: Math.min(MOST_NUMBERS, tensor.values.length) }, (_, i) => exactText(tensor, i));
  return <p className="numbers">{shown.join(info.kind === "shape" ? " × " : ", ")}{tensor.values.length > MOST_NUMBERS ? " …" : ""}</p>;
}
