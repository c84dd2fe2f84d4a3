"""Pooling and its derivatives on NumPy arrays, over any `WindowTable`.

Each family stands together: forward, then its transpose. Averages are linear, so the gradient's gradient is the
forward op; a max is linear once its winners are fixed: `max_pool_grad` scatters by winner, `take_winners` takes.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from . import _core
from . import workers as _workers
from .arrays import (
    KINDS,
    NAMES,
    Array,
    as_array,
    bits,
    contiguous,
    dtype_of,
    kernel_view,
    kind_of,
    result_array,
    settle,
)
from .checks import flag, integer, integers
from .errors import bad_dtype, bad_shape, bad_type, bad_value, type_error, value_error
from .window_table import Padding, Sizes, WindowTable, named_sliding

__all__ = ["avg_pool", "avg_pool_grad", "sum_pool", "sum_pool_grad"]
__all__ += ["max_pool", "max_pool_grad", "min_pool", "min_pool_grad", "take_winners"]

Axes = SupportsIndex | tuple[SupportsIndex, ...] | list[SupportsIndex]

#: The pooled run of axes of each data format.
FORMATS = {
    "NWC": (1, 2), "NCW": (2, 3), "NHWC": (1, 3), "NCHW": (2, 4), "NDHWC": (1, 4), "NCDHW": (2, 5),
}  # fmt: skip
_FLOATS = NAMES[:4]
_GRADIENTS = (*_FLOATS, "int32", "int64")


def avg_pool(
    x: npt.ArrayLike,
    w: WindowTable | None = None,
    *,
    window: Sizes | None = None,
    stride: Sizes | None = None,
    padding: Padding = "VALID",
    axes: Axes | None = None,
    data_format: str | None = None,
    dtype: npt.DTypeLike | None = None,
    divisor: SupportsIndex | None = None,
    out: Array | None = None,
    workers: SupportsIndex | None = None,
) -> Array:
    """Mean of each window.

    Parameters
    ----------
    x : array_like
        Floating point, or integers (summed exactly). Any strides; other than C-contiguous costs one copy.
    w : WindowTable, optional
        The windows. Without it, ``window``, ``stride`` and ``padding`` are those of `sliding`.
    axes : int or tuple of int
        The pooled run of axes of ``x``. Or ``data_format``: NWC, NCW, NHWC, NCHW, NDHWC, NCDHW.
    dtype : dtype, optional
        Of the result: by default that of a floating ``x``, and float32 for integers; ``x.dtype`` of an integer ``x``
        rounds half to even.
    divisor : int, optional
        Divide every window by this instead.
    out : array, optional
        Where to put the result: of its shape and dtype, and apart from ``x``. Returned itself.
    workers : int, optional
        Threads to use at most; see `set_workers`.

    Returns
    -------
    array

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and what would be right.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> pg.avg_pool(np.arange(16.0).reshape(4, 4), window=2, axes=(0, 1))
    array([[ 2.5,  4.5],
           [10.5, 12.5]])
    """
    op = "avg_pool"
    x = as_array(op, "x", x)
    run = _run(op, "x", x.ndim, axes, data_format)
    w = _table(op, w, x.shape[slice(*run)], window, stride, padding)
    if divisor is not None:
        w = w.with_divisor(integer(op, "divisor", divisor, least=1))
    result = (
        x.dtype if dtype is None and x.dtype in KINDS else dtype_of(op, "dtype", "float32" if dtype is None else dtype)
    )
    kind = kind_of(op, "x", x.dtype, NAMES)
    if kind < 4:
        if result not in KINDS or KINDS[result] > 3:
            raise bad_dtype(op, "dtype", result, _FLOATS)
        x = x.astype(result, copy=False)
        return _forward(op, x, w, run, out, workers, KINDS[result])
    if dtype is None:
        result = np.dtype("float32")
    if result != x.dtype and result.name not in ("float32", "float64"):
        raise bad_dtype(op, "dtype", result, ("float32", "float64", x.dtype.name))
    return _forward(op, x, w, run, out, workers, kind, result)


def sum_pool(
    x: npt.ArrayLike,
    w: WindowTable | None = None,
    *,
    window: Sizes | None = None,
    stride: Sizes | None = None,
    padding: Padding = "VALID",
    axes: Axes | None = None,
    data_format: str | None = None,
    out: Array | None = None,
    workers: SupportsIndex | None = None,
) -> Array:
    """Sum of each window; integers as in `numpy.sum`: int64 or uint64, wrapping.

    Parameters, Returns, Raises
    ---------------------------
    As for `avg_pool`.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> pg.sum_pool(np.arange(6), window=3, stride=1, axes=0)
    array([ 3,  6,  9, 12])
    """
    op = "sum_pool"
    x = as_array(op, "x", x)
    if kind_of(op, "x", x.dtype, NAMES) > 3:
        x = x.astype(np.uint64 if x.dtype.kind == "u" else np.int64, copy=False)
    run = _run(op, "x", x.ndim, axes, data_format)
    w = _table(op, w, x.shape[slice(*run)], window, stride, padding).with_divisor(1)
    # A wrapping sum has the same bits signed or not, and dividing by 1 keeps them.
    return _forward(op, x, w, run, out, workers, min(KINDS[x.dtype], KINDS[np.dtype("int64")]))


def avg_pool_grad(
    grad: npt.ArrayLike,
    w: WindowTable | None = None,
    *,
    input_size: Sizes | None = None,
    window: Sizes | None = None,
    stride: Sizes | None = None,
    padding: Padding = "VALID",
    axes: Axes | None = None,
    data_format: str | None = None,
    divisor: SupportsIndex | None = None,
    out: Array | None = None,
    workers: SupportsIndex | None = None,
) -> Array:
    """Gradient of `avg_pool` (its transpose): each ``grad`` divided evenly over its window.

    Parameters
    ----------
    grad : array_like
        Gradient of the pooled result: floating point, or int32 and int64 (summed in float64, then truncated).
    w : WindowTable, optional
        The windows. Without it give ``input_size`` (of the pooled axes), ``window``, ``stride``, ``padding``.
    axes, data_format, divisor, out, workers
        As for `avg_pool`.

    Returns
    -------
    array
        Of ``grad``'s dtype and the input's shape; inputs that no window covers get 0.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and what would be right.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> pg.avg_pool_grad(np.array([3.0, 6.0]), input_size=5, window=3, stride=2, axes=0)
    array([1., 1., 3., 2., 2.])
    """
    op = "avg_pool_grad"
    grad = as_array(op, "grad", grad)
    run = _run(op, "grad", grad.ndim, axes, data_format)
    w = _table(op, w, input_size, window, stride, padding)
    if divisor is not None:
        w = w.with_divisor(integer(op, "divisor", divisor, least=1))
    return _backward(op, grad, w, run, out, workers)


def sum_pool_grad(
    grad: npt.ArrayLike,
    w: WindowTable | None = None,
    *,
    input_size: Sizes | None = None,
    window: Sizes | None = None,
    stride: Sizes | None = None,
    padding: Padding = "VALID",
    axes: Axes | None = None,
    data_format: str | None = None,
    out: Array | None = None,
    workers: SupportsIndex | None = None,
) -> Array:
    """Gradient of `sum_pool`: each ``grad`` given whole to every element of its window.

    Parameters, Returns, Raises
    ---------------------------
    As for `avg_pool_grad`.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> pg.sum_pool_grad(np.array([3.0, 6.0]), input_size=5, window=3, stride=2, axes=0)
    array([3., 3., 9., 6., 6.])
    """
    op = "sum_pool_grad"
    grad = as_array(op, "grad", grad)
    run = _run(op, "grad", grad.ndim, axes, data_format)
    w = _table(op, w, input_size, window, stride, padding).with_divisor(1)
    return _backward(op, grad, w, run, out, workers)


@overload
def max_pool(
    x: npt.ArrayLike, w: WindowTable | None = None, *, window: Sizes | None = None, stride: Sizes | None = None,
    padding: Padding = "VALID", axes: Axes | None = None, data_format: str | None = None,
    return_winners: Literal[False] = False, out: Array | None = None, workers: SupportsIndex | None = None,
) -> Array: ...  # fmt: skip
@overload
def max_pool(
    x: npt.ArrayLike, w: WindowTable | None = None, *, window: Sizes | None = None, stride: Sizes | None = None,
    padding: Padding = "VALID", axes: Axes | None = None, data_format: str | None = None,
    return_winners: Literal[True], out: tuple[Array, Array] | None = None, workers: SupportsIndex | None = None,
) -> tuple[Array, Array]: ...  # fmt: skip
def max_pool(
    x: npt.ArrayLike,
    w: WindowTable | None = None,
    *,
    window: Sizes | None = None,
    stride: Sizes | None = None,
    padding: Padding = "VALID",
    axes: Axes | None = None,
    data_format: str | None = None,
    return_winners: bool = False,
    out: Array | tuple[Array, Array] | None = None,
    workers: SupportsIndex | None = None,
) -> Array | tuple[Array, Array]:
    """Maximum of each window, and on request which element it was.

    Ties go to the first element in row-major order. NaN wins and propagates.

    Parameters
    ----------
    x : array_like
        Floating point or integers.
    w, window, stride, padding, axes, data_format, workers
        As for `avg_pool`.
    return_winners : bool
        Return ``(values, winners)``. A winner is the offset of the maximum from its window's clipped start, in the
        smallest unsigned type that holds it (``w.winner_dtype``); `max_pool_grad` and `take_winners` use it.
    out : array, or (array, array) with ``return_winners``
        Where to put the result.

    Returns
    -------
    array or (array, array)

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and what would be right.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> pg.max_pool(np.array([1.0, 4.0, 4.0, 2.0]), window=2, axes=0, return_winners=True)
    (array([4., 4.]), array([1, 0], dtype=uint8))
    """
    return _extreme("max_pool", x, w, (window, stride, padding), axes, data_format, return_winners, out, workers)


@overload
def min_pool(
    x: npt.ArrayLike, w: WindowTable | None = None, *, window: Sizes | None = None, stride: Sizes | None = None,
    padding: Padding = "VALID", axes: Axes | None = None, data_format: str | None = None,
    return_winners: Literal[False] = False, out: Array | None = None, workers: SupportsIndex | None = None,
) -> Array: ...  # fmt: skip
@overload
def min_pool(
    x: npt.ArrayLike, w: WindowTable | None = None, *, window: Sizes | None = None, stride: Sizes | None = None,
    padding: Padding = "VALID", axes: Axes | None = None, data_format: str | None = None,
    return_winners: Literal[True], out: tuple[Array, Array] | None = None, workers: SupportsIndex | None = None,
) -> tuple[Array, Array]: ...  # fmt: skip
def min_pool(
    x: npt.ArrayLike,
    w: WindowTable | None = None,
    *,
    window: Sizes | None = None,
    stride: Sizes | None = None,
    padding: Padding = "VALID",
    axes: Axes | None = None,
    data_format: str | None = None,
    return_winners: bool = False,
    out: Array | tuple[Array, Array] | None = None,
    workers: SupportsIndex | None = None,
) -> Array | tuple[Array, Array]:
    """Minimum of each window; ties, NaN and winners as for `max_pool`.

    Parameters, Returns, Raises
    ---------------------------
    As for `max_pool`.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> pg.min_pool(np.array([1, 4, 4, 2]), window=2, axes=0)
    array([1, 2])
    """
    return _extreme("min_pool", x, w, (window, stride, padding), axes, data_format, return_winners, out, workers)


def max_pool_grad(
    grad: npt.ArrayLike,
    w: WindowTable,
    winners: npt.ArrayLike,
    *,
    axes: Axes | None = None,
    data_format: str | None = None,
    out: Array | None = None,
    workers: SupportsIndex | None = None,
) -> Array:
    """Gradient of `max_pool`: each ``grad`` added to the element that won its window.

    Parameters
    ----------
    grad : array_like
        Gradient of the pooled result.
    w : WindowTable
        The windows.
    winners : array_like
        As `max_pool` returned them with ``return_winners=True``.
    axes, data_format, out, workers
        As for `avg_pool`.

    Returns
    -------
    array
        Of ``grad``'s dtype and the input's shape.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and what would be right; winners outside their window are found.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> w = pg.sliding(4, window=2)
    >>> y, winners = pg.max_pool(np.array([1.0, 4.0, 4.0, 2.0]), w, axes=0, return_winners=True)
    >>> pg.max_pool_grad(np.array([10.0, 20.0]), w, winners, axes=0)
    array([ 0., 10., 20.,  0.])
    """
    return _by_winner("max_pool_grad", "grad", grad, w, winners, axes, data_format, out, workers)


def min_pool_grad(
    grad: npt.ArrayLike,
    w: WindowTable,
    winners: npt.ArrayLike,
    *,
    axes: Axes | None = None,
    data_format: str | None = None,
    out: Array | None = None,
    workers: SupportsIndex | None = None,
) -> Array:
    """Gradient of `min_pool`: each ``grad`` added to the element that won its window.

    Parameters, Returns, Raises
    ---------------------------
    As for `max_pool_grad`.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> w = pg.sliding(4, window=2)
    >>> y, winners = pg.min_pool(np.array([1.0, 4.0, 4.0, 2.0]), w, axes=0, return_winners=True)
    >>> pg.min_pool_grad(np.array([10.0, 20.0]), w, winners, axes=0)
    array([10.,  0.,  0., 20.])
    """
    return _by_winner("min_pool_grad", "grad", grad, w, winners, axes, data_format, out, workers)


def take_winners(
    v: npt.ArrayLike,
    w: WindowTable,
    winners: npt.ArrayLike,
    *,
    axes: Axes | None = None,
    data_format: str | None = None,
    out: Array | None = None,
    workers: SupportsIndex | None = None,
) -> Array:
    """The elements of ``v`` at the winners: the transpose of `max_pool_grad`.

    It is the derivative of `max_pool` in direction ``v`` (JVP) and the gradient of `max_pool_grad` (second order).

    Parameters
    ----------
    v : array_like
        Of the input's shape.
    w, winners, axes, data_format, out, workers
        As for `max_pool_grad`.

    Returns
    -------
    array
        Of ``v``'s dtype and the pooled shape.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and what would be right; winners outside their window are found.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> w = pg.sliding(4, window=2)
    >>> y, winners = pg.max_pool(np.array([1.0, 4.0, 4.0, 2.0]), w, axes=0, return_winners=True)
    >>> pg.take_winners(np.array([0.1, 0.2, 0.3, 0.4]), w, winners, axes=0)
    array([0.2, 0.3])
    """
    return _by_winner("take_winners", "v", v, w, winners, axes, data_format, out, workers)


# ---- one body for each direction; raw_ops calls these too -----------------------------------------------------


def _forward(
    op: str, x: Array, w: WindowTable, run: tuple[int, int], out: object, workers: SupportsIndex | None,
    kind: int, exact: np.dtype[Any] | None = None,
) -> Array:  # fmt: skip
    """Mean of each window; ``exact``, for integers, is the dtype of an exactly summed mean."""
    outer, inner, shape = _frame(op, "x", x.shape, run, w.input_size, w.output_size)
    result = result_array(op, out, shape, exact or x.dtype, (x,))
    target, threads = contiguous(result), _threads(op, workers)
    if exact is None:
        _core.avg_pool(kernel_view(x), bits(target), w._native, outer, inner, kind, threads)
    else:
        _core.mean_pool(kernel_view(x), target, w._native, outer, inner, kind, KINDS[exact], threads)
    return settle(result, target)


def _backward(
    op: str, grad: Array, w: WindowTable, run: tuple[int, int], out: object, workers: SupportsIndex | None
) -> Array:
    kind = kind_of(op, "grad", grad.dtype, _GRADIENTS)
    outer, inner, shape = _frame(op, "grad", grad.shape, run, w.output_size, w.input_size)
    result = result_array(op, out, shape, grad.dtype, (grad,))
    target = contiguous(result)
    _core.avg_pool_grad(kernel_view(grad), bits(target), w._native, outer, inner, kind, _threads(op, workers))
    return settle(result, target)


def _extreme(
    op: str, given: npt.ArrayLike, table: WindowTable | None, geometry: tuple[Any, Any, Any], axes: Axes | None,
    data_format: str | None, return_winners: bool, out: object, workers: SupportsIndex | None,
) -> Array | tuple[Array, Array]:  # fmt: skip
    x = as_array(op, "x", given)
    run = _run(op, "x", x.ndim, axes, data_format)
    w = _table(op, table, x.shape[slice(*run)], *geometry)
    kind = kind_of(op, "x", x.dtype, NAMES)
    return_winners = flag(op, "return_winners", return_winners)
    outer, inner, shape = _frame(op, "x", x.shape, run, w.input_size, w.output_size)
    if return_winners and out is not None and not (isinstance(out, tuple) and len(out) == 2):
        raise bad_type(op, "out", out, "must be a pair (values, winners) with return_winners=True")
    first, second = out if isinstance(out, tuple) and return_winners else (out, None)
    values = result_array(op, first, shape, x.dtype, (x,))
    source, target, threads = kernel_view(x), contiguous(values), _threads(op, workers)
    if not return_winners:
        _core.max_pool(source, bits(target), None, w._native, outer, inner, kind, op == "min_pool", threads)
        return settle(values, target)
    winners = result_array(op, second, shape, w.winner_dtype, (x, values))
    codes = contiguous(winners)
    _core.max_pool(source, bits(target), codes, w._native, outer, inner, kind, op == "min_pool", threads)
    return settle(values, target), settle(winners, codes)


def _by_winner(
    op: str, argument: str, given: npt.ArrayLike, w: WindowTable, given_winners: npt.ArrayLike, axes: Axes | None,
    data_format: str | None, out: object, workers: SupportsIndex | None,
) -> Array:  # fmt: skip
    source, winners = as_array(op, argument, given), as_array(op, "winners", given_winners)
    run = _run(op, argument, source.ndim, axes, data_format)
    _table(op, w, (), None, None, "VALID")
    kind = kind_of(op, argument, source.dtype, NAMES)
    taking = op == "take_winners"
    sizes = (w.input_size, w.output_size) if taking else (w.output_size, w.input_size)
    outer, inner, shape = _frame(op, argument, source.shape, run, *sizes)
    pooled = shape if taking else source.shape
    if winners.shape != pooled:
        raise bad_shape(op, "winners", winners.shape, pooled, "this table and array have winners of shape")
    if winners.dtype != w.winner_dtype:
        raise type_error(op, "winners", f" have dtype {winners.dtype}; pass those of max_pool, here {w.winner_dtype}")
    result = result_array(op, out, shape, source.dtype, (source, winners))
    target = contiguous(result)
    kernel = _core.take_winners if taking else _core.max_pool_grad
    wrong = kernel(
        kernel_view(source), kernel_view(winners), bits(target), w._native, outer, inner, kind, _threads(op, workers)
    )
    if wrong >= 0:
        place = tuple(map(int, np.unravel_index(wrong, pooled)))
        raise value_error(
            op, "winners", f"{list(place)}={winners[place]} lies outside its window; pass those of max_pool"
        )
    return settle(result, target)


# ---- arguments ------------------------------------------------------------------------------------------------


def _threads(op: str, workers: SupportsIndex | None) -> int:
    return _workers.get_workers() if workers is None else _workers.check(op, workers)


def _run(op: str, argument: str, ndim: int, axes: Axes | None, data_format: str | None) -> tuple[int, int]:
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


def _table(op: str, w: object, size: Any, window: Any, stride: Any, padding: Any) -> WindowTable:
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
def _frame(
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
