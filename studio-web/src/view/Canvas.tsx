// The canvas: React Flow shows the document and reports gestures; every change goes through the model.
import { applyNodeChanges, Background, Controls, ReactFlow, useReactFlow, useNodesInitialized, useStore as useFlowStore, type Connection, type Edge, type FinalConnectionState, type Handle, type NodeChange, type EdgeChange } from "@xyflow/react";
import { useCallback, useEffect, useMemo, useRef, useState, type DragEvent, type MouseEvent } from "react";
import { addBlock, connect, makeBlock, moveBlocks, onlyMoved, tensorKey, touched, typeOf } from "../model/graph.ts";
import type { Block, BlockType, End, Graph, Output } from "../model/types.ts";
import { inside, type Area, type Size } from "../model/place.ts";
import { candidates, wireProblem, type PinEnd } from "../model/wiring.ts";
import { app, drawnSizes, edit, graphNow, sizeOf, type PaletteRequest } from "../state/app.ts";
import { useStore } from "../state/store.ts";
import { BlockNode, type BlockNodeType } from "./BlockNode.tsx";
import { chooseNpy } from "../state/npyfile.ts";
import { openPage } from "./files.ts";
import { ConnectionHint, showRefusal } from "./ConnectionHint.tsx";
import { WireEdge, type WireEdgeType } from "./WireEdge.tsx";

const NODE_TYPES = { block: BlockNode };
const EDGE_TYPES = { wire: WireEdge };
/** Below this zoom small text cannot be read; it is not painted, which keeps a page of 200 blocks smooth. */
const FAR = 0.4;
const SETTLE_MS = 3000;
/** Beyond this many dragged together the canvas does not move along at its edge: with 200 a frame took up to 100 ms. */
const MOST_PANNED = 60;
/** Between a block that is brought into sight and the edge of the canvas. */
const EDGE = 16;
/** Room on the left for the zoom buttons. */
const FIT = { padding: { top: "16px", right: "24px", bottom: "16px", left: "64px" }, maxZoom: 1.1 } as const;

export const pinEnd = (handle: { nodeId: string; id?: string | null; type: string }): PinEnd => ({ end: [handle.nodeId, handle.id ?? ""], direction: handle.type === "source" ? "out" : "in" });

const cache = new WeakMap<Block, BlockNodeType>();

/** Unchanged blocks give the same node object, so React Flow skips them; moved ones keep their data, so that they are not drawn anew. */
function toNode(block: Block, selected: boolean, before: BlockNodeType | undefined): BlockNodeType {
  const known = before && before.data.block === block ? before : cache.get(block);
  if (known && Boolean(known.selected) === selected && known.position.x === block.x && known.position.y === block.y) return known;
  const node: BlockNodeType = {
    ...(before ?? { type: "block" }), id: block.id, type: "block", position: { x: block.x, y: block.y }, selected,
    data: before && onlyMoved(before.data.block, block) ? before.data : { block }, ariaLabel: `${block.label ? `${block.label}, ` : ""}${block.op} block`,
  };
  cache.set(block, node);
  return node;
}

/** A wire to a pin that this library does not have stays in the graph, where the run tells of it, but cannot be drawn. */
function toEdges(graph: Graph, types: ReadonlyMap<string, BlockType | undefined>, selected: ReadonlySet<string>): WireEdgeType[] {
  const output = ([id, pin]: End): Output | undefined => types.get(id)?.outputs.find((entry) => entry.name === pin);
  const drawable = graph.wires.filter((wire) => output(wire.from) && types.get(wire.to[0])?.pins.some((pin) => pin.name === wire.to[1]));
  return drawable.map((wire) => ({
    id: tensorKey(wire.to), type: "wire", data: {}, source: wire.from[0], sourceHandle: wire.from[1], target: wire.to[0], targetHandle: wire.to[1],
    className: `wire kind-${output(wire.from)!.kind}`, selected: selected.has(tensorKey(wire.to)),
    ariaLabel: `wire from ${wire.from.join(" ")} to ${wire.to.join(" ")}`,
  }));
}

