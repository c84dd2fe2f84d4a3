"""The one idea: pooling is a table of windows, per axis a list of half-open intervals with a divisor each.

`WindowTable` is the noun; `sliding`, `fractional`, `adaptive` and `intervals` make one. A regular axis is a rule
that answers in O(1), whatever its size; an irregular one holds arrays. Makers check everything once and never
touch data; the kernels ask the table and never compute geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _core
from .checks import LARGEST, LARGEST_LISTED, choice, flag, index_array, integer, integers
from .errors import bad_type, bad_value, value_error

__all__ = ["WindowTable", "sliding", "fractional", "adaptive", "intervals"]

Sizes = SupportsIndex | Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]
Padding = str | Sequence[Sequence[SupportsIndex]]


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


def sliding(input_size: Sizes, window: Sizes, stride: Sizes | None = None, padding: Padding = "VALID") -> WindowTable:
    """Windows of one size at equal steps, clipped to the input.

    Parameters
    ----------
    input_size : int or sequence of int
        Sizes of the pooled axes, one to three.
    window, stride : int or sequence of int
        For all axes or for each. ``stride=None`` is the window. Any size: 2**31 - 1 costs what the input costs.
    padding : "VALID", "SAME" or sequence of (before, after)
        As in TensorFlow. Padding never counts in an average.

    Returns
    -------
    WindowTable

    Raises
    ------
    ValueError
        For sizes below 1, a window that lies wholly in padding, VALID windows far larger than the input.
    TypeError
        For numbers that are not integers.

    Examples
    --------
    >>> import poolgrad as pg
    >>> pg.sliding((4, 4), window=2)
    WindowTable((4, 4) -> (2, 2): [0:2 2:4] x [0:2 2:4])
    >>> pg.sliding(5, window=3, stride=2, padding=[(1, 1)])
    WindowTable((5,) -> (3,): [0:2 1:4 3:5])
    """
    return named_sliding("sliding", input_size, window, stride, padding)


def fractional(
    input_size: Sizes, sequences: Sequence[Any] | npt.NDArray[Any], overlapping: bool = False
) -> WindowTable:
    """The cells of fractional pooling: ``sequence[i]`` to ``sequence[i + 1]``, one longer when overlapping.

    Parameters
    ----------
    input_size : int or sequence of int
        Sizes of the pooled axes, one to three.
    sequences : sequence of integer sequences
        One pooling sequence for each axis, non-decreasing from 0 or more; ``len - 1`` cells. Cells are clipped to the
        input and must not be empty; inputs that no cell covers get gradient 0.
    overlapping : bool
        Whether a cell includes the first element of the next.

    Returns
    -------
    WindowTable

    Raises
    ------
    ValueError
        For sequences that decrease, start below 0, or have an empty cell.
    TypeError
        For numbers that are not integers.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> w = pg.fractional((5,), [[0, 2, 4]], overlapping=True)
    >>> w
    WindowTable((5,) -> (2,): [0:3 2:5])
    >>> pg.max_pool(np.array([20, 5, 16, 3, 7]), w, axes=0)
    array([20, 16])
    """
    op = "fractional"
    sizes = _sizes(op, "input_size", input_size, None, 0)
    longer = flag(op, "overlapping", overlapping)
    rows = _per_axis(op, "sequences", sequences, len(sizes))
    names = [f"sequences[{k}]" for k in range(len(sizes))]
    return fractional_table(op, names, sizes, rows, longer)


def adaptive(input_size: Sizes, output_size: Sizes) -> WindowTable:
    """``output_size`` windows that cover the input evenly: ``floor(i*n/m)`` to ``ceil((i+1)*n/m)``.

    Parameters
    ----------
    input_size, output_size : int or sequence of int
        Sizes of the pooled axes, one to three. ``output_size=1`` is global pooling.

    Returns
    -------
    WindowTable

    Raises
    ------
    ValueError
        For sizes below 1.
    TypeError
        For numbers that are not integers.

    Examples
    --------
    >>> import poolgrad as pg
    >>> pg.adaptive((7,), 3)
    WindowTable((7,) -> (3,): [0:3 2:5 4:7])
    """
    op = "adaptive"
    sizes = _sizes(op, "input_size", input_size, None, 1)
    axes = []
    for n, m in zip(sizes, _sizes(op, "output_size", output_size, len(sizes), 1), strict=True):
        if n % m == 0:
            axes.append(_core.Axis.regular(n, m, n // m, n // m, 0))
            continue
        if max(n, m) > LARGEST_LISTED:
            raise bad_value(
                op, "output_size", m, f"on {n} inputs makes an uneven axis of over {LARGEST_LISTED} entries"
            )
        i = np.arange(m, dtype=np.int64)
        axes.append(_listed_axis(op, n, i * n // m, -((-(i + 1) * n) // m), None))
    return WindowTable(axes)


def intervals(
    input_size: Sizes,
    start: Sequence[Any] | npt.NDArray[Any],
    stop: Sequence[Any] | npt.NDArray[Any],
    divisor: Sequence[Any] | npt.NDArray[Any] | None = None,
) -> WindowTable:
    """Windows given by the caller: ``[start[i], stop[i])``, both non-decreasing.

    Parameters
    ----------
    input_size : int or sequence of int
        Sizes of the pooled axes, one to three.
    start, stop : integer arrays
        One array for each axis (for one axis the array itself will do).
    divisor : integer arrays, optional
        What an average divides by; by default the length of each window.

    Returns
    -------
    WindowTable

    Raises
    ------
    ValueError
        Unless ``0 <= start < stop <= input_size``, non-decreasing, ``divisor >= 1``.
    TypeError
        For numbers that are not integers.

    Examples
    --------
    >>> import poolgrad as pg
    >>> pg.intervals(6, start=[0, 1, 5], stop=[2, 5, 6])
    WindowTable((6,) -> (3,): [0:2 1:5 5:6])
    """
    op = "intervals"
    sizes = _sizes(op, "input_size", input_size, None, 0)
    starts = _per_axis(op, "start", start, len(sizes))
    stops = _per_axis(op, "stop", stop, len(sizes))
    divisors: list[Any] = [None] * len(sizes) if divisor is None else _per_axis(op, "divisor", divisor, len(sizes))
    axes, largest = [], 1
    for k, n in enumerate(sizes):
        a, b = index_array(op, f"start[{k}]", starts[k]), index_array(op, f"stop[{k}]", stops[k])
        d = None if divisors[k] is None else index_array(op, f"divisor[{k}]", divisors[k])
        for name, row in ((f"stop[{k}]", b), (f"divisor[{k}]", d)):
            if row is not None and row.size != a.size:
                raise value_error(op, name, f" has {row.size} entries and start[{k}] {a.size}; give as many of each")
        bad = np.flatnonzero((a < 0) | (a >= b) | (b > n))
        if bad.size:
            i = int(bad[0])
            raise value_error(
                op,
                f"start[{k}]",
                f", stop[{k}]: window {i} is [{a[i]}, {b[i]}); it must lie within [0, {n}) and not be empty",
            )
        for name, row in ((f"start[{k}]", a), (f"stop[{k}]", b)):
            _check_order(op, name, row)
        if d is not None and d.size and d.min() < 1:
            raise bad_value(op, f"divisor[{k}]", int(d.min()), "must be at least 1")
        largest *= int(d.max()) if d is not None and d.size else 1
        if largest >= LARGEST:
            raise bad_value(
                op, f"divisor[{k}]", largest, "is the product of the axes' largest; it must stay below 2**59"
            )
        axes.append(_listed_axis(op, n, a, b, d))
    return WindowTable(axes)


# ---- what raw_ops shares with the makers: the same arithmetic under another op's name -----------------------


def named_sliding(op: str, input_size: Sizes, window: Sizes, stride: Sizes | None, padding: Padding) -> WindowTable:
    """`sliding` under the name ``op``."""
    sizes = _sizes(op, "input_size", input_size, None, 0)
    windows = _sizes(op, "window", window, len(sizes), 1)
    strides = windows if stride is None else _sizes(op, "stride", stride, len(sizes), 1)
    return sliding_table(op, sizes, windows, strides, _paddings(op, padding, len(sizes)))


def sliding_table(
    op: str,
    sizes: Sequence[int],
    windows: Sequence[int],
    strides: Sequence[int],
    paddings: str | Sequence[tuple[int, int]],
    names: tuple[str, str] = ("window", "padding"),
) -> WindowTable:
    """`sliding` on checked integers; ``names`` are the words of ``op`` for window and padding."""
    return WindowTable(
        [
            _sliding_axis(op, k, n, window, stride, paddings if isinstance(paddings, str) else paddings[k], names)
            for k, (n, window, stride) in enumerate(zip(sizes, windows, strides, strict=True))
        ]
    )


def _sliding_axis(
    op: str, k: int, n: int, window: int, stride: int, padding: str | tuple[int, int], names: tuple[str, str]
) -> _core.Axis:
    if padding == "SAME":
        m = -(-n // stride)
        before = max(0, (m - 1) * stride + window - n) // 2
    else:
        before, after = (0, 0) if isinstance(padding, str) else padding
        room = n + before + after - window + stride
        m = room // stride if room >= 0 else -(-room // stride)  # truncates towards zero, as TensorFlow does
        if m < 0:
            raise bad_value(
                op, names[0], window, f"on an input of {n} (axis {k}) would give {m} outputs; use a smaller one or SAME"
            )
    if m == 0:
        return _core.Axis.regular(n, 0, 1, 1, 0)
    if n == 0 or window <= before or (m - 1) * stride - before >= n:
        raise bad_value(
            op,
            names[1],
            padding,
            f"leaves a window of {window} (stride {stride}) wholly outside the {n} inputs of axis {k}",
        )
    # The same clipped windows in the smallest numbers, so that 64 bits hold whatever the caller gave.
    stride = stride if m > 1 else 1
    reach = min(window - before, n)
    before = min(before, (m - 1) * stride)
    if (m - 1) * stride + before + reach + n >= LARGEST:
        raise bad_value(op, names[1], padding, "is too large")
    return _core.Axis.regular(n, m, before + reach, stride, before)


def fractional_table(
    op: str, names: Sequence[str], sizes: Sequence[int], sequences: Sequence[object], overlapping: bool
) -> WindowTable:
    """`fractional` on checked sizes; ``names`` are the words of ``op`` for each axis's sequence."""
    axes = []
    for name, n, given in zip(names, sizes, sequences, strict=True):
        row = index_array(op, name, given)
        if row.size == 0:
            raise bad_value(op, name, given, "is empty; a pooling sequence has one entry more than there are outputs")
        if row[0] < 0:
            raise bad_value(op, name, row[:100].tolist(), f"starts below 0; it must start at 0 or more, got {row[0]}")
        _check_order(op, name, row)
        start = row[:-1]
        stop = np.minimum(np.minimum(row[1:], n) + int(overlapping), n)
        empty = np.flatnonzero(start >= stop)
        if empty.size:
            i = int(empty[0])
            raise bad_value(
                op,
                name,
                row[:100].tolist(),
                f"has an empty cell {i}: [{start[i]}, {stop[i]}) on {n} inputs; make its steps at least 1",
            )
        axes.append(_listed_axis(op, n, start, stop, None))
    return WindowTable(axes)


