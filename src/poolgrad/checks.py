"""Numbers from a caller, checked before anything is made of them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from .errors import bad_type, bad_value, value_error

LARGEST = 2**59  # sizes and sums of sizes stay below it, so 64-bit arithmetic on them cannot overflow
LARGEST_LISTED = 2**28  # entries of an irregular axis: 2 GiB of arrays, and nothing is allocated before this check

Sizes = SupportsIndex | Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]
Padding = str | Sequence[Sequence[SupportsIndex]]


def integer(op: str, argument: str, value: object, *, least: int = -LARGEST, most: int = LARGEST - 1) -> int:
    """``value`` as an int from ``least`` to ``most``; bool, floats and strings are refused."""
    number = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if type(number) is not int:
        try:
            if isinstance(number, (bool, np.bool_, np.ndarray)):
                raise TypeError
            # The int itself: a subclass may lie about its order, or about its value when asked politely.
            number = int.__index__(operator.index(number))  # type: ignore[arg-type]
        except TypeError:
            raise bad_type(op, argument, value, "is not an integer; give a Python or NumPy integer") from None
    if not least <= number <= most:
        limit = f"at least {least}" if number < least else f"at most {most}"
        raise bad_value(op, argument, value, f"is out of range; it must be {limit}", expected=limit)
    return number


def integers(
    op: str, argument: str, value: object, *, least: int = -LARGEST, wanted: str = "a list such as [1, 2, 2, 1]"
) -> tuple[int, ...]:
    """``value``, a sequence or one-dimensional array of integers, as a tuple of ints; ``wanted`` says what to give."""
    if isinstance(value, np.ndarray):
        if value.ndim != 1 or not (value.dtype.kind in "iu" or value.size == 0):
            raise bad_type(op, argument, value, "is not a one-dimensional array of integers")
        return tuple(integer(op, argument, number, least=least) for number in value.tolist())
    unordered = isinstance(value, (str, bytes, dict, set, frozenset))
    if unordered or not (hasattr(value, "__iter__") and hasattr(value, "__len__")):  # an iterator is read only once
        raise bad_type(op, argument, value, f"is not a sequence of integers; give {wanted}")
    return tuple(integer(op, f"{argument}[{i}]", number, least=least) for i, number in enumerate(value))


def flag(op: str, argument: str, value: object) -> bool:
    """``value`` as a bool; numbers are refused."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise bad_type(op, argument, value, "is not a bool; use True or False")


def choice(op: str, argument: str, value: object, choices: Sequence[str], others: str = "") -> str:
    """``value``, which must be one of ``choices``; ``others`` names what else the argument takes."""
    if isinstance(value, str) and value in choices:
        return value
    *first, last = [*map(repr, choices), *filter(None, [others])]
    right = f"{', '.join(first)} or {last}"
    raise bad_value(op, argument, value, f"is not known; use {right}", expected=right)


def index_array(op: str, argument: str, value: object) -> npt.NDArray[np.int64]:
    """``value`` as a one-dimensional int64 array."""
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu":
        if value.size > LARGEST_LISTED:
            raise value_error(op, argument, f" has {value.size} entries; at most {LARGEST_LISTED} are taken")
        if value.dtype == np.uint64 and value.size and value.max() >= LARGEST:
            raise bad_value(op, argument, int(value.max()), "is too large; indices stay below 2**59")
        row = np.ascontiguousarray(value, dtype=np.int64)
    else:
        row = np.array(integers(op, argument, value), dtype=np.int64)
    if row.size and row.max() >= LARGEST:
        raise bad_value(op, argument, int(row.max()), "is too large; indices stay below 2**59")
    return row


def check_order(op: str, argument: str, row: npt.NDArray[np.int64]) -> None:
    """Refuse a row that decreases."""
    falls = np.flatnonzero(row[1:] < row[:-1])
    if falls.size:
        i = int(falls[0])
        raise bad_value(
            op, argument, row[:100].tolist(), f"decreases after entry {i} ({row[i]} to {row[i + 1]}); it must not"
        )


# ---- an argument for all pooled axes or for each -----------------------------------------------------------------


def axis_sizes(op: str, argument: str, value: object, count: int | None, least: int) -> tuple[int, ...]:
    """One integer for each of ``count`` axes; None leaves it to ``value`` how many there are."""
    if hasattr(value, "__index__") and not (isinstance(value, np.ndarray) and value.ndim):
        return (integer(op, argument, value, least=least),) * (count or 1)
    numbers = integers(op, argument, value, least=least, wanted="an integer, or a list of one for each pooled axis")
    if count is None and not 1 <= len(numbers) <= 3:
        raise bad_value(op, argument, value, f"has {len(numbers)} entries; one to three axes can be pooled")
    if count is not None and len(numbers) != count:
        raise bad_value(op, argument, value, f"has {len(numbers)} entries; give one number or {count}")
    return numbers


def axis_paddings(op: str, padding: Any, count: int) -> str | list[tuple[int, int]]:
    """VALID, SAME or one pair (before, after) for each axis."""
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


def axis_arrays(op: str, argument: str, value: Any, count: int) -> list[Any]:
    """One array for each axis; a single axis may give its array bare."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        raise bad_type(op, argument, value, "is not a list of integer arrays, one for each axis")
    rows = list(value)
    if count == 1 and not (len(rows) == 1 and hasattr(rows[0], "__len__")):
        return [value]
    if len(rows) != count:
        raise value_error(op, argument, f" has {len(rows)} entries for {count} axes; give one array for each axis")
    return rows
