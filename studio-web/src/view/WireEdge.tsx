import { BaseEdge, EdgeLabelRenderer, getBezierPath, type Edge, type EdgeProps } from "@xyflow/react";
import { memo } from "react";
import type { Problem } from "../model/types.ts";
import { app, derived, mend } from "../state/app.ts";
import { useStore } from "../state/store.ts";

export type WireEdgeType = Edge<Record<string, never>, "wire">;

/** A wire in the colour of what it carries; red, with what was expected and got, where the run refused it. */
export const WireEdge = memo(function WireEdge({ id, sourceX, sourceY, targetX, targetY, sourcePosition, targetPosition, target, targetHandleId }: EdgeProps<WireEdgeType>) {
  const problem = useStore(app, (state) => derived(state).problems.get(target)?.find((entry) => entry.pin === targetHandleId && entry.code !== "unwired"));
  const [path, labelX, labelY] = getBezierPath({ sourceX, sourceY, targetX, targetY, sourcePosition, targetPosition });
  return (
    <>
      <BaseEdge id={id} path={path} className={problem ? "wire-wrong" : ""} interactionWidth={18} />
      {problem && <WireLabel problem={problem} x={labelX} y={labelY} />}
    </>
  );
});

/** A mark on the wire that opens to the words and the mending button; the block at its end says the same beside the pin. */
function WireLabel({ problem, x, y }: { problem: Problem; x: number; y: number }) {
  const text = problem.expected !== null && problem.got !== null ? `expected ${problem.expected}, got ${problem.got}` : problem.message;
  return (
    <EdgeLabelRenderer>
      <div className="wire-label nodrag nopan" style={{ transform: `translate(-50%, -50%) translate(${x}px, ${y}px)` }} tabIndex={0} role="group" aria-label={`Wire into ${problem.pin}: ${text}`}>
        <span className="wire-mark" aria-hidden="true">!</span>
        <div className="wire-card">
          <span>{text}</span>
          {problem.fix && <button type="button" className="fix" onClick={() => mend(problem)}>{problem.fix.label}</button>}
        </div>
      </div>
    </EdgeLabelRenderer>
  );
}
