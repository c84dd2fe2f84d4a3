"""Forward, gradient and second order against JAX's reduce_window, and its arrays as arguments.

JAX compiles about 0.3 s for each new geometry, so there are few geometries and several arrays for each.
"""

from __future__ import annotations

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
SECONDS = 60


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


def test_live(jax: Any, seed: int) -> None:
    lax, seen = jax.lax, Counter()
    rng = np.random.default_rng(seed)
    began = time.monotonic()
    while time.monotonic() - began < SECONDS and seen["geometries"] < 60:
        sizes, windows, strides, padding, table = geometry(rng)
        count = len(sizes)
        kind = str(rng.choice(["float32", "float64"]))
        w = pg.sliding(sizes, windows, strides, padding)
        axes = tuple(range(1, 1 + count))
        size, step = (1, *windows, 1), (1, *strides, 1)
        pads = padding if isinstance(padding, str) else [(0, 0), *padding, (0, 0)]
        call = f"POOLGRAD_SEED={seed}: {kind} {sizes}, window {windows}, stride {strides}, padding {padding}"
        divisor = np.ones(w.output_size)
        for k, axis in enumerate(table):
            divisor = divisor * np.array([d for _, _, d in axis]).reshape([-1 if i == k else 1 for i in range(count)])

        def average(x: Any, size: Any = size, step: Any = step, pads: Any = pads, divisor: Any = divisor) -> Any:
            return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, size, step, pads) / divisor[..., None].astype(
                x.dtype
            )

        def maximum(x: Any, size: Any = size, step: Any = step, pads: Any = pads) -> Any:
            return lax.reduce_window(x, np.array(-np.inf, x.dtype), lax.max, size, step, pads)

        both = jax.jit(lambda x, g, average=average, maximum=maximum: [
            (jax.vjp(f, x)[0], jax.vjp(f, x)[1](g)[0]) for f in (average, maximum)])  # fmt: skip
        for _ in range(4):
            x = rng.standard_normal((2, *sizes, 3)).astype(kind)
            g = rng.standard_normal((2, *w.output_size, 3)).astype(kind)
            if rng.random() < 0.5:
                x = np.round(x)
                seen["ties"] += 1
            (mean, mean_grad), (top, top_grad) = [[np.asarray(a) for a in pair] for pair in both(x, g)]
            for ours, theirs, exact in (
                (pg.avg_pool(x, w, axes=axes), mean, reference.avg_pool(x, table, 1)),
                (pg.avg_pool_grad(g, w, axes=axes), mean_grad, reference.avg_pool_grad(g, table, 1, sizes)),
            ):
                assert_close(ours, exact, note=call)
                assert_close(theirs, exact._replace(terms=exact.terms**count), note=f"JAX, {call}")
            y, winners = pg.max_pool(x, w, axes=axes, return_winners=True)
            np.testing.assert_array_equal(y, top, call)
            dx = pg.max_pool_grad(g, w, winners, axes=axes)
            np.testing.assert_allclose(dx, top_grad, rtol=1e-5 if kind == "float32" else 1e-12, atol=1e-6, err_msg=call)
            seen["arrays"] += 1
        seen["geometries"] += 1
        seen["gaps"] += any(s > k for s, k in zip(strides, windows, strict=True))
        seen[str(padding) if isinstance(padding, str) else "pairs"] += 1
    print(f"POOLGRAD_SEED={seed}", dict(seen))
    assert all(seen[name] for name in ("geometries", "ties", "gaps", "SAME", "VALID", "pairs"))
    assert seen["arrays"] >= 20


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
