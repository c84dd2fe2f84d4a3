// NumPy's .npy files: the header, a crop cut in the browser, and writing one. No pickles: only plain numeric types are read.

export interface Header {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly fortran: boolean;
  readonly littleEndian: boolean;
  readonly offset: number;
  readonly itemSize: number;
}

const KINDS: Record<string, string> = { f2: "float16", f4: "float32", f8: "float64", i1: "int8", i2: "int16", i4: "int32", i8: "int64", u1: "uint8", u2: "uint16", u4: "uint32", u8: "uint64", V2: "bfloat16" };

/** Enough of a file to hold any header that NumPy writes for a plain array. */
export const HEADER_BYTES = 4096;

export function readHeader(bytes: Uint8Array): Header {
  const magic = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];
  if (!magic.every((value, i) => bytes[i] === value)) throw new Error("this is not a .npy file (it does not begin with \\x93NUMPY)");
  const major = bytes[6]!;
  const data = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const long = major >= 2;
  const start = long ? 12 : 10;
  if (bytes.length < start) throw new Error("this is not a .npy file (it ends before its header does)");
  const length = long ? data.getUint32(8, true) : data.getUint16(8, true);
  if (start + length > bytes.length) throw new Error("the header of this .npy file is longer than the studio reads");
  const text = new TextDecoder("latin1").decode(bytes.subarray(start, start + length));
  const descr = /'descr'\s*:\s*'([^']*)'/.exec(text)?.[1];
  const order = /'fortran_order'\s*:\s*(True|False)/.exec(text)?.[1];
  const shape = /'shape'\s*:\s*\(([^)]*)\)/.exec(text)?.[1];
  if (descr === undefined || order === undefined || shape === undefined) throw new Error("the header of this .npy file has no plain dtype, order and shape (structured and object arrays are not read)");
  const dtype = KINDS[descr.replace(/^[<>|=]/, "")];
  if (dtype === undefined) throw new Error(`this .npy file holds ${descr}; the studio reads ${[...new Set(Object.values(KINDS))].join(", ")}`);
  const sizes = shape.split(",").map((word) => word.trim()).filter((word) => word !== "");
  const odd = sizes.find((word) => !/^\d+$/.test(word));
  if (odd !== undefined) throw new Error(/^\d+\s*L$/.test(odd) ? "this .npy file was written by Python 2; save it again with np.save(name, np.load(name))" : `the shape of this .npy file has ${odd}, which is no size`);
  return {
    dtype, fortran: order === "True", littleEndian: !descr.startsWith(">"), offset: start + length,
    itemSize: Number(descr.slice(-1)),
    shape: sizes.map(Number),
  };
}

export interface Crop { readonly start: readonly number[]; readonly stop: readonly number[] }

export const cropShape = (crop: Crop): number[] => crop.stop.map((stop, axis) => stop - crop.start[axis]!);

export const isWhole = (shape: readonly number[], crop: Crop): boolean => shape.every((size, axis) => crop.start[axis] === 0 && crop.stop[axis] === size);

/** How the graph keeps a crop, so that exported code can take the same part of the file: `0:1,3:9`, or nothing for all of it. */
export const cropText = (shape: readonly number[], crop: Crop | null): string =>
  (crop === null || isWhole(shape, crop) ? "" : crop.start.map((start, axis) => `${start}:${crop.stop[axis]}`).join(","));

/** The first crop offered: everything of the last axes that fits into `limit` elements, a part of the first that does not, one of the rest. */
export function suggestCrop(shape: readonly number[], limit: number): Crop {
  const stop = shape.map(() => 1);
  let room = limit;
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    stop[axis] = Math.min(shape[axis]!, Math.max(1, Math.floor(room)));
    room /= Math.max(1, stop[axis]!);
  }
  return { start: shape.map(() => 0), stop };
}

/** Byte runs of a crop, in the order in which the cropped array holds them (in the file's own order: a Fortran file is a C file with its axes reversed). */
export function* runs(header: Header, crop: Crop): Generator<[offset: number, length: number]> {
  if (cropShape(crop).includes(0)) return;
  const { itemSize } = header;
  const shape = header.fortran ? [...header.shape].reverse() : header.shape;
  if (header.fortran) crop = { start: [...crop.start].reverse(), stop: [...crop.stop].reverse() };
  const rank = shape.length;
  if (rank === 0) { yield [header.offset, itemSize]; return; }
  const step = new Array<number>(rank).fill(itemSize);
  for (let axis = rank - 2; axis >= 0; axis -= 1) step[axis] = step[axis + 1]! * shape[axis + 1]!;
  // Trailing axes that are taken whole join the run of the axis before them: fewer, longer reads.
  let inner = rank - 1;
  while (inner > 0 && crop.start[inner] === 0 && crop.stop[inner] === shape[inner]) inner -= 1;
  const length = (crop.stop[inner]! - crop.start[inner]!) * step[inner]!;
  const index = crop.start.slice(0, inner);
  for (;;) {
    let offset = header.offset + crop.start[inner]! * step[inner]!;
    for (let axis = 0; axis < inner; axis += 1) offset += index[axis]! * step[axis]!;
    yield [offset, length];
    let axis = inner - 1;
    for (; axis >= 0; axis -= 1) {
      index[axis]! += 1;
      if (index[axis]! < crop.stop[axis]!) break;
      index[axis] = crop.start[axis]!;
    }
    if (axis < 0) return;
  }
}

/** Turns elements round in place, for files written on big-endian machines. */
export function swapBytes(bytes: Uint8Array, size: number): void {
  for (let at = 0; at < bytes.length; at += size) bytes.subarray(at, at + size).reverse();
}

const DESCRIPTIONS: Record<string, string> = { ...Object.fromEntries(Object.entries(KINDS).map(([code, name]) => [name, code.endsWith("1") ? `|${code}` : `<${code}`])), bfloat16: "<V2" };

/** A version 1.0 file; `raw` is little-endian, in C order unless `fortran`. bfloat16 goes as 2-byte void, which is what NumPy writes for it. */
export function writeNpy(dtype: string, shape: readonly number[], raw: Uint8Array, fortran = false): Uint8Array<ArrayBuffer> {
  const description = DESCRIPTIONS[dtype];
  if (description === undefined) throw new Error(`a .npy file cannot hold ${dtype}`);
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  let header = `{'descr': '${description}', 'fortran_order': ${fortran ? "True" : "False"}, 'shape': ${tuple}, }`;
  header += " ".repeat(63 - ((10 + header.length) % 64)) + "\n";
  const file = new Uint8Array(10 + header.length + raw.length);
  file.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 0xff, header.length >> 8]);
  file.set(new TextEncoder().encode(header), 10);
  file.set(raw, 10 + header.length);
  return file;
}
