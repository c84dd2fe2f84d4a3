"""TensorFlow's raw ops; MODE is "1" with oneDNN and "0" without (set in the environment before the import)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from child import numbers  # type: ignore[import-not-found]

tf: Any = None


def start(mode: str, workers: int) -> dict[str, str]:
    global tf
    tf = importlib.import_module("tensorflow")
    tf.config.threading.set_intra_op_parallelism_threads(workers)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return {"tensorflow": tf.__version__}


def prepare(case: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    step, gradient = case["step"], case["step"] == "gradient"
    if step not in ("forward", "gradient"):
        raise NotImplementedError("TensorFlow has no such step")
    dtype = tf.dtypes.as_dtype(case["dtype"]).as_numpy_dtype
    with tf.device("CPU"):
        x = tf.constant(numbers(case["input"], dtype, 1)) if "max" in case["kind"] or not gradient else None
        grad = tf.constant(numbers(case["output"], dtype, 2)) if gradient else None
    call = (_fractional if case["ratio"] else _sliding)(case, x, grad)

    def show(result: Any) -> Any:
        return np.asarray((result if tf.is_tensor(result) else result[0]).numpy(), np.float64)

    return call, show


def _sliding(case: dict[str, Any], x: Any, grad: Any) -> Callable[[], Any]:
    volume = len(case["input"]) == 5
    family = ("AvgPool" if case["kind"] == "average" else "MaxPool") + ("3D" if volume else "")
    given = {"ksize": [1, *case["window"], 1], "strides": [1, *case["stride"], 1], "padding": case["padding"]}
    if case["padding"] == "EXPLICIT":
        # Only where both sides are padded alike does the list of workloads say EXPLICIT.
        given["explicit_paddings"] = [0, 0, *(n for before in case["before"] for n in (before, before)), 0, 0]
    forward = getattr(tf.raw_ops, family)
    value = {"value" if family == "AvgPool" else "input": x}
    if grad is None:
        return lambda: forward(**value, **given)
    backward = getattr(tf.raw_ops, family + "Grad")
    if case["kind"] == "average":
        shape = tf.constant(case["input"], tf.int32)
        return lambda: backward(orig_input_shape=shape, grad=grad, **given)
    y = forward(**value, **given)
    return lambda: backward(orig_input=x, orig_output=y, grad=grad, **given)


def _fractional(case: dict[str, Any], x: Any, grad: Any) -> Callable[[], Any]:
    maximum = case["kind"].endswith("max")
    family = "FractionalMaxPool" if maximum else "FractionalAvgPool"
    forward, backward = getattr(tf.raw_ops, family), getattr(tf.raw_ops, family + "Grad")
    drawing = {
        "pooling_ratio": [1.0, *case["ratio"], 1.0], "pseudo_random": case["pseudo_random"],
        "overlapping": case["overlapping"], "deterministic": True, "seed": case["seeds"][0], "seed2": case["seeds"][1],
    }  # fmt: skip
    if grad is None:
        return lambda: forward(value=x, **drawing)
    rows, columns = (tf.constant(row, tf.int64) for row in case["sequences"])
    given = {"row_pooling_sequence": rows, "col_pooling_sequence": columns, "overlapping": case["overlapping"]}
    if not maximum:
        shape = tf.constant(case["input"], tf.int64)
        return lambda: backward(orig_input_tensor_shape=shape, out_backprop=grad, **given)
    y = forward(value=x, **drawing)[0]
    return lambda: backward(orig_input=x, orig_output=y, out_backprop=grad, **given)
