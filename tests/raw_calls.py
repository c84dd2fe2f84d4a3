"""Calls of the raw ops: random ones, what the reference expects of one, and how to print one as a runnable line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import reference
from cases import random_values
from reference import Array, Exact, Windows

FRACTIONAL = ("float16", "bfloat16", "float32", "float64", "int32", "int64")
EVERY = (*reference.FLOATS, *reference.INTEGERS)

#: Of each op: dtypes, number of pooled axes, and data arguments with what they are: i has the input's shape, o the
#: output's, p is what pooling the input gives, a its argmax.
OPS: Mapping[str, tuple[tuple[str, ...], int, str]] = {
    "AvgPool": (reference.FLOATS, 2, "value:i"),
    "AvgPoolGrad": (reference.FLOATS, 2, "grad:o"),
    "AvgPool3D": (reference.FLOATS, 3, "input:i"),
    "AvgPool3DGrad": (reference.FLOATS, 3, "grad:o"),
    "MaxPool": (EVERY, 2, "input:i"),
    "MaxPoolV2": (EVERY, 2, "input:i"),
    "MaxPool3D": (EVERY, 3, "input:i"),
    "MaxPoolGrad": (EVERY, 2, "orig_input:i orig_output:p grad:o"),
    "MaxPoolGradV2": (EVERY, 2, "orig_input:i orig_output:p grad:o"),
    "MaxPool3DGrad": (EVERY, 3, "orig_input:i orig_output:p grad:o"),
    "MaxPoolGradGrad": (EVERY, 2, "orig_input:i orig_output:p grad:i"),
    "MaxPoolGradGradV2": (EVERY, 2, "orig_input:i orig_output:p grad:i"),
    "MaxPool3DGradGrad": (EVERY, 3, "orig_input:i orig_output:p grad:i"),
    "MaxPoolWithArgmax": (EVERY, 2, "input:i"),
    "MaxPoolGradWithArgmax": (EVERY, 2, "input:i grad:o argmax:a"),
    "MaxPoolGradGradWithArgmax": (EVERY, 2, "input:i grad:i argmax:a"),
    "FractionalAvgPool": (FRACTIONAL, 2, "value:i"),
    "FractionalMaxPool": (FRACTIONAL, 2, "value:i"),
    "FractionalAvgPoolGrad": (FRACTIONAL, 2, "out_backprop:o"),
    "FractionalMaxPoolGrad": (FRACTIONAL, 2, "orig_input:i orig_output:p out_backprop:o"),
}
NO_FORMAT = tuple(op for op in OPS if "Argmax" in op or op.startswith("Fractional"))


@dataclass
class Call:
    """One call: its arguments, and the geometry the reference found for it."""

    op: str
    arguments: dict[str, Any]
    windows: Windows
    sizes: tuple[int, ...]
    first: int
    tags: set[str] = field(default_factory=set)
    axes: list[tuple[int, int, int]] = field(default_factory=list)  # n, window, stride of sliding axes

    @property
    def data(self) -> Array:
        """The first tensor."""
        return self.arguments[OPS[self.op][2].split(":")[0]]

    def __str__(self) -> str:
        words = ", ".join(f"{name}={written(value)}" for name, value in self.arguments.items())
        return f"from numpy import *; import ml_dtypes, poolgrad; poolgrad.raw_ops.{self.op}({words})"


def written(value: Any) -> str:
    """A value as Python source."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    kind = "ml_dtypes.bfloat16" if value.dtype.name == "bfloat16" else repr(value.dtype.name)
    flat = value.astype(np.float64) if value.dtype.kind not in "iu" else value
    return f"array({flat.ravel().tolist()!r}, dtype={kind}).reshape({value.shape})"


# ---- random calls ----------------------------------------------------------------------------------------------------


def random_call(
    rng: np.random.Generator, op: str, dtypes: tuple[str, ...] = (), formats: bool = True, subnormals: bool = True
) -> Call:
    """A valid call with random geometry and values; ``formats`` also draws channels first."""
    allowed, spatial, _ = OPS[op]
    dtype = reference.dtype(str(rng.choice([name for name in allowed if not dtypes or name in dtypes])))
    first_channels = formats and rng.random() < 0.4
    around = [1 if rng.random() < 0.5 else int(rng.integers(2, 4)), int(rng.choice([1, 1, 2, 3, 8, 9]))]
    if rng.random() < 0.03:
        around[int(rng.integers(2))] = 0
    call = (_fractional if op.startswith("Fractional") else _sliding)(rng, op, spatial)
    call.first = 2 if first_channels else 1
    layout = "NC" + "DHW"[3 - spatial :] if first_channels else "N" + "DHW"[3 - spatial :] + "C"
    if op not in NO_FORMAT or first_channels:
        call.arguments["data_format"] = layout
    if "pooling_ratio" in call.arguments and first_channels:
        call.arguments["pooling_ratio"] = [1.0, 1.0, *call.arguments["pooling_ratio"][1:3]]
    if not op.startswith("Fractional"):
        for name in ("ksize", "strides"):
            numbers = call.arguments[name]
            call.arguments[name] = [1, 1, *numbers] if first_channels else [1, *numbers, 1]
        if call.arguments.get("explicit_paddings"):
            pads = call.arguments["explicit_paddings"]
            call.arguments["explicit_paddings"] = [0] * 4 + pads if first_channels else [0, 0, *pads, 0, 0]
    _fill(rng, call, around, dtype, subnormals)
    return call


