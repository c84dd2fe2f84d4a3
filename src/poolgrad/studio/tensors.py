"""Arrays the server holds, and the forms in which they leave and enter: raw bytes, .npy, CSV."""

from __future__ import annotations

import io
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from . import limits

Array = npt.NDArray[Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BFLOAT16_NOTE = "bfloat16 as uint16 bits: np.load(f).view(ml_dtypes.bfloat16)"


class Shelf(Mapping[str, Array]):
    """Arrays by id, the least recently used dropped beyond ``capacity`` bytes; safe from several threads.

    One array is always far smaller than the capacity, so what was just put stays.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity, self._bytes = capacity, 0
        self._arrays: OrderedDict[str, Array] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, name: str, array: Array) -> None:
        array = np.asarray(array, order="C")
        array.flags.writeable = False
        with self._lock:
            self._bytes += array.nbytes - (self._arrays.pop(name).nbytes if name in self._arrays else 0)
            self._arrays[name] = array
            while self._bytes > self._capacity or len(self._arrays) > limits.CACHE_ENTRIES:
                self._bytes -= self._arrays.popitem(last=False)[1].nbytes

    def __getitem__(self, name: str) -> Array:
        with self._lock:
            self._arrays.move_to_end(name)
            return self._arrays[name]

    def __contains__(self, name: object) -> bool:
        with self._lock:
            return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._arrays))

    def __len__(self) -> int:
        return len(self._arrays)


def describe(array: Array) -> dict[str, Any]:
    """What the page needs to know before it has the bytes: range of the finite values, NaN and infinities."""
    numbers = array.astype(np.float32) if array.dtype in (BFLOAT16, np.float16) else array
    finite, nan, infinite = numbers, 0, 0
    if numbers.dtype.kind == "f":
        mask = np.isfinite(numbers)
        if not mask.all():
            nan = int(np.isnan(numbers).sum())
            infinite = int(numbers.size - mask.sum()) - nan
            finite = numbers[mask]
    as_number = int if numbers.dtype.kind in "iu" else float
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "bytes": array.nbytes,
        "minimum": as_number(finite.min()) if finite.size else None,
        "maximum": as_number(finite.max()) if finite.size else None,
        "nan": nan,
        "infinite": infinite,
    }


def raw_bytes(array: Array) -> bytes:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def npy_bytes(array: Array) -> bytes:
    """A .npy file; NumPy's format has no bfloat16, so its bits are saved as uint16."""
    stream = io.BytesIO()
    np.save(stream, array.view(np.uint16) if array.dtype == BFLOAT16 else array, allow_pickle=False)
    return stream.getvalue()


#: Lines of CSV made at a time: about 10 ms of work, so that a server that stops need not wait for the rest.
_CSV_LINES = 8192


def csv_parts(array: Array) -> Iterator[str]:
    """``axis0,axis1,...,value``, one line per element, some lines at a time; values read back exactly."""
    numbers = (array.astype(np.float32) if array.dtype in (BFLOAT16, np.float16) else array).ravel()
    yield ",".join([*(f"axis{k}" for k in range(array.ndim)), "value"]) + "\n"
    for start in range(0, array.size, _CSV_LINES):
        part = numbers[start : start + _CSV_LINES]
        axes = np.unravel_index(np.arange(start, start + part.size), array.shape) if array.ndim else ()
        places = zip(*(axis.tolist() for axis in axes), strict=True) if axes else [()]
        # str() of a NumPy scalar is the shortest text that reads back as the same number of its own type.
        lines = [",".join([*map(str, place), str(number)]) for place, number in zip(places, part, strict=True)]
        yield "\n".join(lines) + "\n"


class FileError(ValueError):
    """A file that is no array the studio takes; ``got`` and ``limit`` where it is too large."""

    def __init__(self, message: str, got: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.got, self.limit = got, limit


def read_npy(data: bytes, dtype: str | None, dtypes: tuple[str, ...]) -> Array:
    """The array in a .npy file, its header judged before anything is allocated; never unpickles."""
    stream = io.BytesIO(data)
    shape, fortran, found = _npy_header(stream)
    if found.hasobject:
        raise FileError("the file holds pickled Python objects, which the studio never loads; save plain numbers")
    if found.subdtype is not None or found.names is not None or found.itemsize == 0:
        raise FileError(f"the file's dtype is {str(found)[:120]}; the studio takes {', '.join(dtypes)}")
    count = math.prod(shape)
    if len(shape) > limits.RANK:
        raise FileError(f"the array has {len(shape)} axes; the limit is {limits.RANK}", len(shape), limits.RANK)
    if count > limits.ELEMENTS:
        text = f"the array {shape} has {count:,} elements; the limit is {limits.ELEMENTS:,}: choose a crop"
        raise FileError(text, count, limits.ELEMENTS)
    if any(size < 0 for size in shape) or len(data) - stream.tell() != count * found.itemsize:
        raise FileError(f"the file's data does not match its header {shape} {found}")
    if count == 0 and counted(shape) > limits.ELEMENTS:
        raise FileError(f"the array {shape} is empty, but its other sizes are beyond {limits.ELEMENTS:,} elements")
    array = np.frombuffer(data, found, count, stream.tell()).reshape(shape, order="F" if fortran else "C")
    if dtype == "bfloat16" and found in (np.dtype("V2"), np.dtype("<u2"), np.dtype("<i2")):
        return np.asarray(array, order="C").view(BFLOAT16)
    if dtype not in (None, "", found.name):
        raise FileError(f"the file's {found} data cannot be read as {dtype!r}; only 2-byte data as bfloat16")
    if found.name not in dtypes:
        hint = "; say that it is bfloat16 if it is" if found == np.dtype("V2") else ""
        raise FileError(f"the file's dtype is {found}; the studio takes {', '.join(dtypes)}{hint}")
    return np.asarray(array.astype(found.newbyteorder("="), copy=False), order="C")


def counted(shape: tuple[int, ...]) -> int:
    """Elements with every empty axis taken as 1: NumPy refuses (0, 10**20) although it has no element."""
    return math.prod(max(size, 1) for size in shape)


def _npy_header(stream: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(stream)
        _refuse_longs(stream.getvalue(), version)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, found = read(stream)
        # True counts as a whole number for NumPy, and so does a size of 4000 digits, which no text can show.
        if not all(type(size) is int and abs(size) < 2**63 for size in shape):
            raise ValueError("a size in its shape is no whole number below 2**63")
    except FileError:
        raise
    # The header is text that NumPy tokenizes and evaluates: what a broken one raises is not a closed list.
    except Exception as error:
        raise FileError(f"this is not a .npy file of version 1 or 2 ({str(error)[:120]!a})") from None
    return shape, fortran, found


def _refuse_longs(data: bytes, version: tuple[int, int]) -> None:
    """``(1L,)``: NumPy reads it with a warning in the terminal, which the person at the page does not see."""
    start = 10 if version == (1, 0) else 12
    header = data[start : start + int.from_bytes(data[8:start], "little")]
    if re.search(rb"[0-9]\s*L", header):
        raise FileError("the file was written by Python 2; save it again with np.save(name, np.load(name))")
