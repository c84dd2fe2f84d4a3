// The shapes that travel between page and server. The server's catalogue is generated from the library's op table;
// nothing here lists an op.

export type Kind = "tensor" | "shape" | "sequence" | "indices" | "any";
export type Side = "input" | "pooled";

export interface Pin { readonly name: string; readonly kind: Kind; readonly required: boolean; readonly help: string }
export interface Output { readonly name: string; readonly kind: Kind; readonly help: string }
export interface Property {
  readonly name: string;
  readonly kind: string;
  readonly default: string;
  readonly choices: readonly string[];
  readonly help: string;
  readonly when: Readonly<Record<string, readonly string[]>> | null;
}

export type WiringSource =
  | { readonly from: "shape_of" | "input" | "output"; readonly name: string }
  | { readonly from: "grad" };

export interface BlockType {
  readonly name: string;
  readonly group: string;
  readonly family: "average" | "max" | null;
  readonly summary: string;
  readonly formula: string;
  readonly help: string;
  readonly example: string;
  readonly pins: readonly Pin[];
  readonly outputs: readonly Output[];
  readonly properties: readonly Property[];
  readonly dtypes: readonly string[];
  readonly formats: readonly string[];
  readonly spatial: number;
  readonly sides: Readonly<Record<string, Side>>;
  readonly gradient: { readonly op: string; readonly wiring: Readonly<Record<string, WiringSource>>; readonly copy: readonly string[] } | null;
}

export interface Limits {
  readonly graph_bytes: number;
  readonly upload_bytes: number;
  readonly blocks: number;
  readonly wires: number;
  readonly rank: number;
  readonly elements: number;
}

export interface Catalogue {
  readonly library: string;
  readonly graph_version: number;
  readonly limits: Limits;
  readonly accepts: Readonly<Record<string, readonly string[]>>;
  readonly dtypes: readonly string[];
  readonly blocks: readonly BlockType[];
}

/** How a block's tensor is looked at; kept in the page file, ignored by the server. */
export interface View {
  readonly index?: readonly number[];
  readonly slices?: "all" | "one";
  readonly scale?: "sequential" | "diverging";
  readonly output?: string;
}

export interface Block {
  readonly id: string;
  readonly op: string;
  readonly x: number;
  readonly y: number;
  readonly properties: Readonly<Record<string, string>>;
  readonly label?: string;
  readonly ui?: View;
}

export type End = readonly [block: string, pin: string];
export interface Wire { readonly from: End; readonly to: End }

export interface Graph {
  readonly version: 1;
  readonly title: string;
  readonly summary: string;
  readonly blocks: readonly Block[];
  readonly wires: readonly Wire[];
}

export type Edit =
  | { readonly set: readonly [string, string, string] }
  | { readonly add_block: Block }
  | { readonly add_wire: Wire }
  | { readonly remove_wire: End };

export interface Problem {
  readonly node: string | null;
  readonly pin: string | null;
  readonly code: string;
  readonly message: string;
  readonly expected: string | null;
  readonly got: string | null;
  readonly fix: { readonly label: string; readonly patch: readonly Edit[] } | null;
}

export interface TensorInfo {
  readonly id: string;
  readonly kind: Kind;
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly bytes: number;
  readonly minimum: number | null;
  readonly maximum: number | null;
  readonly nan: number;
  readonly infinite: number;
}

export type Rule =
  | { readonly type: "regular"; readonly input_size: number; readonly output_size: number; readonly window: number; readonly stride: number; readonly before: number; readonly count_before: number; readonly count_after: number; readonly divisor: number }
  | { readonly type: "listed"; readonly input_size: number; readonly output_size: number; readonly start: readonly number[] | null; readonly stop: readonly number[] | null; readonly divisor: readonly number[] | null };

export interface Windows {
  readonly axes: readonly number[];
  readonly input_size: readonly number[];
  readonly output_size: readonly number[];
  readonly channel_axis: number | null;
  readonly rules: readonly Rule[];
}

export interface BlockResult {
  readonly status: "ok" | "problem" | "waiting";
  readonly outputs: Readonly<Record<string, TensorInfo>>;
  readonly call: string | null;
  readonly windows: Windows | null;
  readonly milliseconds: number;
  readonly cached: boolean;
}

export interface RunResult {
  readonly run: number;
  readonly milliseconds: number;
  readonly computed: readonly string[];
  readonly bytes: number;
  readonly problems: readonly Problem[];
  readonly blocks: Readonly<Record<string, BlockResult>>;
}

export interface GalleryEntry { readonly id: string; readonly title: string; readonly summary: string; readonly graph: Graph }
