"""Check one block whose pins and properties are read: plan an op, shape a tensor, compare two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from poolgrad import raw_ops

from . import problems, sources
from .checked import Checked, CheckedGraph, Known, elements_fit, shape_fits, text_problem
from .problems import Problem
from .property_text import TextError, list_text, parse, shown

Array = npt.NDArray[Any]


def check_block(checked: CheckedGraph, item: Checked, files: Mapping[str, Array]) -> None:
    fed = {pin: checked.blocks[block].outputs[output] for pin, (block, output) in item.inputs.items()}
    if item.block.is_op:
        _check_op(checked, item, fed)
    elif item.node.op in ("Shape", "Sequence"):
        _check_list(checked, item)
    elif item.node.op == "Tensor":
        _check_tensor(checked, item, fed.get("shape"), files)
    elif item.node.op == "ShapeOf":
        shape = fed["tensor"].shape
        item.outputs["shape"] = Known("shape", (len(shape),), "int64", np.array(shape, np.int64))
    elif item.node.op == "Difference":
        if fed["a"].shape != fed["b"].shape:
            expected, got = str(fed["a"].shape), str(fed["b"].shape)
            fix = problems.shape_fix(checked.graph, (item.node.id, "b"), expected)
            text = f"b has shape {got}; a has {expected}"
            checked.refuse(item, Problem(item.node.id, "b", "shape", text, expected, got, fix))
        else:
            item.outputs["difference"] = Known("tensor", fed["a"].shape, "float64")


def _check_list(checked: CheckedGraph, item: Checked) -> None:
    name = item.block.outputs[0].name
    numbers = item.values["values"]
    assert isinstance(numbers, list)
    try:
        value = np.array(numbers, np.int64)
    except OverflowError:
        error = TextError("numbers below 2**63", shown(item.node.properties.get("values", "")))
        checked.refuse(item, text_problem(item.node, "values", error))
        return
    item.outputs[name] = Known(name, value.shape, "int64", value)


def _check_tensor(checked: CheckedGraph, item: Checked, wired: Known | None, files: Mapping[str, Array]) -> None:
    node = item.node
    if item.values["fill"] == "file":
        file = str(item.values["file"])
        if file not in files:
            text = f"the file {shown(str(item.values['file_name']))} is not loaded; choose it again"
            checked.refuse(item, Problem(node.id, "file", "file_missing", text))
            return
        array = files[file]
        try:
            item.source = sources.file_source(item.values, array)
        except sources.PropertyError as error:
            checked.refuse(item, text_problem(node, error.name, error))
            return
        if wired is not None and wired.value is not None and tuple(wired.value.tolist()) != array.shape:
            expected = str(tuple(wired.value.tolist()))
            text = f"the file has shape {array.shape}; the wired shape is {expected}"
            checked.refuse(item, Problem(node.id, "shape", "shape", text, expected, str(array.shape)))
    else:
        numbers = item.values["shape"] if wired is None else [] if wired.value is None else wired.value.tolist()
        assert isinstance(numbers, list)
        shape = tuple(int(number) for number in numbers)
        if not shape_fits(checked, item, shape):
            return
        try:
            item.source = sources.tensor_source(item.values, shape)
        except sources.PropertyError as error:
            checked.refuse(item, text_problem(node, error.name, error))
            return
    item.outputs["tensor"] = Known("tensor", item.source.shape, item.source.dtype)


def _check_op(checked: CheckedGraph, item: Checked, fed: Mapping[str, Known]) -> None:
    """Plan the op. A refusal that has one right fix is noted and planned again as if mended: up to four problems."""
    arguments: dict[str, Any] = dict(item.values)
    for pin in item.block.pins:
        known = fed[pin.name]
        if pin.kind == "shape" and known.value is not None:
            # Before the library, which would speak of the bytes of this machine; as a list, which it shows as one.
            arguments[pin.name] = known.value.tolist()
            if not elements_fit(checked, item, tuple(known.value.tolist()), pin.name):
                return
        elif pin.kind in ("shape", "sequence"):
            arguments[pin.name] = known.value
        else:
            arguments[pin.name] = raw_ops.Spec(known.shape, known.dtype)
    for _ in range(4):
        try:
            plan = raw_ops.plan(item.node.op, **arguments)
        except (ValueError, TypeError, OverflowError, MemoryError) as error:
            problem = problems.from_library(error, checked.graph, item.node, item.block)
            checked.refuse(item, problem)
            if problem.fix is None or problem.pin is None:
                return
            if problem.code == "property":
                kinds = {known.name: known.kind for known in item.block.properties}
                edits = [edit["set"] for edit in problem.fix.patch]
                arguments.update((name, parse(name, kinds[name], text)) for _, name, text in edits if name in kinds)
            elif problem.code == "shape" and isinstance(arguments[problem.pin], raw_ops.Spec):
                shape = tuple(int(size) for size in list_text(problem.expected).split(","))
                arguments[problem.pin] = raw_ops.Spec(shape, arguments[problem.pin].dtype)
            else:
                return
        else:
            break
    if item.status != "ok":
        return
    item.plan = plan
    boundaries = iter(plan.table.axes)
    for output in item.block.outputs:
        # Drawn sequences: the plan drew some of the right length, the run may draw others.
        value = _boundaries(next(boundaries)) if output.kind == "sequence" else None
        shape, dtype = plan.result_shapes[output.name], np.dtype(plan.result_dtypes[output.name]).name
        item.outputs[output.name] = Known(output.kind, tuple(shape), dtype, value)


def _boundaries(axis: Any) -> Array:
    windows = axis.windows(0, axis.output_size)
    return np.append(windows[:, 0], np.int64(axis.input_size))
