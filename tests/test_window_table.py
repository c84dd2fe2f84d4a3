"""Window tables against windows from first principles."""

from __future__ import annotations

import copy
import pickle
import time

import numpy as np
import pytest
import reference
from cases import GEOMETRIES, Geometry
from hypothesis import given
from hypothesis import strategies as st

import poolgrad as pg

every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: geometry.name)


def rows(axis: object, first: int = 0, last: int | None = None) -> list[tuple[int, int, int]]:
    return [tuple(row) for row in axis.windows(first, axis.output_size if last is None else last).tolist()]


def check_axis(axis: object, n: int, windows: list[tuple[int, int, int]]) -> None:
    """Every answer of an axis against the list of its windows."""
    assert (axis.input_size, axis.output_size) == (n, len(windows))
    assert rows(axis) == list(windows)
    for o, (start, stop, divisor) in enumerate(windows):
        assert axis.window(o) == (start, stop)
        assert axis.divisor(o) == divisor
    for i in range(n):
        reached = [o for o, (start, stop, _) in enumerate(windows) if start <= i < stop]
        low, high = axis.cover(i)
        assert list(range(low, high)) == reached, i
    assert axis.reach >= max((stop - start for start, stop, _ in windows), default=0)


@every_geometry
def test_every_maker(geometry: Geometry) -> None:
    table = geometry.table()
    assert table.input_size == geometry.input_size
    assert table.output_size == geometry.output_size
    for axis, n, windows in zip(table.axes, geometry.input_size, geometry.windows, strict=True):
        check_axis(axis, n, windows)


sizes = st.integers(0, 14)
paddings = st.one_of(st.sampled_from(["SAME", "VALID"]), st.tuples(st.integers(0, 6), st.integers(0, 6)))


@given(n=sizes, window=st.integers(1, 20), stride=st.integers(1, 9), padding=paddings)
def test_sliding_axis(n: int, window: int, stride: int, padding: str | tuple[int, int]) -> None:
    given_padding = padding if isinstance(padding, str) else [padding]
    try:
        expected = reference.sliding(n, window, stride, padding)
    except ValueError:
        with pytest.raises(ValueError, match="^sliding: "):
            pg.sliding(n, window, stride, given_padding)
        return
    check_axis(pg.sliding(n, window, stride, given_padding).axes[0], n, expected)


@given(n=st.integers(1, 30), m=st.integers(1, 40))
def test_adaptive_axis(n: int, m: int) -> None:
    check_axis(pg.adaptive(n, m).axes[0], n, reference.adaptive(n, m))


@given(steps=st.lists(st.integers(1, 4), min_size=1, max_size=8), start=st.integers(0, 3), beyond=st.integers(-2, 2),
       overlapping=st.booleans())  # fmt: skip
def test_fractional_axis(steps: list[int], start: int, beyond: int, overlapping: bool) -> None:
    sequence = [start, *(start + np.cumsum(steps)).tolist()]
    n = max(sequence[-2] + 1, sequence[-1] - beyond)
    check_axis(pg.fractional(n, [sequence], overlapping).axes[0], n, reference.fractional(n, sequence, overlapping))


@st.composite
def interval_lists(draw: st.DrawFn) -> tuple[int, list[int], list[int], list[int]]:
    count = draw(st.integers(0, 6))
    steps = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=count, max_size=count))
    start, stop, here, least = [], [], 0, 0
    for step, length in steps:
        here += step
        least = max(least, here + length)
        start.append(here)
        stop.append(least)
    divisor = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    return least + draw(st.integers(0, 3)), start, stop, divisor


@given(data=interval_lists(), own=st.booleans())
def test_intervals_axis(data: tuple[int, list[int], list[int], list[int]], own: bool) -> None:
    n, start, stop, divisor = data
    expected = list(zip(start, stop, divisor if own else np.subtract(stop, start).tolist(), strict=True))
    arrays = [np.array(row, np.int64) for row in (start, stop, divisor)]
    check_axis(pg.intervals(n, *(arrays if own else arrays[:2])).axes[0], n, expected)


@every_geometry
def test_part_of_every_range(geometry: Geometry) -> None:
    table = geometry.table()
    for k, windows in enumerate(geometry.windows):
        m = len(windows)
        for a in range(m + 1):
            for b in range(a, min(m, a + 9) + 1):
                piece, where = table.part(k, a, b)
                assert piece.output_size == (*table.output_size[:k], b - a, *table.output_size[k + 1 :])
                if a == b:
                    assert piece.input_size[k] == where.stop - where.start
                    continue
                assert (where.start, where.stop) == (windows[a][0], windows[b - 1][1])
                shifted = [(start - where.start, stop - where.start, d) for start, stop, d in windows[a:b]]
                check_axis(piece.axes[k], where.stop - where.start, shifted)
                assert piece.axes[k].reach == table.axes[k].reach
                assert piece.winner_dtype == table.winner_dtype