def _sliding(rng: np.random.Generator, op: str, spatial: int) -> Call:
    longest = 9 if spatial == 2 else 6
    while True:
        explicit = op in ("MaxPool", "MaxPoolGrad") and rng.random() < 0.3
        padding: Any = "EXPLICIT" if explicit else str(rng.choice(["SAME", "VALID"]))
        axes, pads, windows = [], [], []
        for _ in range(spatial):
            n = int(rng.integers(1, longest + 1)) if rng.random() > 0.02 else 0
            window, stride = int(rng.integers(1, 6)), int(rng.integers(1, 5))
            if padding == "VALID" and rng.random() < 0.95:
                window = min(window, max(n, 1))  # else most results would be empty
            elif rng.random() < 0.15:
                window = n + int(rng.integers(1, 4))
            axes.append((n, window, stride))
            pads.append((int(rng.integers(window)), int(rng.integers(window))) if explicit else padding)
        try:
            windows = [reference.sliding(*axis, pad) for axis, pad in zip(axes, pads, strict=True)]
        except ValueError:
            continue
        arguments = {"ksize": [k for _, k, _ in axes], "strides": [s for _, _, s in axes], "padding": padding}
        if explicit:
            arguments["explicit_paddings"] = [side for pair in pads for side in pair]
        call = Call(op, arguments, windows, tuple(n for n, _, _ in axes), 1, axes=axes)
        if padding == "SAME" and any(k > n > 0 for n, k, _ in axes):
            call.tags.add("SAME with window > input")
        if any(s > k for _, k, s in axes):
            call.tags.add("stride > window")
        return call


def _fractional(rng: np.random.Generator, op: str, spatial: int) -> Call:
    sizes = tuple(int(n) for n in rng.integers(1, 12, spatial))
    overlapping = bool(rng.random() < 0.5)
    arguments: dict[str, Any] = {"overlapping": overlapping}
    if not op.endswith("Grad"):
        ratios = [1.0, *(float(np.float32(rng.uniform(1, min(n, 4)))) for n in sizes), 1.0]
        seeds = rng.integers(-(2**63), 2**63 - 1, 2, endpoint=True)
        arguments |= {"pooling_ratio": ratios, "pseudo_random": bool(rng.random() < 0.5), "deterministic": True}
        arguments |= {"seed": int(seeds[0]), "seed2": int(seeds[1])}
        return Call(op, arguments, [], sizes, 1)
    sequences = []
    for n in sizes:
        inside = np.sort(rng.choice(np.arange(n + 1), int(rng.integers(2, min(n, 7) + 2)), replace=False))
        if rng.random() < 0.7:
            inside[0], inside[-1] = 0, n
        sequences.append(inside.astype(np.int64))
    if rng.random() < 0.1:
        sequences[0][-1] += 2  # clipped
    arguments |= dict(zip(("row_pooling_sequence", "col_pooling_sequence"), sequences, strict=True))
    windows = [reference.fractional(n, row.tolist(), overlapping) for n, row in zip(sizes, sequences, strict=True)]
    return Call(op, arguments, windows, sizes, 1)


