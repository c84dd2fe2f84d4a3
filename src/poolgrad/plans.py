"""From the arguments of a raw op to a `Plan`: everything is checked before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from .arrays import KINDS, Array, as_array, check_size, dtype_of, kind_of
from .checks import choice, flag, integer, integers
from .errors import bad_dtype, bad_shape, bad_value, shown, type_error, value_error
from .op_table import OPS, Op
from .raw_windows import fractional_windows, sliding_windows
from .window_table import WindowTable


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of a tensor, for `plan` of a call whose data is not there yet."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class Plan:
    """A checked call: its windows and the shapes of all it reads and writes."""

    op: Op
    table: WindowTable
    axes: tuple[int, ...]
    channel_axis: int
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    outer: int
    inner: int
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    def __reduce__(self) -> tuple[Any, ...]:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return Plan, (*(given | {"attributes": dict(self.attributes)}).values(),)

    @cached_property
    def result_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of each output."""
        pooled = [self.input_shape if self.op.result == "input" else self.output_shape]
        if self.op.windows == "ratios":
            pooled += [(size + 1,) for size in self.table.output_size]
        shapes = zip(self.op.outputs, pooled * 2 if self.op.compute == "argmax" else pooled, strict=True)
        return MappingProxyType(dict(shapes))

    @cached_property
    def result_dtypes(self) -> Mapping[str, np.dtype[Any]]:
        """Dtype of each output."""
        others = np.dtype(self.attributes.get("Targmax", "int64"))
        return MappingProxyType({name: others if k else self.dtype for k, name in enumerate(self.op.outputs)})

    @cached_property
    def frame(self) -> tuple[Any, int, int, int]:
        """What every kernel is told: the windows, the axes before and after them, the dtype."""
        return self.table._native, self.outer, self.inner, KINDS[self.dtype]


