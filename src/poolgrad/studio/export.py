"""A graph as a Python script: with poolgrad the same bits, with tf.raw_ops the same values."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from poolgrad import op_table

from . import tensorflow_notes
from .check import check
from .checked import Checked, CheckedGraph
from .graph import Graph, Node
from .problems import Problem

TARGETS = ("poolgrad", "tensorflow")
#: Names that the script itself uses.
_USED = ("np", "tf", "ml_dtypes", "raw_ops", "results", "name", "value", "array", "print", "list", "float", "int")
#: Blocks that are plain lists in the script.
_LISTS = ("Shape", "Sequence", "ShapeOf")


class ExportError(ValueError):
    """A graph with problems is not exported: the script would not run."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(f"the graph has {len(problems)} problem(s); mend them first")
        self.problems = problems


def python_source(graph: Graph, target: str, files: Mapping[str, npt.NDArray[Any]]) -> str:
    """The script. Running it defines ``results``, a dict from the names that the page shows to what the blocks give.

    It holds what every op gives, and of other blocks what a viewer shows or nothing takes.
    """
    checked = check(graph, files)
    if checked.problems:
        raise ExportError(checked.problems)
    return "\n".join(_Script(checked, target, _with_nan(checked, files)).lines()) + "\n"


def _with_nan(checked: CheckedGraph, files: Mapping[str, npt.NDArray[Any]]) -> set[str]:
    """The blocks that hold a NaN or that one reaches; blocks come after those that feed them."""
    found: set[str] = set()
    for name, item in checked.blocks.items():
        holds = item.source is not None and any(number != number for number in item.source.values)
        if item.source is not None and item.source.kind == "file" and "float" in item.source.dtype:
            array = files[item.source.file]
            holds = bool((array != array).any())
        if holds or any(block in found for block, _ in item.inputs.values()):
            found.add(name)
    return found