# ---- parsing --------------------------------------------------------------------------------------------------


def _sizes(op: str, argument: str, value: object, count: int | None, least: int) -> tuple[int, ...]:
    if hasattr(value, "__index__") and not (isinstance(value, np.ndarray) and value.ndim):
        return (integer(op, argument, value, least=least),) * (count or 1)
    numbers = integers(op, argument, value, least=least)
    if count is None and not 1 <= len(numbers) <= 3:
        raise bad_value(op, argument, value, f"has {len(numbers)} entries; one to three axes can be pooled")
    if count is not None and len(numbers) != count:
        raise bad_value(op, argument, value, f"has {len(numbers)} entries; give one number or {count}")
    return numbers


def _paddings(op: str, padding: Any, count: int) -> str | list[tuple[int, int]]:
    if isinstance(padding, str):
        return choice(op, "padding", padding, ("VALID", "SAME"), "a list of (before, after)")
    listed = isinstance(padding, (list, tuple)) or (isinstance(padding, np.ndarray) and padding.ndim > 0)
    if not listed or len(padding) != count:
        raise bad_value(op, "padding", padding, f"must be 'VALID', 'SAME' or {count} pairs (before, after)")
    pairs = [integers(op, f"padding[{k}]", pair, least=0) for k, pair in enumerate(padding)]
    for k, pair in enumerate(pairs):
        if len(pair) != 2:
            raise bad_value(op, f"padding[{k}]", padding[k], "must be a pair (before, after)")
    return [(pair[0], pair[1]) for pair in pairs]


