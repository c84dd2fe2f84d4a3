"""The block catalogue, generated from the library's own op table: page and library cannot drift."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import poolgrad
from poolgrad import op_table

from . import limits
from .blocks import ACCEPTS, Block, Gradient, Output, Pin, Property, studio_blocks

GRAPH_VERSION = 1

#: A live page draws the same sequences run after run, so a new block starts with a seed of its own
#: instead of TensorFlow's default of fresh randomness on every call.
_STARTING_TEXT = {"deterministic": "true", "pseudo_random": "true", "seed": "1", "seed2": "1"}


@cache
def blocks() -> Mapping[str, Block]:
    """Every block by name: the studio's own first, then every raw op in the op table's order."""
    every = tuple(dict.fromkeys(dtype for op in op_table.OPS.values() for dtype in op.dtypes))
    made = {block.name: block for block in studio_blocks(every)}
    made.update((op.name, _block_of(op)) for op in op_table.OPS.values())
    return made


def dtypes() -> tuple[str, ...]:
    """Every dtype that some op takes."""
    return next(known.choices for known in blocks()["Tensor"].properties if known.name == "dtype")


def as_json() -> dict[str, Any]:
    return {
        "library": poolgrad.__version__,
        "graph_version": GRAPH_VERSION,
        "limits": limits.AS_JSON,
        "accepts": ACCEPTS,
        "dtypes": dtypes(),
        "blocks": [block.as_json() for block in blocks().values()],
    }


def _block_of(op: op_table.Op) -> Block:
    return Block(
        name=op.name,
        group="Fractional" if op.name.startswith("Fractional") else "Max" if "Max" in op.name else "Average",
        family="max" if "Max" in op.name else "average",
        summary=op.summary,
        formula=op.formula,
        help=op.summary,
        example=op.example,
        pins=tuple(Pin(a.name, a.kind, help=a.help) for a in op.arguments if a.is_pin),
        outputs=tuple(Output(name, _output_kind(op, name)) for name in op.outputs),
        properties=tuple(Property(a.name, a.kind, _starting_text(op, a), a.choices, a.help) for a in _attributes(op)),
        dtypes=op.dtypes,
        formats=op.formats,
        spatial=op.spatial,
        sides=_sides(op),
        gradient=_gradient(op),
    )


def _attributes(op: op_table.Op) -> list[op_table.Argument]:
    """What one types: the op's attributes, and data_format where the library takes it though TensorFlow does not."""
    attributes = [argument for argument in op.arguments if not argument.is_pin]
    if op.format_is_extra:
        layout = "Order of the axes (not an argument of TensorFlow's op)."
        attributes.append(op_table.Argument("data_format", "choice", layout, op.formats[0], op.formats))
    return attributes


def _starting_text(op: op_table.Op, argument: op_table.Argument) -> str:
    if argument.name in _STARTING_TEXT:
        return _STARTING_TEXT[argument.name]
    if argument.default is op_table.REQUIRED:
        middle = {"sizes": "2", "ratios": "1.5"}.get(argument.kind)
        if middle is not None:
            return ",".join(["1"] + [middle] * op.spatial + ["1"])
        return argument.choices[0] if argument.choices else ""
    if isinstance(argument.default, bool):
        return str(argument.default).lower()
    if isinstance(argument.default, (list, tuple)):
        return ",".join(map(str, argument.default))
    return str(argument.default)


def _output_kind(op: op_table.Op, output: str) -> str:
    """An output is of the kind of the gradient's pin that it feeds, else a tensor."""
    gradient = op_table.OPS.get(op.gradient or "")
    if gradient is not None:
        for argument in gradient.arguments:
            if argument.is_pin and op.wiring.get(argument.name) == output:
                return argument.kind
    return "tensor"


def _gradient(op: op_table.Op) -> Gradient | None:
    gradient = op_table.OPS.get(op.gradient or "")
    if gradient is None:
        return None
    wiring: dict[str, Mapping[str, str]] = {}
    for pin, origin in op.wiring.items():
        if origin == "grad":
            wiring[pin] = {"from": "grad"}
        elif origin.startswith("shape of "):
            wiring[pin] = {"from": "shape_of", "name": origin.removeprefix("shape of ")}
        else:
            wiring[pin] = {"from": "output" if origin in op.outputs else "input", "name": origin}
    own = {argument.name for argument in _attributes(op)}
    copied = tuple(argument.name for argument in _attributes(gradient) if argument.name in own)
    return Gradient(gradient.name, wiring, copied)


def _sides(op: op_table.Op) -> dict[str, str]:
    """Which tensors lie on the input grid and which on the pooled one; shapes and sequences lie on neither."""
    words = {"input": "input", "output": "pooled"}
    sides = {a.name: words[a.side] for a in op.arguments if a.side}
    sides.update((name, words[op.result]) for name in op.outputs if _output_kind(op, name) in ("tensor", "indices"))
    return sides
