"""Pooling sequences for fractional pooling: TensorFlow's, bit for bit, and those of Graham's paper.

A pooling sequence cuts an axis of `size` elements into cells: an int64 array that starts with 0, ends with
`size` and has one entry more than there are cells; cell i is ``sequence[i] .. sequence[i + 1]``. Both kinds
make `output_size(size, ratio)` cells of the lengths k and k + 1, and differ in where the longer ones lie.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, TypeAlias, TypeGuard, overload

import numpy as np
from numpy.typing import NDArray

from .checks import LARGEST_LISTED, flag, integer
from .errors import bad_type, bad_value, value_error

__all__ = ["graham", "output_size", "random_seeds", "tensorflow"]


def __dir__() -> list[str]:
    """What Tab shows: the public names."""
    return __all__


Integer: TypeAlias = int | np.integer[Any]
Number: TypeAlias = float | np.floating[Any] | np.integer[Any]
Integers: TypeAlias = Sequence[Integer] | NDArray[np.integer[Any]]
Numbers: TypeAlias = Sequence[Number] | NDArray[np.number[Any]]
Boundaries: TypeAlias = NDArray[np.int64]

LARGEST_SIZE = 2**31 - 1  # TensorFlow counts an axis in 32 bits; and size * cells stays within int64
WORD = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


@overload
def tensorflow(
    size: Integer, ratio: Number, seed: Integer, seed2: Integer, *, pseudo_random: bool = False
) -> Boundaries: ...
@overload
def tensorflow(
    size: Integers, ratio: Number | Numbers, seed: Integer, seed2: Integer, *, pseudo_random: bool = False
) -> tuple[Boundaries, ...]: ...
def tensorflow(
    size: Integer | Integers, ratio: Number | Numbers, seed: Integer, seed2: Integer, *, pseudo_random: bool = False
) -> Boundaries | tuple[Boundaries, ...]:
    """Pooling sequences as TensorFlow's fractional pooling draws them, bit for bit.

    ``FractionalMaxPool`` and ``FractionalAvgPool`` with ``deterministic=True`` draw the rows and then the
    columns from one random stream, so the columns depend on the number of rows: give both sizes together to
    get what TensorFlow gets. `overlapping` does not influence a sequence.

    Parameters
    ----------
    size : int or sequence of int
        Elements along the axis, 1 to 2**31 - 1; or those of several axes, drawn in this order.
    ratio : float or sequence of float
        Pooling ratio, 1 to `size`, rounded to float32 as in TensorFlow; with several sizes, one each or one
        for all.
    seed, seed2 : int
        Signed 64-bit. (0, 0) stands, as in TensorFlow, for a pair drawn once per process.
    pseudo_random : bool
        False: the cell lengths are shuffled. True: they are spread evenly, from a random offset.

    Returns
    -------
    numpy.ndarray or tuple of numpy.ndarray
        One int64 sequence for an int `size`; a tuple of them, in the order given, for a sequence of sizes.

    Raises
    ------
    ValueError
        A size, ratio or seed is out of range, or there are not as many ratios as sizes.
    TypeError
        A size or seed is not an integer (bool and float are refused), a ratio is not a number.

    Examples
    --------
    >>> from poolgrad import sequences
    >>> sequences.tensorflow(10, 1.5, 1, 2)
    array([ 0,  1,  3,  4,  6,  8, 10])
    >>> rows, columns = sequences.tensorflow((10, 7), (1.5, 2.0), 1, 2, pseudo_random=True)
    >>> rows.tolist(), columns.tolist()
    ([0, 2, 3, 5, 7, 8, 10], [0, 2, 5, 7])
    """
    op = "sequences.tensorflow"
    several, axes = _axes(op, size, ratio)
    seeds = (("seed", seed), ("seed2", seed2))
    pair = tuple(integer(op, name, value, least=-(2**63), most=2**63 - 1) for name, value in seeds)
    draw = _even if flag(op, "pseudo_random", pseudo_random) else _shuffled
    stream = Philox(*(pair if any(pair) else _PROCESS_SEEDS))
    drawn = tuple(draw(length, cells, stream) for length, cells in axes)
    return drawn if several else drawn[0]


@overload
def graham(
    size: Integer, ratio: Number, *, random: bool = True, rng: np.random.Generator | Integer | None = None
) -> Boundaries: ...
@overload
def graham(
    size: Integers, ratio: Number | Numbers, *, random: bool = True, rng: np.random.Generator | Integer | None = None
) -> tuple[Boundaries, ...]: ...
def graham(
    size: Integer | Integers,
    ratio: Number | Numbers,
    *,
    random: bool = True,
    rng: np.random.Generator | Integer | None = None,
) -> Boundaries | tuple[Boundaries, ...]:
    """Pooling sequences after Graham, "Fractional Max-Pooling" (arXiv:1412.6071).

    The number of cells is `output_size(size, ratio)`, so `graham` and `tensorflow` are interchangeable; the
    ratio in the paper's formula is the one that comes out, ``alpha = size / cells``.

    Parameters
    ----------
    size : int or sequence of int
        Elements along the axis, 1 to 2**31 - 1; or those of several axes, drawn in order.
    ratio : float or sequence of float
        Pooling ratio, 1 to `size`; with several sizes, one each or one for all.
    random : bool
        True: a uniformly random permutation of the cell lengths. False, the paper's "pseudorandom":
        ``a(i) = ceil(alpha * (i + u))`` with one u from (0, 1) per axis, shifted to start at 0; computed in
        integers, so that no rounding can misplace a boundary.
    rng : numpy.random.Generator or int or None
        A generator to draw from, a non-negative seed for a new one, or None for fresh entropy.

    Returns
    -------
    numpy.ndarray or tuple of numpy.ndarray
        One int64 sequence for an int `size`; a tuple of them, in the order given, for a sequence of sizes.

    Raises
    ------
    ValueError
        A size or ratio is out of range, there are not as many ratios as sizes, or `rng` is negative.
    TypeError
        A size is not an integer (bool and float are refused), a ratio is not a number, `rng` is neither.

    Examples
    --------
    >>> import numpy as np
    >>> from poolgrad import sequences
    >>> cuts = sequences.graham(10, 1.5, rng=7)
    >>> int(cuts[0]), int(cuts[-1]), sorted(np.diff(cuts).tolist())
    (0, 10, [1, 1, 2, 2, 2, 2])
    >>> [len(cuts) for cuts in sequences.graham((10, 7), 2, random=False, rng=np.random.default_rng(7))]
    [6, 4]
    """
    op = "sequences.graham"
    several, axes = _axes(op, size, ratio)
    uniform = flag(op, "random", random)
    generator = _generator(op, rng)
    draw: Callable[[int, int, np.random.Generator], Boundaries] = _permuted if uniform else _offset
    drawn = tuple(draw(length, cells, generator) for length, cells in axes)
    return drawn if several else drawn[0]


def output_size(size: Integer, ratio: Number) -> int:
    """Number of cells of an axis: ``floor(size / ratio)`` in float32, as TensorFlow computes it.

    Parameters
    ----------
    size : int
        Elements along the axis, 1 to 2**31 - 1.
    ratio : float
        Pooling ratio, 1 to `size`.

    Returns
    -------
    int
        At least 1 and at most `size`.

    Raises
    ------
    ValueError
        `size` or `ratio` is out of range.
    TypeError
        `size` is not an integer or `ratio` not a number.

    Examples
    --------
    >>> from poolgrad import sequences
    >>> sequences.output_size(10, 1.5)
    6
    >>> sequences.output_size(18, 1.2), sequences.output_size(33, 1.1)  # in float64: 15 and 29
    (14, 30)
    """
    return _cells("sequences.output_size", "size", size, "ratio", ratio)[1]


def random_seeds() -> tuple[int, int]:
    """A fresh seed pair for `tensorflow` from the system's entropy, never (0, 0).

    Returns
    -------
    tuple of int
        Two integers in the signed 64-bit range.

    Examples
    --------
    >>> from poolgrad import sequences
    >>> len(sequences.tensorflow(10, 1.5, *sequences.random_seeds()))
    7
    """
    first, second = (int.from_bytes(os.urandom(8), "little", signed=True) for _ in range(2))
    return first, second or 1


# Drawn at import, not at first use: threads cannot race for it, and forked workers agree with their parent.
_PROCESS_SEEDS = random_seeds()


class Philox:
    """Philox4x32-10, seeded as in TensorFlow: `seed` is the key, `seed2` the upper half of the counter."""

    def __init__(self, seed: int, seed2: int) -> None:
        self.key = seed % 2**64
        self.upper = seed2 % 2**64
        self.block = 0

    def words(self, count: int) -> NDArray[np.uint32]:
        """The next `count` words, in whole blocks of 4: the rest of the last block is skipped, not kept."""
        first, self.block = self.block, self.block + -(-count // 4)
        # 16384 blocks at a time, so that the temporary uint64 arrays are 128 KiB each however long the axis.
        starts = range(first, self.block, 16384)
        parts = [self._blocks(start, min(start + 16384, self.block)) for start in starts]
        return np.concatenate(parts)[:count]

    def _blocks(self, first: int, last: int) -> NDArray[np.uint32]:
        counter = np.arange(first, last, dtype=np.uint64)
        c0, c1 = counter & WORD, counter >> HALF
        c2, c3 = (np.full_like(counter, half) for half in (self.upper & 0xFFFFFFFF, self.upper >> 32))
        k0, k1 = self.key & 0xFFFFFFFF, self.key >> 32
        for _ in range(10):
            product0, product1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
            c0, c1 = (product1 >> HALF) ^ c1 ^ np.uint64(k0), product1 & WORD
            c2, c3 = (product0 >> HALF) ^ c3 ^ np.uint64(k1), product0 & WORD
            k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
        return np.stack((c0, c1, c2, c3), axis=1).astype(np.uint32).ravel()


def _shuffled(size: int, cells: int, stream: Philox) -> Boundaries:
    """TensorFlow's random sequence: Fisher-Yates from the front, one word and a plain modulo a swap."""
    # Drawn even where all cells are equal: the next axis continues behind these words.
    words = stream.words(cells)[: cells - 1]
    short, longer = divmod(size, cells)
    extra = bytearray(b"\1" * longer + b"\0" * (cells - longer))
    if longer:
        here = np.arange(cells - 1, dtype=np.int64)
        # Each swap needs the ones before it, so this loop is Python: 5 ms for 50,000 cells.
        for i, j in enumerate((here + words % (cells - here)).tolist()):
            extra[i], extra[j] = extra[j], extra[i]
    return _accumulated(short + np.frombuffer(extra, dtype=np.uint8).astype(np.int64))


