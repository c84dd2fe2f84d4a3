import { useStore as useFlowStore } from "@xyflow/react";
import { inside } from "../model/place.ts";
import { app, fitAgain } from "../state/app.ts";

/** On a tablet a page can be larger than the canvas at a size that can be read: this says so and shows all of it. */
export function OutOfSight() {
  const count = useFlowStore(({ nodeLookup, transform: [x, y, zoom], width, height }) => {
    const view = { x: -x / zoom, y: -y / zoom, width: width / zoom, height: height / zoom };
    let hidden = 0;
    for (const { internals, measured } of nodeLookup.values()) {
      if (!inside({ ...internals.positionAbsolute, width: measured.width ?? 0, height: measured.height ?? 0 }, view)) hidden += 1;
    }
    return hidden;
  });
  if (count === 0) return null;
  return (
    <button type="button" className="out-of-sight" onClick={() => app.set((now) => ({ fit: fitAgain(now, "whole") }))}>
      {count} block{count === 1 ? "" : "s"} not fully in sight: show all
    </button>
  );
}
