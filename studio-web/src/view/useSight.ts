// What of the canvas is in sight: a page that is opened is fitted, a block that is added or chosen is brought into view.
import { useNodesInitialized, useReactFlow } from "@xyflow/react";
import { useCallback, useEffect, useRef, type RefObject } from "react";
import { touched } from "../model/graph.ts";
import { inside, viewportFor, type Area, type Size } from "../model/place.ts";
import type { Graph } from "../model/types.ts";
import { app, sizeOf } from "../state/app.ts";
import { useStore } from "../state/store.ts";
import type { BlockNodeType } from "./BlockNode.tsx";
import type { WireEdgeType } from "./WireEdge.tsx";

const SETTLE_MS = 3000;
/** Between a block that is brought into sight and the edge of the canvas. */
const EDGE = 16;
/** Room on the left for the zoom buttons. */
const EDGES = { top: 16, right: 24, bottom: 16, left: 64 };
const px = (size: number): `${number}px` => `${size}px`;
export const FIT = { padding: { top: px(EDGES.top), right: px(EDGES.right), bottom: px(EDGES.bottom), left: px(EDGES.left) }, maxZoom: 1.1 } as const;

const nodeElement = (id: string): HTMLElement | null => document.querySelector(`.react-flow__node[data-id="${CSS.escape(id)}"]`);

export interface Sight {
  readonly inSight: () => Area;
  readonly stopFitting: () => void;
  readonly onSize: (id: string, before: Size | undefined, now: Size) => void;
  readonly onSizes: () => void;
}

export function useSight(frame: RefObject<HTMLDivElement | null>, graph: Graph, tablet: boolean): Sight {
  const flow = useReactFlow<BlockNodeType, WireEdgeType>();
  const fit = useStore(app, (state) => state.fit);
  const ready = useNodesInitialized();
  const fitted = useRef(-1);
  // Heat-maps arrive a moment after the blocks and make them taller: the view follows until they are there or a person moves it.
  const fitUntil = useRef(0);
  const follow = useRef(() => {});
  const stopFitting = useCallback(() => { fitUntil.current = 0; }, []);

  const isHeld = useRef(false);
  useEffect(() => {
    const hold = (event: PointerEvent): void => { isHeld.current = event.type === "pointerdown"; };
    const kinds = ["pointerdown", "pointerup", "pointercancel"] as const;
    for (const kind of kinds) addEventListener(kind, hold, true);
    return () => { for (const kind of kinds) removeEventListener(kind, hold, true); };
  }, []);

  /** The part of the canvas that a person sees. */
  const inSight = useCallback((): Area => {
    const box = frame.current!.getBoundingClientRect();
    const first = flow.screenToFlowPosition({ x: box.left, y: box.top });
    const last = flow.screenToFlowPosition({ x: box.right, y: box.bottom });
    return { ...first, width: last.x - first.x, height: last.y - first.y };
  }, [flow, frame]);

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

  // A block that was added out of sight is brought into it, and stays there while its heat-map arrives.
  const keepInSight = useCallback((id: string) => {
    fitUntil.current = performance.now() + SETTLE_MS;
    follow.current = () => bringIntoSight(id);
    follow.current();
  }, [bringIntoSight]);

  useEffect(() => {
    if (fitted.current === fit.request) return;
    if (graph.blocks.length === 0) {
      // An empty page stands still: its first block must stay where it was put.
      fitted.current = fit.request;
      void flow.setViewport({ x: 0, y: 0, zoom: 1 });
      return;
    }
    if (!ready) return;
    fitted.current = fit.request;
    fitUntil.current = performance.now() + SETTLE_MS;
    // Where the keyboard stood on the block whose gradient was added, it goes along.
    const before = document.activeElement?.closest(".react-flow__node") ?? null;
    follow.current = () => {
      const { width, height } = frame.current!.getBoundingClientRect();
      void flow.setViewport(viewportFor(flow.getNodesBounds(flow.getNodes()), { width, height }, EDGES, FIT.maxZoom, fit.show));
      if (fit.block === null) return;
      bringIntoSight(fit.block);
      if (document.activeElement === before) nodeElement(fit.block)?.focus({ preventScroll: true });
    };
    follow.current();
  }, [ready, fit, flow, frame, graph.blocks.length, bringIntoSight]);

  const reveal = useStore(app, (state) => state.reveal);
  useEffect(() => {
    if (reveal === null || !ready) return;
    app.set({ reveal: null });
    keepInSight(reveal);
  }, [reveal, ready, keepInSight]);

  // On a tablet the inspector opens with the first chosen block and takes room from the canvas: the block stays beside it.
  const only = useStore(app, (state) => (state.selected.size === 1 ? [...state.selected][0]! : null));
  useEffect(() => {
    if (tablet && only !== null && !isHeld.current) bringIntoSight(only);
  }, [tablet, only, bringIntoSight]);

  // A result can make a block wider, and the inspector would cover it: what was added or edited last and stood in sight stays there.
  const last = useRef<{ graph: Graph; added: string | null; edited: string | null }>({ graph, added: null, edited: null });
  useEffect(() => {
    const { added, edited } = touched(last.current.graph, graph);
    last.current = { graph, added: added ?? last.current.added, edited: edited ?? last.current.edited };
  }, [graph]);
  const onSize = useCallback((id: string, before: Size | undefined, now: Size) => {
    if (!before || isHeld.current || performance.now() < fitUntil.current || (id !== last.current.added && id !== last.current.edited)) return;
    const node = flow.getNode(id);
    if (!node || (now.width <= before.width && now.height <= before.height)) return;
    if (inside({ ...node.position, ...before }, inSight())) requestAnimationFrame(() => keepInSight(id));
  }, [flow, inSight, keepInSight]);
  const onSizes = useCallback(() => {
    if (performance.now() < fitUntil.current) requestAnimationFrame(() => follow.current());
  }, []);

  return { inSight, stopFitting, onSize, onSizes };
}
