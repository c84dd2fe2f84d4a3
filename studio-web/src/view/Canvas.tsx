// The canvas: React Flow shows the document and reports gestures; every change goes through the model.
import { applyNodeChanges, Background, Controls, ReactFlow, useReactFlow, useStore as useFlowStore, type Connection, type Edge, type FinalConnectionState, type Handle, type NodeChange, type EdgeChange } from "@xyflow/react";
import { useCallback, useEffect, useMemo, useRef, useState, type DragEvent, type MouseEvent } from "react";
import { addBlock, connect, makeBlock, moveBlocks, typeOf } from "../model/graph.ts";
import type { Block } from "../model/types.ts";
import { candidates, wireProblem, type PinEnd } from "../model/wiring.ts";
import { app, drawnSizes, edit, graphNow, sizeOf, type PaletteRequest } from "../state/app.ts";
import { useStore } from "../state/store.ts";
import { BlockNode, type BlockNodeType } from "./BlockNode.tsx";
import { chooseNpy } from "../state/npyfile.ts";
import { openPage } from "./files.ts";
import { ConnectionHint, showRefusal } from "./ConnectionHint.tsx";
import { OutOfSight } from "./OutOfSight.tsx";
import { toEdges, toNode } from "./toFlow.ts";
import { TABLET, useMedia } from "./useMedia.ts";
import { FIT, useSight } from "./useSight.ts";
import { WireEdge, type WireEdgeType } from "./WireEdge.tsx";

const NODE_TYPES = { block: BlockNode };
const EDGE_TYPES = { wire: WireEdge };
/** Below this zoom small text cannot be read; it is not painted, which keeps a page of 200 blocks smooth. */
const FAR = 0.4;
/** Below this one nothing of a block can be told but its frame and its picture. */
const MAP = 0.2;
/** Beyond this many dragged together the canvas does not move along at its edge: with 200 a frame took up to 100 ms. */
const MOST_PANNED = 60;

export const pinEnd = (handle: { nodeId: string; id?: string | null; type: string }): PinEnd => ({ end: [handle.nodeId, handle.id ?? ""], direction: handle.type === "source" ? "out" : "in" });

/** Places are whole numbers from the start, so that a block that is let go of is not drawn once more for half a pixel. */
const onWholePixels = (change: NodeChange<BlockNodeType>): NodeChange<BlockNodeType> =>
  (change.type === "position" && change.position ? { ...change, position: { x: Math.round(change.position.x), y: Math.round(change.position.y) } } : change);

