"""Averages and sums of windows, and their gradients: linear, so the gradient's gradient is the forward op."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _core
from .arguments import Axes, frame_of, run_of, table_of, threads_of
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
from .checks import Padding, Sizes, integer
from .errors import bad_dtype
from .window_table import WindowTable

__all__ = ["avg_pool", "avg_pool_grad", "sum_pool", "sum_pool_grad"]

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
    run = run_of(op, "x", x.ndim, axes, data_format)
    w = table_of(op, w, x.shape[slice(*run)], window, stride, padding)
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
    run = run_of(op, "x", x.ndim, axes, data_format)
    w = table_of(op, w, x.shape[slice(*run)], window, stride, padding).with_divisor(1)
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
    run = run_of(op, "grad", grad.ndim, axes, data_format)
    w = table_of(op, w, input_size, window, stride, padding)
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
    run = run_of(op, "grad", grad.ndim, axes, data_format)
    w = table_of(op, w, input_size, window, stride, padding).with_divisor(1)
    return _backward(op, grad, w, run, out, workers)


# ---- one body for each direction --------------------------------------------------------------------------------


def _forward(
    op: str, x: Array, w: WindowTable, run: tuple[int, int], out: object, workers: SupportsIndex | None,
    kind: int, exact: np.dtype[Any] | None = None,
) -> Array:  # fmt: skip
    """Mean of each window; ``exact``, for integers, is the dtype of an exactly summed mean."""
    outer, inner, shape = frame_of(op, "x", x.shape, run, w.input_size, w.output_size)
    result = result_array(op, out, shape, exact or x.dtype, (x,))
    target, threads = contiguous(result), threads_of(op, workers)
    if exact is None:
        _core.avg_pool(kernel_view(x), bits(target), w._native, outer, inner, kind, threads)
    else:
        _core.mean_pool(kernel_view(x), target, w._native, outer, inner, kind, KINDS[exact], threads)
    return settle(result, target)


def _backward(
    op: str, grad: Array, w: WindowTable, run: tuple[int, int], out: object, workers: SupportsIndex | None
) -> Array:
    kind = kind_of(op, "grad", grad.dtype, _GRADIENTS)
    outer, inner, shape = frame_of(op, "grad", grad.shape, run, w.output_size, w.input_size)
    result = result_array(op, out, shape, grad.dtype, (grad,))
    target = contiguous(result)
    _core.avg_pool_grad(kernel_view(grad), bits(target), w._native, outer, inner, kind, threads_of(op, workers))
    return settle(result, target)
