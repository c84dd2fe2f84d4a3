"""The one idea: pooling is a table of windows, per axis a list of half-open intervals with a divisor each.

`WindowTable` is the noun; `sliding`, `fractional`, `adaptive` and `intervals` of `makers` make one. A regular axis is
a rule that answers in O(1), whatever its size; an irregular one holds arrays. The kernels ask the table and never
compute geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from . import _core
from .checks import integer
from .errors import bad_value, value_error

__all__ = ["WindowTable"]


class WindowTable:
    """The windows of a pooling: immutable, equal and hashable by value, drawn in a notebook.

    Made by `sliding`, `fractional`, `adaptive` or `intervals`, never directly.

    Attributes
    ----------
    axes : tuple
        One axis object each, at most three, with ``window(i)``, ``divisor(i)``, ``cover(i)``, ``windows(a, b)``.
    input_size, output_size : tuple of int
        Sizes of the pooled axes before and after pooling.

    Examples
    --------
    >>> import poolgrad as pg
    >>> w = pg.sliding((5,), window=3, stride=2, padding="SAME")
    >>> w
    WindowTable((5,) -> (3,): [0:2 1:4 3:5])
    >>> w.cover(0, 2, 4)
    slice(1, 3, None)
    """

    __slots__ = ("_native", "axes", "input_size", "output_size")
    axes: tuple[_core.Axis, ...]
    input_size: tuple[int, ...]
    output_size: tuple[int, ...]
    _native: _core.Table

    def __init__(self, axes: Sequence[_core.Axis]) -> None:
        put = object.__setattr__
        put(self, "axes", tuple(axes))
        put(self, "_native", _core.Table(list(axes)))
        put(self, "input_size", tuple(axis.input_size for axis in axes))
        put(self, "output_size", tuple(axis.output_size for axis in axes))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a WindowTable is immutable: make a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a WindowTable is immutable: {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Callable[..., WindowTable], tuple[Any, ...]]:
        return _rebuild, tuple(_recipe(axis) for axis in self.axes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WindowTable):
            return NotImplemented
        return len(self.axes) == len(other.axes) and all(map(_same_axis, self.axes, other.axes))

    def __hash__(self) -> int:
        return hash(tuple(_signature(axis) for axis in self.axes))

    def __repr__(self) -> str:
        rows = " x ".join(f"[{_listed_windows(axis)}]" for axis in self.axes)
        return f"WindowTable({self.input_size} -> {self.output_size}: {rows})"

    def _repr_svg_(self) -> str:
        from .drawing import draw

        return draw(self)

    @property
    def winner_dtype(self) -> np.dtype[Any]:
        """The smallest unsigned integer type that holds a winner of this table (see `max_pool`)."""
        return np.dtype(f"u{self._native.winner_bytes}")

    def part(self, axis: SupportsIndex, a: SupportsIndex, b: SupportsIndex) -> tuple[WindowTable, slice]:
        """The table of outputs ``[a, b)`` of one axis, and the slice of the input it reads.

        A part of a table is a table: pooling ``x[input_slice]`` with it gives rows ``[a, b)`` of the whole, to the bit.

        Parameters
        ----------
        axis : int
            Which pooled axis.
        a, b : int
            Output indices, ``0 <= a <= b <= output_size[axis]``.

        Returns
        -------
        (WindowTable, slice)

        Raises
        ------
        ValueError
            If the axis or the range is not there.

        Examples
        --------
        >>> import poolgrad as pg
        >>> pg.sliding((8,), window=2).part(0, 1, 3)
        (WindowTable((4,) -> (2,): [0:2 2:4]), slice(2, 6, None))
        """
        k = self._axis_index("WindowTable.part", axis)
        first, last = _range("WindowTable.part", a, b, self.output_size[k], "output")
        piece, start, stop = self.axes[k].part(first, last)
        return WindowTable([*self.axes[:k], piece, *self.axes[k + 1 :]]), slice(start, stop)

    def cover(self, axis: SupportsIndex, i: SupportsIndex, j: SupportsIndex) -> slice:
        """The slice of outputs whose windows reach inputs ``[i, j)`` of one axis (empty in a gap).

        Parameters
        ----------
        axis : int
            Which pooled axis.
        i, j : int
            Input indices, ``0 <= i <= j <= input_size[axis]``.

        Returns
        -------
        slice

        Raises
        ------
        ValueError
            If the axis or the range is not there.

        Examples
        --------
        >>> import poolgrad as pg
        >>> pg.sliding((8,), window=1, stride=4).cover(0, 1, 4)
        slice(1, 1, None)
        """
        k = self._axis_index("WindowTable.cover", axis)
        first, last = _range("WindowTable.cover", i, j, self.input_size[k], "input")
        if first == last:
            return slice(0, 0)
        low = self.axes[k].cover(first)[0]
        return slice(low, max(low, self.axes[k].cover(last - 1)[1]))

    def with_divisor(self, divisor: SupportsIndex) -> WindowTable:
        """The same windows with one divisor for every average (1 makes a sum of it).

        Parameters
        ----------
        divisor : int
            At least 1.

        Returns
        -------
        WindowTable

        Raises
        ------
        ValueError
            If ``divisor`` is below 1.

        Examples
        --------
        >>> import numpy as np, poolgrad as pg
        >>> pg.avg_pool(np.ones((4, 4), "f4"), pg.sliding((4, 4), 2).with_divisor(1), axes=(0, 1))
        array([[4., 4.],
               [4., 4.]], dtype=float32)
        """
        number = integer("WindowTable.with_divisor", "divisor", divisor, least=1)
        return WindowTable([_divided(axis, number if k == 0 else 1) for k, axis in enumerate(self.axes)])

    def _axis_index(self, op: str, axis: SupportsIndex) -> int:
        k = integer(op, "axis", axis, least=0)
        if k >= len(self.axes):
            raise bad_value(op, "axis", k, f"is not a pooled axis; this table has axes 0 to {len(self.axes) - 1}")
        return k


def _range(op: str, first: SupportsIndex, last: SupportsIndex, size: int, side: str) -> tuple[int, int]:
    a, b = integer(op, "start", first), integer(op, "stop", last)
    if not 0 <= a <= b <= size:
        raise value_error(
            op, None, f"[{a}, {b}) is not a range of the {size} {side}s; use 0 <= start <= stop <= {size}"
        )
    return a, b


def _divided(axis: _core.Axis, divisor: int) -> _core.Axis:
    if axis.rule is not None:
        n, m, window, stride, before, count_before, count_after, _, reach = axis.rule
        return _core.Axis.regular(n, m, window, stride, before, count_before, count_after, divisor, reach)
    rows = axis.windows(0, axis.output_size)
    start, stop = np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1])
    return _core.Axis.listed(axis.input_size, start, stop, np.full_like(start, divisor), axis.reach)


def _signature(axis: _core.Axis) -> tuple[object, ...]:
    """A few of an axis's values: equal for equal axes, and O(1)."""
    m = axis.output_size
    probes = sorted({0, m // 2, m - 1}) if m else []
    return axis.input_size, m, axis.reach, *((*axis.window(i), axis.divisor(i)) for i in probes)


def _same_axis(a: _core.Axis, b: _core.Axis) -> bool:
    if a.rule is not None and a.rule == b.rule:
        return True
    if _signature(a) != _signature(b):
        return False
    block = 1 << 16
    return all(
        np.array_equal(a.windows(i, min(i + block, a.output_size)), b.windows(i, min(i + block, a.output_size)))
        for i in range(0, a.output_size, block)
    )


def _listed_windows(axis: _core.Axis) -> str:
    m = axis.output_size
    shown_rows = range(m) if m <= 4 else [0, 1, m - 1]
    words = [f"{start}:{stop}" for start, stop in map(axis.window, shown_rows)]
    return " ".join(words if m <= 4 else [*words[:2], "...", words[2]])


def _recipe(axis: _core.Axis) -> tuple[Any, ...]:
    if axis.rule is not None:
        return axis.rule
    return axis.input_size, axis.windows(0, axis.output_size), axis.reach


def _rebuild(*recipes: tuple[Any, ...]) -> WindowTable:
    axes = []
    for recipe in recipes:
        if len(recipe) == 3:
            n, rows, reach = recipe
            start, stop, divisor = (np.ascontiguousarray(rows[:, k]) for k in range(3))
            axes.append(_core.Axis.listed(n, start, stop, divisor, reach))
        else:
            axes.append(_core.Axis.regular(*recipe))
    return WindowTable(axes)
