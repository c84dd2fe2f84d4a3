"""Anything array-like on the CPU becomes a NumPy array here; what cannot is refused with the remedy."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .errors import bad_dtype, bad_shape, bad_type, shown, type_error, value_error

Array = npt.NDArray[Any]

#: The dtypes of the kernels, by their number there; `native/core/dtype.h` has the same list.
NAMES: tuple[str, ...] = ("float16", "bfloat16", "float32", "float64")
NAMES += ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
KINDS = {BFLOAT16 if name == "bfloat16" else np.dtype(name): kind for kind, name in enumerate(NAMES)}
_MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**62


def as_array(op: str, argument: str, value: object) -> Array:
    """``value`` as a NumPy array in native byte order (strided and read-only are fine)."""
    if type(value) is np.ndarray and value.dtype in KINDS:
        return value
    array = _convert(op, argument, value)
    if array.dtype.byteorder not in "=|" and not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.hasobject:
        raise type_error(op, argument, " is an array of Python objects; convert it, e.g. array.astype('float32')")
    return array


def _convert(op: str, argument: str, value: object) -> Array:
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return _unmasked(op, argument, value)
    if value is None or isinstance(value, (str, bytes, dict, set)):
        raise bad_type(op, argument, value, "is not an array; give a NumPy array or anything array-like")
    if getattr(value, "requires_grad", False):
        raise type_error(op, argument, f" is a {kind} that requires grad; pass {argument}.detach()")
    if getattr(value, "is_sparse", False):
        raise type_error(op, argument, f" is a sparse {kind}; pass {argument}.to_dense()")
    if not _is_on_cpu(value):
        raise type_error(op, argument, f" is a {kind} on another device; poolgrad computes on the CPU: copy it there")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16:
        bits: Array = value.contiguous().view(torch.int16).numpy()
        return bits.view(BFLOAT16)
    try:
        if hasattr(value, "__array__") or not hasattr(value, "__dlpack__"):
            array = np.asanyarray(value)
        else:
            array = np.from_dlpack(value)
    except MemoryError:
        raise
    except Exception as error:
        raise bad_type(op, argument, value, f"cannot become a NumPy array ({shown(str(error))})") from None
    return _unmasked(op, argument, array)


def _unmasked(op: str, argument: str, array: Array) -> Array:
    if isinstance(array, np.ma.MaskedArray):
        raise type_error(op, argument, " is a masked array, which pooling would read through; use array.filled(...)")
    return array.view(np.ndarray)


def _is_on_cpu(value: object) -> bool:
    if not hasattr(value, "__dlpack_device__"):
        return True
    try:
        return value.__dlpack_device__()[0] in (1, 3)  # kDLCPU, kDLCUDAHost
    except Exception:
        return False  # a device that DLPack has no number for, such as PyTorch's "meta"


def dtype_of(op: str, argument: str, dtype: Any) -> np.dtype[Any]:
    """``dtype`` as NumPy has it; "bfloat16" is known too."""
    try:
        found: np.dtype[Any] = BFLOAT16 if isinstance(dtype, str) and dtype == "bfloat16" else np.dtype(dtype)
        return found
    except (TypeError, ValueError):
        raise bad_type(op, argument, dtype, "is not a dtype; give one such as 'float32'") from None


def kind_of(op: str, argument: str, dtype: np.dtype[Any], allowed: tuple[str, ...]) -> int:
    """The kernels' number of ``dtype``, which must be one of ``allowed``."""
    kind = KINDS.get(dtype)
    if kind is None or NAMES[kind] not in allowed:
        raise bad_dtype(op, argument, dtype, allowed)
    return kind


def bits(array: Array) -> Array:
    """``array`` in a dtype that the buffer protocol knows: bfloat16 as its 16 bits."""
    dtype = array.dtype
    return array.view(np.uint16) if dtype.itemsize == 2 and dtype == BFLOAT16 else array


def kernel_view(array: Array) -> Array:
    """``array`` as the kernels take it: C-contiguous and aligned (one copy if it is not), in `bits`."""
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    return bits(array)


def contiguous(result: Array) -> Array:
    """``result``, or memory that a kernel can write, to be copied into it afterwards."""
    flags = result.flags
    return result if flags.c_contiguous and flags.aligned else np.empty(result.shape, result.dtype)


def settle(result: Array, target: Array) -> Array:
    """``result``, once it holds what the kernel wrote to ``target``."""
    if result is not target:
        result[...] = target
    return result


def check_size(op: str, argument: str, shape: tuple[int, ...], itemsize: int) -> None:
    """Refuse a shape whose bytes this machine cannot hold, before anything is allocated from it."""
    if 0 not in shape and math.prod(shape) * itemsize <= _MEMORY:
        return
    if math.prod(max(1, size) for size in shape) * itemsize >= 2**63:
        raise value_error(op, argument, f"={shown(shape)} has more elements than 64 bits count; give a smaller shape")
    if math.prod(shape) * itemsize > _MEMORY:
        raise MemoryError(
            f"{op}: {argument}={shown(shape)} needs {math.prod(shape) * itemsize} bytes; this machine has {_MEMORY}: "
            "compute it in parts (WindowTable.part)"
        )


def result_array(op: str, out: object, shape: tuple[int, ...], dtype: np.dtype[Any], inputs: Sequence[Array]) -> Array:
    """A new array, or ``out`` itself once it is known to fit and to overlap no input."""
    if out is None:
        if not 0 < math.prod(shape) * dtype.itemsize <= _MEMORY:
            check_size(op, "the result's shape", shape, dtype.itemsize)
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise bad_type(op, "out", out, "is not a NumPy array; results are written into NumPy arrays")
    if out.shape != shape:
        raise bad_shape(op, "out", out.shape, shape, "the result has")
    if out.dtype != dtype:
        raise type_error(op, "out", f" has dtype {out.dtype}; the result has {dtype}", expected=dtype, got=out.dtype)
    flags = out.flags
    if not flags.writeable:
        raise value_error(op, "out", " is read-only; give an array that can be written")
    for array in inputs:
        if np.may_share_memory(out, array) and _overlap(out, array):
            raise value_error(op, "out", " overlaps an input; give memory of its own")
    if not flags.c_contiguous and _overlaps_itself(out):
        raise value_error(op, "out", " has elements that share memory; give an array of its own")
    return out


def _overlap(a: Array, b: Array) -> bool:
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]
    except (np.exceptions.TooHardError, ValueError):
        return True


def _overlaps_itself(array: Array) -> bool:
    """Whether two elements may share memory: steps, smallest first, must each pass over all that is below them."""
    span = array.itemsize
    for step, size in sorted(
        (abs(step), size) for size, step in zip(array.shape, array.strides, strict=True) if size > 1
    ):
        if step < span:
            return array.size > 0
        span += step * (size - 1)
    return False
