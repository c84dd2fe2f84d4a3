"""Problems, which live on pins and properties, and the one right way to mend them where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from . import catalogue
from .blocks import Block
from .graph import Graph, Node
from .property_text import TextError, join_attributes, list_text, split_attributes


@dataclass(frozen=True)
class Fix:
    """A button's label and the edits it makes, one undo step on the page."""

    label: str
    patch: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Problem:
    node: str | None
    pin: str | None
    code: str
    message: str
    expected: str | None = None
    got: str | None = None
    fix: Fix | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def from_library(error: Exception, graph: Graph, node: Node, block: Block) -> Problem:
    """The library's own refusal, put on the pin or property it names, with a fix where one is right."""
    argument = getattr(error, "argument", None)
    expected, got = getattr(error, "expected", None), getattr(error, "got", None)
    pin = block.pin(argument or "")
    if pin is not None:
        if (expected or "").startswith("("):
            fix = shape_fix(graph, (node.id, pin.name), expected or "")
            return Problem(node.id, pin.name, "shape", str(error), expected, got, fix)
        if isinstance(error, TypeError):
            fix = _dtype_fix(graph, (node.id, pin.name), expected or "")
            return Problem(node.id, pin.name, "dtype", str(error), expected, got, fix)
        return Problem(node.id, pin.name, "value", str(error), expected, got)
    known = next((item for item in block.properties if item.name == argument), None)
    if known is None:
        return Problem(node.id, None, "value", str(error), expected, got)
    return Problem(
        node.id, known.name, "property", str(error), expected, got, _attribute_fix(node, block, known.name, got)
    )


def _attribute_fix(node: Node, block: Block, name: str, got: str | None) -> Fix | None:
    known = {item.name: item for item in block.properties}
    if name == "seed" and "deterministic" in known:
        # New blocks have a seed and are deterministic; whoever unticks that wants fresh numbers, which take no seed.
        return properties_fix("Set seed and seed2 to 0", node, {"seed": "0", "seed2": "0"})
    choice = nearest_choice(known[name].choices, (got or "").strip("'\""))
    return property_fix(node, name, choice) if choice else None


def nearest_choice(choices: tuple[str, ...], text: str) -> str | None:
    """The choice that was meant: same letters in another case, or the layout with channels on the same side."""
    for choice in choices:
        if choice.lower() == text.lower():
            return choice
    for choice in choices:
        layouts = choice.startswith("N") and text.upper().startswith("N")
        if layouts and choice.endswith("C") == text.upper().endswith("C"):
            return choice
    return None


def property_fix(node: Node, name: str, text: str) -> Fix:
    return properties_fix(f"Set {name} to {text}", node, {name: text})


def properties_fix(label: str, node: Node, texts: Mapping[str, str]) -> Fix:
    """Set properties, and take them out of the attributes as text, which would win."""
    edits: list[Mapping[str, Any]] = [{"set": [node.id, name, text]} for name, text in texts.items()]
    try:
        attributes = split_attributes(node.properties.get("attrs", ""))
    except TextError:  # A problem of its own.
        attributes = {}
    kept = {name: text for name, text in attributes.items() if name not in texts}
    if kept != attributes:
        edits.append({"set": [node.id, "attrs", join_attributes(kept)]})
    return Fix(label, tuple(edits))


def shape_fix(graph: Graph, target: tuple[str, str], expected: str) -> Fix | None:
    """Give the Tensor or Shape that feeds ``target`` the expected shape, if nothing but viewers hang on it too."""
    source = graph.wires.get(target)
    if source is None:
        return None
    others = [end for end in graph.targets(source) if end != target and graph.nodes[end[0]].op != "Viewer"]
    if others:
        return None
    node, text = graph.nodes[source[0]], list_text(expected)
    if node.op == "Shape":
        return Fix(f"Set the shape to {text}", ({"set": [node.id, "values", text]},))
    if node.op != "Tensor" or node.properties.get("fill", "ones") in ("values", "file"):
        return None
    edits: list[Mapping[str, Any]] = [{"set": [node.id, "shape", text]}]
    if (node.id, "shape") in graph.wires:
        edits.append({"remove_wire": [node.id, "shape"]})
    if node.properties.get("fill") == "one-hot":
        edits.append({"set": [node.id, "position", ""]})
    return Fix(f"Set {target[1]}'s shape to {text}", tuple(edits))


def _dtype_fix(graph: Graph, target: tuple[str, str], expected: str) -> Fix | None:
    source = graph.wires.get(target)
    if source is None or graph.nodes[source[0]].op != "Tensor":
        return None
    allowed = [name.strip() for name in expected.split(",")]
    known = [name for name in allowed if name in catalogue.dtypes()]
    if not known or graph.nodes[source[0]].properties.get("fill") == "file":
        return None
    dtype = "float32" if "float32" in known else known[0]
    return Fix(f"Set {target[1]}'s dtype to {dtype}", ({"set": [source[0], "dtype", dtype]},))


def through_shape_of(graph: Graph, target: tuple[str, str]) -> Fix:
    """Put a ShapeOf block into a wire that leads a tensor to a shape pin."""
    source = graph.wires[target]
    start, end = graph.nodes[source[0]], graph.nodes[target[0]]
    name = next(f"shape{n}" for n in range(1, len(graph.nodes) + 2) if f"shape{n}" not in graph.nodes)
    block = {"id": name, "op": "ShapeOf", "x": (start.x + end.x) / 2, "y": (start.y + end.y) / 2, "properties": {}}
    edits: tuple[Mapping[str, Any], ...] = (
        {"remove_wire": list(target)},
        {"add_block": block},
        {"add_wire": {"from": list(source), "to": [name, "tensor"]}},
        {"add_wire": {"from": [name, "shape"], "to": list(target)}},
    )
    return Fix("Wire its shape instead", edits)
