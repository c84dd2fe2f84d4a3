"""The studio's own blocks as arrays: what a Tensor block says, checked first and filled later."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .property_text import TextError, Value

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TensorSource:
    """A checked Tensor block: everything `fill` needs, and nothing allocated yet."""

    shape: tuple[int, ...]
    dtype: str
    kind: str
    seed: int = 0
    position: tuple[int, ...] = ()
    values: tuple[int | float, ...] = ()
    file: str = ""
    #: What part of the file on its owner's disk the array is: (start, stop) of each axis, or () for all of it.
    crop: tuple[tuple[int, int], ...] = ()

    def fill(self, files: Mapping[str, Array]) -> Array:
        dtype = np.dtype(self.dtype)
        if self.kind == "file":
            return files[self.file]
        if self.kind == "random":
            return random(self.shape, self.dtype, self.seed)
        if self.kind == "counting":
            # Through int64, so that small types wrap alike on every CPU.
            return np.arange(math.prod(self.shape)).reshape(self.shape).astype(dtype)
        if self.kind == "values":
            return np.array(self.values, object if dtype.kind in "iu" else float).astype(dtype).reshape(self.shape)
        array = np.ones(self.shape, dtype) if self.kind == "ones" else np.zeros(self.shape, dtype)
        if self.kind == "one-hot" and array.size:
            array[self.position] = 1
        return array


def random(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Standard normal numbers, or small whole ones for integer types; an exported script has the same line."""
    generator = np.random.default_rng(seed)
    if dtype.startswith(("int", "uint")):
        return generator.integers(0 if dtype[0] == "u" else -9, 10, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def tensor_source(properties: Mapping[str, Value], shape: tuple[int, ...]) -> TensorSource:
    """Check what a Tensor block (of any fill but a file) says; `PropertyError` names the property at fault."""
    kind, dtype = str(properties["fill"]), str(properties["dtype"])
    made: dict[str, Any] = {}
    if kind == "random":
        seed = properties["seed"]
        if not isinstance(seed, int) or not 0 <= seed < 2**63:
            raise PropertyError("seed", "a whole number from 0 to 2**63 - 1", str(seed))
        made["seed"] = seed
    elif kind == "one-hot":
        made["position"] = _position(properties["position"], shape)
    elif kind == "values":
        made["values"] = _values(properties["values"], shape, dtype)
    return TensorSource(shape, dtype, kind, **made)


class PropertyError(TextError):
    def __init__(self, name: str, expected: str, got: str) -> None:
        super().__init__(expected, got)
        self.name = name


def file_source(properties: Mapping[str, Value], array: Array) -> TensorSource:
    """A Tensor block that holds a file; `PropertyError` where the crop it tells of has another shape."""
    bounds = properties["crop"]
    assert isinstance(bounds, list)
    crop = tuple((int(start), int(stop)) for start, stop in zip(bounds[::2], bounds[1::2], strict=True))
    if crop and tuple(stop - start for start, stop in crop) != array.shape:
        text = ",".join(f"{start}:{stop}" for start, stop in crop)
        raise PropertyError("crop", f"a slice of shape {array.shape}, which the file has here", repr(text[:60]))
    return TensorSource(array.shape, array.dtype.name, "file", file=str(properties["file"]), crop=crop)


def _position(value: Value, shape: tuple[int, ...]) -> tuple[int, ...]:
    position = tuple(value) if isinstance(value, list) else ()
    if not position:
        return tuple(size // 2 for size in shape)
    inside = len(position) == len(shape) and all(0 <= i < n for i, n in zip(position, shape, strict=True))
    if not inside:
        raise PropertyError("position", f"one index per axis inside {shape}", str(position))
    return tuple(int(index) for index in position)


def _values(value: Value, shape: tuple[int, ...], dtype: str) -> tuple[int | float, ...]:
    values: tuple[Any, ...] = tuple(value) if isinstance(value, list) else ()
    count = math.prod(shape)
    if len(values) != count:
        raise PropertyError("values", f"{count} numbers for shape {shape}", f"{len(values)} numbers")
    if dtype.startswith(("int", "uint")):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        for item in values:
            if not isinstance(item, int) or not low <= item <= high:
                raise PropertyError("values", f"whole numbers from {low} to {high} for {dtype}", str(item))
    return values


def difference(a: Array, b: Array) -> Array:
    return (
        np.subtract(a, b, dtype=np.float64)
        if a.dtype != ml_dtypes.bfloat16 and b.dtype != ml_dtypes.bfloat16
        else (a.astype(np.float64) - b.astype(np.float64))
    )
