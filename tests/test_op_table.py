"""The op table against TensorFlow's own: signatures, defaults, dtypes, outputs, as data."""

from __future__ import annotations

import dataclasses

import pytest
import raw_calls

from poolgrad.op_table import OPS, REQUIRED, Argument, Op

SIZES = "ksize strides padding"
TWO, THREE = "data_format='NHWC'", "data_format='NDHWC'"
ORIGINALS = "orig_input orig_output grad"
FRACTIONAL = "value pooling_ratio pseudo_random=False overlapping=False deterministic=False seed=0 seed2=0"
SEQUENCES = "row_pooling_sequence col_pooling_sequence overlapping=False"
#: TensorFlow's arguments in order with their defaults (`name` is always last), and its outputs.
SIGNATURES = {
    "AvgPool": (f"value {SIZES} {TWO}", "output"),
    "AvgPoolGrad": (f"orig_input_shape grad {SIZES} {TWO}", "output"),
    "AvgPool3D": (f"input {SIZES} {THREE}", "output"),
    "AvgPool3DGrad": (f"orig_input_shape grad {SIZES} {THREE}", "output"),
    "MaxPool": (f"input {SIZES} explicit_paddings=() {TWO}", "output"),
    "MaxPoolV2": (f"input {SIZES} {TWO}", "output"),
    "MaxPoolGrad": (f"{ORIGINALS} {SIZES} explicit_paddings=() {TWO}", "output"),
    "MaxPoolGradV2": (f"{ORIGINALS} {SIZES} {TWO}", "output"),
    "MaxPoolGradGrad": (f"{ORIGINALS} {SIZES} {TWO}", "output"),
    "MaxPoolGradGradV2": (f"{ORIGINALS} {SIZES} {TWO}", "output"),
    "MaxPoolWithArgmax": (f"input {SIZES} Targmax='int64' include_batch_in_index=False", "output argmax"),
    "MaxPoolGradWithArgmax": (f"input grad argmax {SIZES} include_batch_in_index=False", "output"),
    "MaxPoolGradGradWithArgmax": (f"input grad argmax {SIZES} include_batch_in_index=False", "output"),
    "MaxPool3D": (f"input {SIZES} {THREE}", "output"),
    "MaxPool3DGrad": (f"{ORIGINALS} {SIZES} {THREE}", "output"),
    "MaxPool3DGradGrad": (f"{ORIGINALS} {SIZES} {THREE}", "output"),
    "FractionalAvgPool": (FRACTIONAL, "output row_pooling_sequence col_pooling_sequence"),
    "FractionalMaxPool": (FRACTIONAL, "output row_pooling_sequence col_pooling_sequence"),
    "FractionalAvgPoolGrad": (f"orig_input_tensor_shape out_backprop {SEQUENCES}", "output"),
    "FractionalMaxPoolGrad": (f"orig_input orig_output out_backprop {SEQUENCES}", "output"),
}
every_op = pytest.mark.parametrize("op", OPS.values(), ids=OPS.keys())


def test_all_twenty() -> None:
    assert set(OPS) == set(SIGNATURES)
    assert all(name == op.name for name, op in OPS.items())


@every_op
def test_signature(op: Op) -> None:
    words = [a.name if a.default is REQUIRED else f"{a.name}={a.default!r}" for a in op.arguments]
    arguments, outputs = SIGNATURES[op.name]
    assert " ".join(words) == arguments
    assert " ".join(op.outputs) == outputs


@every_op
def test_dtypes_and_formats(op: Op) -> None:
    assert set(op.dtypes) == set(raw_calls.OPS[op.name][0])
    assert op.spatial == raw_calls.OPS[op.name][1]
    assert op.formats == (("NHWC", "NCHW") if op.spatial == 2 else ("NDHWC", "NCDHW"))


@every_op
def test_words(op: Op) -> None:
    assert op.summary.endswith(".")
    assert ">>>" in op.example
    assert "=" in op.formula
    for argument in op.arguments:
        assert argument.help.endswith(".")
        assert argument.is_pin == (argument.kind in ("tensor", "shape", "sequence", "indices"))
        if argument.kind == "choice":
            assert argument.default is REQUIRED or argument.default in argument.choices


@every_op
def test_gradient_wiring(op: Op) -> None:
    """The gradient's every data argument is wired to something that exists."""
    if op.gradient is None:
        assert op.name in ("FractionalAvgPoolGrad", "FractionalMaxPoolGrad")
        return
    gradient = OPS[op.gradient]
    pins = {argument.name for argument in gradient.arguments if argument.is_pin}
    assert set(op.wiring) == pins
    mine = {argument.name for argument in op.arguments} | set(op.outputs)
    for source in op.wiring.values():
        assert source == "grad" or source.removeprefix("shape of ") in mine, source
    typed = {argument.name for argument in gradient.arguments if not argument.is_pin and argument.default is REQUIRED}
    assert typed <= {argument.name for argument in op.arguments}


def test_frozen() -> None:
    op = OPS["AvgPool"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        op.name = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        op.arguments[0].name = "other"  # type: ignore[misc]
    assert isinstance(op.arguments[0], Argument)
    assert repr(REQUIRED) == "REQUIRED"
