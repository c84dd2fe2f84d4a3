// A narrow screen: the graph is read one block at a time, in the order in which it runs.
import { useMemo, useState } from "react";
import { typeOf } from "../model/graph.ts";
import type { Room } from "../model/montage.ts";
import { runOrder } from "../model/wiring.ts";
import { app, derived } from "../state/app.ts";
import { useStore } from "../state/store.ts";
import { Problems } from "./BlockNode.tsx";
import { BlockPicture } from "./BlockPicture.tsx";
import { blockName } from "./Wires.tsx";

const ROOM: Room = { width: 326, height: 340, largestCell: 44 };
/** Margins, paddings and borders left and right of a picture. */
const BESIDE = 64;

export function Reader() {
  const graph = useStore(app, (state) => state.history.present);
  const catalogue = useStore(app, (state) => state.catalogue);
  const problems = useStore(app, (state) => derived(state).problems);
  const order = useMemo(() => runOrder(graph), [graph]);
  const [step, setStep] = useState(0);
  const room = useMemo(() => ({ ...ROOM, width: Math.min(ROOM.width, innerWidth - BESIDE) }), []);
  const at = Math.min(step, Math.max(0, order.length - 1));
  const block = order[at];
  const type = block && typeOf(catalogue, block.op);
  const feeds = block ? graph.wires.filter((wire) => wire.to[0] === block.id) : [];
  return (
    <main className="reader">
      <h2>{graph.title}</h2>
      <p className="quiet-text">{graph.summary}</p>
      {block && type && (
        <article className="reader-card" aria-label={`Step ${at + 1} of ${order.length}: ${blockName(block.id)}`}>
          <header><span className="gallery-number">{at + 1}</span><h3>{blockName(block.id)}</h3>{block.label && <span className="block-op">{type.name}</span>}</header>
          <p className="quiet-text">{type.summary}</p>
          {feeds.length > 0 && <ul className="reader-feeds">{feeds.map((wire) => <li key={wire.to[1]}><b>{wire.to[1]}</b> from {blockName(wire.from[0])}</li>)}</ul>}
          <dl className="summary">{type.properties.filter((property) => block.properties[property.name] && !["file", "attrs"].includes(property.name)).slice(0, 6).map((property) => <div key={property.name}><dt>{property.name}</dt><dd>{block.properties[property.name]}</dd></div>)}</dl>
          <Problems problems={problems.get(block.id) ?? []} />
          <BlockPicture block={block} type={type} room={room} />
        </article>
      )}
      <nav className="reader-steps" aria-label="Steps">
        <button type="button" disabled={at === 0} onClick={() => setStep(at - 1)}>Previous</button>
        <span>{order.length === 0 ? 0 : at + 1} of {order.length}</span>
        <button type="button" className="primary" disabled={at >= order.length - 1} onClick={() => setStep(at + 1)}>Next</button>
      </nav>
    </main>
  );
}
