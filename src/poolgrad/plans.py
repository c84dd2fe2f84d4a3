"""From the arguments of a raw op to a `Plan`: everything is checked here, before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from . import sequences
from .arrays import KINDS, Array, as_array, check_size, dtype_of, kind_of
from .checks import choice, flag, index_array, integer, integers
from .errors import bad_dtype, bad_shape, bad_type, bad_value, shown, type_error, value_error
from .op_table import OPS, Op
from .window_table import WindowTable, fractional_table, sliding_table


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
        ready = _fractional_plan(op, input_shape, dtype, values, attributes)
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
    rank, layout = len(shape), attributes["data_format"]
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
    return _framed(op, table, axes, channel, shape, dtype, attributes)


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


def _fractional_plan(
    op: Op, shape: tuple[int, ...], dtype: np.dtype[Any], values: Mapping[str, Any], attributes: dict[str, Any]
) -> Plan:
    layout = attributes["data_format"]
    channel = layout.index("C")
    axes = tuple(k for k in range(1, 4) if k != channel)
    sizes = [shape[axis] for axis in axes]
    names = ["row_pooling_sequence", "col_pooling_sequence"]
    if op.windows == "ratios":
        rows = _drawn(op, shape, axes, values["pooling_ratio"], attributes)
    else:
        rows = [_sequence(op, name, values[name]) for name in names]
    if op.windows == "ratios" or sum(row.size for row in rows) > 4096:  # drawn tables do not recur, long ones are large
        table = fractional_table(op.name, names, sizes, rows, attributes["overlapping"])
    else:
        table = _known_table(op.name, tuple(sizes), tuple(row.tobytes() for row in rows), attributes["overlapping"])
    return _framed(op, table, axes, channel, shape, dtype, attributes)


def _sequence(op: Op, name: str, value: Any) -> npt.NDArray[np.int64]:
    listed = isinstance(value, (list, tuple))  # a list is looked at number by number: True is not 1
    return index_array(op.name, name, value if listed else as_array(op.name, name, value))


@lru_cache(maxsize=256)
def _known_table(op: str, sizes: tuple[int, ...], rows: tuple[bytes, ...], overlapping: bool) -> WindowTable:
    names = ["row_pooling_sequence", "col_pooling_sequence"]
    return fractional_table(op, names, sizes, [np.frombuffer(row, np.int64) for row in rows], overlapping)


def _drawn(
    op: Op, shape: tuple[int, ...], axes: tuple[int, ...], given: Any, attributes: dict[str, Any]
) -> list[npt.NDArray[np.int64]]:
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
    return list(
        sequences.tensorflow(
            [shape[axis] for axis in axes],
            [ratios[axis] for axis in axes],
            seed,
            seed2,
            pseudo_random=attributes["pseudo_random"],
        )
    )


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


def _framed(
    op: Op, table: WindowTable, axes: tuple[int, ...], channel: int, shape: tuple[int, ...], dtype: np.dtype[Any],
    attributes: Mapping[str, Any],
) -> Plan:  # fmt: skip
    first, last = axes[0], axes[-1] + 1
    pooled = (*shape[:first], *table.output_size, *shape[last:])
    return Plan(
        op, table, axes, channel, shape, pooled, math.prod(shape[:first]), math.prod(shape[last:]), dtype, attributes
    )