class _Script:
    def __init__(self, checked: CheckedGraph, target: str, with_nan: set[str]) -> None:
        self.checked, self.tensorflow, self.with_nan = checked, target == "tensorflow", with_nan
        self.names: dict[str, str] = {}

    def lines(self) -> list[str]:
        body: list[str] = []
        results: dict[str, str] = {}
        for name, item in self.checked.blocks.items():
            if not item.block.outputs:
                continue
            self._name(item)
            body += self._block(item)
            outputs = [output.name for output in item.block.outputs]
            wanted = [output for output in outputs if item.block.is_op or self._is_end(name, output)]
            title, number = shown_name(self.checked.graph, item.node), 2
            keys = _keys(item, title)
            while not results.keys().isdisjoint(keys.values()):
                keys, number = _keys(item, f"{title} {number}"), number + 1
            results.update({keys[output]: self._read(name, output) for output in wanted})
        title = re.sub(r"[^\w .,:;()+-]", "", self.checked.graph.title) or "A page"
        head = [f'"""{title}. Exported from the poolgrad studio."""', ""]
        return [*head, *self._imports(body), "", *body, "", *self._tail(results)]

    def _imports(self, body: list[str]) -> list[str]:
        text = "\n".join(body)
        lines = ["import ml_dtypes"] if "ml_dtypes." in text else []
        lines += ["import numpy as np"]
        lines += ["import tensorflow as tf"] if self.tensorflow else ["", "from poolgrad import raw_ops"]
        return lines

    def _tail(self, results: Mapping[str, str]) -> list[str]:
        listed = [f"    {key!r}: {read}," for key, read in results.items()]
        loop = ["array = np.asarray(value)", "print(name, array.shape, array.dtype)", "print(array.squeeze())"]
        loop = [f"    {line}" for line in loop]
        return ["results = {", *listed, "}", "for name, value in results.items():", *loop]

    def _is_end(self, block: str, output: str) -> bool:
        """Whether a viewer shows this output or no block takes it."""
        takers = self.checked.graph.targets((block, output))
        return not takers or any(self.checked.graph.nodes[taker].op == "Viewer" for taker, _ in takers)

    def _name(self, item: Checked) -> None:
        """A variable for a block: its label or op in snake case, numbered where taken."""
        # AvgPool3DGrad becomes avg_pool_3d_grad.
        words = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", item.node.label or item.node.op)
        stem = re.sub(r"[^a-z0-9]+", "_", words.lower().encode("ascii", "ignore").decode()).strip("_") or "value"
        stem = f"_{stem}" if stem[0].isdigit() else stem
        taken = {*self.names.values(), *keyword.kwlist, *_USED}
        number, name = 2, stem
        while name in taken:
            name, number = f"{stem}_{number}", number + 1
        self.names[item.node.id] = name

    def _read(self, block: str, output: str) -> str:
        several = len(self.checked.blocks[block].block.outputs) > 1
        return f"{self.names[block]}.{output}" if several else self.names[block]

    def _block(self, item: Checked) -> list[str]:
        name = self.names[item.node.id]
        if item.block.is_op:
            return self._op(item)
        if item.node.op == "Tensor":
            return self._tensor(item)
        if item.node.op == "ShapeOf":
            read = self._read(*item.inputs["tensor"])
            if self.checked.blocks[item.inputs["tensor"][0]].node.op in _LISTS:
                return [f"{name} = list(np.shape({read}))"]
            return [f"{name} = list({read}.shape)"]
        if item.node.op == "Difference":
            a, b = (self._read(*item.inputs[pin]) for pin in "ab")
            if self.tensorflow:
                return [f"{name} = tf.cast({a}, tf.float64) - tf.cast({b}, tf.float64)"]
            return [f'{name} = {a}.astype("float64") - {b}.astype("float64")']
        return [f"{name} = {item.values['values']!r}"]

    def _tensor(self, item: Checked) -> list[str]:
        name, source = self.names[item.node.id], item.source
        assert source is not None
        dtype = "ml_dtypes.bfloat16" if source.dtype == "bfloat16" else repr(source.dtype)
        shape: str = repr(source.shape)
        if "shape" in item.inputs:
            shape = self._read(*item.inputs["shape"])
        note: list[str] = []
        if source.kind == "file":
            file = str(item.values["file_name"]) or "array.npy"
            part = f"[{', '.join(f'{start}:{stop}' for start, stop in source.crop)}]" if source.crop else ""
            of = "A part of the file" if part else "The file"
            note = [f"# {of} that was opened in the studio, of shape {source.shape}."]
            made = f"np.load({file!r})" + (f".view({dtype})" if source.dtype == "bfloat16" else "") + part
        elif source.kind == "random":
            low = 0 if source.dtype.startswith("u") else -9
            draw = f"integers({low}, 10, {shape})" if "int" in source.dtype else f"standard_normal({shape})"
            made = f"np.random.default_rng({source.seed}).{draw}.astype({dtype})"
        elif source.kind == "counting":
            made = f"np.arange(np.prod({shape}, dtype=int)).reshape({shape}).astype({dtype})"
        elif source.kind == "values":
            listed = ", ".join(_number(value, source.dtype) for value in source.values)
            made = f"np.array([{listed}], {dtype}).reshape({shape})"
        else:
            made = f"np.{'ones' if source.kind == 'ones' else 'zeros'}({shape}, {dtype})"
        lines = [*note, f"{name} = {made}"]
        if source.kind == "one-hot" and all(source.shape):
            lines.append(f"{name}[{', '.join(map(str, source.position))}] = 1")
        if self.tensorflow:
            lines.append(f"{name} = tf.constant({name})")
        return lines

    def _op(self, item: Checked) -> list[str]:
        op = op_table.OPS[item.node.op]
        arguments = {pin.name: self._read(*item.inputs[pin.name]) for pin in item.block.pins}
        if self.tensorflow:
            integer = {"shape": "tf.int32", "sequence": "tf.int64"}
            for pin in item.block.pins:
                if pin.kind in integer:
                    # The fractional ops take their shape as int64, the sliding ones as int32.
                    kind = "tf.int64" if op.windows == "sequences" else integer[pin.kind]
                    arguments[pin.name] = f"tf.cast({arguments[pin.name]}, {kind})"
        own = [argument.name for argument in op.arguments]
        for name, value in item.values.items():
            if name in own or not self.tensorflow:
                arguments[name] = repr(value)
        if self.tensorflow and "Targmax" in arguments:
            arguments["Targmax"] = f"tf.{item.values['Targmax']}"
        if "deterministic" in item.values and not item.values["deterministic"]:
            note = ["# deterministic=False: every run draws other sequences than the studio showed."]
        else:
            note = []
        if self.tensorflow:
            assert item.plan is not None
            note += [f"# {line}" for line in tensorflow_notes.notes(item.plan, item.node.id in self.with_nan)]
        call = f"{'tf.' if self.tensorflow else ''}raw_ops.{op.name}"
        given = [f"    {name}={value}," for name, value in arguments.items()]
        return [*note, f"{self.names[item.node.id]} = {call}(", *given, ")"]


def shown_name(graph: Graph, node: Node) -> str:
    """How the page names a block: its label, or its op with its number where there are several of the kind."""
    alike = [other.id for other in graph.nodes.values() if other.op == node.op and not other.label]
    return node.label or (f"{node.op} {alike.index(node.id) + 1}" if len(alike) > 1 else node.op)


def _keys(item: Checked, title: str) -> dict[str, str]:
    several = len(item.block.outputs) > 1
    return {output.name: f"{title}.{output.name}" if several else title for output in item.block.outputs}


def _number(value: int | float, dtype: str) -> str:
    """As the studio takes it: a float for a float type; not every one takes whole numbers beyond 63 bits from NumPy."""
    if "int" in dtype:
        return repr(value)
    number = float(value)
    return repr(number) if math.isfinite(number) else f'float("{number}")'
