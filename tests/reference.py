"""The slow, obvious twin of poolgrad: windows from first principles, one output after another.

Nothing here imports poolgrad. A window is ``(start, stop, divisor)``; an axis is a list of them; ``windows`` is one
such list for each pooled axis, and the pooled axes of an array are the ``len(windows)`` axes from ``first`` on.
Exact results are sums in float64 (`math.fsum` for float64 data) with an error bound; integer and max results are
exact and compared bit for bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

Window = tuple[int, int, int]
Windows = Sequence[Sequence[Window]]
Array = np.ndarray[Any, Any]

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of this name, bfloat16 included."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


# ---- windows ---------------------------------------------------------------------------------------------------------


def sliding(n: int, window: int, stride: int, padding: str | tuple[int, int]) -> list[Window]:
    """The windows of one axis, found by walking along the padded input; ValueError where there can be none."""
    if padding == "SAME":
        outputs = math.ceil(Fraction(n, stride))
        missing = max(0, (outputs - 1) * stride + window - n)
        before = missing // 2
    else:
        before, after = (0, 0) if isinstance(padding, str) else padding
        outputs = 0
        while outputs * stride + window <= before + n + after:
            outputs += 1
        if window - (before + n + after) >= 2 * stride:  # TensorFlow: "Computed output size would be negative"
            raise ValueError("window far larger than the input")
    result = []
    for i in range(outputs):
        inside = [j for j in range(max(0, i * stride - before), n) if j < i * stride - before + window]
        if not inside:
            raise ValueError("window wholly in padding")
        result.append((inside[0], inside[-1] + 1, len(inside)))
    return result


def fractional(n: int, sequence: Sequence[int], overlapping: bool) -> list[Window]:
    """TensorFlow's cells: rows ``s[i]`` to ``s[i+1]-1`` (``s[i+1]`` when overlapping), at most ``n-1``."""
    cells = []
    for start, following in itertools.pairwise(sequence):
        last = min(following if overlapping else following - 1, n - 1)
        cells.append((start, last + 1, last + 1 - start))
    return cells


def adaptive(n: int, outputs: int) -> list[Window]:
    """Cell i is from the floor of ``i*n/m`` to the ceiling of ``(i+1)*n/m``."""
    edges = [(math.floor(Fraction(i * n, outputs)), math.ceil(Fraction((i + 1) * n, outputs))) for i in range(outputs)]
    return [(start, stop, stop - start) for start, stop in edges]


# ---- frames: [outer, D, H, W, inner] ---------------------------------------------------------------------------------


def _frame(array: Array, count: int, first: int) -> Array:
    shape = array.shape
    outer, inner = math.prod(shape[:first]), math.prod(shape[first + count :])
    return array.reshape((outer, *(1,) * (3 - count), *shape[first : first + count], inner))


def _three(windows: Windows) -> list[Sequence[Window]]:
    return [[(0, 1, 1)]] * (3 - len(windows)) + list(windows)


def boxes(windows: Windows) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], int]]:
    """Every output in row-major order: its index, the slices it covers, its divisor."""
    for index in itertools.product(*(range(len(axis)) for axis in windows)):
        row = [axis[i] for axis, i in zip(windows, index, strict=True)]
        yield index, tuple(slice(start, stop) for start, stop, _ in row), math.prod(d for _, _, d in row)


def pooled_shape(shape: Sequence[int], windows: Windows, first: int) -> tuple[int, ...]:
    return (*shape[:first], *map(len, windows), *shape[first + len(windows) :])


def input_shape(shape: Sequence[int], windows: Windows, first: int, sizes: Sequence[int]) -> tuple[int, ...]:
    return (*shape[:first], *sizes, *shape[first + len(windows) :])


# ---- averages: exact values and their error bound --------------------------------------------------------------------


class Exact(NamedTuple):
    """Sums as they are in mathematics, and what their error bound needs (all of the result's shape)."""

    value: Array  # float64; NaN or infinite where the terms say so
    magnitude: Array  # sum of the absolute values of the finite terms
    terms: Array  # how many terms are added one after another, over all passes
    peak: Array  # the largest partial sum there can be


