"""What a check knows of each block, and the limits on the size of a tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from poolgrad import raw_ops

from . import limits, sources
from .blocks import Block
from .graph import Graph, Node
from .problems import Fix, Problem
from .property_text import TextError, Value
from .tensors import counted

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Known:
    """What is known of an output before it is computed; shapes and sequences have a ``value``.

    The value of a sequence that the run will draw is one of the right length: enough to plan what follows it.
    """

    kind: str
    shape: tuple[int, ...]
    dtype: str
    value: Array | None = None

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass
class Checked:
    """One block after the check: ``values`` are its parsed properties, ``inputs`` the outputs that feed its pins."""

    node: Node
    block: Block
    status: str = "ok"
    values: dict[str, Value] = field(default_factory=dict)
    inputs: dict[str, tuple[str, str]] = field(default_factory=dict)
    outputs: dict[str, Known] = field(default_factory=dict)
    plan: raw_ops.Plan | None = None
    source: sources.TensorSource | None = None


@dataclass
class CheckedGraph:
    graph: Graph
    blocks: dict[str, Checked]
    problems: list[Problem]
    #: Where the run was ended, if it was: its problem's place among the others, and the blocks after it.
    ended_at: int | None = None
    not_run: int = 0

    @property
    def bytes(self) -> int:
        return sum(known.bytes for item in self.blocks.values() for known in item.outputs.values())

    def refuse(self, item: Checked, problem: Problem) -> None:
        item.status = "problem"
        self.problems.append(problem)

    def end(self, item: Checked, code: str, message: str) -> None:
        """The run may not go on: a problem of the first block this meets, those after it wait."""
        if self.ended_at is None:
            self.ended_at = len(self.problems)
            self.refuse(item, Problem(item.node.id, None, code, message))
        else:
            item.status = "waiting"
            self.not_run += 1


def text_problem(node: Node, name: str, error: TextError, fix: Fix | None = None) -> Problem:
    return Problem(node.id, name, "property", f"{name}: {error}", error.expected, error.got, fix)


def shape_fits(checked: CheckedGraph, item: Checked, shape: tuple[int, ...]) -> bool:
    """Rank, sign and number of elements, before anything of that shape is allocated."""
    node = item.node.id
    pin = "shape" if item.node.op == "Tensor" and item.values.get("fill") != "file" else None
    if len(shape) > limits.RANK:
        text = f"the tensor would have {len(shape)} axes; the limit is {limits.RANK}"
        checked.refuse(item, Problem(node, pin, "rank", text, f"at most {limits.RANK}", str(len(shape))))
    elif any(size < 0 for size in shape):
        text = f"shape {shape} has a negative size"
        checked.refuse(item, Problem(node, pin, "property", text, "sizes of 0 or more", str(shape)))
    else:
        return elements_fit(checked, item, shape, pin)
    return False


def elements_fit(checked: CheckedGraph, item: Checked, shape: tuple[int, ...], pin: str | None) -> bool:
    if counted(shape) <= limits.ELEMENTS:
        return True
    count, limit = f"{counted(shape):,}", f"{limits.ELEMENTS:,}"
    beside = " beside its empty axis" if 0 in shape else ""
    text = f"the tensor {shape} would have {count} elements{beside}; the limit is {limit}"
    checked.refuse(item, Problem(item.node.id, pin, "elements", text, f"at most {limit}", count))
    return False
