"""JAX: a jitted window reduction and its derivative, channels last; MODE is not used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from child import numbers  # type: ignore[import-not-found]

jax: Any = None


def start(mode: str, workers: int) -> dict[str, str]:
    global jax
    jax = importlib.import_module("jax")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    return {"jax": jax.__version__}


def prepare(case: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    kind, step = case["kind"], case["step"]
    if case["ratio"] or step not in ("forward", "gradient"):
        raise NotImplementedError("JAX has no such op")
    dtype = jax.numpy.dtype(case["dtype"])
    pool = _pool(case, dtype)
    if step == "forward":
        arguments = [jax.numpy.asarray(numbers(case["input"], dtype, 1))]
        run = jax.jit(pool)
    elif kind == "average":
        arguments = [jax.numpy.asarray(numbers(case["output"], dtype, 2))]
        transposed = jax.linear_transpose(pool, jax.ShapeDtypeStruct(tuple(case["input"]), dtype))
        run = jax.jit(lambda grad: transposed(grad)[0])
    else:
        arguments = [
            jax.numpy.asarray(numbers(case["input"], dtype, 1)),
            jax.numpy.asarray(numbers(case["output"], dtype, 2)),
        ]
        run = jax.jit(lambda x, grad: jax.vjp(pool, x)[1](grad)[0])
    return lambda: run(*arguments).block_until_ready(), lambda result: np.asarray(result).astype(np.float64)


def _pool(case: dict[str, Any], dtype: Any) -> Callable[[Any], Any]:
    window, strides = (1, *case["window"], 1), (1, *case["stride"], 1)
    pads, counts = [(0, 0)], np.ones((1,), np.float64)
    rows = zip(case["input"][1:-1], case["output"][1:-1], case["window"], case["stride"], case["before"], strict=True)
    for size, outputs, reach, stride, before in rows:
        after = max(0, (outputs - 1) * stride + reach - before - size)
        pads.append((before, after))
        begin = np.arange(outputs) * stride - before
        inside = np.minimum(begin + reach, size) - np.maximum(begin, 0)
        counts = counts[..., None] * inside
    pads.append((0, 0))
    lax = jax.lax
    if case["kind"] == "average":
        if np.issubdtype(dtype, np.integer):
            raise NotImplementedError("JAX has no exact mean of integers")
        divisors = counts[..., None].astype(dtype)
        zero = np.zeros((), dtype)
        return lambda x: lax.reduce_window(x, zero, lax.add, window, strides, pads) / divisors
    least = np.array(np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else -np.inf, dtype)
    return lambda x: lax.reduce_window(x, least, lax.max, window, strides, pads)
