"""Properties over random geometry x dtype x layout x strides x values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import reference
from cases import DTYPES
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference import FLOATS, assert_close, assert_same_bits

import poolgrad as pg

# ---- strategies ------------------------------------------------------------------------------------------------------


@st.composite
def axes_of_windows(draw: st.DrawFn, longest: int = 12) -> tuple[Any, int, list[reference.Window]]:
    """One axis of any kind: (table of that axis, size, its windows)."""
    kind = draw(st.sampled_from(["sliding", "sliding", "fractional", "adaptive", "intervals"]))
    n = draw(st.integers(1, longest))
    if kind == "sliding":
        window, stride = draw(st.integers(1, 2 * longest)), draw(st.integers(1, 7))
        pads = st.tuples(st.integers(0, 4), st.integers(0, 4))
        padding = draw(st.one_of(st.sampled_from(["SAME", "VALID"]), pads))
        try:
            windows = reference.sliding(n, window, stride, padding)
        except ValueError:
            assume(False)
        return pg.sliding(n, window, stride, padding if isinstance(padding, str) else [padding]), n, windows
    if kind == "adaptive":
        m = draw(st.integers(1, longest))
        return pg.adaptive(n, m), n, reference.adaptive(n, m)
    if kind == "fractional":
        count = draw(st.integers(2, n + 1))
        sequence = sorted(draw(st.lists(st.integers(0, n), min_size=count, max_size=count, unique=True)))
        overlapping = draw(st.booleans())
        return pg.fractional(n, [sequence], overlapping), n, reference.fractional(n, sequence, overlapping)
    count = draw(st.integers(1, 6))
    start = sorted(draw(st.lists(st.integers(0, n - 1), min_size=count, max_size=count)))
    stop = list(itertools.accumulate((draw(st.integers(a + 1, n)) for a in start), max))
    divisor = draw(st.lists(st.integers(1, 30), min_size=count, max_size=count))
    return pg.intervals(n, start, stop, divisor), n, list(zip(start, stop, divisor, strict=True))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[pg.WindowTable, reference.Windows, tuple[int, ...], tuple[int, ...], int]:
    """A table of one to three axes, and where it stands in an array: (table, windows, sizes, shape, first)."""
    count = draw(st.integers(1, 3))
    parts = [draw(axes_of_windows({1: 40, 2: 12, 3: 6}[count])) for _ in range(count)]
    table = pg.WindowTable([part.axes[0] for part, _, _ in parts])
    sizes = tuple(n for _, n, _ in parts)
    before = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    after = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 9, 16, 17, 33]), max_size=1)))
    return table, [windows for _, _, windows in parts], sizes, (*before, *sizes, *after), len(before)


FLOAT_EXTREMES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-40,
    6e-8,
    65504.0,
    3e38,
    -3e38,
    1e-300,
    1e300,
]


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...], kind: str, wild: bool = True) -> Any:
    """Values with the extremes of the type, under any strides."""
    dtype = reference.dtype(kind)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        extremes = [limits.min, limits.max, limits.max - 1, limits.min + 1, 0, 1]
        values = rng.integers(max(limits.min, -9), 9, shape).astype(dtype)
        if wild:
            values = np.where(rng.random(shape) < 0.3, np.array(extremes, dtype)[rng.integers(0, 6, shape)], values)
    else:
        values = np.where(rng.random(shape) < 0.4, rng.integers(-3, 4, shape), rng.standard_normal(shape) * 3)
        if wild and draw(st.booleans()):
            values = np.where(rng.random(shape) < 0.2, rng.choice(FLOAT_EXTREMES, shape), values)
        with np.errstate(over="ignore", invalid="ignore"):
            values = values.astype(dtype)
    view = draw(st.sampled_from(["plain", "steps", "backwards", "fortran", "offset"]))
    if view == "steps" and values.ndim:
        return np.repeat(values, 2, -1)[..., ::2]
    if view == "backwards":
        return np.flip(np.ascontiguousarray(np.flip(values)))
    if view == "fortran":
        return np.asfortranarray(values)
    if view == "offset":
        return np.concatenate([values.ravel()[:1], values.ravel()])[1 if values.size else 0 :].reshape(shape)
    return values


def axes_of(first: int, table: pg.WindowTable) -> tuple[int, ...]:
    return tuple(range(first, first + len(table.axes)))


# ---- against the reference -------------------------------------------------------------------------------------------


@given(layout=layouts(), kind=st.sampled_from(FLOATS), data=st.data())
def test_averages(layout: Any, kind: str, data: st.DataObject) -> None:
    table, windows, sizes, shape, first = layout
    axes = axes_of(first, table)
    x = data.draw(arrays(shape, kind))
    y = pg.avg_pool(x, table, axes=axes)
    assert_close(y, reference.avg_pool(x, windows, first))
    assert_same_bits(y, reference.avg_pool_bits(x, windows, first))
    grad = data.draw(arrays(y.shape, kind))
    dx = pg.avg_pool_grad(grad, table, axes=axes)
    assert_close(dx, reference.avg_pool_grad(grad, windows, first, sizes))
    assert_same_bits(dx, reference.avg_pool_grad_bits(grad, windows, first, sizes))


@given(layout=layouts(), kind=st.sampled_from(DTYPES), minimum=st.booleans(), data=st.data())
def test_maxima(layout: Any, kind: str, minimum: bool, data: st.DataObject) -> None:
    table, windows, sizes, shape, first = layout
    axes, count = axes_of(first, table), len(sizes)
    x = data.draw(arrays(shape, kind))
    pool = pg.min_pool if minimum else pg.max_pool
    y, winners = pool(x, table, axes=axes, return_winners=True)
    positions = reference.max_positions(np.ascontiguousarray(x), windows, first, minimum)
    assert_same_bits(y, reference.take(np.ascontiguousarray(x), positions, first, count))
    assert_same_bits(pg.winners_to_indices(winners, table, "torch", axes=axes), positions)
    grad = data.draw(arrays(y.shape, kind))
    dx = pg.max_pool_grad(grad, table, winners, axes=axes)
    assert_same_bits(dx, reference.scatter(np.ascontiguousarray(grad), positions, first, count, sizes))
    assert_same_bits(pg.take_winners(x, table, winners, axes=axes), y)


@given(layout=layouts(), kind=st.sampled_from(reference.INTEGERS), data=st.data())
def test_integers(layout: Any, kind: str, data: st.DataObject) -> None:
    table, windows, sizes, shape, first = layout
    axes = axes_of(first, table)
    x = data.draw(arrays(shape, kind))
    for result in (np.dtype("float32"), np.dtype("float64"), x.dtype):
        assert_same_bits(pg.avg_pool(x, table, axes=axes, dtype=result), reference.mean_pool(x, windows, first, result))
    if kind in ("int32", "int64"):
        grad = data.draw(arrays(reference.pooled_shape(shape, windows, first), kind))
        dx = pg.avg_pool_grad(grad, table, axes=axes)
        assert_same_bits(dx, reference.avg_pool_grad_integers(grad, windows, first, sizes))


# ---- pairs that must agree -------------------------------------------------------------------------------------------


@given(layout=layouts(), data=st.data())
def test_adjoint_is_exact_on_small_integers(layout: Any, data: st.DataObject) -> None:
    """<sum(x), g> == <x, sum_grad(g)> and <take(v), g> == <v, max_grad(g)>, to the last bit."""
    table, _, _, shape, first = layout
    axes = axes_of(first, table)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x, v = (rng.integers(-8, 9, shape).astype(np.float64) for _ in range(2))
    y = pg.sum_pool(x, table, axes=axes)
    g = rng.integers(-8, 9, y.shape).astype(np.float64)
    assert (y * g).sum() == (x * pg.sum_pool_grad(g, table, axes=axes)).sum()
    _, winners = pg.max_pool(x, table, axes=axes, return_winners=True)
    taken = pg.take_winners(v, table, winners, axes=axes)
    assert (taken * g).sum() == (v * pg.max_pool_grad(g, table, winners, axes=axes)).sum()


@given(layout=layouts(), kind=st.sampled_from(["float32", "float64"]), data=st.data())
def test_adjoint_of_the_mean(layout: Any, kind: str, data: st.DataObject) -> None:
    table, _, _, shape, first = layout
    axes = axes_of(first, table)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = rng.standard_normal(shape).astype(kind)
    y = pg.avg_pool(x, table, axes=axes)
    g = rng.standard_normal(y.shape).astype(kind)
    dx = pg.avg_pool_grad(g, table, axes=axes)
    wide = np.float64
    left, right = (y.astype(wide) * g).sum(), (x.astype(wide) * dx).sum()
    scale = (pg.avg_pool(np.abs(x).astype(wide), table, axes=axes) * np.abs(g)).sum()
    terms = sum(axis.reach + axis.input_size for axis in table.axes) + 8
    assert abs(left - right) <= terms * np.finfo(kind).eps * scale + 1e-300


@given(n=st.integers(1, 40), step=st.integers(1, 9), overlapping=st.booleans(), channels=st.sampled_from([1, 3, 8]))
def test_fractional_with_equal_steps_is_sliding(n: int, step: int, overlapping: bool, channels: int) -> None:
    sequence = [*range(0, n, step), n]
    w = pg.fractional(n, [sequence], overlapping)
    x = np.random.default_rng(n).standard_normal((n, channels)).astype(np.float32)
    if n % step == 0:
        same = pg.sliding(n, step + overlapping, step, [(0, int(overlapping))])
        assert w == same
        assert hash(w) == hash(same)
        assert_same_bits(pg.avg_pool(x, w, axes=0), pg.avg_pool(x, same, axes=0))
    # the same windows as a list that is no rule: the last divisor differs in type of axis only
    windows = reference.fractional(n, sequence, overlapping)
    listed = pg.intervals(n, *zip(*windows, strict=True))
    assert_same_bits(pg.avg_pool(x, w, axes=0), pg.avg_pool(x, listed, axes=0))
    grad = np.random.default_rng(n).standard_normal((len(windows), channels)).astype(np.float32)
    assert_same_bits(pg.avg_pool_grad(grad, w, axes=0), pg.avg_pool_grad(grad, listed, axes=0))


@given(layout=layouts(), kind=st.sampled_from(DTYPES), data=st.data())
def test_max_does_not_depend_on_the_scale(layout: Any, kind: str, data: st.DataObject) -> None:
    """min(x) == -max(-x), winners included (floats), and a larger table axis order changes nothing."""
    table, _, _, shape, first = layout
    axes = axes_of(first, table)
    x = data.draw(arrays(shape, kind))
    if x.dtype.kind == "u":
        flipped = np.bitwise_not(x)
        low, low_winners = pg.min_pool(x, table, axes=axes, return_winners=True)
        high, high_winners = pg.max_pool(flipped, table, axes=axes, return_winners=True)
        assert_same_bits(low, np.bitwise_not(high))
    else:
        flipped = np.bitwise_not(x) if x.dtype.kind == "i" else -x
        low, low_winners = pg.min_pool(x, table, axes=axes, return_winners=True)
        high, high_winners = pg.max_pool(flipped, table, axes=axes, return_winners=True)
        assert_same_bits(low, np.bitwise_not(high) if x.dtype.kind == "i" else -high)
    assert_same_bits(low_winners, high_winners)


@settings(max_examples=20)
@given(layout=layouts(), kind=st.sampled_from(DTYPES), workers=st.integers(1, 7), data=st.data())
def test_workers_and_layout(layout: Any, kind: str, workers: int, data: st.DataObject) -> None:
    table, _, _, shape, first = layout
    axes = axes_of(first, table)
    x = data.draw(arrays(shape, kind))
    one = pg.avg_pool(x, table, axes=axes, workers=1)
    assert_same_bits(pg.avg_pool(x, table, axes=axes, workers=workers), one)
    if x.ndim == first + len(axes) + 1:
        moved = np.moveaxis(x, -1, 0)
        first_channels = pg.avg_pool(moved, table, axes=tuple(axis + 1 for axis in axes), workers=workers)
        assert_same_bits(np.moveaxis(first_channels, 0, -1), one)
