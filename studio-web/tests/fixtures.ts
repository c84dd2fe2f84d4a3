// A small catalogue with the same shape as the server's: enough pins and kinds for every rule.
import type { BlockResult, BlockType, Catalogue, Graph, Rule, TensorInfo, Windows } from "../src/model/types.ts";

const blank: Omit<BlockType, "name" | "pins" | "outputs"> = { group: "", family: null, summary: "", formula: "", help: "", example: "", properties: [], dtypes: [], formats: [], spatial: 0, sides: {}, gradient: null };
const pin = (name: string, kind: "tensor" | "shape" | "any" | "indices" = "tensor", required = true) => ({ name, kind, required, help: "" });
const property = (name: string, text: string) => ({ name, kind: "sizes", default: text, choices: [], help: "", when: null });
const sizes = [property("ksize", "1,2,2,1"), property("strides", "1,2,2,1")];

export const catalogue: Catalogue = {
  library: "test", graph_version: 1, dtypes: ["float32"],
  limits: { graph_bytes: 1, upload_bytes: 1, blocks: 256, wires: 1024, rank: 6, elements: 4194304 },
  accepts: { tensor: ["tensor", "indices"], indices: ["indices", "tensor"], shape: ["shape", "sequence"], sequence: ["sequence", "shape"], any: ["tensor", "indices", "shape", "sequence"] },
  blocks: [
    { ...blank, name: "Shape", pins: [], outputs: [pin("shape", "shape")], properties: [{ ...property("values", "1,4,4,1"), kind: "shape" }] },
    { ...blank, name: "Tensor", pins: [pin("shape", "shape", false)], outputs: [pin("tensor")], properties: [{ ...property("shape", "1,4,4,1"), kind: "shape" }, property("fill", "ones"), property("dtype", "float32"), property("position", "")] },
    { ...blank, name: "ShapeOf", pins: [pin("tensor", "any")], outputs: [pin("shape", "shape")] },
    { ...blank, name: "Viewer", pins: [pin("tensor", "any")], outputs: [] },
    {
      ...blank, name: "AvgPool", family: "average", spatial: 2, summary: "Average of windows", pins: [pin("value")], outputs: [pin("output")], properties: sizes, sides: { value: "input", output: "pooled" },
      gradient: { op: "AvgPoolGrad", copy: ["ksize", "strides"], wiring: { orig_input_shape: { from: "shape_of", name: "value" }, grad: { from: "grad" } } },
    },
    { ...blank, name: "AvgPoolGrad", family: "average", spatial: 2, pins: [pin("orig_input_shape", "shape"), pin("grad")], outputs: [pin("output")], properties: sizes, sides: { grad: "pooled", output: "input" } },
    {
      ...blank, name: "MaxPool", family: "max", spatial: 2, pins: [pin("input")], outputs: [pin("output")], properties: sizes, sides: { input: "input", output: "pooled" },
      gradient: { op: "MaxPoolGrad", copy: ["ksize", "strides"], wiring: { orig_input: { from: "input", name: "input" }, orig_output: { from: "output", name: "output" }, grad: { from: "grad" } } },
    },
    { ...blank, name: "MaxPoolGrad", family: "max", spatial: 2, pins: [pin("orig_input"), pin("orig_output"), pin("grad")], outputs: [pin("output")], properties: sizes, sides: { orig_input: "input", orig_output: "pooled", grad: "pooled", output: "input" } },
    { ...blank, name: "MaxPoolGradGrad", family: "max", spatial: 2, pins: [pin("orig_input"), pin("orig_output"), pin("grad")], outputs: [pin("output")], properties: sizes, sides: { orig_input: "input", orig_output: "pooled", grad: "input", output: "pooled" } },
    { ...blank, name: "MaxPoolGradWithArgmax", family: "max", spatial: 2, pins: [pin("input"), pin("grad"), pin("argmax", "indices")], outputs: [pin("output")], properties: sizes, sides: { input: "input", grad: "pooled", argmax: "pooled", output: "input" } },
    { ...blank, name: "AvgPool3D", family: "average", spatial: 3, pins: [pin("input")], outputs: [pin("output")], sides: { input: "input", output: "pooled" } },
  ],
};

export const block = (id: string, op: string, x = 0, y = 0) => ({ id, op, x, y, properties: {} });
export const graphOf = (blocks: Graph["blocks"], wires: Graph["wires"] = []): Graph => ({ version: 1, title: "t", summary: "", blocks, wires });

export const regular = (input: number, output: number, window: number, stride: number, before = 0): Rule =>
  ({ type: "regular", input_size: input, output_size: output, window, stride, before, count_before: 0, count_after: 0, divisor: 0 });

export const windows2d = (rule: Rule): Windows => ({ axes: [1, 2], input_size: [rule.input_size, rule.input_size], output_size: [rule.output_size, rule.output_size], channel_axis: 3, rules: [rule, rule] });

export const info = (shape: number[], kind: TensorInfo["kind"] = "tensor"): TensorInfo => ({ id: shape.join("-"), kind, shape, dtype: "float32", bytes: 0, minimum: 0, maximum: 1, nan: 0, infinite: 0 });
export const ran = (outputs: BlockResult["outputs"], windows: Windows | null = null): BlockResult => ({ status: "ok", outputs, call: "", windows, milliseconds: 0, cached: false });
