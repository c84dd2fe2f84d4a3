"""The graph as sent by the page: blocks and wires, read strictly; order and kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from . import limits
from .catalogue import GRAPH_VERSION

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
#: Characters of a block's label, and of the names of ops, pins and properties. A longer property text is a problem
#: of its block (`property_text`); the rest is limited by the size of the body.
_LABEL_LIMIT, _NAME_LIMIT = 1000, 100
_SURROGATE = re.compile("[\ud800-\udfff]")
_VIEWS = {"scale": ("sequential", "diverging"), "slices": ("all", "one")}


class GraphError(ValueError):
    """JSON that is no graph at all; what is wrong and where."""


@dataclass(frozen=True)
class Node:
    id: str
    op: str
    properties: Mapping[str, str]
    label: str
    x: float
    y: float


@dataclass(frozen=True)
class Graph:
    title: str
    summary: str
    nodes: Mapping[str, Node]
    #: (block, pin) -> (block, output): one wire into a pin.
    wires: Mapping[tuple[str, str], tuple[str, str]]

    def order(self) -> tuple[list[str], set[str]]:
        """Block ids with every block after those that feed it, and the ids that lie on a cycle."""
        feeds: dict[str, set[str]] = {node: set() for node in self.nodes}
        for (target, _), (source, _) in self.wires.items():
            feeds[target].add(source)
        cyclic: set[str] = set()
        while True:
            try:
                return list(TopologicalSorter(feeds).static_order()), cyclic
            except CycleError as error:
                cyclic.update(error.args[1])
                for node in error.args[1]:
                    feeds[node] = set()

    def targets(self, source: tuple[str, str]) -> list[tuple[str, str]]:
        return [target for target, origin in self.wires.items() if origin == source]


def read_graph(value: object) -> Graph:
    """A `Graph` from decoded JSON; `GraphError` says which part is not as it should be."""
    graph = _mapping(value, "graph")
    _only(graph, {"version", "title", "summary", "blocks", "wires", "ui"}, "graph")
    version = graph.get("version")
    if isinstance(version, bool) or version != GRAPH_VERSION:
        got = repr(version) if isinstance(version, (int, float)) else "no number"
        raise GraphError(f"graph.version is {got[:40]}; this studio reads version {GRAPH_VERSION}")
    _mapping(graph.get("ui", {}), "graph.ui")
    nodes: dict[str, Node] = {}
    for index, item in enumerate(_list(graph.get("blocks"), "graph.blocks", None)):
        node = _read_node(item, f"graph.blocks[{index}]")
        if node.id in nodes:
            raise GraphError(f"graph.blocks[{index}].id {node.id!r} is used twice")
        nodes[node.id] = node
    wires: dict[tuple[str, str], tuple[str, str]] = {}
    for index, item in enumerate(_list(graph.get("wires"), "graph.wires", limits.WIRES)):
        where = f"graph.wires[{index}]"
        wire = _mapping(item, where)
        _only(wire, {"from", "to", "ui"}, where)
        _mapping(wire.get("ui", {}), f"{where}.ui")
        source, target = _end(wire.get("from"), f"{where}.from"), _end(wire.get("to"), f"{where}.to")
        for end in (source, target):
            if end[0] not in nodes:
                raise GraphError(f"{where} names block {end[0]!r}, which is not in graph.blocks")
        if target in wires:
            raise GraphError(f"{where} is a second wire into {target[0]}.{target[1]}")
        wires[target] = source
    title, summary = (_text(graph.get(key, ""), f"graph.{key}") for key in ("title", "summary"))
    return Graph(title, summary, nodes, wires)


def _read_node(value: object, where: str) -> Node:
    item = _mapping(value, where)
    _only(item, {"id", "op", "x", "y", "properties", "label", "ui"}, where)
    identity = item.get("id")
    if not isinstance(identity, str) or not _ID.match(identity):
        raise GraphError(f"{where}.id must be 1 to 64 letters, digits, '_' or '-'")
    properties = _mapping(item.get("properties", {}), f"{where}.properties")
    _check_view(_mapping(item.get("ui", {}), f"{where}.ui"), f"{where}.ui")
    x, y = (_number(item.get(axis, 0), f"{where}.{axis}") for axis in "xy")
    return Node(
        id=identity,
        op=_text(item.get("op"), f"{where}.op", _NAME_LIMIT),
        properties={
            _text(name, f"a name in {where}.properties", _NAME_LIMIT): _text(text, f"{where}.properties.{name}")
            for name, text in properties.items()
        },
        label=_text(item.get("label", ""), f"{where}.label", _LABEL_LIMIT),
        x=x,
        y=y,
    )


def _check_view(view: Mapping[str, Any], where: str) -> None:
    """How the page looks at the block: what the page would act on is checked, other keys are its own business."""
    for key, allowed in _VIEWS.items():
        if key in view and view[key] not in allowed:
            raise GraphError(f"{where}.{key} must be {' or '.join(allowed)}")
    if "output" in view:
        _text(view["output"], f"{where}.output", _NAME_LIMIT)
    for index, size in enumerate(_list(view.get("index", []), f"{where}.index", limits.RANK)):
        if type(size) is not int or not 0 <= size < limits.ELEMENTS:
            raise GraphError(f"{where}.index[{index}] must be a whole number from 0 to {limits.ELEMENTS - 1}")


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise GraphError(f"{where} must be an object")
    return value


def _list(value: object, where: str, longest: int | None) -> list[Any]:
    if not isinstance(value, list):
        raise GraphError(f"{where} must be a list")
    if longest is not None and len(value) > longest:
        raise GraphError(f"{where} has {len(value)} entries; the limit is {longest}")
    return value


def _only(value: Mapping[str, Any], allowed: set[str], where: str) -> None:
    unknown = sorted(set(value) - allowed)
    if unknown:
        raise GraphError(f"{where} has an unknown key {unknown[0][:40]!r}; put extras under 'ui'")


def _text(value: object, where: str, longest: int | None = None) -> str:
    if not isinstance(value, str):
        raise GraphError(f"{where} must be a text")
    if longest is not None and len(value) > longest:
        raise GraphError(f"{where} has {len(value)} characters; the limit is {longest}")
    if _SURROGATE.search(value):
        raise GraphError(f"{where} has half of a surrogate pair, which is no character")
    return value


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e9 < value < 1e9:
        raise GraphError(f"{where} must be a number between -1e9 and 1e9")
    return value


def _end(value: object, where: str) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise GraphError(f"{where} must be [block, pin]")
    return _text(value[0], f"{where}[0]", _NAME_LIMIT), _text(value[1], f"{where}[1]", _NAME_LIMIT)
