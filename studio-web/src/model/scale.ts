// Colour scales. Both are told apart by people with any common colour-blindness: blue to orange about 0, and viridis from the lowest
// value to the highest. In the dark theme the middle of the first is dark, so that "nothing arrives here" recedes in both.

export type Colour = readonly [number, number, number];
export type ScaleKind = "sequential" | "diverging";
export type Theme = "light" | "dark";

export interface Range { readonly low: number; readonly high: number; readonly nan: number; readonly infinite: number }

const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const DIVERGING: Record<Theme, string[]> = {
  light: ["#1d4f95", "#4f86c9", "#a9c8ea", "#f6f5f1", "#f3c196", "#dd8543", "#b55a17"],
  dark: ["#a9ccff", "#5b93dd", "#2f5284", "#262b33", "#85502a", "#d98442", "#ffc795"],
};

const parseColour = (text: string): Colour => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)) as unknown as Colour;

function table(anchors: string[]): Colour[] {
  const colours = anchors.map(parseColour);
  return Array.from({ length: 256 }, (_, i) => {
    const place = (i / 255) * (colours.length - 1);
    const at = Math.min(Math.floor(place), colours.length - 2);
    const part = place - at;
    return [0, 1, 2].map((k) => Math.round(colours[at]![k]! * (1 - part) + colours[at + 1]![k]! * part)) as unknown as Colour;
  });
}

const TABLES: Record<ScaleKind, Record<Theme, Colour[]>> = {
  sequential: { light: table(VIRIDIS), dark: table(VIRIDIS) },
  diverging: { light: table(DIVERGING.light), dark: table(DIVERGING.dark) },
};

/** The one rule: a gradient or a difference is shown about 0, and so is any tensor with numbers on both sides of 0; every other one
 * from its lowest number to its highest. It asks what made the tensor and what is in it, never what the tensor is wired to. */
export const scaleKind = (isGradient: boolean, range: Range): ScaleKind =>
  (isGradient || (range.low < 0 && range.high > 0) ? "diverging" : "sequential");

export const isFlat = (scale: Scale): boolean => scale.low === scale.high;

export interface Scale { readonly kind: ScaleKind; readonly low: number; readonly high: number; readonly colours: readonly Colour[] }

export function makeScale(kind: ScaleKind, range: Range, theme: Theme): Scale {
  const colours = TABLES[kind][theme];
  if (kind === "diverging") {
    const reach = Math.max(Math.abs(range.low), Math.abs(range.high)) || 1;
    return { kind, low: -reach, high: reach, colours };
  }
  return { kind, low: range.low, high: range.high, colours };
}

/** 0..255. A flat sequential scale (all values equal) sits in the middle, so that it looks like data and not like an edge. */
export function step(scale: Scale, value: number): number {
  if (value === Infinity) return 255;
  if (value === -Infinity) return 0;
  const width = scale.high - scale.low;
  if (!(width > 0)) return 128;
  return Math.max(0, Math.min(255, Math.round(((value - scale.low) / width) * 255)));
}

export const colourOf = (scale: Scale, value: number): Colour => scale.colours[step(scale, value)]!;
export const css = (colour: Colour): string => `rgb(${colour[0]},${colour[1]},${colour[2]})`;

/** Relative luminance as WCAG defines it. */
export function luminance(colour: Colour): number {
  const [r, g, b] = colour.map((part) => {
    const x = part / 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export const contrast = (a: Colour, b: Colour): number => {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];
  return (high + 0.05) / (low + 0.05);
};

const INK: Colour = [0, 0, 0]; // with anything lighter some middle colours would carry no text of contrast 4.5
const PAPER: Colour = [255, 255, 255];
export const textOn = (colour: Colour): Colour => (contrast(colour, INK) >= contrast(colour, PAPER) ? INK : PAPER);

export function rangeOf(values: ArrayLike<number | bigint>): Range {
  let low = Infinity;
  let high = -Infinity;
  let nan = 0;
  let infinite = 0;
  for (let i = 0; i < values.length; i += 1) {
    const value = Number(values[i]);
    if (value !== value) nan += 1;
    else if (value === Infinity || value === -Infinity) infinite += 1;
    else {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return { low: 0, high: 0, nan, infinite };
  return { low, high, nan, infinite };
}
