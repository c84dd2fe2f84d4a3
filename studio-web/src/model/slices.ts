// Which two axes of a tensor are shown, which one is laid out as panels, and where the others stand.
// A slice larger than the room it has is reduced: each shown cell is the element of largest magnitude in its block.
import { numberAt, type Tensor, type Values } from "./tensor.ts";

export interface Layout {
  readonly rows: number | null;      // axis shown downwards; null for a vector or a scalar
  readonly columns: number | null;   // axis shown across
  readonly panels: number | null;    // axis whose slices can stand side by side (the depth of a volume)
  readonly names: readonly string[]; // one short name per axis
}

/** `axes` are the pooled axes (known from a block that uses the tensor); without them the last pair that fits the rank is taken. */
export function layoutOf(rank: number, axes: readonly number[] | null): Layout {
  const names = Array.from({ length: rank }, (_, axis) => `axis ${axis}`);
  if (rank === 0) return { rows: null, columns: null, panels: null, names };
  if (rank === 1) return { rows: null, columns: 0, panels: null, names };
  const usable = axes !== null && axes.length >= 2 && axes.every((axis) => axis < rank) ? axes : guess(rank);
  const spatial = ["D", "H", "W"].slice(3 - usable.length);
  usable.forEach((axis, k) => { names[axis] = spatial[k] ?? `axis ${axis}`; });
  const others = names.flatMap((_, axis) => (usable.includes(axis) ? [] : [axis]));
  if (rank === usable.length + 2) [names[others[0]!], names[others[1]!]] = ["N", "C"];
  const [columns, rows, panels] = [...usable].reverse();
  return { rows: rows ?? null, columns: columns ?? null, panels: panels ?? null, names };
}

function guess(rank: number): number[] {
  if (rank === 2) return [0, 1];
  if (rank === 3) return [0, 1, 2];
  if (rank === 4) return [1, 2];
  return [1, 2, 3];
}

/** Axes that need a slider: neither rows nor columns, longer than one, and not laid out as panels. */
export const sliderAxes = (shape: readonly number[], layout: Layout, panelsShown: boolean): number[] =>
  shape.flatMap((size, axis) => (size > 1 && axis !== layout.rows && axis !== layout.columns && !(panelsShown && axis === layout.panels) ? [axis] : []));

export function strides(shape: readonly number[]): number[] {
  const result = new Array<number>(shape.length).fill(1);
  for (let axis = shape.length - 2; axis >= 0; axis -= 1) result[axis] = result[axis + 1]! * shape[axis + 1]!;
  return result;
}

export const flatIndex = (shape: readonly number[], index: readonly number[]): number => {
  const step = strides(shape);
  return index.reduce((sum, value, axis) => sum + value * step[axis]!, 0);
};

export function unflatten(shape: readonly number[], flat: number): number[] {
  const step = strides(shape);
  return shape.map((size, axis) => Math.floor(flat / step[axis]!) % size);
}

export const clampIndex = (shape: readonly number[], index: readonly number[]): number[] =>
  shape.map((size, axis) => Math.max(0, Math.min(size - 1, index[axis] ?? 0)));

export interface Grid {
  readonly rows: number;      // shown
  readonly columns: number;
  readonly step: number;      // elements per shown cell along each axis; 1 when nothing is reduced
  readonly values: Float64Array;
  readonly height: number;    // of the slice itself
  readonly width: number;
}

/** The slice at `index` as a grid of at most `limit` cells either way. */
export function grid(tensor: Tensor, layout: Layout, index: readonly number[], limit: number): Grid {
  const { shape, values } = tensor;
  const step = strides(shape);
  const at = clampIndex(shape, index);
  const height = layout.rows === null ? 1 : shape[layout.rows]!;
  const width = layout.columns === null ? 1 : shape[layout.columns]!;
  const rowStep = layout.rows === null ? 0 : step[layout.rows]!;
  const columnStep = layout.columns === null ? 0 : step[layout.columns]!;
  let base = 0;
  at.forEach((value, axis) => { if (axis !== layout.rows && axis !== layout.columns) base += value * step[axis]!; });
  const every = Math.max(1, Math.ceil(Math.max(height, width) / limit));
  const rows = Math.ceil(height / every);
  const columns = Math.ceil(width / every);
  const shown = new Float64Array(rows * columns);
  for (let r = 0; r < rows; r += 1) {
    for (let c = 0; c < columns; c += 1) {
      shown[r * columns + c] = every === 1
        ? numberAt(values, base + r * rowStep + c * columnStep)
        : largest(values, base, rowStep, columnStep, [r * every, Math.min(height, (r + 1) * every)], [c * every, Math.min(width, (c + 1) * every)]);
    }
  }
  return { rows, columns, step: every, values: shown, height, width };
}

/** NaN is larger than everything: a reduced picture must not hide it. */
function largest(values: Values, base: number, rowStep: number, columnStep: number, rows: [number, number], columns: [number, number]): number {
  let best = 0;
  let size = -1;
  for (let r = rows[0]; r < rows[1]; r += 1) {
    for (let c = columns[0]; c < columns[1]; c += 1) {
      const value = numberAt(values, base + r * rowStep + c * columnStep);
      if (value !== value) return value;
      const magnitude = Math.abs(value);
      if (magnitude > size) { size = magnitude; best = value; }
    }
  }
  return best;
}
