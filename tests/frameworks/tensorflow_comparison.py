"""Compare every raw op with TensorFlow on random calls; one process for each of TensorFlow's two kernel sets.

    TF_ENABLE_ONEDNN_OPTS=0 python tests/frameworks/tensorflow_comparison.py --seed 1 [--op AvgPoolGrad] [--scale 1.0]

prints one JSON object: for each op how many calls were compared with TensorFlow and how often each class occurred among
them, and how many were compared only with the reference because TensorFlow is known to be wrong or to refuse there (and
why). A call that disagrees is printed as a line that can be run, and the exit code is 1. oneDNN has kernels for six of
the ops; the others are compared with its switch on as well, fewer times, for they must be the native ones still.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import raw_calls
import reference
from raw_calls import Call
from reference import Array, Exact

ONEDNN = os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "1"
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "int64")
#: What TensorFlow's CPU kernels take.
DTYPES = {
    "AvgPool3D": ("float32", "bfloat16"),
    "AvgPool3DGrad": ("float32", "bfloat16"),
    "MaxPool3D": ("float32", "bfloat16"),
    "MaxPool3DGrad": ("float32", "bfloat16"),
    "MaxPool3DGradGrad": ("float32", "bfloat16"),
    "MaxPool": (*reference.FLOATS, *INTEGERS),
    "MaxPoolV2": (*reference.FLOATS, *INTEGERS),
    "FractionalAvgPool": ("float32", "float64", "int32", "int64"),
    "FractionalMaxPool": ("float32", "float64", "int32", "int64"),
    "FractionalAvgPoolGrad": ("float32", "float64", "int32", "int64"),
    "FractionalMaxPoolGrad": ("float32", "float64", "int32", "int64"),
}
NO_KERNEL = "MaxPoolGradGradWithArgmax"
FOUR = ("AvgPoolGrad", "AvgPool3DGrad", "FractionalAvgPoolGrad", "FractionalMaxPoolGrad")
ONEDNN_OPS = ("AvgPool", "AvgPoolGrad", "AvgPool3D", "AvgPool3DGrad", "MaxPool", "MaxPool3D")


def known(call: Call) -> str | None:
    """Why TensorFlow's answer to this call is not to be compared, if so (see docs/differences.md)."""
    op, given = call.op, call.arguments
    same = given.get("padding") == "SAME"
    native = not (ONEDNN and call.data.dtype == np.float32 and op in ONEDNN_OPS)
    forward = op in ("AvgPool", "AvgPool3D", "MaxPool", "MaxPoolV2", "MaxPool3D")
    if "zero size" in call.tags and (ONEDNN or not (forward or op in ("AvgPoolGrad", "AvgPool3DGrad"))):
        return "empty tensors: refused, uninitialised or a crash"
    if (
        same
        and native
        and op in ("AvgPoolGrad", "AvgPool3DGrad", "MaxPool3DGrad")
        and any(map(_forgets_padding, call.axes))
    ):
        return "gradient of a window over the input forgets its padding"
    if same and native and op in ("AvgPool3D", "MaxPool3D", "MaxPool3DGradGrad") and any(map(_shifts, call.axes)):
        return "3-D SAME with stride > window shifts its windows"
    if op == "AvgPool3D" and "NaN" in call.tags:
        return "NaN is skipped in some lanes"
    if "Max" in op and "GradWithArgmax" not in op and call.data.dtype.kind not in "iu":
        data = call.data.astype(np.float64)
        if np.isnan(data).any() or np.isneginf(data).any():
            return "NaN or -inf in a maximum"
    if op == "MaxPool3DGrad" and (_near_ties(call) or np.isinf(call.data.astype(np.float64)).any()):
        return "every element within 1e-5 of the maximum gets the gradient"
    if op == "FractionalMaxPoolGrad":
        cells = len(given["row_pooling_sequence"]) * len(given["col_pooling_sequence"])
        if cells > call.data.size:
            return "refuses valid calls: more sequence entries than elements"
    return None