def _even(size: int, cells: int, stream: Philox) -> Boundaries:
    """TensorFlow's pseudo-random sequence; the order of the float64 operations is part of the contract."""
    high, low = stream.words(2).tolist()
    uniform = ((high & 0xFFFFF) << 32 | low) / 2**52  # exact: 52 bits
    alpha, short = size / cells, size // cells
    u = uniform * min((short + 2) / alpha - 1, (size + 1 - short) / alpha - (cells - 1))
    boundaries: Boundaries = np.ceil(alpha * (np.arange(cells + 1) + u)).astype(np.int64) - 1
    boundaries[0], boundaries[-1] = 0, size
    return boundaries


def _permuted(size: int, cells: int, generator: np.random.Generator) -> Boundaries:
    short, longer = divmod(size, cells)
    return _accumulated(generator.permutation(np.repeat([short + 1, short], [longer, cells - longer])))


def _offset(size: int, cells: int, generator: np.random.Generator) -> Boundaries:
    # ceil(size * (i + u) / cells) is ceil((size * i + c) / cells) with c = ceil(size * u), and u uniform on
    # (0, 1) makes c uniform on 1 .. size.
    c = int(generator.integers(1, size, endpoint=True))
    boundaries: Boundaries = (np.arange(cells + 1, dtype=np.int64) * size + (c + cells - 1)) // cells
    boundaries -= boundaries[0]
    return boundaries


