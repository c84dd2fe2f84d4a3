// Opening a person's own .npy file: the header first, then the file itself or a crop of it, cut here in the browser.
import { setProperty } from "../model/graph.ts";
import { cropShape, cropText, HEADER_BYTES, readHeader, runs, swapBytes, writeNpy, type Crop, type Header } from "../model/npy.ts";
import { count, shapeText } from "../model/tensor.ts";
import { api } from "./api.ts";
import { app, edit, graphNow, say, type OpenRequest } from "./app.ts";
import { keepUpload } from "./drafts.ts";

export const headerOf = async (file: File): Promise<Header> => readHeader(new Uint8Array(await file.slice(0, HEADER_BYTES).arrayBuffer()));

/** Two-byte void and unsigned integers are how NumPy stores bfloat16; only the person knows. */
export const maybeBrainFloat = (header: Header): boolean => header.dtype === "bfloat16" || header.dtype === "uint16";

export async function chooseNpy(block: string, file: File): Promise<void> {
  try {
    const header = await headerOf(file);
    const { limits } = app.get().catalogue;
    if (header.shape.length > limits.rank) throw new Error(`${file.name} has ${header.shape.length} axes; the studio shows at most ${limits.rank}`);
    const request: OpenRequest = { block, file, header };
    if (count(header.shape) > limits.elements || file.size > limits.upload_bytes || maybeBrainFloat(header)) app.set({ dialog: { open: request } });
    else await openNpy(request, null, null);
  } catch (error) {
    say((error as Error).message, "bad");
  }
}

const CHUNK = 4 * 1024 * 1024;

/** Reads the runs of a crop with few large reads: near runs share one. */
async function readCrop(file: File, header: Header, crop: Crop): Promise<Uint8Array> {
  const raw = new Uint8Array(count(cropShape(crop)) * header.itemSize);
  let at = 0;
  let chunk = new Uint8Array(0);
  let begin = 0;
  for (const [offset, length] of runs(header, crop)) {
    if (offset < begin || offset + length > begin + chunk.length) {
      begin = offset;
      chunk = new Uint8Array(await file.slice(offset, offset + Math.max(length, CHUNK)).arrayBuffer());
      if (chunk.length < length) throw new Error(`${file.name} ends before its ${shapeText(header.shape)} elements do`);
    }
    raw.set(chunk.subarray(offset - begin, offset - begin + length), at);
    at += length;
  }
  if (!header.littleEndian && header.itemSize > 1) swapBytes(raw, header.itemSize);
  return raw;
}

export async function openNpy({ block, file, header }: OpenRequest, crop: Crop | null, dtype: string | null): Promise<void> {
  try {
    const bytes = crop === null
      ? await file.arrayBuffer()
      : writeNpy(dtype === "bfloat16" ? "uint16" : header.dtype, cropShape(crop), await readCrop(file, header, crop), header.fortran).buffer;
    const upload = await api.upload(file.name, bytes, dtype);
    await keepUpload(upload.file, { name: file.name, dtype, bytes }).catch(() => undefined);
    const values: Record<string, string> = { fill: "file", file: upload.file, file_name: upload.name, dtype: upload.dtype, shape: upload.shape.join(","), crop: cropText(header.shape, crop) };
    edit(Object.entries(values).reduce((graph, [name, text]) => setProperty(graph, block, name, text), graphNow()));
    app.set({ dialog: null });
    say(`${file.name}: ${shapeText(upload.shape)} ${upload.dtype}`);
  } catch (error) {
    say((error as Error).message, "bad");
  }
}
