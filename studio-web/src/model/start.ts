// What the page opens with: a file named on the command line is taken once for each start of the server, from then on the draft
// (the file with the edits made to it) wins, so that a reload loses nothing. Without a file the draft wins over the example.
import { toText } from "./graph.ts";
import { begin, record, type History } from "./history.ts";
import type { Graph } from "./types.ts";

export interface Start {
  readonly file: Graph | null;
  readonly taken: boolean;      // this server's file was opened in this browser before
  readonly draft: Graph | null;
  readonly example: Graph;
}

/** A draft that gives way to a file is one undo away. */
export function startWith({ file, taken, draft, example }: Start): History<Graph> {
  if (file === null) return begin(draft ?? example);
  if (draft === null || toText(draft) === toText(file)) return begin(file);
  return taken ? begin(draft) : record(begin(draft), file);
}
