"""Graphs for the studio's tests: short spellings of pages, and what the page does with a fix and a gradient."""

from __future__ import annotations

import copy
from typing import Any

from poolgrad.studio import catalogue

JSON = dict[str, Any]


def page(blocks: dict[str, tuple[str, dict[str, str]]], wires: dict[str, str]) -> JSON:
    """``{"g": ("Tensor", {...})}`` and ``{"grad.grad": "g.tensor"}`` (target: source) as a page."""
    return {
        "version": 1,
        "title": "test",
        "summary": "",
        "blocks": [
            {"id": name, "op": op, "x": 0, "y": 0, "properties": dict(properties)}
            for name, (op, properties) in blocks.items()
        ],
        "wires": [{"from": source.split("."), "to": target.split(".")} for target, source in wires.items()],
    }


def spread(blocks: list[JSON]) -> list[JSON]:
    """The blocks side by side."""
    return [{**block, "x": 320 * n, "y": 0} for n, block in enumerate(blocks)]


def average_gradient(**changes: dict[str, str]) -> JSON:
    """The documents' own example: AvgPool3DGrad of ones; ``changes`` are properties of blocks by name."""
    properties: dict[str, dict[str, str]] = {
        "shape": {"values": "1,8,6,4,1"},
        "g": {"shape": "1,2,2,2,1", "fill": "ones"},
        "grad": {"ksize": "1,2,2,2,1", "strides": "1,4,3,2,1", "padding": "SAME"},
    }
    for name, changed in changes.items():
        properties[name].update(changed)
    ops = {"shape": "Shape", "g": "Tensor", "grad": "AvgPool3DGrad"}
    wires = {"grad.orig_input_shape": "shape.shape", "grad.grad": "g.tensor"}
    return page({name: (op, properties[name]) for name, op in ops.items()}, wires)


def patched(graph: JSON, patch: list[JSON]) -> JSON:
    """The graph after a fix button."""
    graph = copy.deepcopy(graph)
    for edit in patch:
        if "set" in edit:
            block, name, text = edit["set"]
            next(b for b in graph["blocks"] if b["id"] == block)["properties"][name] = text
        elif "add_block" in edit:
            graph["blocks"].append(edit["add_block"])
        elif "add_wire" in edit:
            graph["wires"].append(edit["add_wire"])
        else:
            graph["wires"] = [wire for wire in graph["wires"] if wire["to"] != list(edit["remove_wire"])]
    return graph


def with_gradient(graph: JSON, block: str, dtype: str) -> tuple[JSON, str]:
    """The graph after "Add its gradient" on ``block``, and the new block's id."""
    graph = copy.deepcopy(graph)
    node = next(b for b in graph["blocks"] if b["id"] == block)
    made = catalogue.blocks()[node["op"]]
    assert made.gradient is not None
    feeding = {wire["to"][1]: wire["from"] for wire in graph["wires"] if wire["to"][0] == block}
    new = f"{block}_grad"

    def add(name: str, op: str, properties: dict[str, str]) -> str:
        graph["blocks"].append({"id": name, "op": op, "x": 0, "y": 0, "properties": properties})
        return name

    def wire(source: list[str], target: list[str]) -> None:
        graph["wires"].append({"from": source, "to": target})

    copied = {name: node["properties"][name] for name in made.gradient.copy if name in node["properties"]}
    add(new, made.gradient.op, copied)
    for pin, origin in made.gradient.wiring.items():
        if origin["from"] == "shape_of":
            shape = add(f"{new}_{pin}", "ShapeOf", {})
            wire(feeding[origin["name"]], [shape, "tensor"])
            wire([shape, "shape"], [new, pin])
        elif origin["from"] == "grad":
            shape = add(f"{new}_of", "ShapeOf", {})
            ones = add(f"{new}_ones", "Tensor", {"fill": "ones", "dtype": dtype})
            wire([block, made.outputs[0].name], [shape, "tensor"])
            wire([shape, "shape"], [ones, "shape"])
            wire([ones, "tensor"], [new, pin])
        else:
            wire(feeding[origin["name"]] if origin["from"] == "input" else [block, origin["name"]], [new, pin])
    return graph, new