def _accumulated(lengths: NDArray[np.int64]) -> Boundaries:
    boundaries = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=boundaries[1:])
    return boundaries


def _axes(op: str, size: object, ratio: object) -> tuple[bool, list[tuple[int, int]]]:
    """Whether several sizes were given, and (size, cells) of each."""
    if not _is_sequence(size):
        return False, [_cells(op, "size", size, "ratio", ratio)]
    sizes = list(size)
    if not sizes:
        raise bad_value(op, "size", size, "is empty; give at least one size")
    ratios = list(ratio) if _is_sequence(ratio) else [ratio] * len(sizes)
    if len(ratios) != len(sizes):
        problem = f" has {len(ratios)} entries for {len(sizes)} sizes; give one each, or one number for all"
        raise value_error(op, "ratio", problem, expected=len(sizes), got=len(ratios))
    return True, [
        _cells(op, f"size[{i}]", length, f"ratio[{i}]" if _is_sequence(ratio) else "ratio", ratios[i])
        for i, length in enumerate(sizes)
    ]


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, (list, tuple, range))


def _cells(op: str, size_name: str, size: object, ratio_name: str, ratio: object) -> tuple[int, int]:
    """A checked size and its number of cells."""
    length = integer(op, size_name, size, least=1, most=LARGEST_SIZE)
    value = ratio[()] if isinstance(ratio, np.ndarray) and ratio.ndim == 0 else ratio
    if isinstance(value, bool) or not isinstance(value, Real):
        raise bad_type(op, ratio_name, ratio, "is not a number; give a float of at least 1")
    try:
        # Clamped, so that float32, which ends at 3e38, does not overflow; nan passes both and fails below.
        single = np.float32(min(max(float(value), 0.0), 2.0**32))
    except OverflowError:  # an int that float64 cannot hold
        single = np.float32(0)
    if not 1 <= single <= np.float32(length):
        problem = f"is out of range; give a ratio from 1 to {size_name}={length}"
        raise bad_value(op, ratio_name, ratio, problem)
    cells = int(np.floor(np.float32(length) / single))
    if cells > length:
        # TensorFlow goes on and returns a sequence with an empty cell, which no table of windows can hold.
        problem = f"gives {cells} cells with {ratio_name}={ratio}, for float32 rounds the size up; "
        raise bad_value(op, size_name, length, problem + "give a larger ratio or a size that float32 holds")
    if cells > LARGEST_LISTED:
        problem = f"gives {cells} cells with {ratio_name}={ratio}; a sequence has at most {LARGEST_LISTED}"
        raise bad_value(op, size_name, length, problem + ", give a larger ratio")
    return length, cells


def _generator(op: str, rng: object) -> np.random.Generator:
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)):
        raise bad_type(op, "rng", rng, "is no random source; give a numpy.random.Generator, an int or None")
    return np.random.default_rng(integer(op, "rng", rng, least=0, most=2**256))
