// Raw little-endian bytes of a tensor, read as numbers. float16 and bfloat16 have no typed array of their own in every
// browser, so they are widened to float32 once, which is exact. 64-bit integers stay whole in a BigInt array.

export type Values = Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | Uint8Array | Uint16Array | Uint32Array | BigInt64Array | BigUint64Array;

export interface Tensor {
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly values: Values;
}

export const ITEM_SIZE: Readonly<Record<string, number>> = {
  float16: 2, bfloat16: 2, float32: 4, float64: 8, int8: 1, int16: 2, int32: 4, int64: 8, uint8: 1, uint16: 2, uint32: 4, uint64: 8, bool: 1,
};

export const count = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

export function halfToFloat(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function widenHalf(source: Uint16Array): Float32Array {
  const target = new Float32Array(source.length);
  for (let i = 0; i < source.length; i += 1) target[i] = halfToFloat(source[i]!);
  return target;
}

function widenBrainFloat(source: Uint16Array): Float32Array {
  const bits = new Uint32Array(source.length);
  for (let i = 0; i < source.length; i += 1) bits[i] = source[i]! << 16;
  return new Float32Array(bits.buffer);
}

export function decode(dtype: string, shape: readonly number[], bytes: ArrayBuffer): Tensor {
  const size = ITEM_SIZE[dtype];
  if (size === undefined) throw new Error(`a tensor of type ${dtype} cannot be shown`);
  const length = count(shape);
  if (bytes.byteLength !== length * size) throw new Error(`a ${dtype} tensor of shape (${shape.join(", ")}) has ${length * size} bytes; ${bytes.byteLength} came`);
  return { shape, dtype, values: view(dtype, bytes) };
}

function view(dtype: string, bytes: ArrayBuffer): Values {
  switch (dtype) {
    case "float16": return widenHalf(new Uint16Array(bytes));
    case "bfloat16": return widenBrainFloat(new Uint16Array(bytes));
    case "float32": return new Float32Array(bytes);
    case "float64": return new Float64Array(bytes);
    case "int8": return new Int8Array(bytes);
    case "int16": return new Int16Array(bytes);
    case "int32": return new Int32Array(bytes);
    case "int64": return new BigInt64Array(bytes);
    case "uint16": return new Uint16Array(bytes);
    case "uint32": return new Uint32Array(bytes);
    case "uint64": return new BigUint64Array(bytes);
    default: return new Uint8Array(bytes);
  }
}

export const numberAt = (values: Values, index: number): number => Number(values[index]!);

/** The exact text of one element: whole digits for integers, the shortest text that reads back the same for floats. */
export function exactText(tensor: Tensor, index: number): string {
  const value = tensor.values[index]!;
  if (typeof value === "bigint") return value.toString();
  const special = specialText(value);
  if (special !== null) return special;
  if (tensor.dtype !== "float64" && tensor.dtype.includes("float")) return shortestFloat32(value);
  return String(value);
}

/** What has the same name everywhere, or null for a number that is written in digits. */
function specialText(value: number): string | null {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return Object.is(value, -0) ? "-0" : null;
}

/** Digits before the point of a number that is written without an exponent. */
const wholeDigits = (value: number): number => (Math.abs(value) >= 1 && Math.abs(value) < 1e21 ? Math.floor(Math.log10(Math.abs(value))) + 1 : 0);

/** A number in a sum or at a scale: a whole one exactly, any other to `digits` and never so that it looks whole.
 * From 2**53 on a Number may stand for several int64, so it is not told as an exact one. */
export function briefText(value: number, digits: number): string {
  const special = specialText(value);
  if (special !== null) return special;
  if (Number.isInteger(value)) return Number.isSafeInteger(value) ? String(value) : value.toExponential(digits - 1);
  const text = value.toPrecision(Math.max(digits, wholeDigits(value) + 2));
  return Number.isInteger(Number(text)) ? text : String(Number(text));
}

/** Nine digits always tell two float32 apart; fewer are enough for most. */
export function shortestFloat32(value: number): string {
  for (let digits = 6; digits < 9; digits += 1) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(Number(value.toPrecision(9)));
}

/** A number short enough for a cell: at most `room` characters, or null where none fits honestly. */
export function shortText(value: number, room: number): string | null {
  const special = specialText(value);
  if (special !== null && special.length <= room) return special;
  if (Number.isNaN(value)) return null;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : room >= 2 ? "-∞" : null;
  const tidy = Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(7)));
  if (tidy.length <= room) return tidy;
  // Below a tenth one digit is still two places after the point.
  const whole = wholeDigits(value);
  for (let digits = Math.max(4, whole); digits >= Math.max(whole, Math.abs(value) < 0.1 ? 1 : 2); digits -= 1) {
    let text = String(Number(value.toPrecision(digits)));
    if (text.startsWith("0.")) text = text.slice(1);
    if (text.startsWith("-0.")) text = `-${text.slice(2)}`;
    if (text.length <= room) return text;
  }
  return null;
}

/** The numbers of all cells of some grids, or null where too few of them fit: a patchy picture reads worse than none. Next to large values small ones are "~0". */
export function cellTexts(grids: readonly ArrayLike<number>[], room: number, reach: number): (string | null)[][] | null {
  const texts = grids.map((values) => Array.from(values, (value) => shortText(value, room) ?? (Math.abs(value) < reach / 200 && room >= 2 ? "~0" : null)));
  const all = texts.flat();
  return all.filter((text) => text === null).length <= all.length / 10 ? texts : null;
}

export const shapeText = (shape: readonly number[]): string => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
