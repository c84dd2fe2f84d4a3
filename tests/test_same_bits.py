"""Same bits for any worker count, layout, spatial part, strides, instruction set and floating-point mode."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from cases import DTYPES, GEOMETRIES, LAYOUTS, Case, Geometry, random_values
from reference import assert_same_bits

import poolgrad as pg

every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: geometry.name)

#: Large enough for several workers and vectors with rests; sizes, window, stride, padding, channels.
LARGE = {
    "plane": ((61, 67), 3, 2, "SAME", 17),
    "overlapping": ((50, 45), 5, 1, "SAME", 9),
    "tiles": ((64, 66), 2, 2, "VALID", 32),
    "gaps": ((80, 90), 2, 3, "VALID", 8),
    "cube": ((18, 20, 22), 3, 1, "SAME", 5),
    "line": ((70001,), 7, 3, "SAME", 1),
    "one plane": ((120, 131), 9, 1, "SAME", 1),
    "long windows": ((700, 40), (301, 3), (17, 2), "SAME", 3),
    "long lines": ((9000,), 300, 90, "SAME", 3),
    "longer than scratch": ((40000,), 20011, 7001, "SAME", 2),
    "most of a plane": ((37, 100), (37, 100), 11, "SAME", 20),
    "many to check": ((30, 31), 7, 2, "SAME", 19),
    "tiles with gaps": ((2, 4, 35), (1, 2, 3), (1, 2, 4), "SAME", 24),
    "some channels": ((40, 91), 3, 2, "SAME", 3),
    "by threes": ((30, 301), 5, 3, "SAME", 1),
    "rows fetched": ((6, 14, 530), 3, 2, "SAME", 1),
    "narrow planes": ((35, 37), 3, 1, "SAME", 9),
    "small planes": ((7, 8), 3, 1, "SAME", 40),
    "rows alike": ((44, 46), 2, 2, "SAME", 9),
    "whole planes": ((7, 30), (7, 30), 1, "VALID", 40),
    "large tiles": ((37, 43), 7, 7, "VALID", 24),
    "tiles of volumes": ((17, 18, 20), 4, 4, "VALID", 40),
    "large volumes": ((25, 40, 41), 3, 2, "VALID", 16),
}


def everything(x: Any, grad: Any, w: pg.WindowTable, axes: tuple[int, ...], workers: int | None = None) -> list[Any]:
    """Every op of the library on these arrays."""
    more: dict[str, Any] = {"axes": axes, "workers": workers}
    y, winners = pg.max_pool(x, w, return_winners=True, **more)
    results = [y, winners, pg.min_pool(x, w, **more), pg.max_pool_grad(grad, w, winners, **more)]
    results += [pg.take_winners(x, w, winners, **more), pg.avg_pool(x, w, **more), pg.sum_pool(x, w, **more)]
    if x.dtype.kind not in "iu":
        results += [pg.sum_pool_grad(grad, w, **more)]
    if x.dtype.kind not in "iu" or x.dtype in (np.int32, np.int64):
        results += [pg.avg_pool_grad(grad, w, **more)]
    return results


def compare(left: list[Any], right: list[Any], note: str) -> None:
    for number, (a, b) in enumerate(zip(left, right, strict=True)):
        assert_same_bits(a, b, f"{note} [{number}]")


def large(name: str, kind: str, special: bool = True) -> tuple[Any, Any, pg.WindowTable, tuple[int, ...]]:
    """Channels last."""
    sizes, window, stride, padding, channels = LARGE[name]
    w = pg.sliding(sizes, window, stride, padding)
    rng = np.random.default_rng([0, *map(ord, name)])
    x = random_values(rng, (2, *sizes, channels), reference.dtype(kind), special=special)
    grad = random_values(rng, (2, *w.output_size, channels), reference.dtype(kind), special=special)
    return x, grad, w, tuple(range(1, 1 + len(sizes)))


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float64", "int32", "int8"])
def test_workers(name: str, kind: str) -> None:
    given = large(name, kind)
    alone = everything(*given, workers=1)
    for workers in (2, 3, 5):
        compare(everything(*given, workers=workers), alone, f"{workers} workers")


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("kind", ["float32", "float16", "float64", "uint8"])
@pytest.mark.parametrize("special", [True, False])
def test_channels_first_and_last(name: str, kind: str, special: bool) -> None:
    x, grad, w, axes = large(name, kind, special)
    last = everything(x, grad, w, axes)
    first = everything(np.moveaxis(x, -1, 1), np.moveaxis(grad, -1, 1), w, tuple(axis + 1 for axis in axes))
    compare([np.moveaxis(result, 1, -1) for result in first], last, "channels first")
    alone = everything(x[1, ..., -1], grad[1, ..., -1], w, tuple(axis - 1 for axis in axes))
    compare(alone, [result[1, ..., -1] for result in last], "one plane")


@pytest.mark.parametrize("name", ["plane", "overlapping", "tiles", "gaps", "narrow planes", "small planes"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", ["first", "last"])
def test_results_past_the_caches(name: str, kind: str, layout: str) -> None:
    """Results of calls that move 36 MiB are streamed: the same as those of each image, wherever in a line they lie."""
    sizes, window, stride, padding, channels = LARGE[name]
    w = pg.sliding(sizes, window, stride, padding)
    case = Case(Geometry(name, sizes, "sliding", {}), layout, kind)
    rng = np.random.default_rng([1, *map(ord, name)])
    images = (37 << 20) // (sizes[0] * sizes[1] * channels * case.dtype.itemsize) + 1
    ends = ((images, channels), ()) if layout == "first" else ((images,), (channels,))
    numbers = random_values(rng, (1_000_003,), case.dtype)  # again and again
    x, grad = (np.resize(numbers, (*ends[0], *n, *ends[1])) for n in (sizes, w.output_size))

    def shifted(like: Any, by: int) -> Any:
        return np.empty(like.size + by, like.dtype)[by:].reshape(like.shape)

    _, winners = pg.max_pool(x, w, axes=case.axes, return_winners=True)
    for by in (0, 5):
        wholes = [
            pg.avg_pool_grad(grad, w, axes=case.axes, out=shifted(x, by)),
            pg.max_pool_grad(grad, w, winners, axes=case.axes, out=shifted(x, by)),
            pg.max_pool(x, w, axes=case.axes, out=shifted(grad, by)),
            pg.avg_pool(x, w, axes=case.axes, out=shifted(grad, by)),
        ]
        for i in range(0, images, max(1, images // 3)):
            one = (slice(i, i + 1), ...)
            parts = [
                pg.avg_pool_grad(grad[one], w, axes=case.axes),
                pg.max_pool_grad(grad[one], w, winners[one], axes=case.axes),
                pg.max_pool(x[one], w, axes=case.axes),
                pg.avg_pool(x[one], w, axes=case.axes),
            ]
            compare([whole[one] for whole in wholes], parts, f"image {i}, shifted by {by}")


@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("shape", [(700, 700, 8), (350, 350, 32), (24, 700, 700), (500, 58, 58)])
def test_maxima_past_the_caches(window: int, shape: tuple[int, ...]) -> None:
    """The same of maxima, whose results are a quarter of what they are of."""
    axes = (2, 3) if shape[1] == shape[2] else (1, 2)
    images = 1 + (33 << 20) // int(np.prod(shape))
    x = np.resize(random_values(np.random.default_rng(3), (1_000_003,), np.dtype(np.float32)), (images, *shape))
    w = pg.sliding(x.shape[axes[0] : axes[1] + 1], window, 2, "SAME")
    y, winners = pg.max_pool(x, w, axes=axes, return_winners=True)
    assert y.nbytes >= 32 << 20
    assert_same_bits(pg.max_pool(x, w, axes=axes), y)
    for i in (0, images - 1):
        compare(
            [y[i], winners[i]], list(pg.max_pool(x[i], w, axes=(axes[0] - 1, axes[1] - 1), return_winners=True)), str(i)
        )


@pytest.mark.parametrize("kind", ["float32", "float16", "float64", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("shape", [(3, 3, 8, 1), (2, 3, 16, 40), (1, 40, 3, 64), (40, 3, 3, 5)])
def test_gradients_of_nothing(kind: str, shape: tuple[int, ...]) -> None:
    """Windows larger than the input have no outputs: every gradient is 0, in either layout."""
    x = np.ones(shape, reference.dtype(kind))
    for data_format, sizes in (("NHWC", shape[1:3]), ("NCHW", shape[2:4])):
        for window in ((4, 2), (2, 4), (3, 3), (4, 4)):
            around = [1, *window, 1] if data_format == "NHWC" else [1, 1, *window]
            given: dict[str, Any] = {"ksize": around, "strides": around, "padding": "VALID", "data_format": data_format}
            y = pg.raw_ops.MaxPool(x, **given)
            if y.size:
                continue
            assert not pg.raw_ops.MaxPoolGrad(x, y, y, **given).any(), (sizes, window)
            if x.dtype.kind == "f":
                assert not pg.raw_ops.AvgPoolGrad(shape, y, **given).any(), (sizes, window)


#: Irregular windows of planes, which are turned some at a time, large ones in strips: sizes, planes.
TURNED = {"small": ((9, 7), 37), "strips": ((130, 75), 70), "flat": ((1, 300), 20), "volume": ((40, 6, 11), 50)}


def irregular(name: str, covered: bool) -> pg.WindowTable:
    """Windows of 1 to 4, some of which overlap; without ``covered`` some inputs have none."""
    rng = np.random.default_rng([3, *map(ord, name)])
    starts, stops = [], []
    for size in TURNED[name][0]:
        first = np.unique(np.append(0, rng.integers(0, size, size // 2)))
        last = np.append(first[1:] + rng.integers(0, 2, len(first) - 1), size) if covered else first + 1
        starts.append(first)
        stops.append(np.minimum(last, size))
    return pg.intervals(TURNED[name][0], starts, stops)


@pytest.mark.parametrize("name", TURNED)
@pytest.mark.parametrize("covered", [True, False])
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "int32", "int8"])
def test_planes_turned(name: str, covered: bool, kind: str) -> None:
    sizes, planes = TURNED[name]
    w = irregular(name, covered)
    rng = np.random.default_rng([4, *map(ord, name)])
    dtype = reference.dtype(kind)
    x, grad = (random_values(rng, (planes, *n), dtype, special=True) for n in (sizes, w.output_size))
    axes = tuple(range(1, 1 + len(sizes)))
    together = everything(x, grad, w, axes, workers=2)
    for i in (0, 15, 16, planes - 1):
        alone = everything(x[i], grad[i], w, tuple(range(len(sizes))))
        compare([result[i] for result in together], alone, f"plane {i}")


#: Regular windows in short rows, which are turned too; some inputs, and whole strips, have no window.
#: Sizes, windows, strides, planes.
SHORT_ROWS = {
    "gaps": ((60, 9, 21), (4, 2, 5), (7, 4, 4), 40),
    "rest": ((41, 41, 28), (3, 3, 3), (2, 2, 2), 20),
    "one column": ((12, 8, 8), (5, 5, 5), (5, 3, 5), 33),
    "deep": ((24, 24, 13), (5, 1, 3), (1, 1, 3), 40),
    "strips of nothing": ((300, 40, 6), (2, 4, 4), (200, 3, 3), 48),
    "plane": ((31, 39), (5, 4), (3, 3), 50),
    "tiny": ((5, 7), (2, 2), (2, 2), 100),
    "row": ((1, 30), (1, 3), (1, 3), 200),
}


@pytest.mark.parametrize("name", SHORT_ROWS)
@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int32", "uint8"])
def test_short_rows_turned(name: str, kind: str) -> None:
    sizes, window, stride, planes = SHORT_ROWS[name]
    w = pg.sliding(sizes, window, stride)
    rng = np.random.default_rng([5, *map(ord, name)])
    x, grad = (random_values(rng, (planes, *n), reference.dtype(kind), special=True) for n in (sizes, w.output_size))
    axes = tuple(range(1, 1 + len(sizes)))

    def from_input(x: Any, grad: Any) -> Any:
        op, layout = (pg.raw_ops.MaxPoolGrad, "NCHW") if len(sizes) == 2 else (pg.raw_ops.MaxPool3DGrad, "NCDHW")
        y = pg.max_pool(x, w, axes=axes)
        return op(x[None], y[None], grad[None], [1, 1, *window], [1, 1, *stride], "VALID", data_format=layout)[0]

    together = everything(x, grad, w, axes, workers=2)
    raw = from_input(x, grad) if kind not in ("int32", "uint8") or len(sizes) == 2 else None
    for i in (0, 15, 16, planes - 1):
        alone = everything(x[i], grad[i], w, tuple(range(len(sizes))))
        compare([result[i] for result in together], alone, f"plane {i}")
        if raw is not None:
            assert_same_bits(raw[i], from_input(x[i : i + 1], grad[i : i + 1])[0], f"plane {i}, from the input")


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "float64", "int32"])
@pytest.mark.parametrize("columns", range(1, 10))
def test_rows_with_strides(kind: str, columns: int) -> None:
    """Channels first, rows with strides are summed, searched and picked a register of windows at a time."""
    rng = np.random.default_rng([11, columns])
    for sizes, rows in (((9, 45), 3), ((40, 17), 2), ((3, 8, 26), 5)):
        for stride in {2, 3, columns, columns + 1}:
            for padding in ("SAME", "VALID"):
                between = [2] * (len(sizes) - 2)
                window, strides = (min(rows, sizes[0]), *between, columns), (2, *between, stride)
                w = pg.sliding(sizes, window, strides, padding)
                shapes = ((2, *size, 10) for size in (sizes, w.output_size))
                x, grad = (random_values(rng, shape, reference.dtype(kind), special=stride == 3) for shape in shapes)
                axes = tuple(range(1, 1 + len(sizes)))
                last = everything(x, grad, w, axes)
                moved = tuple(axis + 1 for axis in axes)
                first = everything(np.moveaxis(x, -1, 1), np.moveaxis(grad, -1, 1), w, moved)
                note = f"{sizes} {window} by {strides} {padding}"
                compare([np.moveaxis(result, 1, -1) for result in first], last, note)


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", [(64, 12, 4, 4), (3, 7, 1, 5), (1, 1, 1, 1), (5, 0, 3, 3), (13, 11, 31, 17)])
def test_windows_of_one_element_change_nothing(kind: str, shape: tuple[int, ...]) -> None:
    x = random_values(np.random.default_rng(12), shape, reference.dtype(kind))
    w = pg.sliding(shape[2:], 1)
    y, winners = pg.max_pool(x, w, axes=(2, 3), return_winners=True)
    assert not winners.any()
    # A max gradient adds to +0, which makes a -0 one too.
    assert_same_bits(pg.max_pool_grad(x, w, winners, axes=(2, 3)), x + x.dtype.type(0), "saved winners")
    results = [y, pg.take_winners(x, w, winners, axes=(2, 3))]
    if kind != "int8":
        results += [pg.avg_pool(x, w, axes=(2, 3)), pg.avg_pool_grad(x, w, axes=(2, 3))]
    compare(results, [x] * len(results), "a copy")
    if x.size:
        winners[-1, -1, -1, -1] = 1
        place = ", ".join(str(size - 1) for size in shape)
        with pytest.raises(ValueError, match=rf"winners\[{place}\]"):
            pg.max_pool_grad(x, w, winners, axes=(2, 3))


def test_the_first_wrong_winner_of_planes_turned() -> None:
    sizes, planes = TURNED["strips"]
    w = irregular("strips", True)
    x = np.arange(planes * sizes[0] * sizes[1], dtype=np.float32).reshape(planes, *sizes)
    y, winners = pg.max_pool(x, w, axes=(1, 2), return_winners=True)
    for wrong in ((3, 40, 2), (2, 1, 9), (69, 0, 0)):  # whichever is found first, the first one is named
        winners[wrong] = 255
    with pytest.raises(ValueError, match=r"winners\[2, 1, 9\]"):
        pg.max_pool_grad(y, w, winners, axes=(1, 2))


def test_more_channels_than_are_taken_at_once() -> None:
    """Inner runs are cut, here to a rest of one element, and what is streamed stays within its buffer."""
    channels = 8193
    rng = np.random.default_rng(2)
    x = random_values(rng, (1, 40, 42, channels), np.dtype(np.float32))
    w = pg.sliding((40, 42), 2)
    some = [0, 4096, 8191, 8192]
    grad = x[:, :20, :21]
    assert_same_bits(pg.avg_pool(x, w, axes=(1, 2))[..., some], pg.avg_pool(x[..., some], w, axes=(1, 2)))
    assert_same_bits(pg.max_pool(x, w, axes=(1, 2))[..., some], pg.max_pool(x[..., some], w, axes=(1, 2)))
    assert_same_bits(
        pg.avg_pool_grad(grad, w, axes=(1, 2))[..., some], pg.avg_pool_grad(grad[..., some], w, axes=(1, 2))
    )


def test_many_channels_of_wide_windows() -> None:
    """Windows apart are summed in runs that are not cut, however wide they are; beyond 256 columns in blocks."""
    rng = np.random.default_rng(3)
    for columns, channels in ((13, 2041), (300, 130)):
        x = random_values(rng, (2, 5, 2 * columns, channels), np.dtype(np.float32))
        w = pg.sliding((5, 2 * columns), (5, columns))
        some = [0, 100, channels - 1]
        assert_same_bits(pg.avg_pool(x, w, axes=(1, 2))[..., some], pg.avg_pool(x[..., some], w, axes=(1, 2)))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_long_windows_of_one_channel(kind: str) -> None:
    """A row of one channel is cut into parts, whose windows share what is read; with a second channel it is not."""
    rng = np.random.default_rng(5)
    shapes = ((33, 9), (47, 47), (64, 80), (255, 100), (256, 64), (257, 65), (400, 160), (513, 300), (1000, 251))
    for (window, stride), count in itertools.product(shapes, (31, 32, 33, 79)):
        size = (count - 1) * stride + window
        x = random_values(rng, (2, size, 2), reference.dtype(kind), special=count == 33)
        for w in (pg.sliding(size, window, stride), pg.sliding(size, window, stride, "SAME")):
            right = pg.avg_pool(x, w, axes=1)
            for channel in range(2):
                alone = pg.avg_pool(np.ascontiguousarray(x[..., channel]), w, axes=1)
                assert_same_bits(alone, right[..., channel], f"{w}")


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    ("sizes", "window", "channels"),
    [
        ((26, 5), (25, 2), 17),
        ((300, 4), (300, 4), 20),
        ((600, 9), (530, 3), 5),
        ((281, 12, 2), (281, 3, 2), 64),  # a ring of rows that lie side by side
        ((300, 257, 2), (281, 257, 2), 1),  # too many rows for a ring
        ((40, 30, 3), (33, 29, 3), 24),
    ],
)
def test_windows_of_many_rows(kind: str, sizes: tuple[int, ...], window: tuple[int, ...], channels: int) -> None:
    """Many rows are added as they lie in memory, more than 256 in blocks."""
    axes = tuple(range(1, 1 + len(sizes)))
    x = random_values(np.random.default_rng(8), (2, *sizes, channels), reference.dtype(kind))
    windows = [reference.sliding(n, k, 1, "VALID") for n, k in zip(sizes, window, strict=True)]
    right = reference.avg_pool_bits(x, windows, 1)
    for workers in (1, 2):
        assert_same_bits(pg.avg_pool(x, pg.sliding(sizes, window, 1), axes=axes, workers=workers), right)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("sizes", [(9, 14), (1, 9, 8), (6, 7, 9), (5, 1, 6)])
def test_gradients_of_three_by_two_with_many_channels(kind: str, sizes: tuple[int, ...]) -> None:
    """Runs of 16 to 2048 elements are summed over all axes at once."""
    rng = np.random.default_rng(9)
    for padding, longest, channels in itertools.product(("SAME", "VALID"), (1, 3), (15, 16, 21, 64)):
        window = (*(min(longest, n) for n in sizes[:-1]), 3)
        stride = tuple(min(2, k) for k in window)
        w = pg.sliding(sizes, window, stride, padding)
        windows = [reference.sliding(*axis, padding) for axis in zip(sizes, window, stride, strict=True)]
        grad = random_values(rng, (2, *w.output_size, channels), reference.dtype(kind), special=True)
        right = reference.avg_pool_grad_bits(grad, windows, 1, sizes)
        axes = tuple(range(1, 1 + len(sizes)))
        for workers in (1, 2):
            assert_same_bits(pg.avg_pool_grad(grad, w, axes=axes, workers=workers), right, f"{w}, {channels} channels")


@pytest.mark.parametrize("kind", DTYPES)
def test_any_number_of_channels(kind: str) -> None:
    """Short runs of channels and long ones are computed in different ways."""
    sequence = [0, 1, 3, 4, 6, 8, 9, 11]
    tables = [pg.sliding((11, 11), 3, stride, "SAME") for stride in (1, 2)] + [pg.sliding((11, 11), 2)]
    tables += [pg.fractional((11, 11), (sequence, sequence), overlapping=overlapping) for overlapping in (False, True)]
    rng = np.random.default_rng(4)
    for w, channels in itertools.product(tables, (16, 24, 33, 64, 100, 210)):
        x, grad = (
            random_values(rng, (2, *size, channels), reference.dtype(kind), special=True)
            for size in (w.input_size, w.output_size)
        )
        some = [0, 7, 15, channels - 1]
        right = everything(x[..., some], grad[..., some], w, (1, 2))
        compare([result[..., some] for result in everything(x, grad, w, (1, 2))], right, f"{w}, {channels} channels")


@every_geometry
def test_small_layouts(geometry: Geometry) -> None:
    table = geometry.table()
    for kind in DTYPES:
        last, first = (Case(geometry, layout, kind) for layout in ("last", "first"))
        x, grad = last.values(last.shape, special=True), last.values(last.pooled_shape, special=True)
        right = everything(x, grad, table, last.axes)
        moved = everything(np.moveaxis(x, -1, 1), np.moveaxis(grad, -1, 1), table, first.axes)
        compare([np.moveaxis(result, 1, -1) for result in moved], right, last.name)


@every_geometry
def test_strided(geometry: Geometry) -> None:
    table = geometry.table()
    for case in itertools.starmap(Case, itertools.product([geometry], LAYOUTS, ["float32", "bfloat16", "int16"])):
        x, grad = case.values(case.shape), case.values(case.pooled_shape)
        right = everything(x, grad, table, case.axes)
        for view in (lambda a: np.repeat(a, 3, -1)[..., 1::3], lambda a: a[::-1].copy()[::-1], np.asfortranarray):
            compare(everything(view(x), view(grad), table, case.axes), right, case.name)


# ---- parts -----------------------------------------------------------------------------------------------------------


def pieces(rng: np.random.Generator, size: int) -> list[tuple[int, int]]:
    """The range cut at random, in random order."""
    cuts = sorted({0, size, *rng.integers(0, size + 1, 3).tolist()})
    result = list(itertools.pairwise(cuts))
    rng.shuffle(result)
    return [(int(a), int(b)) for a, b in result]


def memory(path: Path, like: Any) -> Any:
    bits = np.uint16 if like.dtype.name == "bfloat16" else like.dtype
    if like.size == 0:
        return np.empty(like.shape, like.dtype)
    return np.memmap(path, bits, "w+", shape=like.shape).view(like.dtype)


@every_geometry
def test_parts_are_the_whole(geometry: Geometry, tmp_path: Path, seed: int) -> None:
    """Forward and gradient in random pieces, in random order, into memory-mapped files."""
    rng = np.random.default_rng(seed)
    table = geometry.table()
    for case in itertools.starmap(
        Case, itertools.product([geometry], LAYOUTS, ["float32", "bfloat16", "float64", "int32"])
    ):
        x, grad = case.values(case.shape), case.values(case.pooled_shape)
        axis = int(rng.integers(len(case.axes)))
        k = case.axes[axis]
        y, winners = pg.max_pool(x, table, axes=case.axes, return_winners=True)
        whole = [pg.avg_pool(x, table, axes=case.axes), y, winners]
        target = [memory(tmp_path / f"{number}", result) for number, result in enumerate(whole)]
        for a, b in pieces(rng, case.pooled_shape[k]):
            part, where = table.part(axis, a, b)
            some = x[(slice(None),) * k + (where,)]
            place = (slice(None),) * k + (slice(a, b),)
            pg.avg_pool(some, part, axes=case.axes, out=target[0][place])
            pg.max_pool(some, part, axes=case.axes, return_winners=True, out=(target[1][place], target[2][place]))
        compare(target, whole, f"{case.name} axis {axis} POOLGRAD_SEED={seed}")

        whole = [pg.avg_pool_grad(grad, table, axes=case.axes), pg.max_pool_grad(grad, table, winners, axes=case.axes)]
        target = [memory(tmp_path / f"g{number}", result) for number, result in enumerate(whole)]
        for i, j in pieces(rng, case.shape[k]):
            covered = table.cover(axis, i, j)
            part, where = table.part(axis, covered.start, covered.stop)
            place = (slice(None),) * k + (slice(i, j),)
            if covered.start == covered.stop:
                for each in target:
                    each[place] = 0
                continue
            some = (slice(None),) * k + (covered,)
            results = [
                pg.avg_pool_grad(grad[some], part, axes=case.axes),
                pg.max_pool_grad(grad[some], part, winners[some], axes=case.axes),
            ]
            low, high = max(i, where.start), min(j, where.stop)
            for each, result in zip(target, results, strict=True):
                each[place] = 0
                inner = (slice(None),) * k + (slice(low, high),)
                each[inner] = result[(slice(None),) * k + (slice(low - where.start, high - where.start),)]
        compare(target, whole, f"{case.name} axis {axis} gradient POOLGRAD_SEED={seed}")


# ---- the machine -----------------------------------------------------------------------------------------------------


def digests() -> Iterator[str]:
    """A line for every op on every large shape and a few small ones; any NaN is made one NaN."""
    for name, kind in itertools.product(LARGE, ("float16", "float32", "float64", "uint8")):
        for number, result in enumerate(everything(*large(name, kind))):
            yield f"{name} {kind} {number} {digest(result)}"
    for geometry, kind in itertools.product(GEOMETRIES, DTYPES):
        case = Case(geometry, "last", kind, channels=5)
        x, grad = (case.values(shape, special=True) for shape in (case.shape, case.pooled_shape))
        for number, result in enumerate(everything(x, grad, geometry.table(), case.axes)):
            yield f"{case.name} {number} {digest(result)}"


def digest(array: Any) -> str:
    if array.dtype.kind not in "iu":
        array = np.where(np.isnan(array.astype(np.float64)), array.dtype.type(np.nan), array)
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has two instruction sets here")
def test_instruction_sets(run_python: Callable[..., str]) -> None:
    program = (
        "import test_same_bits, poolgrad; print(poolgrad._core.isa()); print(*test_same_bits.digests(), sep='\\n')"
    )
    outputs = {}
    for isa in ("baseline", "avx2"):
        name, *lines = run_python(program, POOLGRAD_ISA=isa).splitlines()
        outputs[name] = lines
    assert len(outputs["baseline"]) > 1000
    if "avx2" in outputs:
        assert outputs["avx2"] == outputs["baseline"]
    else:
        assert "avx2" not in Path("/proc/cpuinfo").read_text()


PAYLOADS = """
import numpy as np, poolgrad as pg
for channels in (1, 3, 8, 20):
    x = np.full((1, 2, channels), 0x7E25, np.uint16).view(np.float16)
    print(set(pg.max_pool(x, window=2, axes=1).view(np.uint16).ravel().tolist()))