def _add_up(terms: Array) -> tuple[Array, Array]:
    """Sums along axis 0 of float64 terms, and of their finite absolute values."""
    magnitude = np.where(np.isfinite(terms), np.abs(terms), 0).sum(axis=0)
    flat = terms.reshape(len(terms), math.prod(terms.shape[1:])).T
    return np.array([_fsum(row) for row in flat.tolist()]).reshape(terms.shape[1:]), magnitude


def _fsum(row: list[float]) -> float:
    if math.isfinite(sum(map(abs, row))):
        return math.fsum(row)
    return float(np.sum(row))


def _serial(length: int) -> int:
    """Additions one after another of ``length`` terms: blocks of 256, then the blocks."""
    return length if length <= 256 else 256 + math.ceil(length / 256)


@np.errstate(all="ignore")
def avg_pool(x: Array, windows: Windows, first: int) -> Exact:
    frame = _frame(x.astype(np.float64), len(windows), first)
    outer, inner = frame.shape[0], frame.shape[-1]
    three = _three(windows)
    parts = [np.empty((outer, *map(len, three), inner)) for _ in range(4)]
    for index, box, divisor in boxes(three):
        cell = frame[(slice(None), *box)]
        terms = np.moveaxis(cell.reshape(outer, math.prod(cell.shape[1:4]), inner), 1, 0)
        total, magnitude = _add_up(terms)
        place = (slice(None), *index)
        parts[0][place], parts[1][place], parts[3][place] = total / divisor, magnitude / divisor, magnitude
        parts[2][place] = sum(_serial(length) for length in cell.shape[1:4])
    return Exact(*(part.reshape(pooled_shape(x.shape, windows, first)) for part in parts))


def _covering(axis: Sequence[Window], i: int) -> list[int]:
    """The outputs whose windows hold input ``i``: adjacent ones, as windows never go back."""
    members = [o for o, (start, stop, _) in enumerate(axis) if start <= i < stop]
    assert members == list(range(members[0], members[-1] + 1) if members else [])
    return members


@np.errstate(all="ignore")
def avg_pool_grad(grad: Array, windows: Windows, first: int, sizes: Sequence[int]) -> Exact:
    frame = _frame(grad.astype(np.float64), len(windows), first)
    outer, inner = frame.shape[0], frame.shape[-1]
    three = _three(windows)
    parts = [np.zeros((outer, *(1,) * (3 - len(windows)), *sizes, inner)) for _ in range(4)]
    quotients = np.empty_like(frame)
    for index, _, divisor in boxes(three):
        quotients[(slice(None), *index)] = frame[(slice(None), *index)] / divisor
    reach = [[_covering(axis, i) for i in range(n)] for axis, n in zip(three, parts[0].shape[1:4], strict=True)]
    for place in itertools.product(*(range(n) for n in parts[0].shape[1:4])):
        covers = [axis[i] for axis, i in zip(reach, place, strict=True)]
        if all(covers):
            cell = quotients[(slice(None), *(slice(members[0], members[-1] + 1) for members in covers))]
            terms = np.moveaxis(cell.reshape(outer, math.prod(cell.shape[1:4]), inner), 1, 0)
            at = (slice(None), *place)
            parts[0][at], parts[1][at] = _add_up(terms)
            parts[2][at] = sum(_serial(length) for length in cell.shape[1:4])
            # A pass over one axis knows only that axis's divisor: its sums may be as large as the undivided ones.
            whole = frame[(slice(None), *(slice(members[0], members[-1] + 1) for members in covers))]
            parts[3][at] = np.where(np.isfinite(whole), np.abs(whole), 0).sum(axis=(1, 2, 3))
    return Exact(*(part.reshape(input_shape(grad.shape, windows, first, sizes)) for part in parts))