export function Canvas() {
  const graph = useStore(app, (state) => state.history.present);
  const selected = useStore(app, (state) => state.selected);
  const selectedWires = useStore(app, (state) => state.selectedWires);
  const catalogue = useStore(app, (state) => state.catalogue);
  const readOnly = useStore(app, (state) => state.readOnly);
  const flow = useReactFlow<BlockNodeType, WireEdgeType>();
  const frame = useRef<HTMLDivElement>(null);
  const tablet = useMedia(TABLET);
  const far = useFlowStore((state) => (state.transform[2] < MAP ? " canvas-far canvas-map" : state.transform[2] < FAR ? " canvas-far" : ""));

  const [nodes, setNodes] = useState<BlockNodeType[]>([]);
  useEffect(() => {
    setNodes((before) => {
      const known = new Map(before.map((node) => [node.id, node]));
      const next = graph.blocks.map((block) => toNode(block, selected.has(block.id), known.get(block.id)));
      return next.length === before.length && next.every((node, n) => node === before[n]) ? before : next;
    });
  }, [graph.blocks, selected]);

  const edges = useMemo(() => {
    const types = new Map(graph.blocks.map((block) => [block.id, typeOf(catalogue, block.op)]));
    return toEdges(graph, types, selectedWires);
  }, [graph, catalogue, selectedWires]);

  const { inSight, stopFitting, onSize, onSizes } = useSight(frame, graph, tablet);

  const onNodesChange = useCallback((reported: NodeChange<BlockNodeType>[]) => {
    const changes = reported.map(onWholePixels);
    setNodes((now) => applyNodeChanges(changes, now));
    const places = new Map<string, { x: number; y: number }>();
    let selection: Set<string> | null = null;
    for (const change of changes) {
      if (change.type === "dimensions" && change.dimensions) {
        onSize(change.id, drawnSizes.get(change.id), change.dimensions);
        drawnSizes.set(change.id, change.dimensions);
      }
      if (change.type === "position" && change.position && !change.dragging) places.set(change.id, change.position);
      if (change.type === "select") {
        selection ??= new Set(app.get().selected);
        if (change.selected) selection.add(change.id);
        else selection.delete(change.id);
      }
    }
    if (changes.some((change) => change.type === "dimensions")) onSizes();
    if (places.size > 0) edit(moveBlocks(graphNow(), places), "move");
    if (selection) app.set({ selected: selection });
  }, [onSize, onSizes]);

  const onEdgesChange = useCallback((changes: EdgeChange<WireEdgeType>[]) => {
    const next = new Set(app.get().selectedWires);
    for (const change of changes) if (change.type === "select") change.selected ? next.add(change.id) : next.delete(change.id);
    app.set({ selectedWires: next });
  }, []);

  const isValidConnection = useCallback((wire: Connection | Edge) => {
    const state = app.get();
    return wireProblem(state.history.present, state.catalogue, { end: [wire.source, wire.sourceHandle ?? ""], direction: "out" }, { end: [wire.target, wire.targetHandle ?? ""], direction: "in" }) === null;
  }, []);

  const onConnect = useCallback((wire: Connection) => {
    edit(connect(graphNow(), { from: [wire.source, wire.sourceHandle!], to: [wire.target, wire.targetHandle!] }));
  }, []);

  const onConnectEnd = useCallback((event: globalThis.MouseEvent | TouchEvent, state: FinalConnectionState) => {
    if (state.isValid || !state.fromHandle) return;
    const point = "changedTouches" in event ? event.changedTouches[0]! : event;
    const screen = { x: point.clientX, y: point.clientY };
    const from = pinEnd(state.fromHandle as Handle & { nodeId: string });
    const { catalogue: now } = app.get();
    if (state.toHandle) return showRefusal(wireProblem(graphNow(), now, from, pinEnd(state.toHandle as Handle & { nodeId: string })), screen);
    const over = (document.elementFromPoint(screen.x, screen.y)?.closest(".react-flow__node") as HTMLElement | null)?.dataset.id;
    if (over !== undefined) {
      // Dropped on a block beside its pins: the only pin that fits is meant.
      const fits = candidates(graphNow(), now, from).filter((end) => end[0] === over);
      if (fits.length !== 1) return showRefusal(fits.length === 0 ? "No pin of this block fits" : "Several pins fit: end the wire on one of them", screen);
      return edit(connect(graphNow(), from.direction === "out" ? { from: from.end, to: fits[0]! } : { from: fits[0]!, to: from.end }));
    }
    openPalette({ place: flow.screenToFlowPosition(screen), screen, exact: true, view: inSight(), near: from.end[0], loose: looseEnd(from) });
  }, [flow, inSight]);

  const onDoubleClick = useCallback((event: MouseEvent) => {
    if (!(event.target as Element).classList.contains("react-flow__pane")) return;
    const screen = { x: event.clientX, y: event.clientY };
    openPalette({ place: flow.screenToFlowPosition(screen), screen, exact: true, view: inSight(), near: null, loose: null });
  }, [flow, inSight]);

  /** A page or a .npy file from the desktop. */
  const onDrop = useCallback((event: DragEvent) => {
    const file = event.dataTransfer.files[0];
    if (!file || app.get().readOnly) return;
    event.preventDefault();
    const { x, y } = flow.screenToFlowPosition({ x: event.clientX, y: event.clientY });
    if (file.name.endsWith(".json")) return void openPage(file);
    const type = typeOf(app.get().catalogue, "Tensor");
    if (!file.name.endsWith(".npy") || !type) return showRefusal("Drop a page (.json) or an array (.npy)", { x: event.clientX, y: event.clientY });
    const block = makeBlock(graphNow(), type, x, y);
    if (!edit(addBlock(graphNow(), block))) return;
    app.set({ selected: new Set([block.id]) });
    void chooseNpy(block.id, file);
  }, [flow]);

  useEffect(() => {
    const open = (): void => {
      const box = frame.current!.getBoundingClientRect();
      const middle = { x: box.left + box.width / 2 - 180, y: box.top + box.height * 0.22 };
      const beside = blockBeside(app.get().selected);
      const corner = flow.screenToFlowPosition({ x: box.left + 64, y: box.top + 40 });
      const place = beside ? { x: beside.x + sizeOf(beside.id).width + 56, y: beside.y } : corner;
      openPalette({ place, screen: middle, exact: false, view: inSight(), near: beside?.id ?? null, loose: null });
    };
    addEventListener("poolgrad:palette", open);
    return () => removeEventListener("poolgrad:palette", open);
  }, [flow, inSight]);

  // Not a state of the page: drawing it anew for a class would cost more than the class saves.
  const onDragStart = useCallback(() => frame.current!.classList.add("canvas-dragging"), []);
  const onDragStop = useCallback(() => frame.current?.classList.remove("canvas-dragging"), []);
  // React Flow tells no end of a drag whose block was deleted under way; the shield would cover the canvas for good.
  useEffect(() => {
    const ends = ["pointerup", "pointercancel", "blur"] as const;
    for (const end of ends) addEventListener(end, onDragStop, true);
    return () => { for (const end of ends) removeEventListener(end, onDragStop, true); };
  }, [onDragStop]);

  // A click selects, a drag only moves: an inspector that opens in the middle of a drag made its first step 60 ms longer.
  return (
    <div className={`canvas${far}`} ref={frame} onPointerDown={stopFitting} onWheel={stopFitting}
      onDragOver={(event) => { if (!readOnly) event.preventDefault(); }} onDrop={onDrop} onDoubleClick={readOnly ? undefined : onDoubleClick}>
      <ReactFlow<BlockNodeType, WireEdgeType>
        nodes={nodes} edges={edges} nodeTypes={NODE_TYPES} edgeTypes={EDGE_TYPES} onNodesChange={onNodesChange} onEdgesChange={onEdgesChange}
        onNodeDragStart={onDragStart} onNodeDragStop={onDragStop} onSelectionDragStart={onDragStart} onSelectionDragStop={onDragStop}
        onConnect={onConnect} onConnectEnd={onConnectEnd} isValidConnection={isValidConnection} connectionRadius={26}
        nodesConnectable={!readOnly} nodesDraggable={!readOnly} selectNodesOnDrag={false} zoomOnDoubleClick={false} deleteKeyCode={null} minZoom={0.04} maxZoom={2.5}
        autoPanOnNodeDrag={selected.size <= MOST_PANNED} selectionKeyCode="Shift" multiSelectionKeyCode={["Meta", "Control"]} aria-label="Graph of blocks">
        <Background gap={24} size={1.2} />
        <Controls showInteractive={false} fitViewOptions={FIT} position="bottom-left" />
        <ConnectionHint />
        {tablet && selected.size === 0 && <OutOfSight />}
      </ReactFlow>
      <div className="drag-shield" />
    </div>
  );
}

/** The new block goes right of the selected one: what is added next usually takes its result. */
const blockBeside = (selected: ReadonlySet<string>): Block | undefined => graphNow().blocks.find((entry) => selected.has(entry.id));

function openPalette(request: PaletteRequest): void {
  if (!app.get().readOnly) app.set({ palette: request });
}

function looseEnd(from: PinEnd): PaletteRequest["loose"] {
  const { catalogue, result } = app.get();
  const block = graphNow().blocks.find((entry) => entry.id === from.end[0])!;
  const type = typeOf(catalogue, block.op)!;
  const kind = (from.direction === "out" ? type.outputs : type.pins).find((entry) => entry.name === from.end[1])!.kind;
  const rank = from.direction === "out" ? result?.blocks[block.id]?.outputs[from.end[1]]?.shape.length ?? null : null;
  return { end: from.end, kind, direction: from.direction, rank };
}
