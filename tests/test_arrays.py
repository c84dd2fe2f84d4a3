"""Anything array-like on the CPU is taken; what cannot be is refused with the remedy."""

from __future__ import annotations

import array as array_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import reference
from cases import DTYPES
from reference import assert_same_bits

import poolgrad as pg
from poolgrad import raw_ops
from poolgrad.arrays import as_array

W = pg.sliding((6, 7), 3, 2, "SAME")
SIZES = ([1, 3, 3, 1], [1, 2, 2, 1], "SAME")


def image(kind: str = "float32") -> Any:
    values = np.random.default_rng(3).standard_normal((2, 6, 7, 3)) * 9
    return np.abs(values).astype(reference.dtype(kind))


def pooled(x: Any) -> Any:
    """Both surfaces, which must agree."""
    direct = pg.max_pool(x, W, data_format="NHWC")
    assert_same_bits(raw_ops.MaxPool(x, *SIZES), direct)
    return direct


VIEWS: dict[str, Any] = {
    "every other row": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "every other channel": lambda x: np.repeat(x, 2, axis=3)[..., ::2],
    "backwards": lambda x: np.ascontiguousarray(x[:, ::-1, ::-1])[:, ::-1, ::-1],
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "fortran": np.asfortranarray,
    "from a larger array": lambda x: np.pad(x, [(1, 1)] * 4)[1:-1, 1:-1, 1:-1, 1:-1],
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape),
    "field of a record": lambda x: np.array(
        list(zip(x.ravel(), x.ravel(), strict=True)), [("a", np.int8), ("b", x.dtype)]
    )["b"].reshape(x.shape),
    "subclass": lambda x: x.view(np.recarray) if x.dtype.names else x.view(type("Mine", (np.ndarray,), {})),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float64", "int8", "uint16"])
def test_views(name: str, kind: str) -> None:
    x = image(kind)
    view = VIEWS[name](x)
    result = pooled(view)
    assert type(result) is np.ndarray
    assert_same_bits(result, pooled(x), name)


@pytest.mark.parametrize("kind", DTYPES)
def test_byte_swapped(kind: str) -> None:
    x = image(kind)
    if kind == "bfloat16" or x.dtype.itemsize == 1:
        return
    swapped = x.astype(x.dtype.newbyteorder())
    assert not swapped.dtype.isnative
    result = pooled(swapped)
    assert result.dtype == x.dtype
    assert result.dtype.isnative
    assert_same_bits(result, pooled(x))


def test_read_only() -> None:
    x = image()
    x.flags.writeable = False
    grad = np.broadcast_to(np.float32(2), (2, 3, 4, 3))
    pooled(x)
    dx = pg.avg_pool_grad(grad, W, data_format="NHWC")
    assert_same_bits(dx, pg.avg_pool_grad(np.full((2, 3, 4, 3), 2, np.float32), W, data_format="NHWC"))
    assert dx.flags.writeable


def test_inputs_are_never_written() -> None:
    x, grad = image(), np.ones((2, 3, 4, 3), np.float32)
    before = x.copy(), grad.copy()
    y = pooled(x)
    raw_ops.MaxPoolGrad(x, y, grad, *SIZES)
    pg.avg_pool_grad(grad, W, data_format="NHWC")
    assert_same_bits(x, before[0])
    assert_same_bits(grad, before[1])


class OnlyArray:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class OnlyDLPack:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **more: Any) -> Any:
        return self.array.__dlpack__(**more)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_protocols() -> None:
    x = image()
    right = pooled(x)
    for wrapped in (OnlyArray(x), OnlyDLPack(x), x.tolist() if False else OnlyArray(x[:, ::-1])):
        expected = right if not isinstance(wrapped, OnlyArray) else pooled(wrapped.array)
        assert_same_bits(pooled(wrapped), expected)
    flat = array_module.array("d", [1.0, 5.0, 2.0, 3.0])
    assert pg.max_pool(flat, window=2, axes=0).tolist() == [5, 3]
    assert pg.max_pool(memoryview(flat), window=2, axes=0).tolist() == [5, 3]
    assert pg.max_pool([1.0, 5.0, 2.0, 3.0], window=2, axes=0).tolist() == [5, 3]
    assert pg.max_pool((1, 5, 2, 3), window=2, axes=0).dtype == np.int64


