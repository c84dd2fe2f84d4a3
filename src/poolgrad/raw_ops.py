"""TensorFlow's pooling ``raw_ops`` on plain arrays: the same names, argument spellings, order and defaults.

Every function here is made from its row of `poolgrad.op_table`. `plan` checks a call without computing it.
"""

from __future__ import annotations

import inspect
import math
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import _core
from . import workers as _workers
from .arrays import KINDS, Array, bits, contiguous, kernel_view, result_array, settle
from .errors import bad_type, bad_value, type_error, value_error
from .op_table import OPS, REQUIRED, Op
from .plans import Plan, Spec, check_tensors, make_plan
from .winners import flat_indices

__all__ = [*OPS, "Plan", "Spec", "plan"]


def __dir__() -> list[str]:
    """What Tab shows: the public names."""
    return __all__


def plan(op_name: str, **arguments: Any) -> Plan:
    """Check a call of a raw op, without computing it.

    Parameters
    ----------
    op_name : str
        Such as ``"AvgPoolGrad"``.
    **arguments
        Those of the op; a tensor may be a `Spec` of its shape and dtype.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError, TypeError
        What the call itself would raise, errors found in the values of tensors excepted.

    Examples
    --------
    >>> from poolgrad import raw_ops
    >>> grad = raw_ops.Spec((1, 2, 2, 1), "float32")
    >>> raw_ops.plan("AvgPoolGrad", orig_input_shape=[1, 4, 4, 1], grad=grad, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1],
    ...              padding="SAME").table
    WindowTable((4, 4) -> (2, 2): [0:2 2:4] x [0:2 2:4])
    """
    if not isinstance(op_name, str) or op_name not in OPS:
        raise bad_value("plan", "op_name", op_name, f"is not a pooling op; there are {', '.join(OPS)}")
    op = OPS[op_name]
    values = _bind(op, _signature(op), (), arguments)
    return make_plan(op, values, check_tensors(op, values))


# ---- making the functions -------------------------------------------------------------------------------------


def _signature(op: Op) -> inspect.Signature:
    kind = inspect.Parameter
    empty = kind.empty
    given = [
        kind(
            argument.name,
            kind.POSITIONAL_OR_KEYWORD,
            default=empty if argument.default is REQUIRED else argument.default,
        )
        for argument in op.arguments
    ]
    extra = [kind("data_format", kind.KEYWORD_ONLY, default=op.formats[0])] if op.format_is_extra else []
    ours = [kind(name, kind.KEYWORD_ONLY, default=None) for name in ("out", "workers")]
    return inspect.Signature([*given, kind("name", kind.POSITIONAL_OR_KEYWORD, default=None), *extra, *ours])


