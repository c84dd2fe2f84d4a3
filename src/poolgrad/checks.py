"""Numbers from a caller, checked before anything is made of them."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .errors import bad_type, bad_value, value_error

LARGEST = 2**59  # sizes and sums of sizes stay below it, so 64-bit arithmetic on them cannot overflow
LARGEST_LISTED = 2**28  # entries of an irregular axis: 2 GiB of arrays, and nothing is allocated before this check


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


def integers(op: str, argument: str, value: object, *, least: int = -LARGEST) -> tuple[int, ...]:
    """``value``, a sequence or one-dimensional array of integers, as a tuple of ints."""
    if isinstance(value, np.ndarray):
        if value.ndim != 1 or not (value.dtype.kind in "iu" or value.size == 0):
            raise bad_type(op, argument, value, "is not a one-dimensional array of integers")
        return tuple(integer(op, argument, number, least=least) for number in value.tolist())
    unordered = isinstance(value, (str, bytes, dict, set, frozenset))
    if unordered or not (hasattr(value, "__iter__") and hasattr(value, "__len__")):  # an iterator is read only once
        raise bad_type(op, argument, value, "is not a sequence of integers; give a list such as [1, 2, 2, 1]")
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
