"""What is measured: pooling layers of real networks and volumes, from `workloads.json`.

A workload is a geometry; a `Case` is one step of it (forward, gradient, ...) in one dtype. Shapes are channels-last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import numpy as np

from .. import raw_ops, sequences
from ..arrays import BFLOAT16
from ..makers import fractional, sliding
from ..op_table import OPS
from ..window_table import WindowTable

SEEDS = (1, 2)  # of every fractional pooling: TensorFlow then draws the same cells
LARGE = 64 << 20  # bytes of the unpooled side from which a case counts as large
OVERHEAD = "call_overhead"

FAMILIES = (
    "average 2-D gradient",
    "average 3-D gradient",
    "max gradient",
    "max gradient, saved winners",
    "fractional average gradient",
    "fractional max gradient",
    "average forward",
    "max forward",
    "max forward with winners",
    "fractional forward",
    "call overhead",
)


def dtype_of(name: str) -> np.dtype[Any]:
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


@dataclass(frozen=True)
class Workload:
    """One line of `workloads.json`: a layer, its shapes and the dtypes it is measured in."""

    name: str
    kind: str  # "average", "max", "fractional average", "fractional max"
    input: tuple[int, ...]
    output: tuple[int, ...]
    dtypes: tuple[str, ...]
    about: str
    window: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    padding: str | tuple[tuple[int, int], ...] = ""
    ratio: tuple[float, ...] = ()
    overlapping: bool = False
    pseudo_random: bool = False
    quick: bool = False

    @property
    def spatial(self) -> int:
        return len(self.input) - 2

    @cached_property
    def sequences(self) -> tuple[Any, ...]:
        """Where the cells of a fractional pooling begin, for rows and columns."""
        drawn = sequences.tensorflow(self.input[1:3], self.ratio, *SEEDS, pseudo_random=self.pseudo_random)
        return tuple(drawn)

    @cached_property
    def table(self) -> WindowTable:
        size = self.input[1:-1]
        if self.ratio:
            return fractional(size, self.sequences, overlapping=self.overlapping)
        return sliding(size, self.window, self.stride, self.padding)

    @cached_property
    def windows(self) -> list[Any]:
        """Start and stop of every window, an array for each axis."""
        return [axis.windows(0, axis.output_size)[:, :2] for axis in self.table.axes]

    @property
    def covers(self) -> int:
        """The most windows that hold one element."""
        most = 1
        for rows in self.windows:
            start, stop = rows[:, 0], rows[:, 1]
            begun = np.searchsorted(start, start, "right")
            most *= int((begun - np.searchsorted(stop, start, "right")).max())
        return most

    @property
    def used(self) -> int:
        """Elements that lie in some window: all that pooling has to read."""
        count = self.input[0] * self.input[-1]
        for rows in self.windows:
            before = np.concatenate([[0], rows[:-1, 1]])
            count *= int((rows[:, 1] - np.maximum(rows[:, 0], before)).sum())
        return count


@cache
def load() -> tuple[Workload, ...]:
    """Every workload of the package, in order."""

    def frozen(value: Any) -> Any:
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    rows = json.loads(files(__package__).joinpath("workloads.json").read_text())
    return tuple(Workload(**{name: frozen(value) for name, value in row.items()}) for row in rows)


@dataclass(frozen=True)
class Case:
    """One step of a workload in one dtype.

    ``step`` is "forward", "winners" (forward that keeps the winners), "gradient" (the raw op, from the input),
    "saved" (max gradient from saved winners) or "ready" (a call with a ready table).
    """

    workload: Workload
    dtype: str
    step: str

    @property
    def id(self) -> str:
        return f"{self.workload.name}/{self.dtype}/{self.step}"

    @property
    def family(self) -> str:
        kind = self.workload.kind
        if self.workload.name == OVERHEAD:
            return "call overhead"
        if self.step == "forward":
            return ("fractional" if self.workload.ratio else kind) + " forward"
        if kind == "average":
            return f"average {self.workload.spatial}-D gradient"
        extra = {"winners": " forward with winners", "saved": " gradient, saved winners"}
        return kind + extra.get(self.step, " gradient")

    @property
    def layouts(self) -> tuple[str, ...]:
        """Channels last and first; with one channel both are the same memory, which is then named for neither."""
        return ("one channel",) if self.workload.input[-1] == 1 else ("NHWC", "NCHW")

    @property
    def large(self) -> bool:
        return self.input_bytes >= LARGE

    @property
    def input_bytes(self) -> int:
        return math.prod(self.workload.input) * dtype_of(self.dtype).itemsize

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes that the op must read and bytes that it must write, each once."""
        size = dtype_of(self.dtype).itemsize
        outputs = math.prod(self.workload.output)
        winners = outputs * self.workload.table.winner_dtype.itemsize if self.step in ("winners", "saved") else 0
        if self.step in ("forward", "winners"):
            return self.workload.used * size, outputs * size + winners
        if self.step == "gradient" and "max" in self.workload.kind:
            # The fractional op also compares orig_output with what it finds.
            reads = self.workload.used + outputs * (2 if self.workload.ratio else 1)
            return reads * size, self.input_bytes
        return outputs * size + winners, self.input_bytes

    @property
    def peer_spec(self) -> dict[str, Any]:
        """All that another framework needs to do the same, as JSON can say it."""
        load, table = self.workload, self.workload.table
        # A window that SAME lets begin before the input is clipped in the table: ask the rule, which is not.
        rules = [axis.rule for axis in table.axes]
        return {
            "kind": load.kind, "step": self.step, "dtype": self.dtype, "input": load.input, "output": load.output,
            "window": load.window, "stride": load.stride,
            "padding": load.padding if isinstance(load.padding, str) else "EXPLICIT",
            "before": [rule[4] if rule else 0 for rule in rules],
            "ratio": load.ratio, "overlapping": load.overlapping, "pseudo_random": load.pseudo_random,
            "sequences": [row.tolist() for row in load.sequences] if load.ratio else [], "seeds": SEEDS,
            "fresh": load.name == OVERHEAD,
        }  # fmt: skip

    def raw_call(self, layout: str) -> tuple[str, dict[str, Any]] | None:
        """The raw op and its arguments, tensors as `Spec`; None where TensorFlow has no such op."""
        load, dtype = self.workload, dtype_of(self.dtype)
        suffix = "3D" if load.spatial == 3 else ""
        family = {"average": f"AvgPool{suffix}", "max": f"MaxPool{suffix}"}.get(load.kind, "")
        if load.ratio:
            family = "FractionalMaxPool" if load.kind.endswith("max") else "FractionalAvgPool"
        name = family + ("Grad" if self.step == "gradient" else "")
        explicit = not isinstance(load.padding, str)
        row = OPS[name]
        if self.step not in ("forward", "gradient") or self.dtype not in row.dtypes:
            return None
        if explicit and "explicit_paddings" not in [argument.name for argument in row.arguments]:
            return None
        first = layout == "NCHW"
        shapes = {"input": arranged(load.input, first), "output": arranged(load.output, first)}
        given: dict[str, Any] = {"data_format": row.formats[first]}
        for argument in row.arguments:
            if argument.kind == "tensor":
                given[argument.name] = raw_ops.Spec(shapes[argument.side], dtype)
            elif argument.kind == "shape":
                given[argument.name] = list(shapes["input"])
        if load.ratio:
            given |= {"overlapping": load.overlapping}
            if self.step == "gradient":
                given |= {"row_pooling_sequence": load.sequences[0], "col_pooling_sequence": load.sequences[1]}
            else:
                ratio = list(arranged((1.0, *load.ratio, 1.0), first))
                given |= {"pooling_ratio": ratio, "pseudo_random": load.pseudo_random, "deterministic": True}
                given |= {"seed": SEEDS[0], "seed2": SEEDS[1]}
            return name, given
        given |= {"ksize": list(arranged((1, *load.window, 1), first))}
        given |= {"strides": list(arranged((1, *load.stride, 1), first))}
        given["padding"] = "EXPLICIT" if explicit else load.padding
        if explicit:
            pairs = arranged(((0, 0), *load.padding, (0, 0)), first)
            given["explicit_paddings"] = [number for pair in pairs for number in pair]
        return name, given


def arranged(values: tuple[Any, ...], channels_first: bool) -> tuple[Any, ...]:
    """A channels-last tuple in the order of the layout."""
    return (values[0], values[-1], *values[1:-1]) if channels_first else values


def cases() -> Iterator[Case]:
    """Every case of every workload."""
    for workload in load():
        for dtype in workload.dtypes:
            steps: tuple[str, ...] = ("forward", "gradient")
            if workload.name == OVERHEAD:
                steps = ("gradient", "ready")
            elif workload.kind == "max":
                explicit_volume = workload.spatial == 3 and not isinstance(workload.padding, str)
                steps = ("forward", "winners", *(() if explicit_volume else ("gradient",)), "saved")
            elif workload.kind == "average" and dtype_of(dtype).kind in "iu":
                steps = ("forward",)  # an exact mean; there is no gradient of integers
            for step in steps:
                yield Case(workload, dtype, step)