"""


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_a_half_keeps_the_payload_of_its_nan(isa: str, run_python: Callable[..., str]) -> None:
    assert run_python(PAYLOADS, POOLGRAD_ISA=isa).split() == ["{32293}"] * 4


def test_unknown_instruction_set(run_python: Callable[..., str]) -> None:
    program = """
import poolgrad as pg
try:
    pg.avg_pool([1.0, 2.0], window=2, axes=0)
except ValueError as error:
    print(error)
"""
    text = run_python(program, POOLGRAD_ISA="nonsense")
    assert text == "POOLGRAD_ISA is 'nonsense'; it must be 'baseline' or 'avx2', or not set\n"


@pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc", reason="sets MXCSR through glibc"
)
def test_flush_to_zero() -> None:
    """The caller's floating-point mode changes no bit, and is the same afterwards."""
    library = ctypes.CDLL("libm.so.6")
    saved, odd, after = ((ctypes.c_uint32 * 8)() for _ in range(3))
    mode = 7  # of fenv_t, the eighth word is MXCSR
    flush_denormals_round_up = 0x8000 | 0x40 | 0x4000
    case = Case(GEOMETRIES[5], "last", "float32", channels=9)
    tiny = np.float32(1e-45)
    x = (case.values(case.shape) * 1e-38).astype(np.float32)
    x[0, 0, 0] = tiny
    grad = (case.values(case.pooled_shape) * 1e-38).astype(np.float32)
    w = case.geometry.table()
    right = everything(x, grad, w, case.axes)
    given = large("plane", "float32")
    right_large = everything(*given, workers=3)
    assert library.fegetenv(saved) == 0
    ctypes.memmove(odd, saved, ctypes.sizeof(saved))
    odd[mode] |= flush_denormals_round_up
    try:
        library.fesetenv(odd)
        flushed = everything(x, grad, w, case.axes)
        flushed_large = everything(*given, workers=3)
        library.fegetenv(after)
        zero = np.float32(tiny) * np.float32(1)
    finally:
        library.fesetenv(saved)
    assert zero == 0, "the mode was not set: this test could not fail"
    assert (after[mode] & ~0x3F) == (odd[mode] & ~0x3F)
    compare(flushed, right, "flush to zero")
    compare(flushed_large, right_large, "flush to zero, several workers")
