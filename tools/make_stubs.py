"""Write the type stubs: ``raw_ops.pyi`` from the op table and ``_core.pyi`` from the built module.

python tools/make_stubs.py            write them
python tools/make_stubs.py --check    exit 1 if those in the tree are not these
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

import poolgrad._core
from poolgrad.op_table import OPS, REQUIRED, Argument, Op

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "poolgrad"
HEAD = '''"""Made from the op table by tools/make_stubs.py."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from .plans import Plan as Plan
from .plans import Spec as Spec

_Array: TypeAlias = npt.NDArray[Any]
_Integers: TypeAlias = Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]
_Numbers: TypeAlias = Sequence[float | np.floating[Any] | np.integer[Any]] | npt.NDArray[np.floating[Any]]
'''
TYPES = {
    "tensor": "npt.ArrayLike",
    "indices": "npt.ArrayLike",
    "shape": "_Integers",
    "sequence": "_Integers",
    "sizes": "_Integers",
    "paddings": "_Integers",
    "ratios": "_Numbers",
    "flag": "bool",
    "integer": "SupportsIndex",
}
OUTPUTS = {
    "argmax": "npt.NDArray[np.int32] | npt.NDArray[np.int64]",
    "row_pooling_sequence": "npt.NDArray[np.int64]",
    "col_pooling_sequence": "npt.NDArray[np.int64]",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    code = 0
    for name, text in (("raw_ops.pyi", raw_ops_stub()), ("_core.pyi", core_stub())):
        path = PACKAGE / name
        formatted = formatted_like_the_rest(name, text)
        if not check:
            path.write_text(formatted)
        elif not path.exists() or path.read_text() != formatted:
            print(f"{path.relative_to(PACKAGE.parent.parent)} is not current: run python tools/make_stubs.py")
            code = 1
    return code


def formatted_like_the_rest(name: str, text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PACKAGE / name), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def core_stub() -> str:
    stubs = StubGen(poolgrad._core)
    stubs.put(poolgrad._core)
    text = str(stubs.get())
    # mypy's strict mode takes no bare generics, which nanobind writes for arrays of any dtype and for tuples.
    for bare, full in (
        ("Annotated[NDArray, ", "Annotated[NDArray[Any], "),
        ("-> tuple: ...", "-> tuple[int, ...]: ..."),
        ("from typing import Annotated\n", "from typing import Annotated, Any\n"),
    ):
        text = text.replace(bare, full)
    return text


def raw_ops_stub() -> str:
    names = ", ".join(f'"{name}"' for name in (*OPS, "Plan", "Spec", "plan"))
    parts = [HEAD, f"__all__ = [{names}]\n", "def plan(op_name: str, **arguments: Any) -> Plan: ...\n"]
    parts += [tuple_class(op) for op in OPS.values() if len(op.outputs) > 1]
    parts += [function(op) for op in OPS.values()]
    return "\n".join(parts)


def tuple_class(op: Op) -> str:
    fields = "".join(f"    {name}: {OUTPUTS.get(name, '_Array')}\n" for name in op.outputs)
    return f"class _{op.name}Outputs(NamedTuple):\n{fields}"


def function(op: Op) -> str:
    several = len(op.outputs) > 1
    result = f"_{op.name}Outputs" if several else "_Array"
    out = f"tuple[{', '.join('_Array' for _ in op.outputs)}]" if several else "_Array"
    arguments = [typed(argument) for argument in op.arguments]
    arguments += ["name: object = None", "*"]
    if op.format_is_extra:
        arguments.append(f"data_format: {literal(op.formats)} = {op.formats[0]!r}")
    arguments += [f"out: {out} | None = None", "workers: SupportsIndex | None = None"]
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f'def {op.name}(\n{lines}) -> {result}:\n    """{op.summary}"""\n'


def typed(argument: Argument) -> str:
    kind = TYPES.get(argument.kind) or literal(argument.choices)
    if argument.name == "Targmax":
        kind += " | type[np.int32] | type[np.int64] | np.dtype[np.int32] | np.dtype[np.int64]"
    default = "" if argument.default is REQUIRED else f" = {argument.default!r}"
    return f"{argument.name}: {kind}{default}"


def literal(choices: tuple[str, ...]) -> str:
    return f"Literal[{', '.join(map(repr, choices))}]"


if __name__ == "__main__":
    sys.exit(main())