@np.errstate(all="ignore")
def assert_close(result: Array, exact: Exact, *, sums_in: Any = None, note: str = "") -> None:
    """``result`` within ``(terms + 4) * eps * sum|terms|`` and half an ulp of its storage type of the exact sums.

    ``eps`` is that of the accumulator, float32 for float16 and bfloat16 unless ``sums_in`` says otherwise. Products
    may underflow, so each term may also be off by the smallest subnormal. Where a partial sum of finite numbers could
    overflow the accumulator nothing is promised.
    """
    assert result.shape == exact.value.shape, (result.shape, exact.value.shape, note)
    storage = ml_dtypes.finfo(result.dtype)
    narrow = np.float64 if result.dtype == np.float64 else np.float32
    accumulator = ml_dtypes.finfo(narrow if sums_in is None else sums_in)
    slack = (exact.terms + 4) * (float(accumulator.eps) * exact.magnitude + float(accumulator.smallest_subnormal))
    bound = slack + half_ulp(np.abs(exact.value) + slack, storage)
    got = result.astype(np.float64)
    promised = exact.peak < float(accumulator.max) * (1 - 2.0**-7)
    near = np.abs(got - exact.value) <= bound
    same = (got == exact.value) | (np.isnan(got) & np.isnan(exact.value))
    edge = np.isinf(got) & (np.abs(exact.value) + bound >= float(storage.max)) & (np.sign(got) == np.sign(exact.value))
    wrong = promised & ~np.where(np.isfinite(exact.value), near | edge, same)
    if wrong.any():
        place = tuple(int(k[0]) for k in np.nonzero(wrong))
        raise AssertionError(
            f"{note} {int(wrong.sum())} of {wrong.size} elements off; first at {place}: got {got[place]!r}, "
            f"exact {exact.value[place]!r}, bound {bound[place]!r} ({result.dtype})"
        )


def half_ulp(value: Array, storage: Any) -> Array:
    """Half the distance between neighbours of ``storage`` around ``value``."""
    exponent = np.frexp(np.where(np.isfinite(value), value, 0))[1] - 1
    ulp = np.ldexp(1.0, np.maximum(exponent, storage.minexp) - storage.nmant)
    return np.asarray(np.maximum(ulp, float(storage.smallest_subnormal)) / 2)


# ---- averages: the very bits, in the order that the design writes down -----------------------------------------------


def _pass(source: Array, ranges: Sequence[Sequence[int]], axis: int) -> Array:
    """Sums of the listed rows of one axis: ascending, first term assigned, blocks of 256; none: +0."""
    rows = np.moveaxis(source, axis, 0)
    result = np.zeros((len(ranges), *rows.shape[1:]), source.dtype)
    for o, members in enumerate(ranges):
        blocks = []
        for begin in range(0, len(members), 256):
            total = rows[members[begin]].copy()
            for i in members[begin + 1 : begin + 256]:
                total = total + rows[i]
            blocks.append(total)
        for k, block in enumerate(blocks):
            result[o] = block if k == 0 else result[o] + block
    return np.moveaxis(result, 0, axis)


@np.errstate(all="ignore")
def avg_pool_bits(x: Array, windows: Windows, first: int) -> Array:
    """Passes over D, H, W in the accumulator type, then one division."""
    accumulator = np.float64 if x.dtype == np.float64 else np.float32
    sums = x.astype(accumulator)
    for k, axis in enumerate(windows):
        sums = _pass(sums, [range(start, stop) for start, stop, _ in axis], first + k)
    shape = [len(axis) for axis in windows]
    divisors = np.ones(shape, np.int64)
    for k, axis in enumerate(windows):
        column = [1] * len(windows)
        column[k] = len(axis)
        divisors = divisors * np.array([d for _, _, d in axis], np.int64).reshape(column)
    divisors = divisors.reshape((*shape, *(1,) * (x.ndim - first - len(windows))))
    return np.asarray((sums / divisors.astype(accumulator)).astype(x.dtype))


@np.errstate(all="ignore")
def avg_pool_grad_bits(grad: Array, windows: Windows, first: int, sizes: Sequence[int]) -> Array:
    """Passes over D, H, W, each term times the accumulator's 1/divisor of that axis."""
    accumulator = np.float64 if grad.dtype == np.float64 else np.float32
    sums = grad.astype(accumulator)
    for k, (axis, n) in enumerate(zip(windows, sizes, strict=True)):
        weights = accumulator(1) / np.array([d for _, _, d in axis], accumulator)
        sums = sums * weights.reshape((-1, *(1,) * (sums.ndim - first - k - 1)))
        covers = [[o for o, (start, stop, _) in enumerate(axis) if start <= i < stop] for i in range(n)]
        sums = _pass(sums, covers, first + k)
    return np.asarray(sums.astype(grad.dtype))


