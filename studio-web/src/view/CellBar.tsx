// The line below the canvas: the chosen cell, its value, the arithmetic behind it, and the controls that walk through cells.
import { formulaOf, formulaText, type Formula } from "../model/formula.ts";
import { cells, isKnown } from "../model/windows.ts";
import { app, graphNow } from "../state/app.ts";
import { activeCell, cellStore, endOf, nextCell, pin, play, playSteps } from "../state/cell.ts";
import { useStore } from "../state/store.ts";
import { tensorAt } from "../state/tensors.ts";
import { valueText } from "./HeatMap.tsx";
import { Icon } from "./Icon.tsx";
import type { Cell } from "../model/relations.ts";

/** The server leaves out lists of more than 16,384 windows. */
const isTooLong = (block: string): boolean => {
  const windows = app.get().result?.blocks[block]?.windows;
  return Boolean(windows && !isKnown(windows));
};

function formulaFor(cell: Cell): Formula | null {
  const state = app.get();
  if (isTooLong(endOf(cell.key)[0])) return null;
  return formulaOf(graphNow(), state.catalogue, state.result?.blocks ?? {}, tensorAt, endOf(cell.key), cell.index);
}

export function CellBar() {
  const cell = useStore(cellStore, activeCell);
  const pinned = useStore(cellStore, (state) => state.pinned !== null);
  const playing = useStore(cellStore, (state) => state.playing);
  const hasResult = useStore(app, (state) => state.result !== null);
  useStore(app, (state) => state.result);
  return (
    <section className="cell-bar" aria-label="Chosen cell">
      <div className="cell-controls">
        <button type="button" className="icon" onClick={() => nextCell(-1)} disabled={!cell} aria-label="Previous cell" title="Previous cell"><Icon name="previous" /></button>
        <button type="button" className="icon play" onClick={() => play(!playing)} disabled={!hasResult} aria-label={playing ? "Pause the sweep" : playSteps() ? "Step: sweep through the cells" : "Play: sweep through the cells"} title={playing ? "Pause (P)" : playSteps() ? "Step (P): the next cell of the sweep" : "Play (P): sweep through the cells"}><Icon name={playing ? "pause" : "play"} /></button>
        <button type="button" className="icon" onClick={() => nextCell(1)} disabled={!cell} aria-label="Next cell" title="Next cell"><Icon name="next" /></button>
        <button type="button" className="icon" onClick={() => pin(null)} disabled={!pinned} aria-label="Let go of the pinned cell" title="Let go of the pinned cell (Esc)"><Icon name="unpin" /></button>
      </div>
      {cell ? <CellText cell={cell} pinned={pinned} /> : <p className="cell-idle"><span className="only-pointer">Point at</span><span className="only-touch">Tap</span> a cell to see its window and its arithmetic. <span className="only-wide">A click pins it, arrow keys walk, <kbd>P</kbd> {playSteps() ? "steps" : "plays"}.</span></p>}
    </section>
  );
}

/** Of a tensor that no op made: what it is for the ops around it. */
function relationNote(): string {
  const marks = [...cellStore.get().marks.values()].flat();
  const reach = marks.find((mark) => mark.role === "reach");
  const window = marks.find((mark) => mark.role === "window");
  if (reach) return cells(reach.spans) === 0 ? "no window reads this cell" : `${cells(reach.spans)} window${cells(reach.spans) === 1 ? " reads" : "s read"} this cell`;
  return window ? `its window has ${cells(window.spans)} cell${cells(window.spans) === 1 ? "" : "s"}` : "";
}

function CellText({ cell, pinned }: { cell: Cell; pinned: boolean }) {
  const [block, output] = endOf(cell.key);
  const source = graphNow().blocks.find((entry) => entry.id === block);
  const formula = formulaFor(cell);
  const value = valueText(tensorAt([block, output]), cell.index);
  return (
    <div className="cell-text" aria-live={pinned ? "polite" : "off"}>
      <p className="cell-place">
        <b>{source?.label || source?.op}</b> {output}[{cell.index.join(", ")}] = <b className="cell-value">{value}</b>
        {pinned && <span className="tag">pinned</span>}
        <span className="cell-note">{isTooLong(block) ? "its windows are too many to be shown" : formula?.note ?? relationNote()}</span>
      </p>
      {formula && <p className="formula" title={formulaText(formula)}><FormulaLine formula={formula} /></p>}
    </div>
  );
}

function FormulaLine({ formula }: { formula: Formula }) {
  const more = formula.more > 0 ? `${formula.join}… ${formula.more} more` : "";
  return (
    <>
      <span className="formula-left">{formula.left}</span>
      {formula.terms.length > 0 && <> = {formula.wrap[0]}{formula.terms.join(formula.join)}{more}{formula.wrap[1]}</>}
      {formula.numbers !== "" && <> = {formula.numbers}</>}
      {" "}= <b>{formula.value}</b>
    </>
  );
}