class Refused:
    """A small fake of a framework's tensor."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise AssertionError("must not be read")


class OnGPU(Refused):
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **more: Any) -> Any:
        raise AssertionError("must not be read")


class Broken:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("no array today")


REFUSED = {
    "masked": (np.ma.masked_array(np.ones(4), [0, 1, 0, 0]), "masked array"),
    "objects": (np.array([1.0, None, 2.0, "x"], object), "Python objects"),
    "record with objects": (np.zeros(4, [("a", object)]), "Python objects"),
    "requires grad": (Refused(requires_grad=True), r"detach\(\)"),
    "sparse": (Refused(is_sparse=True), r"to_dense\(\)"),
    "GPU": (OnGPU(), "CPU"),
    "None": (None, "is not an array"),
    "text": ("1234", "is not an array"),
    "bytes": (b"1234", "is not an array"),
    "dict": ({1: 2}, "is not an array"),
    "set": ({1, 2}, "is not an array"),
    "ragged": ([[1.0], [1.0, 2.0]], "cannot become a NumPy array"),
    "broken": (Broken(), "cannot become a NumPy array"),
    "array of a masked array": (OnlyArray(np.ma.masked_array(np.ones(4), [0, 1, 0, 0])), "masked array"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    value, remedy = REFUSED[name]
    with pytest.raises(TypeError, match=f"^max_pool: x.*{remedy}"):
        pg.max_pool(value, window=2, axes=0)
    with pytest.raises(TypeError, match=f"^MaxPool: input.*{remedy}"):
        raw_ops.MaxPool(value, *SIZES)
    with pytest.raises(TypeError, match=f"^max_pool_grad: winners.*{remedy}"):
        pg.max_pool_grad(np.ones(2), pg.sliding(4, 2), value, axes=0)


@pytest.mark.parametrize(
    "kind",
    ["bool", "complex64", "complex128", "longdouble", "M8[s]", "m8[s]", "S3", "U3", "V2", "float8_e4m3fn", "int4"],
)
def test_dtypes_refused(kind: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, kind)) if hasattr(ml_dtypes, kind) else np.dtype(kind)
    x = np.zeros((1, 4, 4, 1), dtype)
    with pytest.raises(TypeError, match="^max_pool: x has dtype .*; max_pool takes float16, "):
        pg.max_pool(x, window=2, data_format="NHWC")
    with pytest.raises(TypeError, match="^AvgPool: value has dtype .*; AvgPool takes float16, "):
        raw_ops.AvgPool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")


def test_as_array_copies_only_when_it_must() -> None:
    x = image()
    assert as_array("op", "x", x) is x
    assert np.shares_memory(as_array("op", "x", OnlyDLPack(x)), x)
    assert np.shares_memory(as_array("op", "x", OnlyArray(x)), x)


def test_zero_dimensional() -> None:
    for value in (3.0, np.float32(3), np.array(3.0)):
        with pytest.raises(ValueError, match="^max_pool: axes"):
            pg.max_pool(value, window=1, axes=0)
        with pytest.raises(ValueError, match="^MaxPool: input has shape"):
            raw_ops.MaxPool(np.float32(value), *SIZES)


def test_out_that_overlaps_itself_is_refused() -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(3), (2, 2), (8, 8))
    with pytest.raises(ValueError, match="max_pool: out has elements that share memory"):
        pg.max_pool(np.arange(16.0).reshape(4, 4), window=2, axes=(0, 1), out=out)
    transposed = np.zeros((2, 2)).T
    assert pg.max_pool(np.arange(16.0).reshape(4, 4), window=2, axes=(0, 1), out=transposed) is transposed
