// With nothing selected the inspector is about the page: its title, what is wrong, and a list of the blocks.
import { makeScale, type Range } from "../model/scale.ts";
import { app, contentOf, edit, graphNow, select } from "../state/app.ts";
import { useStore } from "../state/store.ts";
import { themeStore } from "../state/theme.ts";
import { Problems } from "./BlockNode.tsx";
import { Bar } from "./Legend.tsx";
import { blockName } from "./Wires.tsx";
import { openPaletteByKey } from "./Toolbar.tsx";

const UNIT: Range = { low: 0, high: 1, nan: 0, infinite: 0 };

export function PageInspector() {
  const theme = useStore(themeStore, (state) => state.theme);
  const graph = useStore(app, contentOf);
  const result = useStore(app, (state) => state.result);
  const problems = result?.problems ?? [];
  return (
    <>
      <div className="field page-title"><label htmlFor="page-title">Title</label><input id="page-title" type="text" value={graph.title} onChange={(event) => edit({ ...graphNow(), title: event.target.value }, "title")} /></div>
      <div className="field"><label htmlFor="page-summary">What it shows</label><textarea id="page-summary" rows={Math.min(12, Math.max(3, Math.ceil(graph.summary.length / 31)))} value={graph.summary} onChange={(event) => edit({ ...graphNow(), summary: event.target.value }, "summary")} /></div>
      {problems.length > 0 && (
        <section>
          <h3>To mend</h3>
          {problems.map((problem, n) => (
            <div key={n} className="page-problem">
              {problem.node !== null && <button type="button" className="link" onClick={() => select([problem.node!])}>{blockName(problem.node)}</button>}
              <Problems problems={[problem]} />
            </div>
          ))}
        </section>
      )}
      <section>
        <h3>Blocks</h3>
        {graph.blocks.length === 0 && <p className="quiet-text">An empty page. Add a block to begin.</p>}
        <ul className="block-list">
          {graph.blocks.map((block) => (
            <li key={block.id}><button type="button" className="link" onClick={() => select([block.id])}><span>{blockName(block.id)}</span><span className={`status status-${result?.blocks[block.id]?.status ?? "waiting"}`} /></button></li>
          ))}
        </ul>
        <button type="button" onClick={openPaletteByKey}>Add block <kbd>/</kbd></button>
      </section>
      <section>
        <h3>Colours</h3>
        <ul className="colour-legend">
          <li><Bar scale={makeScale("diverging", UNIT, theme)} /> <span>about 0: gradients, differences, and numbers on both sides of 0</span></li>
          <li><Bar scale={makeScale("sequential", UNIT, theme)} /> <span>lowest to highest: all other tensors</span></li>
        </ul>
      </section>
      <section>
        <h3>Pins</h3>
        <ul className="pin-legend">
          <li><span className="swatch kind-tensor" aria-hidden="true" /> tensor</li><li><span className="swatch kind-shape" aria-hidden="true" /> shape</li>
          <li><span className="swatch kind-sequence" aria-hidden="true" /> sequence</li><li><span className="swatch kind-indices" aria-hidden="true" /> indices</li>
          <li><span className="swatch kind-any" aria-hidden="true" /> takes any of them</li>
        </ul>
      </section>
    </>
  );
}