def _per_axis(op: str, argument: str, value: Any, count: int) -> list[Any]:
    """One array for each axis; a single axis may give its array bare."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        raise bad_type(op, argument, value, "is not a list of integer arrays, one for each axis")
    rows = list(value)
    if count == 1 and not (len(rows) == 1 and hasattr(rows[0], "__len__")):
        return [value]
    if len(rows) != count:
        raise value_error(op, argument, f" has {len(rows)} entries for {count} axes; give one array for each axis")
    return rows


def _range(op: str, first: SupportsIndex, last: SupportsIndex, size: int, side: str) -> tuple[int, int]:
    a, b = integer(op, "start", first), integer(op, "stop", last)
    if not 0 <= a <= b <= size:
        raise value_error(
            op, None, f"[{a}, {b}) is not a range of the {size} {side}s; use 0 <= start <= stop <= {size}"
        )
    return a, b


def _check_order(op: str, argument: str, row: npt.NDArray[np.int64]) -> None:
    falls = np.flatnonzero(row[1:] < row[:-1])
    if falls.size:
        i = int(falls[0])
        raise bad_value(
            op, argument, row[:100].tolist(), f"decreases after entry {i} ({row[i]} to {row[i + 1]}); it must not"
        )


# ---- axes -----------------------------------------------------------------------------------------------------


def _listed_axis(
    op: str, n: int, start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64], divisor: npt.NDArray[np.int64] | None
) -> _core.Axis:
    """An axis of given windows; equal steps become a rule, which the kernels vectorise."""
    m = start.size
    if m and divisor is None and start[0] == 0:
        window, step = int(stop[0]), int(start[1]) if m > 1 else 1
        if step > 0 and m * step < LARGEST:
            rule = np.arange(m, dtype=np.int64) * step
            if np.array_equal(start, rule) and np.array_equal(stop, np.minimum(rule + window, n)):
                return _core.Axis.regular(n, m, window, step, 0)
    if n > LARGEST_LISTED:
        raise value_error(op, "input_size", f"={n} is too large for an irregular axis (at most {LARGEST_LISTED})")
    divisors = stop - start if divisor is None else divisor
    return _core.Axis.listed(n, np.ascontiguousarray(start), np.ascontiguousarray(stop), np.ascontiguousarray(divisors))


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
