"""What every op is told besides its arrays: the pooled axes, the windows, the number of workers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, SupportsIndex

from . import workers as _workers
from .checks import integers
from .errors import bad_shape, bad_type, bad_value, type_error, value_error
from .makers import named_sliding
from .window_table import WindowTable

Axes = SupportsIndex | tuple[SupportsIndex, ...] | list[SupportsIndex]

#: The pooled run of axes of each data format.
FORMATS = {
    "NWC": (1, 2), "NCW": (2, 3), "NHWC": (1, 3), "NCHW": (2, 4), "NDHWC": (1, 4), "NCDHW": (2, 5),
}  # fmt: skip


def threads_of(op: str, workers: SupportsIndex | None) -> int:
    """How many threads a call may use."""
    return _workers.get_workers() if workers is None else _workers.check(op, workers)


def run_of(op: str, argument: str, ndim: int, axes: Axes | None, data_format: str | None) -> tuple[int, int]:
    """The pooled run of axes as (first, one past the last)."""
    if axes is None and data_format is not None:
        run = FORMATS.get(data_format) if isinstance(data_format, str) else None
        if run is None:
            raise bad_value(op, "data_format", data_format, f"is not known; use one of {', '.join(FORMATS)}")
        if ndim != len(data_format):
            raise bad_value(
                op, "data_format", data_format, f"is for {len(data_format)}-D arrays; {argument} has {ndim} axes"
            )
        return run
    if axes is None or data_format is not None:
        raise type_error(
            op, None, f"say which axes of {argument} are pooled, once: axes=(1, 2), or data_format='NHWC' for short"
        )
    numbers = integers(op, "axes", (axes,) if hasattr(axes, "__index__") else axes)
    wrapped = [number + ndim if number < 0 else number for number in numbers]
    if not 1 <= len(wrapped) <= 3 or wrapped != list(range(wrapped[0], wrapped[0] + len(wrapped))):
        raise bad_value(op, "axes", axes, "is not a run of one to three adjacent axes in order, such as (1, 2)")
    if wrapped[0] < 0 or wrapped[-1] >= ndim:
        raise bad_value(op, "axes", axes, f"is outside the {ndim} axes of {argument}")
    return wrapped[0], wrapped[-1] + 1


def table_of(op: str, w: object, size: Any, window: Any, stride: Any, padding: Any) -> WindowTable:
    """``w`` itself, or the table of `sliding` that the other arguments describe."""
    if isinstance(w, WindowTable):
        if window is not None or stride is not None:
            raise type_error(op, None, "give either a WindowTable or window=, stride=, padding=, not both")
        return w
    if w is not None:
        raise bad_type(op, "w", w, "is not a WindowTable; make one, e.g. w = poolgrad.sliding((56, 56), window=2)")
    if window is None:
        raise type_error(op, None, "say which windows: a WindowTable as second argument, or window=2")
    if size is None:
        raise type_error(
            op, "input_size", " is missing: give the sizes of the pooled axes before pooling, or a WindowTable"
        )
    return named_sliding(op, size, window, stride, padding)


@lru_cache(maxsize=1024)
def frame_of(
    op: str,
    argument: str,
    shape: tuple[int, ...],
    run: tuple[int, int],
    expected: tuple[int, ...],
    result: tuple[int, ...],
) -> tuple[int, int, tuple[int, ...]]:
    """Product of the axes before the run, of those after it, and the shape of the result."""
    first, last = run
    if last - first != len(expected):
        raise value_error(
            op,
            argument,
            f" is pooled over {last - first} axes and the WindowTable has {len(expected)}; make them the same",
        )
    if shape[first:last] != expected:
        right = (*shape[:first], *expected, *shape[last:])
        raise bad_shape(op, argument, shape, right, "the WindowTable wants")
    return math.prod(shape[:first]), math.prod(shape[last:]), (*shape[:first], *result, *shape[last:])
