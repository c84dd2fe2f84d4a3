"""The windows of a raw op: sliding by ksize, strides and padding, or fractional by sequences given or drawn."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from . import sequences
from .arrays import as_array
from .checks import index_array
from .errors import bad_type, bad_value
from .makers import fractional_table, sliding_table
from .op_table import Op
from .window_table import WindowTable

Windows = tuple[WindowTable, tuple[int, ...], int]  # the table, the axes of the tensor that it pools, that of channels


def sliding_windows(
    op: Op, shape: tuple[int, ...], ksize: tuple[int, ...], strides: tuple[int, ...], attributes: Mapping[str, Any]
) -> Windows:
    name, rank, layout = op.name, len(shape), attributes["data_format"]
    for argument, numbers in (("ksize", ksize), ("strides", strides)):
        if len(numbers) != rank:
            raise bad_value(
                name, argument, list(numbers), f"has {len(numbers)} entries; give {rank}, one for each of {layout}"
            )
        if min(numbers) < 1:
            raise bad_value(name, argument, list(numbers), "must be positive on every axis", expected=">= 1")
    channel = layout.index("C")
    axes = tuple(k for k in range(1, rank) if k != channel)
    depthwise = op.depthwise and ksize[channel] > 1
    if depthwise:
        axes = _depthwise_axes(op, shape, ksize, strides, channel, attributes["padding"])
    for axis, word in ((0, "batch"), (channel, "channels")):
        for argument, numbers in (("ksize", ksize), ("strides", strides)):
            if numbers[axis] != 1 and axis not in axes:
                raise bad_value(
                    name,
                    argument,
                    list(numbers),
                    f"pools the {word} axis, which {name} does not; use 1 at entry {axis}",
                )
    pads: Any = attributes["padding"]
    explicit = attributes.get("explicit_paddings", ())
    if pads == "EXPLICIT":
        pads = _explicit(op, explicit, ksize, axes)
    elif explicit:
        raise bad_value(
            name, "explicit_paddings", list(explicit), f"is for padding='EXPLICIT'; with {pads!r} it must be empty"
        )
    sizes, windows, steps = ([numbers[axis] for axis in axes] for numbers in (shape, ksize, strides))
    table = sliding_table(name, sizes, windows, steps, pads, ("ksize", "padding"))
    return table, axes, channel


def _explicit(op: Op, pads: tuple[int, ...], ksize: tuple[int, ...], axes: tuple[int, ...]) -> list[tuple[int, int]]:
    name, rank = op.name, len(ksize)
    if len(pads) != 2 * rank:
        raise bad_value(
            name, "explicit_paddings", list(pads), f"has {len(pads)} entries; give {2 * rank}: two for each axis"
        )
    for axis in range(rank):
        pair = pads[2 * axis : 2 * axis + 2]
        if axis not in axes and any(pair):
            raise bad_value(
                name, "explicit_paddings", list(pads), f"pads axis {axis}, which is not pooled; use 0 there"
            )
        if axis in axes and max(pair) >= ksize[axis]:
            raise bad_value(
                name,
                "explicit_paddings",
                list(pads),
                f"pads axis {axis} by {max(pair)}; it must be below the window {ksize[axis]}",
            )
    return [(pads[2 * axis], pads[2 * axis + 1]) for axis in axes]


def _depthwise_axes(
    op: Op, shape: tuple[int, ...], ksize: tuple[int, ...], strides: tuple[int, ...], channel: int, padding: str
) -> tuple[int, ...]:
    depth = ksize[channel]
    for argument, numbers in (("ksize", ksize), ("strides", strides)):
        if any(number != 1 for axis, number in enumerate(numbers) if axis != channel):
            raise bad_value(
                op.name,
                argument,
                list(numbers),
                "pools channels and other axes at once; pool either, with 1 on all other axes",
            )
    if strides[channel] != depth:
        raise bad_value(
            op.name, "strides", list(strides), f"must equal ksize on channels ({depth}) when they are pooled"
        )
    if shape[channel] % depth:
        raise bad_value(op.name, "ksize", list(ksize), f"does not divide the {shape[channel]} channels evenly")
    if padding == "EXPLICIT":
        raise bad_value(op.name, "padding", padding, "does not go with pooled channels; use 'VALID'")
    return (channel,)


def fractional_windows(
    op: Op, shape: tuple[int, ...], values: Mapping[str, Any], attributes: Mapping[str, Any]
) -> Windows:
    layout = attributes["data_format"]
    channel = layout.index("C")
    axes = tuple(k for k in range(1, 4) if k != channel)
    sizes = [shape[axis] for axis in axes]
    if op.windows == "ratios":
        ratios, seeds = _checked_draw(op, shape, axes, values["pooling_ratio"], attributes)
        draw = (op.name, tuple(sizes), ratios, seeds, attributes["pseudo_random"], attributes["overlapping"])
        # What is drawn from fresh seeds does not recur; long tables are large.
        remembered = attributes["deterministic"] and sum(sizes) <= 4096
        return (_drawn_table if remembered else _drawn_table.__wrapped__)(*draw), axes, channel
    rows = [_sequence(op, name, values[name]) for name in _SEQUENCES]
    if sum(row.size for row in rows) > 4096:
        table = fractional_table(op.name, _SEQUENCES, sizes, rows, attributes["overlapping"])
    else:
        table = _known_table(op.name, tuple(sizes), tuple(row.tobytes() for row in rows), attributes["overlapping"])
    return table, axes, channel


_SEQUENCES = ("row_pooling_sequence", "col_pooling_sequence")


def _sequence(op: Op, name: str, value: Any) -> npt.NDArray[np.int64]:
    listed = isinstance(value, (list, tuple))  # a list is looked at number by number: True is not 1
    return index_array(op.name, name, value if listed else as_array(op.name, name, value))


@lru_cache(maxsize=256)
def _known_table(op: str, sizes: tuple[int, ...], rows: tuple[bytes, ...], overlapping: bool) -> WindowTable:
    return fractional_table(op, _SEQUENCES, sizes, [np.frombuffer(row, np.int64) for row in rows], overlapping)


@lru_cache(maxsize=256)
def _drawn_table(
    op: str, sizes: tuple[int, ...], ratios: tuple[float, ...], seeds: tuple[int, int], pseudo_random: bool,
    overlapping: bool,
) -> WindowTable:  # fmt: skip
    rows = sequences.tensorflow(sizes, ratios, *seeds, pseudo_random=pseudo_random)
    return fractional_table(op, _SEQUENCES, sizes, rows, overlapping)


def _checked_draw(
    op: Op, shape: tuple[int, ...], axes: tuple[int, ...], given: Any, attributes: Mapping[str, Any]
) -> tuple[tuple[float, ...], tuple[int, int]]:
    """The ratios of the pooled axes and the seeds to draw from."""
    ratios = _ratios(op, given)
    for axis in range(4):
        if axis not in axes and ratios[axis] != 1:
            raise bad_value(op.name, "pooling_ratio", ratios, f"pools axis {axis}, batch or channels; use 1.0 there")
    for axis in axes:
        if not 1 <= ratios[axis] <= shape[axis]:
            raise bad_value(
                op.name, "pooling_ratio", ratios, f"must be from 1 to the size {shape[axis]} on axis {axis}"
            )
    seed, seed2 = attributes["seed"], attributes["seed2"]
    if not attributes["deterministic"]:
        if seed or seed2:
            raise bad_value(
                op.name, "seed", (seed, seed2), "is not used unless deterministic=True; set that, or leave both 0"
            )
        seed, seed2 = sequences.random_seeds()
    return tuple(ratios[axis] for axis in axes), (seed, seed2)


def _ratios(op: Op, given: Any) -> list[float]:
    listed = isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.ndim == 1)
    if not listed or len(given) != 4:
        raise bad_value(
            op.name, "pooling_ratio", given, "must be 4 numbers, one for each axis, such as [1.0, 1.44, 1.73, 1.0]"
        )
    for number in given:
        if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, float, np.integer, np.floating)):
            raise bad_type(op.name, "pooling_ratio", given, "must be numbers")
        if not 1 <= number < 2**62:  # NaN fails too
            raise bad_value(op.name, "pooling_ratio", given, "must be finite and at least 1 on every axis")
    return [float(np.float32(number)) for number in given]  # TensorFlow's attribute is float32