# ---- averages of integers --------------------------------------------------------------------------------------------


def _box_sums(x: Array, windows: Windows, first: int) -> Iterator[tuple[tuple[Any, ...], Array, int]]:
    """Python-integer sums of every box."""
    frame = _frame(x.astype(object), len(windows), first)
    for index, box, divisor in boxes(_three(windows)):
        yield (slice(None), *index), frame[(slice(None), *box)].sum(axis=(1, 2, 3)), divisor


def _pooled(x: Array, windows: Windows, first: int, results: Iterator[tuple[tuple[Any, ...], Any]], kind: Any) -> Array:
    count = len(windows)
    outer, inner = math.prod(x.shape[:first]), math.prod(x.shape[first + count :])
    result = np.empty((outer, *map(len, _three(windows)), inner), kind)
    for place, value in results:
        result[place] = value
    return result.reshape(pooled_shape(x.shape, windows, first))


def avg_pool_integers(x: Array, windows: Windows, first: int) -> Array:
    """Wrapping sum, one division that truncates towards zero (int32 and int64)."""
    width = x.dtype.itemsize * 8

    def divide(total: int, divisor: int) -> int:
        wrapped = (total + 2 ** (width - 1)) % 2**width - 2 ** (width - 1)
        return int(math.copysign(1, wrapped)) * (abs(wrapped) // divisor)

    sums = _box_sums(x, windows, first)
    return _pooled(x, windows, first, ((p, np.vectorize(divide, otypes=[object])(t, d)) for p, t, d in sums), x.dtype)


def mean_pool(x: Array, windows: Windows, first: int, result: np.dtype[Any]) -> Array:
    """Exact integer sum; a float result is double(sum)/double(divisor) rounded, an integer one rounds half to even.

    An integer mean out of range (a divisor below the window's size) saturates.
    """

    def divide(total: int, divisor: int) -> float | int:
        if result.kind == "f":
            return float(total) / float(divisor)
        limits = np.iinfo(result)
        return min(max(round(Fraction(int(total), divisor)), int(limits.min)), int(limits.max))

    sums = _box_sums(x, windows, first)
    return _pooled(x, windows, first, ((p, np.vectorize(divide, otypes=[object])(t, d)) for p, t, d in sums), result)


def avg_pool_grad_integers(grad: Array, windows: Windows, first: int, sizes: Sequence[int]) -> Array:
    """``double(g)/n`` added in ascending row-major order of outputs, truncated towards zero, saturating."""
    frame = _frame(grad.astype(np.float64), len(windows), first)
    total = np.zeros((frame.shape[0], *(1,) * (3 - len(windows)), *sizes, frame.shape[-1]))
    for index, box, divisor in boxes(_three(windows)):
        cell = frame[(slice(None), *index)]
        total[(slice(None), *box)] += (cell / divisor).reshape(cell.shape[0], 1, 1, 1, cell.shape[-1])
    limits = np.iinfo(grad.dtype)
    whole = [min(max(int(v), limits.min), limits.max) for v in total.ravel()]
    return np.array(whole, grad.dtype).reshape(input_shape(grad.shape, windows, first, sizes))


# ---- max: everything by the position of the winner -------------------------------------------------------------------


def max_positions(x: Array, windows: Windows, first: int, minimum: bool = False) -> Array:
    """Flat position in the pooled axes of each window's first maximum in row-major order; the first NaN wins."""
    frame = _frame(x.astype(np.float32) if x.dtype.kind not in "fiu" else x, len(windows), first)
    outer, inner = frame.shape[0], frame.shape[-1]
    three = _three(windows)
    places = np.arange(math.prod(frame.shape[1:4])).reshape(frame.shape[1:4])
    result = np.zeros((outer, *map(len, three), inner), np.int64)
    for index, box, _ in boxes(three):
        cell = frame[(slice(None), *box)].reshape(outer, places[box].size, inner)
        best = np.zeros((outer, inner), np.int64)
        for o, c in itertools.product(range(outer), range(inner)):
            best[o, c] = first_extreme(cell[o, :, c].tolist(), minimum)
        result[(slice(None), *index)] = places[box].ravel()[best]
    return result.reshape(pooled_shape(x.shape, windows, first))


def first_extreme(values: list[float], minimum: bool = False) -> int:
    best = 0
    for i, value in enumerate(values):
        current = values[best]
        if current != current:
            break
        if value != value or (value < current if minimum else value > current):
            best = i
    return best


def take(v: Array, positions: Array, first: int, count: int) -> Array:
    """The elements of ``v`` at the positions."""
    outer, inner = math.prod(v.shape[:first]), math.prod(v.shape[first + count :])
    flat = v.reshape(outer, math.prod(v.shape[first : first + count]), inner)
    spots = positions.reshape(outer, -1 if positions.size else 0, inner)
    return np.take_along_axis(flat, spots, axis=1).reshape(positions.shape)


@np.errstate(all="ignore")
def scatter(grad: Array, positions: Array, first: int, count: int, sizes: Sequence[int]) -> Array:
    """Each grad added to its position, from +0, in row-major order of outputs; float sums in the accumulator."""
    outer, inner = math.prod(grad.shape[:first]), math.prod(grad.shape[first + count :])
    kind = grad.dtype if grad.dtype.kind in "iu" else np.dtype(np.float64 if grad.dtype == np.float64 else np.float32)
    total = np.zeros((outer, math.prod(sizes), inner), kind)
    rows = grad.astype(kind).reshape(outer, math.prod(grad.shape[first : first + count]), inner)
    spots = positions.reshape(rows.shape)
    each, every = np.ogrid[:outer, :inner]
    for o in range(rows.shape[1]):
        total[each, spots[:, o], every] += rows[:, o]
    return total.astype(grad.dtype).reshape((*grad.shape[:first], *sizes, *grad.shape[first + count :]))


def codes(positions: Array, windows: Windows, first: int, sizes: Sequence[int], reach: Sequence[int]) -> Array:
    """Winners: the offset from the window's start, counted in a box of the axes' reach."""
    result = np.zeros(positions.shape, np.int64)
    places = np.unravel_index(positions, tuple(sizes)) if positions.size else [positions] * len(windows)
    for k, (axis, length) in enumerate(zip(windows, reach, strict=True)):
        starts = np.array([start for start, _, _ in axis], np.int64)
        result = result * length + (places[k] - starts.reshape((-1, *(1,) * (positions.ndim - first - k - 1))))
    return result


def tensorflow_indices(positions: Array, first: int, count: int, sizes: Sequence[int], include_batch: bool) -> Array:
    """TensorFlow's argmax: the flat index in the input of one batch element, or of the whole batch."""
    shape = (*positions.shape[:first], *sizes, *positions.shape[first + count :])
    places = list(np.indices(positions.shape))
    pooled = np.unravel_index(positions, tuple(sizes)) if positions.size else [positions] * count
    places[first : first + count] = pooled
    flat = np.zeros(positions.shape, np.int64)
    for axis, size in enumerate(shape):
        flat = flat * size + places[axis] * (axis > 0 or include_batch)
    return flat


# ---- comparing bits --------------------------------------------------------------------------------------------------


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays are the same bit for bit, any NaN being any NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits = np.dtype(f"u{a.dtype.itemsize}")
    left, right = np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits)
    if a.dtype.kind in "iu":
        return bool((left == right).all())
    wide = np.float64
    return bool(((left == right) | (np.isnan(a.astype(wide)) & np.isnan(b.astype(wide)))).all())


def assert_same_bits(a: Array, b: Array, note: str = "") -> None:
    assert a.dtype == b.dtype, f"{note} {a.dtype} is not {b.dtype}"
    assert a.shape == b.shape, f"{note} {a.shape} is not {b.shape}"
    if not same_bits(a, b):
        nan = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
        bits = np.dtype(f"u{a.dtype.itemsize}")
        wrong = (np.ascontiguousarray(a).view(bits) != np.ascontiguousarray(b).view(bits)) & ~nan
        place = tuple(int(k[0]) for k in np.nonzero(wrong))
        raise AssertionError(
            f"{note} {int(wrong.sum())} of {wrong.size} elements differ; first at {place}: {a[place]!r}, {b[place]!r}"
        )