def check_tensors(op: Op, values: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of a call as arrays (a `Spec` stays one), all of one allowed dtype."""
    arrays: dict[str, Any] = {}
    first = None
    for argument in op.arguments:
        if argument.kind not in ("tensor", "indices"):
            continue
        name, value = argument.name, values[argument.name]
        array: Array | Spec
        if isinstance(value, Spec):
            array = Spec(integers(op.name, f"{name}.shape", value.shape, least=0), dtype_of(op.name, name, value.dtype))
        elif isinstance(value, (list, tuple, int, float)):
            array = _python_numbers(op, name, as_array(op.name, name, value))
        else:
            array = as_array(op.name, name, value)
        arrays[name] = array
        if argument.kind == "indices":
            if array.dtype not in (np.dtype("int64"), np.dtype("int32")):
                raise bad_dtype(op.name, name, array.dtype, ("int64", "int32"))
            continue
        kind_of(op.name, name, array.dtype, op.dtypes)
        if first is not None and array.dtype != arrays[first].dtype:
            raise type_error(
                op.name, name, f" has dtype {array.dtype} and {first} has {arrays[first].dtype}; give both the same",
                expected=arrays[first].dtype, got=array.dtype,
            )  # fmt: skip
        first = first or name
    return arrays


def _python_numbers(op: Op, name: str, array: Array) -> Array:
    """Python floats are float32 and Python ints int32 in TensorFlow."""
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.int64:
        if array.size and not -(2**31) <= array.min() <= array.max() < 2**31:
            raise value_error(
                op.name, name, " has Python integers beyond int32; pass a NumPy array of the dtype you mean"
            )
        return array.astype(np.int32)
    return array


def make_plan(op: Op, values: Mapping[str, Any], tensors: Mapping[str, Any]) -> Plan:
    shapes = op.named("shape")
    rank = op.spatial + 2
    if shapes:
        input_name = shapes[0]
        given = values[input_name]
        input_shape = integers(op.name, input_name, given, least=0)
        if len(input_shape) != rank:
            raise bad_value(
                op.name, input_name, given,
                f"has {len(input_shape)} entries; {op.name} takes the {rank} sizes of a {rank}-D tensor",
            )  # fmt: skip
    else:
        input_name = next(argument.name for argument in op.arguments if argument.side == "input")
        input_shape = tensors[input_name].shape
    dtype = next(array.dtype for name, array in tensors.items() if op.argument(name).kind == "tensor")
    attributes = {
        name: _attribute(op, name, values[name])
        for name in (*op.named("choice", "flag", "paddings", "integer"), "data_format")
    }
    for name, array in tensors.items():
        if len(array.shape) != rank:
            raise value_error(
                op.name, name, f" has shape {array.shape}; {op.name} is {rank}-D ({attributes['data_format']})",
                expected=f"{rank} axes", got=array.shape,
            )  # fmt: skip
    check_size(op.name, input_name, input_shape, dtype.itemsize)
    if op.windows == "sliding":
        ksize, strides = (integers(op.name, name, values[name]) for name in ("ksize", "strides"))
        ready = _sliding_plan(op.name, input_shape, dtype, ksize, strides, tuple(attributes.items()))
        why = _why(ready, ksize, strides)
    else:
        windows = fractional_windows(op, input_shape, values, attributes)
        ready = _framed(op, *windows, input_shape, dtype, attributes)
        why = f"the pooling sequences on input {shown(input_shape)} give"
    for name, array in tensors.items():
        expected = ready.input_shape if op.argument(name).side == "input" else ready.output_shape
        if array.shape != expected:
            raise bad_shape(op.name, name, array.shape, expected, why)
    return ready


def _attribute(op: Op, name: str, value: Any) -> Any:
    if name == "data_format":
        if isinstance(value, str) and value in op.formats:
            return value
        right = " or ".join(map(repr, op.formats))
        others = ("NHWC", "NCHW", "NDHWC", "NCDHW")
        if isinstance(value, str) and value in others:
            raise bad_value(op.name, name, value, f"is for {len(value)}-D tensors; use {right}", expected=right)
        raise bad_value(op.name, name, value, f"is not supported; use {right}", expected=right)
    argument = op.argument(name)
    if argument.kind == "choice":
        if name == "Targmax":
            value = getattr(value, "name", None) or getattr(value, "__name__", value)
        return choice(op.name, name, value, argument.choices)
    if argument.kind == "flag":
        return flag(op.name, name, value)
    if argument.kind == "paddings":
        return integers(op.name, name, value, least=0)
    return integer(op.name, name, value, least=-(2**63), most=2**63 - 1)


def _why(ready: Plan, *sizes: tuple[int, ...]) -> str:
    """The part of a shape error that says why: ``ksize=2, strides=2, padding='SAME' on input (1, 4, 4, 1) give``."""
    words = []
    for name, numbers in zip(("ksize", "strides"), sizes, strict=True):
        spatial = {numbers[axis] for axis in ready.axes}
        words.append(f"{name}={spatial.pop() if len(spatial) == 1 else list(numbers)}")
    return f"{', '.join(words)}, padding={ready.attributes['padding']!r} on input {shown(ready.input_shape)} give"


@lru_cache(maxsize=1024)
def _sliding_plan(
    name: str, shape: tuple[int, ...], dtype: np.dtype[Any], ksize: tuple[int, ...],
    strides: tuple[int, ...], items: tuple[tuple[str, Any], ...],
) -> Plan:  # fmt: skip
    op, attributes = OPS[name], dict(items)
    return _framed(op, *sliding_windows(op, shape, ksize, strides, attributes), shape, dtype, attributes)


def _framed(
    op: Op, table: WindowTable, axes: tuple[int, ...], channel: int, shape: tuple[int, ...], dtype: np.dtype[Any],
    attributes: Mapping[str, Any],
) -> Plan:  # fmt: skip
    first, last = axes[0], axes[-1] + 1
    pooled = (*shape[:first], *table.output_size, *shape[last:])
    return Plan(
        op, table, axes, channel, shape, pooled, math.prod(shape[:first]), math.prod(shape[last:]), dtype, attributes
    )
