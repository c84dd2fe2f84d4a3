"""What a block is, and the few blocks that are not raw ops: inputs, shape of, difference, viewer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: Kind of a pin -> kinds of output it takes.
ACCEPTS: Mapping[str, tuple[str, ...]] = {
    "tensor": ("tensor", "indices"),
    "indices": ("indices", "tensor"),
    "shape": ("shape", "sequence"),
    "sequence": ("sequence", "shape"),
    "any": ("tensor", "indices", "shape", "sequence"),
}


@dataclass(frozen=True)
class Pin:
    name: str
    kind: str
    required: bool = True
    help: str = ""


@dataclass(frozen=True)
class Output:
    name: str
    kind: str
    help: str = ""


@dataclass(frozen=True)
class Property:
    """``default`` is text, as a person would type it; ``when`` says for which values of another property it counts."""

    name: str
    kind: str
    default: str
    choices: tuple[str, ...] = ()
    help: str = ""
    when: Mapping[str, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Gradient:
    """How to add the block's gradient: where each pin of ``op`` is wired from, and which properties are copied."""

    op: str
    wiring: Mapping[str, Mapping[str, str]]
    copy: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    name: str
    group: str
    summary: str
    pins: tuple[Pin, ...] = ()
    outputs: tuple[Output, ...] = ()
    properties: tuple[Property, ...] = ()
    family: str | None = None
    formula: str = ""
    help: str = ""
    example: str = ""
    dtypes: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    spatial: int = 0
    sides: Mapping[str, str] = field(default_factory=dict)
    gradient: Gradient | None = None

    @property
    def is_op(self) -> bool:
        return self.spatial > 0

    def pin(self, name: str) -> Pin | None:
        return next((pin for pin in self.pins if pin.name == name), None)

    def output(self, name: str) -> Output | None:
        return next((output for output in self.outputs if output.name == name), None)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


#: A file brings its own shape and dtype; every other fill has them as properties.
FILLS = ("ones", "zeros", "counting", "random", "one-hot", "values", "file")


def studio_blocks(dtypes: tuple[str, ...]) -> tuple[Block, ...]:
    """The studio's own blocks; ``dtypes`` are those some raw op takes."""
    return (
        Block(
            "Tensor",
            "Inputs",
            "Numbers to feed an op: ones, random, typed by hand or from a .npy file.",
            help="Its shape is typed, or wired into the pin 'shape' so that it follows another tensor.",
            pins=(Pin("shape", "shape", required=False, help="When wired, replaces the property 'shape'."),),
            outputs=(Output("tensor", "tensor"),),
            properties=(
                Property("fill", "choice", "ones", FILLS, help="Where the numbers come from."),
                Property("shape", "shape", "1,4,4,1", help="Sizes, outermost first.", when={"fill": FILLS[:-1]}),
                Property("dtype", "dtype", "float32", dtypes, "Type of each number.", when={"fill": FILLS[:-1]}),
                Property("seed", "integer", "1", help="Same seed, same numbers.", when={"fill": ("random",)}),
                Property(
                    "position",
                    "position",
                    "",
                    help="The element that is 1, one index per axis; empty: the middle one.",
                    when={"fill": ("one-hot",)},
                ),
                Property(
                    "values",
                    "values",
                    "",
                    help="Numbers in row-major order; nan and inf are allowed.",
                    when={"fill": ("values",)},
                ),
                Property("file", "file", "", help="An uploaded .npy file.", when={"fill": ("file",)}),
                Property("file_name", "file_name", "", help="Its name.", when={"fill": ("file",)}),
                Property(
                    "crop",
                    "slices",
                    "",
                    help="The part of the file that was taken, start:stop of every axis; empty: all of it.",
                    when={"fill": ("file",)},
                ),
            ),
        ),
        Block(
            "Shape",
            "Inputs",
            "A shape typed by hand, for pins such as orig_input_shape.",
            outputs=(Output("shape", "shape"),),
            properties=(Property("values", "shape", "1,4,4,1", help="Sizes, outermost first."),),
        ),
        Block(
            "Sequence",
            "Inputs",
            "A fractional pooling sequence typed by hand.",
            help="Cell i is the half-open interval from entry i to entry i + 1; an overlapping cell is one longer.",
            outputs=(Output("sequence", "sequence"),),
            properties=(Property("values", "sizes", "0,2,4", help="Boundaries, never decreasing."),),
        ),
        Block(
            "ShapeOf",
            "Inputs",
            "The shape of a tensor, to feed a shape pin.",
            pins=(Pin("tensor", "any", help="Whose shape."),),
            outputs=(Output("shape", "shape"),),
        ),
        Block(
            "Difference",
            "See",
            "a - b in float64: compare two results.",
            pins=(Pin("a", "tensor", help="First tensor."), Pin("b", "tensor", help="Taken from the first.")),
            outputs=(Output("difference", "tensor"),),
        ),
        Block("Viewer", "See", "Shows a tensor large.", pins=(Pin("tensor", "any", help="What to show."),)),
    )
