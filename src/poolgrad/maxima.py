"""Maxima and minima of windows, and their derivatives: linear once the winners are fixed.

`max_pool_grad` scatters by winner, `take_winners` takes.
"""

from __future__ import annotations

from typing import Any, Literal, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from . import _core
from .arguments import Axes, frame_of, run_of, table_of, threads_of
from .arrays import NAMES, Array, as_array, bits, contiguous, kernel_view, kind_of, result_array, settle
from .checks import Padding, Sizes, flag
from .errors import bad_shape, bad_type, type_error, value_error
from .window_table import WindowTable

__all__ = ["max_pool", "max_pool_grad", "min_pool", "min_pool_grad", "take_winners"]


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


# ---- one body for each direction --------------------------------------------------------------------------------


def _extreme(
    op: str, given: npt.ArrayLike, table: WindowTable | None, geometry: tuple[Any, Any, Any], axes: Axes | None,
    data_format: str | None, return_winners: bool, out: object, workers: SupportsIndex | None,
) -> Array | tuple[Array, Array]:  # fmt: skip
    x = as_array(op, "x", given)
    run = run_of(op, "x", x.ndim, axes, data_format)
    w = table_of(op, table, x.shape[slice(*run)], *geometry)
    kind = kind_of(op, "x", x.dtype, NAMES)
    return_winners = flag(op, "return_winners", return_winners)
    outer, inner, shape = frame_of(op, "x", x.shape, run, w.input_size, w.output_size)
    if return_winners and out is not None and not (isinstance(out, tuple) and len(out) == 2):
        raise bad_type(op, "out", out, "must be a pair (values, winners) with return_winners=True")
    first, second = out if isinstance(out, tuple) and return_winners else (out, None)
    values = result_array(op, first, shape, x.dtype, (x,))
    source, target, threads = kernel_view(x), contiguous(values), threads_of(op, workers)
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
    run = run_of(op, argument, source.ndim, axes, data_format)
    table_of(op, w, (), None, None, "VALID")
    kind = kind_of(op, argument, source.dtype, NAMES)
    taking = op == "take_winners"
    sizes = (w.input_size, w.output_size) if taking else (w.output_size, w.input_size)
    outer, inner, shape = frame_of(op, argument, source.shape, run, *sizes)
    pooled = shape if taking else source.shape
    if winners.shape != pooled:
        raise bad_shape(op, "winners", winners.shape, pooled, "this table and array have winners of shape")
    if winners.dtype != w.winner_dtype:
        raise type_error(op, "winners", f" have dtype {winners.dtype}; pass those of max_pool, here {w.winner_dtype}")
    result = result_array(op, out, shape, source.dtype, (source, winners))
    target = contiguous(result)
    kernel = _core.take_winners if taking else _core.max_pool_grad
    wrong = kernel(
        kernel_view(source), kernel_view(winners), bits(target), w._native, outer, inner, kind, threads_of(op, workers)
    )
    if wrong >= 0:
        place = tuple(map(int, np.unravel_index(wrong, pooled)))
        raise value_error(
            op, "winners", f"{list(place)}={winners[place]} lies outside its window; pass those of max_pool"
        )
    return settle(result, target)
