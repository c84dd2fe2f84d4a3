"""The NumPy functions against the reference, on every case."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import reference
from cases import DTYPES, GEOMETRIES, LAYOUTS, Case, Geometry
from reference import FLOATS, INTEGERS, assert_close, assert_same_bits

import poolgrad as pg

every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: geometry.name)


def cases(geometry: Geometry, dtypes: tuple[str, ...]) -> Iterator[Case]:
    return itertools.starmap(Case, itertools.product([geometry], LAYOUTS, dtypes))


# ---- averages --------------------------------------------------------------------------------------------------------


@every_geometry
@pytest.mark.parametrize("special", [False, True], ids=["plain", "special"])
def test_avg_pool(geometry: Geometry, special: bool) -> None:
    table = geometry.table()
    for case in cases(geometry, FLOATS):
        x = case.values(case.shape, special=special)
        y = pg.avg_pool(x, table, axes=case.axes)
        assert y.dtype == case.dtype
        assert_close(y, reference.avg_pool(x, geometry.windows, case.first), note=case.name)
        assert_same_bits(y, reference.avg_pool_bits(x, geometry.windows, case.first), case.name)


@every_geometry
@pytest.mark.parametrize("special", [False, True], ids=["plain", "special"])
def test_avg_pool_grad(geometry: Geometry, special: bool) -> None:
    table, sizes = geometry.table(), geometry.input_size
    for case in cases(geometry, FLOATS):
        grad = case.values(case.pooled_shape, special=special)
        dx = pg.avg_pool_grad(grad, table, axes=case.axes)
        assert dx.dtype == case.dtype
        assert_close(dx, reference.avg_pool_grad(grad, geometry.windows, case.first, sizes), note=case.name)
        assert_same_bits(dx, reference.avg_pool_grad_bits(grad, geometry.windows, case.first, sizes), case.name)


@every_geometry
def test_avg_pool_grad_of_integers(geometry: Geometry) -> None:
    table, sizes = geometry.table(), geometry.input_size
    for case in cases(geometry, ("int32", "int64")):
        grad = case.values(case.pooled_shape)
        dx = pg.avg_pool_grad(grad, table, axes=case.axes)
        assert_same_bits(dx, reference.avg_pool_grad_integers(grad, geometry.windows, case.first, sizes), case.name)


@every_geometry
def test_mean_of_integers(geometry: Geometry) -> None:
    table = geometry.table()
    for case in cases(geometry, INTEGERS):
        x = case.values(case.shape)
        for asked, kind in ((None, "float32"), ("float64", "float64"), (x.dtype, x.dtype)):
            y = pg.avg_pool(x, table, axes=case.axes, dtype=asked)
            expected = reference.mean_pool(x, geometry.windows, case.first, np.dtype(kind))
            assert_same_bits(y, expected, f"{case.name} {kind}")


@every_geometry
def test_sum_pool(geometry: Geometry) -> None:
    table = geometry.table()
    ones = [[(start, stop, 1) for start, stop, _ in axis] for axis in geometry.windows]
    for case in cases(geometry, DTYPES):
        x = case.values(case.shape)
        y = pg.sum_pool(x, table, axes=case.axes)
        if case.dtype_name in FLOATS:
            assert_close(y, reference.avg_pool(x, ones, case.first), note=case.name)
            continue
        wide = np.dtype("u8" if case.dtype.kind == "u" else "i8")
        expected = reference.avg_pool_integers(x.astype(wide).view(np.int64), ones, case.first).view(wide)
        assert_same_bits(y, expected, case.name)


@every_geometry
def test_sum_pool_grad(geometry: Geometry) -> None:
    table = geometry.table()
    ones = [[(start, stop, 1) for start, stop, _ in axis] for axis in geometry.windows]
    for case in cases(geometry, FLOATS):
        grad = case.values(case.pooled_shape)
        dx = pg.sum_pool_grad(grad, table, axes=case.axes)
        assert_close(dx, reference.avg_pool_grad(grad, ones, case.first, geometry.input_size), note=case.name)


def test_sum_pool_grad_of_integers_is_exact() -> None:
    for kind in ("int32", "int64"):
        grad = np.array([3, -6, 2**30], kind)
        dx = pg.sum_pool_grad(grad, input_size=7, window=3, stride=2, axes=0)
        assert_same_bits(dx, np.array([3, 3, -3, -6, 2**30 - 6, 2**30, 2**30], kind))


@every_geometry
def test_divisor(geometry: Geometry) -> None:
    table = geometry.table()
    sixes = [[(a, b, 6 if k == 0 else 1) for a, b, _ in axis] for k, axis in enumerate(geometry.windows)]
    for case in cases(geometry, ("float32",)):
        x, grad = case.values(case.shape), case.values(case.pooled_shape)
        assert_close(pg.avg_pool(x, table, axes=case.axes, divisor=6), reference.avg_pool(x, sixes, case.first))
        dx = pg.avg_pool_grad(grad, table, axes=case.axes, divisor=6)
        assert_close(dx, reference.avg_pool_grad(grad, sixes, case.first, geometry.input_size))


@pytest.mark.parametrize("kind", FLOATS)
def test_means_of_ones_are_one(kind: str) -> None:
    """Low precision sums elsewhere give 0.0625 for 16^3, and per-axis reciprocals 1.0000001 for 7x7."""
    dtype = reference.dtype(kind)
    assert pg.avg_pool(np.ones((16, 16, 16), dtype), window=16, axes=(0, 1, 2)).item() == 1
    assert pg.avg_pool(np.ones((7, 7), dtype), window=7, axes=(0, 1)).item() == 1
    ones = pg.avg_pool_grad(
        np.ones((60, 60), dtype), input_size=(60, 60), window=15, stride=1, padding="SAME", axes=(0, 1)
    )
    inside = ones[20:40, 20:40].astype(np.float64)
    assert np.abs(inside - 1).max() <= float(reference.half_ulp(np.array(1.0), reference.ml_dtypes.finfo(dtype))) * 2


def test_no_sum_runs_on() -> None:
    """An infinity or NaN touches the windows that hold it and no other."""
    x = np.ones(1000, np.float32)
    x[500], x[700] = np.inf, np.nan
    y = pg.avg_pool(x, window=5, stride=1, axes=0)
    assert np.flatnonzero(np.isinf(y)).tolist() == list(range(496, 501))
    assert np.flatnonzero(np.isnan(y)).tolist() == list(range(696, 701))
    grad = pg.avg_pool_grad(y, input_size=1000, window=5, stride=1, axes=0)
    assert np.flatnonzero(~np.isfinite(grad)).tolist() == [*range(496, 505), *range(696, 705)]


# ---- max and min -----------------------------------------------------------------------------------------------------


@every_geometry
@pytest.mark.parametrize("special", [False, True], ids=["plain", "special"])
@pytest.mark.parametrize("op", ["max", "min"])
def test_max_and_min(geometry: Geometry, special: bool, op: str) -> None:
    table, windows, sizes = geometry.table(), geometry.windows, geometry.input_size
    count = len(sizes)
    reach = [axis.reach for axis in table.axes]
    pool, pool_grad = (getattr(pg, f"{op}_pool{suffix}") for suffix in ("", "_grad"))
    for case in cases(geometry, DTYPES):
        x = case.values(case.shape, special=special)
        v, grad = case.values(case.shape, 1, special=special), case.values(case.pooled_shape, 2, special=special)
        positions = reference.max_positions(x, windows, case.first, op == "min")
        y, winners = pool(x, table, axes=case.axes, return_winners=True)
        assert_same_bits(y, reference.take(x, positions, case.first, count), case.name)
        assert winners.dtype == table.winner_dtype
        codes = reference.codes(positions, windows, case.first, sizes, reach)
        assert_same_bits(winners, codes.astype(winners.dtype), case.name)
        assert_same_bits(pool(x, table, axes=case.axes), y, case.name)
        dx = pool_grad(grad, table, winners, axes=case.axes)
        assert_same_bits(dx, reference.scatter(grad, positions, case.first, count, sizes), case.name)
        taken = pg.take_winners(v, table, winners, axes=case.axes)
        assert_same_bits(taken, reference.take(v, positions, case.first, count), case.name)


def test_first_maximum_wins() -> None:
    x = np.zeros((4, 4), np.float32)
    y, winners = pg.max_pool(x, window=3, stride=1, axes=(0, 1), return_winners=True)
    assert (winners == 0).all()
    assert (y == 0).all()
    signed = np.array([-0.0, 0.0, 0.0, -0.0])
    assert np.signbit(pg.max_pool(signed, window=2, axes=0)).tolist() == [True, False]
    assert np.signbit(pg.min_pool(signed, window=2, axes=0)).tolist() == [True, False]


def test_first_nan_wins() -> None:
    x = np.array([1.0, np.nan, np.inf, np.nan, -np.inf, 2.0])
    for pool in (pg.max_pool, pg.min_pool):
        y, winners = pool(x, window=3, axes=0, return_winners=True)
        assert np.isnan(y).all()
        assert winners.tolist() == [1, 0]
    lowest = np.full(4, -np.inf, np.float16)
    y, winners = pg.max_pool(lowest, window=4, axes=0, return_winners=True)
    assert y.tolist() == [-np.inf]
    assert winners.tolist() == [0]


def test_gradient_of_nothing_is_positive_zero() -> None:
    """Inputs that no window covers, or that never won, get +0 even where every grad is negative."""
    grad = np.full(2, -1.0, np.float32)
    w = pg.sliding(9, 2, 5)
    assert not np.signbit(pg.avg_pool_grad(grad, w, axes=0)[[2, 3, 4, 7, 8]]).any()
    _, winners = pg.max_pool(np.arange(9.0), w, axes=0, return_winners=True)
    assert not np.signbit(pg.max_pool_grad(grad, w, winners, axes=0)[[0, 2, 3, 4, 5, 7, 8]]).any()
    assert not np.signbit(pg.max_pool_grad(-0.0 * np.ones(2), w, winners, axes=0)).any()


def test_winners_outside_their_window_are_found() -> None:
    w = pg.sliding((5, 5), 3, 2, "SAME")
    winners = np.zeros((3, 3), np.uint8)
    grad = np.ones((3, 3), np.float32)
    pg.max_pool_grad(grad, w, winners, axes=(0, 1))
    for place, code in (((0, 0), 8), ((2, 1), 255), ((1, 2), 2), ((2, 2), 6)):
        wrong = winners.copy()
        wrong[place] = code
        for call in (
            lambda codes: pg.max_pool_grad(grad, w, codes, axes=(0, 1)),
            lambda codes: pg.take_winners(np.ones((5, 5)), w, codes, axes=(0, 1)),
        ):
            with pytest.raises(ValueError, match=r"winners\[{}, {}\]={} lies outside".format(*place, code)):
                call(wrong)


# ---- arguments -------------------------------------------------------------------------------------------------------

FUNCTIONS: dict[str, Any] = {
    "avg_pool": lambda x, grad, w, winners, **more: pg.avg_pool(x, w, **more),
    "sum_pool": lambda x, grad, w, winners, **more: pg.sum_pool(x, w, **more),
    "avg_pool_grad": lambda x, grad, w, winners, **more: pg.avg_pool_grad(grad, w, **more),
    "sum_pool_grad": lambda x, grad, w, winners, **more: pg.sum_pool_grad(grad, w, **more),
    "max_pool": lambda x, grad, w, winners, **more: pg.max_pool(x, w, **more),
    "min_pool": lambda x, grad, w, winners, **more: pg.min_pool(x, w, **more),
    "max_pool_grad": lambda x, grad, w, winners, **more: pg.max_pool_grad(grad, w, winners, **more),
    "min_pool_grad": lambda x, grad, w, winners, **more: pg.min_pool_grad(grad, w, winners, **more),
    "take_winners": lambda x, grad, w, winners, **more: pg.take_winners(x, w, winners, **more),
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def arguments(layout: str = "NHWC") -> tuple[Any, ...]:
    """An image, a grad, a table, winners, in this layout."""
    rng = np.random.default_rng(7)
    w = pg.sliding((6, 7), 3, 2, "SAME")
    x = rng.standard_normal((2, 6, 7, 3)).astype(np.float32)
    grad = rng.standard_normal((2, 3, 4, 3)).astype(np.float32)
    if layout == "NCHW":
        x, grad = (np.ascontiguousarray(np.moveaxis(array, 3, 1)) for array in (x, grad))
    _, winners = pg.max_pool(x, w, data_format=layout, return_winners=True)
    return x, grad, w, winners


@every_function
def test_data_format_is_shorthand_for_axes(name: str) -> None:
    function = FUNCTIONS[name]
    for layout, axes in (("NHWC", (1, 2)), ("NCHW", (2, 3)), ("NHWC", [-3, -2]), ("NCHW", (np.int64(2), 3))):
        given = arguments(layout)
        assert_same_bits(function(*given, data_format=layout), function(*given, axes=axes))
    last, first = (function(*arguments(layout), data_format=layout) for layout in ("NHWC", "NCHW"))
    assert_same_bits(np.moveaxis(first, 1, 3), last)


@every_function
def test_out_is_returned_itself(name: str) -> None:
    function, given = FUNCTIONS[name], arguments()
    fresh = function(*given, axes=(1, 2))
    for out in (
        np.full_like(fresh, 7),
        np.full((2 * fresh.shape[0], *fresh.shape[1:]), 7, fresh.dtype)[::2],
        np.full(fresh.shape[::-1], 7, fresh.dtype).T,
        np.full(fresh.shape, 7, fresh.dtype)[::-1],
    ):
        assert function(*given, axes=(1, 2), out=out) is out
        assert_same_bits(out, fresh)


@every_function
def test_bad_out(name: str) -> None:
    function, given = FUNCTIONS[name], arguments()
    fresh = function(*given, axes=(1, 2))
    source = given[1] if "grad" in name else given[0]
    locked = fresh.copy()
    locked.flags.writeable = False
    wrong: list[tuple[type[Exception], Any]] = [
        (ValueError, np.empty((*fresh.shape[:-1], 5), fresh.dtype)),
        (TypeError, np.empty(fresh.shape, np.float64)),
        (ValueError, locked),
        (TypeError, fresh.tolist()),
        (ValueError, np.broadcast_to(np.zeros(1, fresh.dtype), fresh.shape)),
        (ValueError, np.lib.stride_tricks.as_strided(source.ravel()[:1], fresh.shape, (4, 4, 4, 4), writeable=True)),
        (TypeError, np.ma.zeros(fresh.shape, fresh.dtype)),
    ]
    before = source.copy()
    for error, out in wrong:
        with pytest.raises(error, match=f"^{name}: out"):
            function(*given, axes=(1, 2), out=out)
    assert_same_bits(source, before)


def test_out_with_winners() -> None:
    x, _, w, codes = arguments()
    values, winners = np.empty((2, 3, 4, 3), np.float32), np.empty((2, 3, 4, 3), np.uint8)
    result = pg.max_pool(x, w, axes=(1, 2), return_winners=True, out=(values, winners))
    assert result[0] is values
    assert result[1] is winners
    assert_same_bits(winners, codes)
    with pytest.raises(TypeError, match="^max_pool: out="):
        pg.max_pool(x, w, axes=(1, 2), return_winners=True, out=values)
    bytes_of_both = np.empty((2, 3, 4, 3), np.uint8)
    with pytest.raises(ValueError, match="overlaps"):
        pg.max_pool(bytes_of_both.repeat(2, 1).repeat(2, 2)[:, :6, :7], w, axes=(1, 2), return_winners=True,
                    out=(bytes_of_both, bytes_of_both))  # fmt: skip


def test_shorthand_makes_the_table() -> None:
    x, grad, w, _ = arguments()
    geometry = {"window": 3, "stride": 2, "padding": "SAME", "data_format": "NHWC"}
    assert_same_bits(pg.avg_pool(x, **geometry), pg.avg_pool(x, w, data_format="NHWC"))
    assert_same_bits(pg.max_pool(x, **geometry), pg.max_pool(x, w, data_format="NHWC"))
    dx = pg.avg_pool_grad(grad, input_size=(6, 7), **geometry)
    assert_same_bits(dx, pg.avg_pool_grad(grad, w, data_format="NHWC"))
    volume = np.arange(64, dtype=np.float32).reshape(4, 4, 4)
    assert pg.avg_pool(volume, window=2, axes=(0, 1, 2)).shape == (2, 2, 2)


def test_any_leading_axes() -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 5, 6, 2)).astype(np.float32)
    y = pg.avg_pool(x, window=(2, 3), axes=(3, 4))
    assert y.shape == (2, 3, 4, 2, 2, 2)
    flat = pg.avg_pool(x.reshape(24, 5, 6, 2), window=(2, 3), axes=(1, 2))
    assert_same_bits(y.reshape(flat.shape), flat)


def test_float_mean_in_another_dtype() -> None:
    x = np.random.default_rng(1).standard_normal(12).astype(np.float16)
    y = pg.avg_pool(x, window=3, axes=0, dtype=np.float64)
    assert_same_bits(y, pg.avg_pool(x.astype(np.float64), window=3, axes=0))
    with pytest.raises(TypeError, match="^avg_pool: dtype"):
        pg.avg_pool(x, window=3, axes=0, dtype=np.int32)
    with pytest.raises(TypeError, match="^avg_pool: dtype"):
        pg.avg_pool(np.arange(4), window=2, axes=0, dtype=np.int8)
    with pytest.raises(TypeError, match="^avg_pool: dtype"):
        pg.avg_pool(np.arange(4), window=2, axes=0, dtype="complex64")


def test_windows_that_jump() -> None:
    """Irregular windows far apart: a tile of neighbours may reach over the whole axis, wherever it begins."""
    size, half = 100_000, 20_000
    start = np.r_[np.zeros(half, np.int64), np.full(half, size - 1)]
    w = pg.intervals((2, size), [[0], start], [[2], start + 1])
    x = np.arange(2 * size, dtype=np.float32).reshape(2, size)
    y = pg.avg_pool(x, w, axes=(0, 1))
    assert_same_bits(y, ((x[:1] + x[1:]) / 2)[:, start])
    grad = pg.avg_pool_grad(np.ones_like(y), w, axes=(0, 1))
    assert_same_bits(grad[:, [0, -1]], np.full((2, 2), half / 2, np.float32))
    assert not grad[:, 1:-1].any()


def test_few_columns_with_gaps_between_rows() -> None:
    """Rows of planes side by side are joined over gaps: more of them than windows have rows."""
    x = np.arange(16 * 200 * 2, dtype=np.float32).reshape(16, 200, 2)
    result = pg.avg_pool(x, window=(1, 2), stride=(30, 2), axes=(1, 2))
    assert_same_bits(result, x[:, ::30].mean(2, keepdims=True, dtype=np.float32))


@pytest.mark.parametrize("sizes", [(2, 256, 512), (3, 40, 700), (70, 9, 8)])
def test_max_gradient_from_the_input_in_boxes(sizes: tuple[int, int, int]) -> None:
    """Winners that are found again box by box are those of the whole."""
    x = np.random.default_rng(7).standard_normal((1, *sizes, 16)).astype(np.float16)
    ksize, strides = [1, 2, 2, 2, 1], [1, 1, 2, 2, 1]
    y = pg.raw_ops.MaxPool3D(x, ksize, strides, "SAME")
    w = pg.sliding(sizes, 2, (1, 2, 2), "SAME")
    winners = pg.max_pool(x, w, data_format="NDHWC", return_winners=True)[1]
    for workers in (1, 3):
        found = pg.raw_ops.MaxPool3DGrad(x, y, y, ksize, strides, "SAME", workers=workers)
        assert_same_bits(found, pg.max_pool_grad(y, w, winners, data_format="NDHWC"))


@pytest.mark.parametrize("kind", ["float32", "float64", "int8"])
def test_winners_of_eight_bytes_are_looked_at_as_a_whole(kind: str) -> None:
    window = 2**33
    w, _ = pg.sliding((window + 1, 8), (window, 2), (window, 2), [(0, window - 1), (0, 0)]).part(0, 1, 2)
    winners = np.zeros((1, 4), np.uint64)
    winners[0, 2] = 1 << 32
    with pytest.raises(ValueError, match=r"winners\[0, 2\]=4294967296 lies outside its window"):
        pg.max_pool_grad(np.ones((1, 4), kind), w, winners, axes=(0, 1))


@pytest.mark.parametrize("stride", [2**32, 2**57, 2**64 // 88])
def test_a_part_with_a_huge_stride(stride: int) -> None:
    w, _ = pg.sliding(stride + 2, 2, stride).part(0, 1, 2)
    assert pg.avg_pool(np.array([1.0, 2.0]), w, axes=0).tolist() == [1.5]
    assert pg.avg_pool_grad(np.array([1.0]), w, axes=0).tolist() == [0.5, 0.5]


def test_nothing_of_huge_sizes() -> None:
    sizes = (2**20, 2**20, 2**20)
    w = pg.sliding(sizes, 3, 1, "SAME")
    nothing = np.empty((0, *sizes), np.int8)
    assert pg.max_pool_grad(nothing, w, nothing.view(np.uint8), axes=(1, 2, 3)).shape == nothing.shape
