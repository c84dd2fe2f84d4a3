import type { Range, Scale } from "../model/scale.ts";
import { css } from "../model/scale.ts";
import { shortText } from "../model/tensor.ts";

const STOPS = 9;

/** The scale from its lowest to its highest value, drawn as an SVG so that no style attribute is needed. */
export function Legend({ scale, range }: { scale: Scale; range: Range }) {
  const text = (value: number): string => shortText(Number(value.toPrecision(4)), 8) ?? value.toExponential(1);
  const notes = [range.nan > 0 && `${range.nan} NaN`, range.infinite > 0 && `${range.infinite} inf`].filter(Boolean).join(", ");
  return (
    <div className="legend" role="img" aria-label={`scale from ${text(scale.low)} to ${text(scale.high)}${notes ? `, ${notes}` : ""}`}>
      <span>{text(scale.low)}</span>
      <svg width="64" height="8" viewBox={`0 0 ${STOPS} 1`} preserveAspectRatio="none" aria-hidden="true">
        {Array.from({ length: STOPS }, (_, i) => <rect key={i} x={i} width="1.05" height="1" fill={css(scale.colours[Math.round((i / (STOPS - 1)) * 255)]!)} />)}
      </svg>
      <span>{text(scale.high)}</span>
      {notes && <span className="legend-note">· {notes}</span>}
    </div>
  );
}