def _fill(rng: np.random.Generator, call: Call, around: list[int], dtype: np.dtype[Any], subnormals: bool) -> None:
    """Tensors and shapes; the op's own pooled result and argmax from the reference."""
    batch, channels = around
    around_first = (batch, channels) if call.first == 2 else (batch,)
    around_last = () if call.first == 2 else (channels,)
    input_shape = (*around_first, *call.sizes, *around_last)
    style = rng.choice(["as drawn", "all ties", "no ties"], p=[0.6, 0.1, 0.3])
    count = len(call.sizes)
    order = {}
    for spec in OPS[call.op][2].split():
        name, side = spec.split(":")
        if side in "io":
            shape = input_shape if side == "i" else (*around_first, *map(len, call.windows), *around_last)
            special = dtype.kind not in "iu" and rng.random() < 0.3  # each on its own: NaN in a gradient only, too
            values = random_values(rng, shape, dtype, special=special)
            if special and not subnormals:
                tiny = float(ml_dtypes.finfo(dtype).smallest_normal)
                values = np.where(np.abs(values.astype(np.float64)) < tiny, dtype.type(0), values)
            if style == "all ties":
                values = np.ones_like(values)
            elif style == "no ties" and not special:
                values = (rng.permutation(values.size).reshape(shape) % 100).astype(dtype)
            order[name] = values
        else:
            source = next(iter(order.values()))
            positions = reference.max_positions(source, call.windows, call.first)
            if side == "p":
                order[name] = reference.take(source, positions, call.first, count)
            else:
                batched = bool(rng.random() < 0.5)
                call.arguments["include_batch_in_index"] = batched
                order[name] = reference.tensorflow_indices(positions, call.first, count, call.sizes, batched)
    if call.op == "MaxPoolWithArgmax":
        call.arguments["include_batch_in_index"] = bool(rng.random() < 0.5)
    shape_name = {"AvgPoolGrad": "orig_input_shape", "AvgPool3DGrad": "orig_input_shape"}.get(call.op)
    if call.op == "FractionalAvgPoolGrad":
        shape_name = "orig_input_tensor_shape"
    shapes = {shape_name: list(input_shape)} if shape_name else {}
    call.arguments = {**shapes, **order, **call.arguments}
    if any(np.isnan(v.astype(np.float64)).any() for v in order.values() if v.dtype.kind not in "iu"):
        call.tags.add("NaN")
    if any(np.isinf(v.astype(np.float64)).any() for v in order.values() if v.dtype.kind not in "iu"):
        call.tags.add("infinity")
    if 0 in input_shape or (call.windows and 0 in map(len, call.windows)):
        call.tags.add("zero size")
    covered = [{i for start, stop, _ in axis for i in range(start, stop)} for axis in call.windows]
    if any(len(inside) < n for inside, n in zip(covered, call.sizes, strict=False)):
        call.tags.add("gaps")


# ---- what the reference expects --------------------------------------------------------------------------------------


def expected(call: Call, sequences: tuple[Array, Array] | None = None) -> dict[str, Array | Exact]:
    """Every output: an exact array, or float sums with their bound. Fractional forwards need the drawn sequences."""
    op, given, first, sizes, windows = call.op, call.arguments, call.first, call.sizes, call.windows
    count = len(sizes)
    if op in ("FractionalAvgPool", "FractionalMaxPool"):
        assert sequences is not None
        windows = [
            reference.fractional(n, s.tolist(), given["overlapping"]) for n, s in zip(sizes, sequences, strict=True)
        ]
    data = call.data
    if "Avg" in op:
        whole = data.dtype.kind in "iu"
        if op.endswith("Grad"):
            model = reference.avg_pool_grad_integers if whole else reference.avg_pool_grad
            return {"output": model(data, windows, first, sizes)}
        return {"output": (reference.avg_pool_integers if whole else reference.avg_pool)(data, windows, first)}
    if "GradWithArgmax" in op:
        batch, size = data.shape[0], math.prod(data.shape[1:])
        offset = np.arange(batch).reshape(-1, *(1,) * (data.ndim - 1)) * size * given["include_batch_in_index"]
        local = (given["argmax"] - offset).reshape(batch, math.prod(given["argmax"].shape[1:]))
        grad = given["grad"].reshape(batch, math.prod(given["grad"].shape[1:]))
        if "GradGrad" in op:
            return {"output": reference.take(grad, local, 1, 1).reshape(given["argmax"].shape)}
        return {"output": reference.scatter(grad, local, 1, 1, (size,)).reshape(data.shape)}
    positions = reference.max_positions(data, windows, first)
    if "GradGrad" in op:
        return {"output": reference.take(given["grad"], positions, first, count)}
    if "Grad" in op:
        grad = given["grad"] if "grad" in given else given["out_backprop"]
        return {"output": reference.scatter(grad, positions, first, count, sizes)}
    values: dict[str, Array | Exact] = {"output": reference.take(data, positions, first, count)}
    if op == "MaxPoolWithArgmax":
        batched = given["include_batch_in_index"]
        values["argmax"] = reference.tensorflow_indices(positions, first, count, sizes, batched)
    return values


def check(call: Call, result: Any) -> dict[str, Array | Exact]:
    """poolgrad's result of ``call`` against the reference; what was expected is returned."""
    outputs = result._asdict() if hasattr(result, "_asdict") else {"output": result}
    drawn = None
    if "row_pooling_sequence" in outputs:
        drawn = (outputs["row_pooling_sequence"], outputs["col_pooling_sequence"])
        for sequence, n in zip(drawn, call.sizes, strict=True):
            assert sequence.dtype == np.int64, call
            assert (sequence[0], sequence[-1]) == (0, n), call
    wanted = expected(call, drawn)
    try:
        for name, right in wanted.items():
            if isinstance(right, Exact):
                assert outputs[name].dtype == call.data.dtype, name
                reference.assert_close(outputs[name], right, note=name)
            else:
                reference.assert_same_bits(outputs[name], right, name)
    except AssertionError as error:
        raise AssertionError(f"{call}: {error}") from error
    return wanted
