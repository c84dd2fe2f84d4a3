"""Forward, gradient and second order against JAX's reduce_window, and its arrays as arguments.

JAX compiles about 0.3 s for each new geometry and dtype: random ones until the time is spent, three arrays for each.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import reference
from reference import assert_close, assert_same_bits

import poolgrad as pg

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("ignore")]  # JAX's own warnings
SECONDS = 70  # with what test_presets_live.py spends on JAX, 90
KINDS = ("float32", "float64", "bfloat16", "float16")


@pytest.fixture
def jax(need: Callable[[str], None]) -> Any:
    need("jax")
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    return jax


def geometry(rng: np.random.Generator) -> tuple[list[int], list[int], list[int], Any, reference.Windows]:
    spatial = int(rng.integers(1, 4))
    while True:
        sizes = rng.integers(1, 12 if spatial < 3 else 6, spatial).tolist()
        windows, strides = rng.integers(1, 6, spatial).tolist(), rng.integers(1, 4, spatial).tolist()
        padding: Any = str(rng.choice(["SAME", "VALID", "pairs"]))
        if padding == "pairs":
            padding = [(int(rng.integers(k)), int(rng.integers(k))) for k in windows]
        each = [padding] * spatial if isinstance(padding, str) else padding
        try:
            table = [reference.sliding(*row) for row in zip(sizes, windows, strides, each, strict=True)]
        except ValueError:
            continue
        if all(table) and (padding != "VALID" or all(n >= k for n, k in zip(sizes, windows, strict=True))):
            return sizes, windows, strides, padding, table


def compiled(jax: Any, windows: list[int], strides: list[int], padding: Any, divisor: Any) -> Any:
    """A function of x and a gradient: average and its gradient, maximum and its gradient."""
    lax = jax.lax
    size, step = (1, *windows, 1), (1, *strides, 1)
    pads = padding if isinstance(padding, str) else [(0, 0), *padding, (0, 0)]

    def average(x: Any) -> Any:
        total = lax.reduce_window(x, np.zeros((), x.dtype), lax.add, size, step, pads)
        return total / divisor[..., None].astype(x.dtype)

    def maximum(x: Any) -> Any:
        return lax.reduce_window(x, np.array(-np.inf, x.dtype), lax.max, size, step, pads)

    def both(x: Any, g: Any) -> Any:
        results = []
        for function in (average, maximum):
            value, pull_back = jax.vjp(function, x)
            results += [value, pull_back(g)[0]]
        return results

    return jax.jit(both)


def test_live(jax: Any, seed: int) -> None:
    seen: Counter[str] = Counter()
    rng = np.random.default_rng(seed)
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        sizes, windows, strides, padding, table = geometry(rng)
        count = len(sizes)
        kind = KINDS[seen["geometries"] % len(KINDS)]
        dtype = reference.dtype(kind)
        w = pg.sliding(sizes, windows, strides, padding)
        axes = tuple(range(1, 1 + count))
        call = f"POOLGRAD_SEED={seed}: {kind} {sizes}, window {windows}, stride {strides}, padding {padding}"
        divisor = np.ones(w.output_size)
        for k, axis in enumerate(table):
            divisor = divisor * np.array([d for _, _, d in axis]).reshape([-1 if i == k else 1 for i in range(count)])
        ask = compiled(jax, windows, strides, padding, divisor)
        most = [
            max(sum(a <= i < b for a, b, _ in axis) for i in range(n)) for axis, n in zip(table, sizes, strict=True)
        ]
        for _ in range(3):
            x = rng.standard_normal((2, *sizes, 3)).astype(dtype)
            g = rng.standard_normal((2, *w.output_size, 3)).astype(dtype)
            if rng.random() < 0.5:
                x = np.round(x.astype(np.float64)).astype(dtype)
                seen["ties"] += 1
            mean, mean_grad, top, top_grad = map(np.asarray, ask(x, g))
            y, winners = pg.max_pool(x, w, axes=axes, return_winners=True)
            np.testing.assert_array_equal(y.astype("f8"), top.astype("f8"), call)  # -0 and 0 tie, and either may be it
            positions = reference.max_positions(x, table, 1)
            won, weight = (
                reference.scatter(v, positions, 1, count, sizes) for v in (g.astype("f8"), abs(g.astype("f8")))
            )
            scattered = reference.Exact(won, weight, np.full(won.shape, math.prod(most)), weight)
            for ours, theirs, exact in (
                (pg.avg_pool(x, w, axes=axes), mean, reference.avg_pool(x, table, 1)),
                (pg.avg_pool_grad(g, w, axes=axes), mean_grad, reference.avg_pool_grad(g, table, 1, sizes)),
                (pg.max_pool_grad(g, w, winners, axes=axes), top_grad, scattered),
            ):
                assert_close(ours, exact, note=call)
                # JAX adds term by term in the dtype itself, and rounds each weight of an average to it.
                assert_close(theirs, exact._replace(terms=exact.terms**count + 2), sums_in=dtype, note=f"JAX, {call}")
            seen["arrays"] += 1
        seen["geometries"] += 1
        seen[kind] += 1
        seen[f"{count}-D"] += 1
        seen["gaps"] += any(s > k for s, k in zip(strides, windows, strict=True))
        seen[str(padding) if isinstance(padding, str) else "pairs"] += 1
    print(f"JAX {jax.__version__}, POOLGRAD_SEED={seed}", dict(seen))
    wanted = (*KINDS, "1-D", "2-D", "3-D", "ties", "gaps", "SAME", "VALID", "pairs")
    assert all(seen[name] for name in wanted), {name for name in wanted if not seen[name]}
    assert seen["geometries"] >= 60


def test_second_order(jax: Any) -> None:
    """The transpose of avg_pool_grad is avg_pool; the derivative of max_pool in direction v is take_winners."""
    lax, rng = jax.lax, np.random.default_rng(5)
    x, v = rng.standard_normal((2, 7, 8, 3)), rng.standard_normal((2, 7, 8, 3))
    w = pg.sliding((7, 8), 3, 2)

    def maximum(x: Any) -> Any:
        return lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")

    _, tangent = jax.jvp(maximum, (x,), (v,))
    _, winners = pg.max_pool(x, w, axes=(1, 2), return_winners=True)
    np.testing.assert_array_equal(pg.take_winners(v, w, winners, axes=(1, 2)), tangent)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64", "int8", "uint16", "int32", "int64"])
def test_arrays_as_arguments(jax: Any, kind: str) -> None:
    dtype = ml_dtypes.bfloat16 if kind == "bfloat16" else kind
    x = (np.random.default_rng(1).standard_normal((2, 6, 8, 3)) * 9).astype(dtype)
    given = jax.numpy.asarray(x)
    assert str(given.dtype) == kind
    assert_same_bits(pg.max_pool(given, window=2, data_format="NHWC"), pg.max_pool(x, window=2, data_format="NHWC"))
    raw = pg.raw_ops.MaxPool(given, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    assert_same_bits(raw, pg.max_pool(x, window=2, data_format="NHWC"))


def test_traced_arrays_are_refused(jax: Any) -> None:
    with pytest.raises(TypeError, match="^avg_pool: x"):
        jax.jit(lambda x: pg.avg_pool(x, window=2, axes=0))(np.ones(4))