@every_geometry
def test_part_of_a_part(geometry: Geometry) -> None:
    table = geometry.table()
    for k, m in enumerate(table.output_size):
        for a, b in ((0, m), (m // 3, m), (0, m - m // 3)):
            piece, where = table.part(k, a, b)
            inner, inside = piece.part(k, (b - a) // 2, b - a)
            direct, place = table.part(k, a + (b - a) // 2, b)
            assert inner == direct
            if inner.output_size[k]:
                assert where.start + inside.start == place.start


@every_geometry
def test_cover_of_every_range(geometry: Geometry) -> None:
    table = geometry.table()
    for k, windows in enumerate(geometry.windows):
        n = geometry.input_size[k]
        for i in range(n + 1):
            for j in range(i, min(n, i + 9) + 1):
                reached = [o for o, (start, stop, _) in enumerate(windows) if start < j and i < stop]
                found = table.cover(k, i, j)
                assert list(range(found.start, found.stop)) == (reached if i < j else []), (i, j)
                assert found.step is None


def test_equal_by_value_and_hash() -> None:
    same = pg.sliding((5,), window=3, stride=2, padding="SAME")
    others = [
        pg.sliding(5, 3, 2, [(1, 1)]),
        pg.intervals(5, [0, 1, 3], [2, 4, 5]),
        pg.sliding(np.array([5]), np.int64(3), [2], padding=((1, 1),)),
        pickle.loads(pickle.dumps(same)),
        copy.deepcopy(same),
    ]
    for other in others:
        assert other == same
        assert hash(other) == hash(same)
    different = [
        pg.sliding(5, 3, 2, [(0, 1)]),
        pg.sliding(6, 3, 2, "SAME"),
        pg.sliding((5, 5), 3, 2, "SAME"),
        pg.intervals(5, [0, 1, 3], [2, 4, 5], [2, 3, 3]),
        same.with_divisor(3),
    ]
    for other in different:
        assert other != same
    assert same != "a table"
    assert len({same, *others, *different}) == 1 + len(set(different))


@every_geometry
def test_pickle(geometry: Geometry) -> None:
    table = geometry.table()
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert [axis.reach for axis in again.axes] == [axis.reach for axis in table.axes]
    if table.output_size[0] > 1:
        part = table.part(0, 1, table.output_size[0])[0]
        back = pickle.loads(pickle.dumps(part))
        assert back == part
        assert [axis.reach for axis in back.axes] == [axis.reach for axis in part.axes]


def test_immutable() -> None:
    table = pg.sliding(5, 2)
    with pytest.raises(AttributeError, match="immutable"):
        table.input_size = (6,)
    with pytest.raises(AttributeError, match="immutable"):
        del table.axes
    with pytest.raises(AttributeError):
        table.axes[0].input_size = 7
    windows = table.axes[0].windows(0, 2)
    windows[...] = 0
    assert table.axes[0].window(1) == (2, 4)
    start, stop = np.array([0, 1]), np.array([2, 3])
    listed = pg.intervals(3, start, stop)
    start[...] = stop[...] = 9
    assert rows(listed.axes[0]) == [(0, 2, 2), (1, 3, 2)]


def test_repr() -> None:
    assert repr(pg.sliding((4, 5), 2)) == "WindowTable((4, 5) -> (2, 2): [0:2 2:4] x [0:2 2:4])"
    assert repr(pg.sliding(20, 2)) == "WindowTable((20,) -> (10,): [0:2 2:4 ... 18:20])"
    assert repr(pg.sliding(4, 5, 1)) == "WindowTable((4,) -> (0,): [])"


def test_winner_dtype_holds_the_reach() -> None:
    for window, expected in (((2,), "u1"), ((256,), "u1"), ((257,), "u2"), ((16, 16), "u1"), ((16, 17), "u2"),
                             ((65536,), "u2"), ((65537,), "u4"), ((3, 5, 17), "u1"), ((2, 8, 17), "u2")):  # fmt: skip
        table = pg.sliding([2 * k for k in window], window)
        assert table.winner_dtype == np.dtype(expected), window


def test_regular_axes_cost_nothing() -> None:
    began = time.perf_counter()
    for n in (10**7, 10**12, 2**40):
        table = pg.sliding((n, n, n), (2**31 - 1, 3, 5), (1, 2, 3), "SAME")
        hash(table)
        assert table == pg.sliding((n, n, n), (2**31 - 1, 3, 5), (1, 2, 3), "SAME")
        repr(table)
        for k in range(3):
            m = table.output_size[k]
            piece, where = table.part(k, m // 3, m // 2)
            assert piece.output_size[k] == m // 2 - m // 3
            assert where.start == table.axes[k].window(m // 3)[0]
            table.cover(k, n // 2, n // 2 + 1)
        pickle.loads(pickle.dumps(table))
    assert time.perf_counter() - began < 1  # arrays of 10**12 entries would not even fit


def test_huge_window_is_the_whole_input() -> None:
    for window in (2**31 - 1, 2**40, 2**57):
        table = pg.sliding((4, 5), window, 1, "SAME")
        for axis, n in zip(table.axes, (4, 5), strict=True):
            check_axis(axis, n, [(0, n, n)] * n)


def test_windows_in_pieces() -> None:
    axis = pg.sliding(100, 3, 2, "SAME").axes[0]
    assert rows(axis, 10, 20) == rows(axis)[10:20]
    assert axis.windows(5, 5).shape == (0, 3)


@pytest.mark.parametrize("table", [pg.sliding(10, 2), pg.intervals(10, [0, 3], [2, 9])], ids=["rule", "listed"])
def test_axis_index_out_of_range(table: pg.WindowTable) -> None:
    axis = table.axes[0]
    for i in (-1, axis.output_size, 2**40):
        with pytest.raises(IndexError):
            axis.window(i)
        with pytest.raises(IndexError):
            axis.divisor(i)
    for i in (-1, 10, 2**40):
        with pytest.raises(IndexError):
            axis.cover(i)
    for first, last in ((-1, 1), (2, 1), (0, axis.output_size + 1)):
        with pytest.raises(IndexError):
            axis.windows(first, last)
        with pytest.raises(IndexError):
            axis.part(first, last)


def test_with_divisor() -> None:
    for geometry in GEOMETRIES:
        table = geometry.table().with_divisor(7)
        for k, axis in enumerate(table.axes):
            expected = [(start, stop, 7 if k == 0 else 1) for start, stop, _ in geometry.windows[k]]
            assert rows(axis) == expected
