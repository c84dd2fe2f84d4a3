// Why a wire cannot end here, said at the pointer while it is being drawn and for a moment after it was dropped.
import { useConnection } from "@xyflow/react";
import { useEffect, useState } from "react";
import { createPortal } from "react-dom";
import { wireProblem } from "../model/wiring.ts";
import { app, graphNow } from "../state/app.ts";
import { Store, useStore } from "../state/store.ts";
import { pinEnd } from "./Canvas.tsx";

interface Refusal { readonly text: string; readonly x: number; readonly y: number }
const refusal = new Store<{ shown: Refusal | null }>({ shown: null });
let timer: ReturnType<typeof setTimeout> | undefined;

export function showRefusal(text: string | null, screen: { x: number; y: number }): void {
  if (text === null) return;
  clearTimeout(timer);
  refusal.set({ shown: { text, ...screen } });
  timer = setTimeout(() => refusal.set({ shown: null }), 3200);
}

export function ConnectionHint() {
  const connection = useConnection();
  const after = useStore(refusal, (state) => state.shown);
  const [pointer, setPointer] = useState({ x: 0, y: 0 });
  const { inProgress } = connection;
  useEffect(() => {
    if (!inProgress) return undefined;
    refusal.set({ shown: null });
    const move = (event: PointerEvent): void => setPointer({ x: event.clientX, y: event.clientY });
    addEventListener("pointermove", move);
    return () => removeEventListener("pointermove", move);
  }, [inProgress]);
  let shown: Refusal | null = after;
  if (connection.inProgress && connection.toHandle && connection.isValid === false) {
    const text = wireProblem(graphNow(), app.get().catalogue, pinEnd(connection.fromHandle), pinEnd(connection.toHandle));
    shown = text === null ? null : { text, ...pointer };
  }
  if (!shown) return null;
  return createPortal(<div className="refusal" role="status" style={{ left: Math.min(shown.x + 14, innerWidth - 300), top: shown.y + 16 }}>{shown.text}</div>, document.body);
}
