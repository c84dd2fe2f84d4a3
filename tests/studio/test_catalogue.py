"""The catalogue is the op table: every raw op a block, every gradient rightly wired."""

from __future__ import annotations

import json
from typing import Any

import pytest
from page_graphs import page, with_gradient

from poolgrad import op_table
from poolgrad.studio import catalogue

FORWARD = [
    op.name
    for op in op_table.OPS.values()
    if op.gradient and len(op.named("tensor", "indices")) == 1 and not op.named("shape")
]


def test_every_raw_op_is_a_block_with_its_pins_and_properties() -> None:
    blocks = catalogue.blocks()
    assert [name for name in blocks if blocks[name].is_op] == list(op_table.OPS)
    for op in op_table.OPS.values():
        block = blocks[op.name]
        assert [pin.name for pin in block.pins] == [a.name for a in op.arguments if a.is_pin]
        attributes = [a.name for a in op.arguments if not a.is_pin]
        assert [p.name for p in block.properties][: len(attributes)] == attributes
        assert {"data_format"} >= {p.name for p in block.properties[len(attributes) :]}
        assert [output.name for output in block.outputs] == list(op.outputs)
        assert block.summary == op.summary
    text = json.dumps(catalogue.as_json())
    assert len(text) < 100_000


def test_kinds_and_sides_of_outputs() -> None:
    blocks = catalogue.blocks()
    kinds = {output.name: output.kind for output in blocks["FractionalAvgPool"].outputs}
    assert kinds == {"output": "tensor", "row_pooling_sequence": "sequence", "col_pooling_sequence": "sequence"}
    assert [output.kind for output in blocks["MaxPoolWithArgmax"].outputs] == ["tensor", "indices"]
    assert blocks["MaxPoolWithArgmax"].sides == {"input": "input", "output": "pooled", "argmax": "pooled"}
    assert blocks["AvgPool3DGrad"].sides == {"grad": "pooled", "output": "input"}
    assert blocks["MaxPoolGradGrad"].sides == {
        "orig_input": "input",
        "orig_output": "pooled",
        "grad": "input",
        "output": "pooled",
    }


def test_the_forward_ops_are_among_the_gradients_tests() -> None:
    assert {"AvgPool", "AvgPool3D", "MaxPool", "MaxPool3D", "FractionalAvgPool", "FractionalMaxPool"} <= set(FORWARD)


@pytest.mark.parametrize("op", FORWARD)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_add_its_gradient_three_times_over(op: str, dtype: str, run: Any) -> None:
    """A block with its starting properties, its gradient, the gradient's gradient: nothing to mend by hand."""
    block = catalogue.blocks()[op]
    shape = ",".join(["2", *["6"] * block.spatial, "3"])
    blocks = {"x": ("Tensor", {"shape": shape, "fill": "random", "dtype": dtype}), "pool": (op, {})}
    graph = page(blocks, {f"pool.{block.pins[0].name}": "x.tensor"})
    newest, made, added = "pool", block, []
    while made.gradient is not None and len(added) < 3:
        graph, newest = with_gradient(graph, newest, dtype)
        made = catalogue.blocks()[made.gradient.op]
        added.append(newest)
    answer = run(graph)
    assert answer["problems"] == []
    assert added
    x, first = answer["blocks"]["x"]["outputs"]["tensor"], answer["blocks"][added[0]]["outputs"]["output"]
    assert (first["shape"], first["dtype"]) == (x["shape"], dtype)
