"""Check a graph before anything is computed: parse, wire, plan every block, count what a run would need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from . import catalogue, limits, problems
from .blocks import ACCEPTS
from .check_blocks import check_block
from .checked import Checked, CheckedGraph, shape_fits, text_problem
from .graph import Graph
from .problems import Problem
from .property_text import TextError, parse, shown, split_attributes

Array = npt.NDArray[Any]


def check(
    graph: Graph, files: Mapping[str, Array], ended: Callable[[], tuple[str, str] | None] = lambda: None
) -> CheckedGraph:
    """Every problem of ``graph`` that can be known without computing; ``files`` are the uploaded arrays.

    ``ended`` gives code and words once the check may not go on: 4 Mi fractional windows take half a second to plan.
    """
    checked = CheckedGraph(graph, {}, [])
    if len(graph.nodes) > limits.BLOCKS:
        message = f"The page has {len(graph.nodes)} blocks; the limit is {limits.BLOCKS}"
        checked.problems.append(
            Problem(None, None, "blocks", message, f"at most {limits.BLOCKS}", str(len(graph.nodes)))
        )
        return checked
    order, cyclic = graph.order()
    for name in order:
        node = graph.nodes[name]
        block = catalogue.blocks().get(node.op)
        if block is None:
            checked.problems.append(
                Problem(name, None, "unknown_op", f"there is no block {shown(node.op)} in this version")
            )
            continue
        item = checked.blocks[name] = Checked(node, block)
        if name in cyclic:
            checked.refuse(item, Problem(name, None, "cycle", "its result would feed itself; remove one wire"))
            continue
        end = ended()
        if end is not None:
            checked.end(item, *end)
            continue
        _check_wires(checked, item)
        _check_properties(checked, item)
        if item.status == "ok":
            check_block(checked, item, files)
        if item.status == "ok":
            _check_size(checked, item)
        if item.status != "ok":
            item.outputs = {}
    _check_total(checked)
    return checked


def _check_wires(checked: CheckedGraph, item: Checked) -> None:
    graph, node = checked.graph, item.node
    for target, source in graph.wires.items():
        if target[0] != node.id:
            continue
        pin = item.block.pin(target[1])
        feeder = catalogue.blocks().get(graph.nodes[source[0]].op)
        output = feeder.output(source[1]) if feeder else None
        if pin is None:
            text = f"{node.op} has no pin {shown(target[1])}; remove this wire"
            fix = problems.Fix("Remove the wire", ({"remove_wire": list(target)},))
            checked.refuse(item, Problem(node.id, None, "unknown_pin", text, fix=fix))
        elif feeder is not None and output is None:
            text = f"{feeder.name} has no output {shown(source[1])}; wire {pin.name} again"
            fix = problems.Fix("Remove the wire", ({"remove_wire": list(target)},))
            checked.refuse(item, Problem(node.id, pin.name, "unknown_pin", text, fix=fix))
        elif output is not None and output.kind not in ACCEPTS[pin.kind]:
            text = f"{pin.name} takes a {pin.kind}, {source[1]} of {graph.nodes[source[0]].op} is a {output.kind}"
            shape_wanted = pin.kind == "shape" and output.kind in ("tensor", "indices")
            fix_or_none = problems.through_shape_of(graph, target) if shape_wanted else None
            checked.refuse(item, Problem(node.id, pin.name, "kind", text, pin.kind, output.kind, fix_or_none))
        else:
            item.inputs[pin.name] = source
            feeding = checked.blocks.get(source[0])
            if (feeding is None or feeding.status != "ok") and item.status == "ok":
                item.status = "waiting"
    for pin in item.block.pins:
        if pin.required and (node.id, pin.name) not in graph.wires:
            item.status = "waiting" if item.status == "ok" else item.status
            text = f"{pin.name} is not wired; it takes a {'tensor or shape' if pin.kind == 'any' else pin.kind}"
            checked.problems.append(Problem(node.id, pin.name, "unwired", text, pin.kind, "nothing"))


def _check_properties(checked: CheckedGraph, item: Checked) -> None:
    """Read every property text into ``item.values``; a name that is no property is a problem, not ignored."""
    node, block = item.node, item.block
    texts = {known.name: node.properties.get(known.name, known.default) for known in block.properties}
    for name in node.properties:
        if name not in texts and not (name == "attrs" and block.is_op):
            text = f"{node.op} has no property {shown(name)}; it has {', '.join(texts) or 'none'}"
            checked.refuse(item, Problem(node.id, name, "unknown_property", text))
    try:
        attributes = split_attributes(node.properties.get("attrs", ""))
    except TextError as error:
        checked.refuse(item, text_problem(node, "attrs", error))
        attributes = {}
    for name, attribute in attributes.items():
        if name in texts:
            texts[name] = attribute
        else:
            text = f"{node.op} has no attribute {shown(name)}; it has {', '.join(texts)}"
            checked.refuse(item, Problem(node.id, "attrs", "unknown_property", text, ", ".join(texts), name))
    for known in block.properties:
        used = known.when is None or all(texts[other] in values for other, values in known.when.items())
        if not used or (known.name == "shape" and "shape" in item.inputs):
            continue
        try:
            item.values[known.name] = parse(known.name, known.kind, texts[known.name])
        except TextError as error:
            checked.refuse(item, text_problem(node, known.name, error))
            continue
        value = item.values[known.name]
        # An op's own choices are left to the library, whose refusal says more.
        if not block.is_op and known.choices and value not in known.choices:
            unknown = TextError(" or ".join(known.choices), shown(str(value)))
            choice = problems.nearest_choice(known.choices, str(value))
            fix = problems.property_fix(node, known.name, choice) if choice else None
            checked.refuse(item, text_problem(node, known.name, unknown, fix))


def _check_size(checked: CheckedGraph, item: Checked) -> None:
    for known in item.outputs.values():
        if not shape_fits(checked, item, known.shape):
            return


def _check_total(checked: CheckedGraph) -> None:
    if checked.bytes <= limits.RUN_BYTES:
        return
    largest = max(checked.blocks.values(), key=lambda item: sum(known.bytes for known in item.outputs.values()))
    needed, limit = limits.mebibytes(checked.bytes), limits.mebibytes(limits.RUN_BYTES)
    text = f"the run would need {needed} for its tensors; the limit is {limit}. This block is the largest"
    checked.problems.append(Problem(largest.node.id, None, "run_too_large", text, f"at most {limit}", needed))
    for item in checked.blocks.values():
        item.status = "waiting" if item.status == "ok" else item.status