def _forgets_padding(axis: tuple[int, int, int]) -> bool:
    n, k, s = axis
    before = max(0, (-(-n // s) - 1) * s + k - n) // 2
    return k > n and any(i * s < before and k + i * s - before < n for i in range(-(-n // s)))


def _shifts(axis: tuple[int, int, int]) -> bool:
    n, k, s = axis
    return (-(-n // s) - 1) * s + k - n <= -2


def _near_ties(call: Call) -> bool:
    frame = np.nan_to_num(call.data.astype(np.float64))
    axes = tuple(range(call.first, call.first + 3))
    for _, box, _ in reference.boxes(call.windows):
        cell = frame[(slice(None),) * call.first + box]
        near = np.abs(cell - cell.max(axis=axes, keepdims=True)) < 2e-5
        if (near.sum(axis=axes) > 1).any():
            return True
    return False


def ask(tf: Any, call: Call) -> dict[str, Array]:
    """TensorFlow's outputs, in the call's own layout."""
    given = dict(call.arguments)
    layout = given.pop("data_format", "N")
    first = call.first == 2
    direct = ONEDNN and call.data.dtype == np.float32 and call.op in ONEDNN_OPS and given["padding"] != "EXPLICIT"
    if first and direct:
        given["data_format"] = layout
        first = False
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            moved = np.moveaxis(value, 1, -1) if first and value.ndim > 3 else value
            given[name] = tf.constant(np.ascontiguousarray(moved))
        elif first and isinstance(value, list) and len(value) in (4, 5):
            given[name] = [value[0], *value[2:], value[1]]
        elif first and name == "explicit_paddings" and value:
            given[name] = [*value[:2], *value[4:], *value[2:4]]
    result = getattr(tf.raw_ops, call.op)(**given)
    outputs = result._asdict() if hasattr(result, "_asdict") else {"output": result}
    arrays = {name: tensor.numpy() for name, tensor in outputs.items()}
    return {name: np.moveaxis(array, -1, 1) if first and array.ndim > 3 else array for name, array in arrays.items()}


def compare(call: Call, theirs: dict[str, Array], wanted: dict[str, Array | Exact]) -> None:
    """TensorFlow's outputs against the reference, which poolgrad's already met, within TensorFlow's own rounding."""
    for name, right in wanted.items():
        got = theirs[name]
        if got.dtype.kind not in "iu" and (isinstance(right, Exact) or "Grad" in call.op):
            in_double = call.op == "FractionalAvgPoolGrad"
            exact = right if isinstance(right, Exact) else _scattered(call, right)
            if not in_double:
                exact = exact._replace(terms=_all_terms(call, exact.value.shape))
            reference.assert_close(
                got, exact, sums_in=np.float64 if in_double else got.dtype, note=f"TensorFlow: {name}"
            )
        else:
            np.testing.assert_array_equal(got, right, f"TensorFlow: {name}")


def _all_terms(call: Call, shape: tuple[int, ...]) -> Array:
    """No more terms than this meet in one element: TensorFlow adds them one after another."""
    windows = call.windows or [[(0, n, n)] for n in call.sizes]
    if call.op.endswith("Grad") and "GradGrad" not in call.op:
        counts = [
            max((sum(a <= i < b for a, b, _ in axis) for i in range(n)), default=0)
            for axis, n in zip(windows, call.sizes, strict=True)
        ]
    else:
        counts = [max((b - a for a, b, _ in axis), default=0) for axis in windows]
    return np.full(shape, float(np.prod(counts)))


def _scattered(call: Call, result: Array) -> Exact:
    """A max gradient as exact sums."""
    wide = {
        name: value.astype(np.float64) if name in ("grad", "out_backprop") else value
        for name, value in call.arguments.items()
    }
    sizes = Call(call.op, wide, call.windows, call.sizes, call.first)
    value = raw_calls.expected(sizes)["output"]
    absolute = {
        name: np.where(np.isfinite(v), np.abs(v), 0) if name in ("grad", "out_backprop") else v
        for name, v in wide.items()
    }
    magnitude = raw_calls.expected(Call(call.op, absolute, call.windows, call.sizes, call.first))["output"]
    return Exact(value, magnitude, np.ones_like(value), magnitude)


def run(tf: Any, op: str, count: int, seed: int) -> dict[str, Any]:
    """Random calls of one op until ``count`` were compared with TensorFlow."""
    from poolgrad import raw_ops

    rng = np.random.default_rng([seed, *map(ord, op)])
    compared, classes, reasons = 0, collections.Counter(), collections.Counter()
    dtypes = ("float32",) if ONEDNN and op in ONEDNN_OPS and "Grad" not in op else DTYPES.get(op, ())
    while compared < count:
        # TensorFlow's threads flush subnormals to zero: none are drawn.
        call = raw_calls.random_call(rng, op, dtypes, formats="Argmax" not in op, subnormals=False)
        try:
            reason = known(call)
            if reason and reason.startswith("empty") and op in ("FractionalAvgPool", "FractionalMaxPool"):
                reasons[reason] += 1
                continue
            ours = getattr(raw_ops, op)(**call.arguments)
            wanted = raw_calls.check(call, ours)
            if reason is not None:
                reasons[reason] += 1
                continue
            theirs = ask(tf, call)
            for name in ("row_pooling_sequence", "col_pooling_sequence"):
                if name in theirs:
                    np.testing.assert_array_equal(getattr(ours, name), theirs[name], name)
            if op == "FractionalAvgPoolGrad" and call.data.dtype.kind == "i" and _saturates(call):
                reasons["an integer out of range is undefined"] += 1
                continue
            compare(call, theirs, wanted)
            classes.update(call.tags)
            compared += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {call}\n{type(error).__name__}: {error}") from error
    return {"compared": compared, "reference only": dict(reasons), "classes": dict(classes)}


def _saturates(call: Call) -> bool:
    limits = np.iinfo(call.data.dtype)
    total = reference.avg_pool_grad(call.data, call.windows, call.first, call.sizes).value
    return bool(((total >= float(limits.max)) | (total <= float(limits.min))).any())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--op", default="")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of calls, 200 to 5000 an op")
    arguments = parser.parse_args()
    import tensorflow as tf

    report: dict[str, Any] = {"tensorflow": tf.__version__, "oneDNN": ONEDNN, "seed": arguments.seed, "ops": {}}
    for op in raw_calls.OPS:
        if op == NO_KERNEL or (arguments.op and op != arguments.op):
            continue
        count = (
            (200 if op not in ONEDNN_OPS else 2000 if op in FOUR else 1000) if ONEDNN else 5000 if op in FOUR else 1000
        )
        try:
            report["ops"][op] = run(tf, op, int(count * arguments.scale), arguments.seed)
        except AssertionError as error:
            print(error, file=sys.stderr)
            return 1
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
