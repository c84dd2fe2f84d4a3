"""Numerical differentiation of every op that has a gradient, wired as the op table says.

First order of the forward ops, second order of their gradients: the derivative by the gradient that goes in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poolgrad import raw_ops
from poolgrad.op_table import OPS, Op

SHAPES = {2: ((2, 5, 6, 2), [1, 3, 2, 1], [1, 2, 2, 1]), 3: ((1, 4, 5, 4, 2), [1, 2, 3, 2, 1], [1, 2, 2, 1, 1])}
STEP = 2.0**-10


def differentiated(op: Op) -> str:
    """The argument a derivative is taken by: the gradient that goes in, or the array that is pooled."""
    tensors = op.named("tensor")
    return next((name for name in tensors if name in ("grad", "out_backprop")), tensors[0])


def call_of(op: Op, rng: np.random.Generator) -> dict[str, Any]:
    """Arguments of a call in float64, without ties: whatever was pooled is a permutation of multiples of 1/4."""
    shape, ksize, strides = SHAPES[op.spatial]
    pooled = rng.permutation(int(np.prod(shape))).reshape(shape) / 4.0
    values: dict[str, Any] = {"ksize": ksize, "strides": strides, "padding": "SAME"}
    values |= {"pooling_ratio": [1, 1.5, 1.7, 1], "deterministic": True, "seed": 3, "seed2": 4, "overlapping": True}
    values |= dict.fromkeys(("value", "input", "orig_input"), pooled) | dict.fromkeys(op.named("shape"), shape)
    forward = next(row for row in OPS.values() if row.gradient == op.name) if op.result == "input" else op
    if op.name.endswith(("GradGrad", "GradGradV2", "GradGradWithArgmax")):
        return values | call_of(OPS[op.gradient or ""], rng) | {"grad": rng.standard_normal(shape)}
    if forward is not op:
        result = getattr(raw_ops, forward.name)(
            **{a.name: values[a.name] for a in forward.arguments if a.name in values}
        )
        outputs = dict(zip(forward.outputs, result if len(forward.outputs) > 1 else [result], strict=True))
        values |= {"orig_output": outputs["output"], **outputs}
        values |= {name: rng.standard_normal(outputs["output"].shape) for name in ("grad", "out_backprop")}
    return values


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.gradient], ids=lambda op: op.name)
def test_gradient_is_the_numerical_derivative(op: Op) -> None:
    rng = np.random.default_rng(len(op.name))
    values = call_of(op, rng)
    arguments = {argument.name: values[argument.name] for argument in op.arguments if argument.name in values}
    run = getattr(raw_ops, op.name)
    result = run(**arguments)
    outputs = dict(zip(op.outputs, result if len(op.outputs) > 1 else [result], strict=True))
    weights = rng.standard_normal(outputs["output"].shape)

    gradient = OPS[op.gradient or ""]
    wired: dict[str, Any] = {
        a.name: arguments[a.name] for a in gradient.arguments if a.name in arguments and not a.is_pin
    }
    for name, source in op.wiring.items():
        if source == "grad":
            wired[name] = weights
        elif source.startswith("shape of "):
            wired[name] = arguments[source.removeprefix("shape of ")].shape
        else:
            wired[name] = outputs[source] if source in outputs else arguments[source]
    if differentiated(gradient) in arguments:
        wired[differentiated(gradient)] = weights
    analytic = getattr(raw_ops, gradient.name)(**wired)
    analytic = analytic[0] if isinstance(analytic, tuple) else analytic

    by = differentiated(op)
    point = arguments[by]
    numerical = np.empty_like(point)
    for place in np.ndindex(point.shape):
        sums = []
        for step in (STEP, -STEP):
            moved = point.copy()
            moved[place] += step
            value = run(**{**arguments, by: moved})
            sums.append(float(((value[0] if isinstance(value, tuple) else value) * weights).sum()))
        numerical[place] = (sums[0] - sums[1]) / (2 * STEP)
    np.testing.assert_allclose(analytic, numerical, rtol=0, atol=1e-9)
