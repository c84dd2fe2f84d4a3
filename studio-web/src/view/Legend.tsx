import { css, isFlat, type Range, type Scale } from "../model/scale.ts";
import { briefText } from "../model/tensor.ts";

const STOPS = 9;
const WORDS = { diverging: "about 0: blue below, orange above", sequential: "from the lowest number to the highest" };

/** The colours of a scale from its lowest to its highest value, drawn as an SVG so that no style attribute is needed. */
export function Bar({ scale }: { scale: Scale }) {
  return (
    <svg width="64" height="8" viewBox={`0 0 ${STOPS} 1`} preserveAspectRatio="none" aria-hidden="true">
      {Array.from({ length: STOPS }, (_, i) => <rect key={i} x={i} width="1.05" height="1" fill={css(scale.colours[Math.round((i / (STOPS - 1)) * 255)]!)} />)}
    </svg>
  );
}

/** Where every number is the same there is no scale to show, only the number and its colour. */
export function Legend({ scale, range }: { scale: Scale; range: Range }) {
  const notes = [range.nan > 0 && `${range.nan} NaN`, range.infinite > 0 && `${range.infinite} inf`].filter(Boolean).join(", ");
  const flat = isFlat(scale);
  const text = (value: number): string => {
    const brief = briefText(value, 4);
    return brief.length <= (flat ? 16 : 9) ? brief : value.toExponential(1);
  };
  const words = flat ? `every ${notes ? "other " : ""}number is ${text(scale.low)}` : `colours ${WORDS[scale.kind]}, ${text(scale.low)} to ${text(scale.high)}`;
  return (
    <div className={`legend legend-${scale.kind}`} role="img" title={words} aria-label={`${words}${notes ? `, ${notes}` : ""}`}>
      {flat
        ? <><svg width="12" height="8" aria-hidden="true"><rect width="12" height="8" fill={css(scale.colours[128]!)} /></svg><span>{`${notes ? "" : "all "}${text(scale.low)}`}</span></>
        : <><span>{text(scale.low)}</span><span className="legend-bar"><Bar scale={scale} /></span><span>{text(scale.high)}</span></>}
      {notes && <span className="legend-note">· {notes}</span>}
    </div>
  );
}
