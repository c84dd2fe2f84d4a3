// Values of tensors by id. An id stands for its content, so nothing here ever goes stale; the oldest leave when memory runs short.
import { useEffect, useState } from "react";
import { decode, type Tensor } from "../model/tensor.ts";
import type { End, TensorInfo } from "../model/types.ts";
import { api } from "./api.ts";
import { app } from "./app.ts";

interface Entry { readonly tensor: Tensor; readonly raw: ArrayBuffer }

/** Half of what a tab may comfortably hold; a tensor of 4 Mi doubles is 32 MiB. */
const BUDGET = 384 * 1024 * 1024;

const TRIES = 5;
const RETRY_MS = 1500;

const entries = new Map<string, Entry>();
const loading = new Map<string, Promise<Entry>>();
let held = 0;

let fetchBytes: (id: string) => Promise<ArrayBuffer> = api.tensor;
/** A saved page carries its tensors and has no server. */
export const useBytesFrom = (source: (id: string) => Promise<ArrayBuffer>): void => { fetchBytes = source; };

export function load(info: TensorInfo): Promise<Entry> {
  const there = entries.get(info.id);
  if (there) return Promise.resolve(there);
  const pending = loading.get(info.id);
  if (pending) return pending;
  const promise = fetchBytes(info.id).then((raw) => {
    const entry = { tensor: decode(info.dtype, info.shape, raw), raw };
    entries.set(info.id, entry);
    held += raw.byteLength;
    for (const [id, old] of entries) {
      if (held <= BUDGET || id === info.id) break;
      entries.delete(id);
      held -= old.raw.byteLength;
    }
    return entry;
  }).finally(() => loading.delete(info.id));
  loading.set(info.id, promise);
  return promise;
}

/** The tensor, or null until it has arrived. While a new one is on its way the last one of the same shape stays, so nothing flickers. */
export function useTensor(info: TensorInfo | undefined): Tensor | null {
  const [last, setLast] = useState<{ id: string; tensor: Tensor } | null>(null);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (!info) return undefined;
    let wanted = true;
    // A server that was restarted has the tensor again after the next run.
    const retry = (): void => { if (wanted && tries < TRIES) setTimeout(() => { if (wanted) setTries(tries + 1); }, RETRY_MS); };
    load(info).then(({ tensor }) => { if (wanted) setLast({ id: info.id, tensor }); }, retry);
    return () => { wanted = false; };
  }, [info, tries]);
  if (!info) return null;
  const now = entries.get(info.id);
  if (now) return now.tensor;
  return last && last.tensor.shape.join() === info.shape.join() ? last.tensor : null;
}

/** The tensor at an output if the page has it already. */
export function tensorAt(end: End): Tensor | null {
  const info = app.get().result?.blocks[end[0]]?.outputs[end[1]];
  return info ? entries.get(info.id)?.tensor ?? null : null;
}
