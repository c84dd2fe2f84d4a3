"""Winners of a max (offsets within each window) as flat indices, TensorFlow's or PyTorch's, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .arguments import Axes, frame_of, run_of, table_of
from .arrays import Array, as_array
from .checks import choice, flag
from .errors import type_error, value_error
from .window_table import WindowTable

__all__ = ["winners_to_indices", "indices_to_winners"]


def winners_to_indices(
    winners: npt.ArrayLike,
    w: WindowTable,
    style: str = "tensorflow",
    *,
    axes: Axes | None = None,
    data_format: str | None = None,
    include_batch: bool = False,
) -> npt.NDArray[np.int64]:
    """Where each winner stands in the input, as one flat index.

    Parameters
    ----------
    winners : array_like
        As `max_pool` returns them.
    w : WindowTable
        The windows.
    style : "tensorflow" or "torch"
        TensorFlow counts through all axes but the first (the batch), PyTorch through the pooled axes only.
    axes, data_format
        As for `max_pool`.
    include_batch : bool
        Count from the start of the whole batch (TensorFlow's ``include_batch_in_index``).

    Returns
    -------
    array of int64

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and what would be right.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> w = pg.sliding((2, 2), window=2)
    >>> x = np.array([1.0, 2.0, 9.0, 4.0]).reshape(1, 2, 2, 1)
    >>> _, winners = pg.max_pool(x, w, data_format="NHWC", return_winners=True)
    >>> pg.winners_to_indices(winners, w, data_format="NHWC").tolist()
    [[[[2]]]]
    """
    op = "winners_to_indices"
    array = as_array(op, "winners", winners)
    run = _checked(op, "winners", array, w, style, axes, data_format, include_batch)
    if array.dtype != w.winner_dtype:
        raise type_error(op, "winners", f" have dtype {array.dtype}; pass those of max_pool, here {w.winner_dtype}")
    starts, sizes = _geometry(w, array.ndim, run[0])
    offsets = _offsets(array, w)
    for offset, size in zip(offsets, sizes, strict=True):
        if ((offset < 0) | (offset >= size)).any():
            raise value_error(op, "winners", " lie outside their windows; pass those that max_pool gave for this table")
    if style == "torch":
        return _plane(starts, offsets, w)
    return flat_indices(array, w, run[0], include_batch)


def indices_to_winners(
    indices: npt.ArrayLike,
    w: WindowTable,
    style: str = "tensorflow",
    *,
    axes: Axes | None = None,
    data_format: str | None = None,
    include_batch: bool = False,
) -> Array:
    """Flat indices as winners: the inverse of `winners_to_indices`.

    Parameters
    ----------
    indices : array_like of int
        As PyTorch's ``return_indices`` or TensorFlow's ``MaxPoolWithArgmax`` give them.
    w, style, axes, data_format, include_batch
        As for `winners_to_indices`.

    Returns
    -------
    array
        Of ``w.winner_dtype``.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and what would be right; an index outside its window is found.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> pg.indices_to_winners(np.array([[1, 2]]), pg.sliding(4, window=2), "torch", axes=1)
    array([[1, 0]], dtype=uint8)
    """
    op = "indices_to_winners"
    array = as_array(op, "indices", indices)
    run = _checked(op, "indices", array, w, style, axes, data_format, include_batch)
    if array.dtype.kind not in "iu":
        raise type_error(op, "indices", f" have dtype {array.dtype}; flat indices are integers")
    flat = array.astype(np.int64)
    starts, sizes = _geometry(w, array.ndim, run[0])
    if style == "tensorflow":
        flat = (flat - _rest(flat.shape, w, run[0], include_batch)) // max(1, int(np.prod(flat.shape[run[1] :])))
    winners = np.zeros(flat.shape, np.int64)
    scale = 1
    for k in reversed(range(len(w.axes))):
        position = flat if k == 0 else flat % w.input_size[k]
        flat = flat // w.input_size[k]
        offset = position - starts[k]
        if ((offset < 0) | (offset >= sizes[k])).any():
            raise value_error(op, "indices", " lie outside their windows; check the table, the style and include_batch")
        winners += offset * scale
        scale *= w.axes[k].reach
    result: Array = winners.astype(w.winner_dtype)
    if style == "tensorflow" and (flat_indices(result, w, run[0], include_batch) != array).any():
        raise value_error(
            op, "indices", " belong to other channels or batch elements; check the axes and include_batch"
        )
    return result


def flat_indices(winners: Array, w: WindowTable, first: int, include_batch: bool) -> npt.NDArray[np.int64]:
    """TensorFlow's flat index of each winner; the pooled axes begin at ``first``."""
    starts, _ = _geometry(w, winners.ndim, first)
    inner = int(np.prod(winners.shape[first + len(w.axes) :]))
    return _plane(starts, _offsets(winners, w), w) * inner + _rest(winners.shape, w, first, include_batch)


def _checked(
    op: str, argument: str, array: Array, w: WindowTable, style: str, axes: Axes | None, data_format: str | None,
    include_batch: bool,
) -> tuple[int, int]:  # fmt: skip
    choice(op, "style", style, ("tensorflow", "torch"))
    flag(op, "include_batch", include_batch)
    table_of(op, w, (), None, None, "VALID")
    run = run_of(op, argument, array.ndim, axes, data_format)
    frame_of(op, argument, array.shape, run, w.output_size, w.input_size)
    return run


def _geometry(w: WindowTable, ndim: int, first: int) -> tuple[list[Array], list[Array]]:
    """Start and length of every window, each axis shaped to broadcast over the pooled array."""
    starts, sizes = [], []
    for k, axis in enumerate(w.axes):
        rows = axis.windows(0, axis.output_size)
        shape = [1] * ndim
        shape[first + k] = axis.output_size
        starts.append(rows[:, 0].reshape(shape))
        sizes.append((rows[:, 1] - rows[:, 0]).reshape(shape))
    return starts, sizes


def _offsets(winners: Array, w: WindowTable) -> list[Array]:
    """The winners' offset on each axis."""
    rest: Any = winners.astype(np.int64)
    offsets = []
    for axis in reversed(w.axes[1:]):
        rest, offset = np.divmod(rest, axis.reach or 1)
        offsets.append(offset)
    return [rest, *reversed(offsets)]


def _plane(starts: list[Array], offsets: list[Array], w: WindowTable) -> npt.NDArray[np.int64]:
    flat = starts[0] + offsets[0]
    for k in range(1, len(w.axes)):
        flat = flat * w.input_size[k] + (starts[k] + offsets[k])
    return flat


def _rest(shape: tuple[int, ...], w: WindowTable, first: int, include_batch: bool) -> npt.NDArray[np.int64]:
    """What the axes that are not pooled add to TensorFlow's flat index."""
    last = first + len(w.axes)
    full = (*shape[:first], *w.input_size, *shape[last:])
    total = np.zeros((1,) * len(shape), np.int64)
    step = 1
    for axis in reversed(range(len(shape))):
        pooled = first <= axis < last
        if not pooled and (axis > 0 or include_batch):
            place = [1] * len(shape)
            place[axis] = shape[axis]
            total = total + (np.arange(shape[axis], dtype=np.int64) * step).reshape(place)
        step *= full[axis]
    return total