def _bind(op: Op, signature: inspect.Signature, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    try:
        bound = signature.bind(*positional, **named)
    except TypeError as error:
        raise type_error(op.name, None, f"{error}; its arguments are {signature}") from None
    bound.apply_defaults()
    return bound.arguments


def _make(op: Op) -> Callable[..., Any]:
    signature = _signature(op)
    names = [name for name, parameter in signature.parameters.items() if parameter.kind is not parameter.KEYWORD_ONLY]
    defaults = {name: p.default for name, p in signature.parameters.items() if p.default is not p.empty}
    every = frozenset(signature.parameters)

    def function(*positional: Any, **named: Any) -> Any:
        values = defaults | named
        # The usual call needs no more than this; anything odd gets inspect's own careful words.
        odd = len(positional) > len(names)
        if positional:
            values.update(zip(names, positional, strict=False))
            odd = odd or bool(named and not named.keys().isdisjoint(names[: len(positional)]))
        if odd or values.keys() != every:
            values = _bind(op, signature, positional, named)
        return _call(op, values)

    function.__name__ = function.__qualname__ = op.name
    function.__module__ = __name__
    function.__doc__ = _document(op)
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _document(op: Op) -> str:
    lines = [op.summary, "", f"    {op.formula}", "", "Parameters", "----------"]
    for argument in op.arguments:
        kind = {"tensor": "array_like", "indices": "array_like of integers"}.get(argument.kind, "sequence of int")
        kind = {"choice": " or ".join(map(repr, argument.choices)), "flag": "bool", "integer": "int"}.get(
            argument.kind, kind
        )
        if argument.kind == "ratios":
            kind = "sequence of float"
        default = "" if argument.default is REQUIRED else f", default {argument.default!r}"
        lines += [f"{argument.name} : {kind}{default}", f"    {argument.help}"]
    if op.format_is_extra:
        lines += [
            f"data_format : {' or '.join(map(repr, op.formats))}",
            "    Order of the axes (poolgrad's own; keyword only).",
        ]
    lines += ["name : ignored", "    Accepted as in TensorFlow."]
    lines += ["out : array, optional", "    Where to put the result (several outputs: a tuple); returned itself."]
    lines += ["workers : int, optional", "    Threads to use at most.", "", "Returns", "-------"]
    lines += [f"{', '.join(op.outputs)} : array{'' if len(op.outputs) == 1 else 's (named tuple)'}"]
    lines += [f"    dtypes: {', '.join(op.dtypes)}.", "", "Raises", "------", "ValueError, TypeError"]
    lines += ["    Naming the op, the argument, its value and what would be right.", "", "Examples", "--------"]
    lines += [">>> import numpy as np", ">>> from poolgrad import raw_ops", op.example, ""]
    return "\n".join(lines)


# ---- computing it ---------------------------------------------------------------------------------------------


def _call(op: Op, values: Mapping[str, Any]) -> Any:
    key = _memo_key(op, values)
    ready = None if key is None else _memo.get(key)
    if ready is not None:
        inputs = list(map(values.__getitem__, op.tensors))
    else:
        tensors = check_tensors(op, values)
        ready = make_plan(op, values, tensors)
        inputs = list(tensors.values())
        for name in op.tensors:
            if isinstance(tensors[name], Spec):
                raise bad_type(op.name, name, tensors[name], "is a Spec, which has no data; Specs are for plan()")
        if key is not None and all(array is values[name] for name, array in tensors.items()):
            if len(_memo) >= 1024:
                _memo.clear()
            _memo[key] = ready
    workers, out = values["workers"], values["out"]
    threads = _workers.get_workers() if workers is None else _workers.check(op.name, workers)
    if len(op.outputs) == 1:
        result = result_array(op.name, out, ready.result_shapes["output"], ready.dtype, inputs)
        target = contiguous(result)
        COMPUTE[op.compute](ready, list(map(kernel_view, inputs)), bits(target), threads)
        return settle(result, target)
    if out is not None and not (isinstance(out, tuple) and len(out) == len(op.outputs)):
        raise bad_type(op.name, "out", out, f"must be a tuple of {len(op.outputs)} arrays: {', '.join(op.outputs)}")
    results: list[Array] = []
    for name, given in zip(op.outputs, out or (None,) * len(op.outputs), strict=True):
        shape, dtype = ready.result_shapes[name], ready.result_dtypes[name]
        results.append(result_array(op.name, given, shape, dtype, [*inputs, *results]))
    targets = [contiguous(result) for result in results]
    COMPUTE[op.compute](ready, list(map(kernel_view, inputs)), bits(targets[0]), threads, *targets[1:])
    if op.windows == "ratios":
        for axis, target in zip(ready.table.axes, targets[1:], strict=True):
            target[:-1] = axis.windows(0, axis.output_size)[:, 0]
            target[-1] = axis.input_size
    return _TUPLES[op.name](*map(settle, results, targets))


_memo: dict[tuple[Any, ...], Plan] = {}
_ONLY_INT = {int}


def _memo_key(op: Op, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """All that a plan depends on; None unless everything has its plainest type (True and 2.0 are not 1 and 2)."""
    if op.windows == "ratios":
        return None
    key: list[Any] = [op.name]
    for name in op.tensors:
        array = values[name]
        if type(array) is not np.ndarray:
            return None
        key += (array.shape, array.dtype)
    numbers: list[Any] = []
    for name in op.lists:
        value = values[name]
        if type(value) is np.ndarray and value.size <= 256:
            key.append((value.shape, value.dtype, value.tobytes()))
        elif type(value) is list or type(value) is tuple:
            numbers += value
            key.append(len(value))
        else:
            return None
    if numbers and (len(numbers) > 256 or set(map(type, numbers)) != _ONLY_INT):
        return None
    for name, kind in op.words:
        value = values[name]
        if type(value) is not kind:
            return None
        key.append(value)
    return (*key, *numbers)


def _avg(ready: Plan, inputs: list[Array], target: Array, threads: int, *_: Array) -> None:
    _core.avg_pool(inputs[0], target, *ready.frame, threads)


def _avg_grad(ready: Plan, inputs: list[Array], target: Array, threads: int) -> None:
    _core.avg_pool_grad(inputs[0], target, *ready.frame, threads)


def _max(ready: Plan, inputs: list[Array], target: Array, threads: int, *_: Array) -> None:
    _core.max_pool(inputs[0], target, None, *ready.frame, False, threads)


def _max_grad(ready: Plan, inputs: list[Array], target: Array, threads: int) -> None:
    original, _, grad = inputs
    _core.max_pool_grad_from_input(original, None, grad, target, *ready.frame, False, threads)


def _max_grad_checked(ready: Plan, inputs: list[Array], target: Array, threads: int) -> None:
    original, output, grad = inputs
    wrong = _core.max_pool_grad_from_input(original, output, grad, target, *ready.frame, False, threads)
    if wrong >= 0:
        place = [int(k) for k in np.unravel_index(wrong, ready.output_shape)]
        raise value_error(
            ready.op.name,
            "orig_output",
            f"{place} is not the maximum of its cell; pass what FractionalMaxPool gave, with the same overlapping",
        )


def _winners(ready: Plan, original: Array, values: Array | None, threads: int) -> Array:
    winners: Array = np.empty(ready.output_shape, ready.table.winner_dtype)
    _core.max_pool(original, values, winners, *ready.frame, False, threads)
    return winners


def _max_grad_grad(ready: Plan, inputs: list[Array], target: Array, threads: int) -> None:
    original, _, grad = inputs
    _core.take_winners(grad, _winners(ready, original, None, threads), target, *ready.frame, threads)


def _argmax(ready: Plan, inputs: list[Array], target: Array, threads: int, argmax: Array) -> None:
    winners = _winners(ready, inputs[0], target, threads)
    indices = flat_indices(winners, ready.table, ready.axes[0], ready.attributes["include_batch_in_index"])
    if indices.size and indices.max() > np.iinfo(argmax.dtype).max:
        raise value_error(ready.op.name, "Targmax", "='int32' does not hold the indices of this input; use 'int64'")
    argmax[...] = indices


def _by_index(kernel: Callable[..., int]) -> Callable[..., None]:
    def compute(ready: Plan, inputs: list[Array], target: Array, threads: int) -> None:
        _, grad, argmax = inputs
        batch, size, count = (ready.input_shape[0], math.prod(ready.input_shape[1:]), math.prod(ready.output_shape[1:]))
        indices = argmax.astype(np.int64).reshape(batch, count)
        if ready.attributes["include_batch_in_index"]:
            indices -= np.arange(batch, dtype=np.int64)[:, None] * size
        wrong = kernel(grad, indices, target, batch, count, size, KINDS[ready.dtype], threads)
        if wrong >= 0:
            place = [int(k) for k in np.unravel_index(wrong, ready.output_shape)]
            raise value_error(
                ready.op.name, "argmax",
                f"{place}={argmax[tuple(place)]} is not an index of its own batch element, which has {size} elements; "
                "pass what MaxPoolWithArgmax gave, with the same include_batch_in_index",
            )  # fmt: skip

    return compute


COMPUTE: Mapping[str, Callable[..., None]] = {
    "avg": _avg, "avg_grad": _avg_grad, "max": _max, "max_grad": _max_grad, "max_grad_checked": _max_grad_checked,
    "max_grad_grad": _max_grad_grad, "argmax": _argmax, "argmax_grad": _by_index(_core.scatter_indices),
    "argmax_grad_grad": _by_index(_core.gather_indices),
}  # fmt: skip

_TUPLES = {
    op.name: namedtuple(f"_{op.name}Outputs", op.outputs, module=__name__) for op in OPS.values() if len(op.outputs) > 1
}
globals().update({kind.__name__: kind for kind in _TUPLES.values()})  # where pickle looks for them
globals().update({op.name: _make(op) for op in OPS.values()})
