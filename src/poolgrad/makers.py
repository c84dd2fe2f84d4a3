"""The makers of window tables. They check everything once and never touch data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .checks import (
    LARGEST,
    LARGEST_LISTED,
    Padding,
    Sizes,
    axis_arrays,
    axis_paddings,
    axis_sizes,
    check_order,
    flag,
    index_array,
)
from .errors import bad_value, value_error
from .window_table import WindowTable

__all__ = ["sliding", "fractional", "adaptive", "intervals"]


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
    sizes = axis_sizes(op, "input_size", input_size, None, 0)
    longer = flag(op, "overlapping", overlapping)
    rows = axis_arrays(op, "sequences", sequences, len(sizes))
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
    sizes = axis_sizes(op, "input_size", input_size, None, 1)
    axes = []
    for n, m in zip(sizes, axis_sizes(op, "output_size", output_size, len(sizes), 1), strict=True):
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
    sizes = axis_sizes(op, "input_size", input_size, None, 0)
    starts = axis_arrays(op, "start", start, len(sizes))
    stops = axis_arrays(op, "stop", stop, len(sizes))
    divisors: list[Any] = [None] * len(sizes) if divisor is None else axis_arrays(op, "divisor", divisor, len(sizes))
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
            check_order(op, name, row)
        if d is not None and d.size and d.min() < 1:
            raise bad_value(op, f"divisor[{k}]", int(d.min()), "must be at least 1")
        largest *= int(d.max()) if d is not None and d.size else 1
        if largest >= LARGEST:
            raise bad_value(
                op, f"divisor[{k}]", largest, "is the product of the axes' largest; it must stay below 2**59"
            )
        axes.append(_listed_axis(op, n, a, b, d))
    return WindowTable(axes)


# ---- what ops, raw_ops and presets share with the makers: the same arithmetic under another op's name ----------


def named_sliding(op: str, input_size: Sizes, window: Sizes, stride: Sizes | None, padding: Padding) -> WindowTable:
    """`sliding` under the name ``op``."""
    sizes = axis_sizes(op, "input_size", input_size, None, 0)
    windows = axis_sizes(op, "window", window, len(sizes), 1)
    strides = windows if stride is None else axis_sizes(op, "stride", stride, len(sizes), 1)
    return sliding_table(op, sizes, windows, strides, axis_paddings(op, padding, len(sizes)))


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
        check_order(op, name, row)
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