export function Canvas() {
  const graph = useStore(app, (state) => state.history.present);
  const selected = useStore(app, (state) => state.selected);
  const selectedWires = useStore(app, (state) => state.selectedWires);
  const catalogue = useStore(app, (state) => state.catalogue);
  const readOnly = useStore(app, (state) => state.readOnly);
  const fitRequest = useStore(app, (state) => state.fitRequest);
  const flow = useReactFlow<BlockNodeType, WireEdgeType>();
  const frame = useRef<HTMLDivElement>(null);
  const far = useFlowStore((state) => state.transform[2] < FAR);

  const [nodes, setNodes] = useState<BlockNodeType[]>([]);
  useEffect(() => {
    setNodes((before) => {
      const known = new Map(before.map((node) => [node.id, node]));
      return graph.blocks.map((block) => toNode(block, selected.has(block.id), known.get(block.id)));
    });
  }, [graph.blocks, selected]);

  const edges = useMemo(() => {
    const types = new Map(graph.blocks.map((block) => [block.id, typeOf(catalogue, block.op)]));
    return toEdges(graph, types, selectedWires);
  }, [graph, catalogue, selectedWires]);

  const ready = useNodesInitialized();
  const fitted = useRef(-1);
  // Heat-maps arrive a moment after the blocks and make them taller: the view follows until they are there or a person moves it.
  const fitUntil = useRef(0);
  const stopFitting = useCallback(() => { fitUntil.current = 0; }, []);
  const isHeld = useRef(false);
  useEffect(() => {
    const hold = (event: PointerEvent): void => { isHeld.current = event.type === "pointerdown"; };
    const kinds = ["pointerdown", "pointerup", "pointercancel"] as const;
    for (const kind of kinds) addEventListener(kind, hold, true);
    return () => { for (const kind of kinds) removeEventListener(kind, hold, true); };
  }, []);
  const follow = useRef(() => {});
  useEffect(() => {
    if (fitted.current === fitRequest) return undefined;
    if (graph.blocks.length === 0) {
      // An empty page stands still: its first block must stay where it was put.
      fitted.current = fitRequest;
      void flow.setViewport({ x: 0, y: 0, zoom: 1 });
      return undefined;
    }
    if (!ready) return undefined;
    fitted.current = fitRequest;
    fitUntil.current = performance.now() + SETTLE_MS;
    follow.current = () => void flow.fitView(FIT);
    follow.current();
    return undefined;
  }, [ready, fitRequest, flow, graph.blocks.length]);

  /** The part of the canvas that a person sees. */
  const inSight = useCallback((): Area => {
    const box = frame.current!.getBoundingClientRect();
    const first = flow.screenToFlowPosition({ x: box.left, y: box.top });
    const last = flow.screenToFlowPosition({ x: box.right, y: box.bottom });
    return { ...first, width: last.x - first.x, height: last.y - first.y };
  }, [flow]);

  // A block that was added out of sight is brought into it, and stays there while its heat-map arrives.
  const bringIntoSight = useCallback((id: string) => {
    const node = flow.getNode(id);
    if (!node) return;
    const view = inSight();
    const size = sizeOf(id);
    // How far to move along one axis; a block larger than the view shows its beginning.
    const shift = (start: number, length: number, low: number, room: number): number => {
      const back = Math.min(0, low + room - (start + length + EDGE));
      return back + Math.max(0, low + EDGE - (start + back));
    };
    const { x, y, zoom } = flow.getViewport();
    const [right, down] = [shift(node.position.x, size.width, view.x, view.width), shift(node.position.y, size.height, view.y, view.height)];
    if (right !== 0 || down !== 0) void flow.setViewport({ x: x + right * zoom, y: y + down * zoom, zoom });
  }, [flow, inSight]);
  const keepInSight = useCallback((id: string) => {
    fitUntil.current = performance.now() + SETTLE_MS;
    follow.current = () => bringIntoSight(id);
    follow.current();
  }, [bringIntoSight]);

  // A result can make a block wider, and the inspector would cover it: what was added or edited last and stood in sight stays there.
  const last = useRef<{ graph: Graph; added: string | null; edited: string | null }>({ graph, added: null, edited: null });
  useEffect(() => {
    const { added, edited } = touched(last.current.graph, graph);
    last.current = { graph, added: added ?? last.current.added, edited: edited ?? last.current.edited };
  }, [graph]);
  const onGrowth = useCallback((id: string, before: Size | undefined, now: Size) => {
    if (!before || isHeld.current || performance.now() < fitUntil.current || (id !== last.current.added && id !== last.current.edited)) return;
    const node = flow.getNode(id);
    if (!node || (now.width <= before.width && now.height <= before.height)) return;
    if (inside({ ...node.position, ...before }, inSight())) requestAnimationFrame(() => keepInSight(id));
  }, [flow, inSight, keepInSight]);

  const onNodesChange = useCallback((changes: NodeChange<BlockNodeType>[]) => {
    setNodes((now) => applyNodeChanges(changes, now));
    const places = new Map<string, { x: number; y: number }>();
    let selection: Set<string> | null = null;
    for (const change of changes) {
      if (change.type === "dimensions" && change.dimensions) {
        onGrowth(change.id, drawnSizes.get(change.id), change.dimensions);
        drawnSizes.set(change.id, change.dimensions);
      }
      if (change.type === "position" && change.position && !change.dragging) places.set(change.id, change.position);
      if (change.type === "select") {
        selection ??= new Set(app.get().selected);
        if (change.selected) selection.add(change.id);
        else selection.delete(change.id);
      }
    }
    if (performance.now() < fitUntil.current && changes.some((change) => change.type === "dimensions")) requestAnimationFrame(() => follow.current());
    if (places.size > 0) edit(moveBlocks(graphNow(), places), "move");
    if (selection) app.set({ selected: selection });
  }, [onGrowth]);

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

  const reveal = useStore(app, (state) => state.reveal);
  useEffect(() => {
    if (reveal === null || !ready) return;
    app.set({ reveal: null });
    keepInSight(reveal);
  }, [reveal, ready, keepInSight]);

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

  return (
    <div className={`canvas${far ? " canvas-far" : ""}`} ref={frame} onPointerDown={stopFitting} onWheel={stopFitting}
      onDragOver={(event) => { if (!readOnly) event.preventDefault(); }} onDrop={onDrop} onDoubleClick={readOnly ? undefined : onDoubleClick}>
      <ReactFlow<BlockNodeType, WireEdgeType>
        nodes={nodes} edges={edges} nodeTypes={NODE_TYPES} edgeTypes={EDGE_TYPES} onNodesChange={onNodesChange} onEdgesChange={onEdgesChange}
        onConnect={onConnect} onConnectEnd={onConnectEnd} isValidConnection={isValidConnection} connectionRadius={26}
        nodesConnectable={!readOnly} nodesDraggable={!readOnly} zoomOnDoubleClick={false} deleteKeyCode={null} minZoom={0.04} maxZoom={2.5}
        autoPanOnNodeDrag={selected.size <= MOST_PANNED} selectionKeyCode="Shift" multiSelectionKeyCode={["Meta", "Control"]} fitView fitViewOptions={FIT} aria-label="Graph of blocks">
        <Background gap={24} size={1.2} />
        <Controls showInteractive={false} position="bottom-left" />
        <ConnectionHint />
      </ReactFlow>
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
