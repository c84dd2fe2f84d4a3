"""``poolgrad run OP``: every raw op on files; the options are the arguments of its row of the op table."""

from __future__ import annotations

import argparse
import difflib
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import raw_ops
from ..arrays import BFLOAT16, Array
from ..errors import PoolTypeError
from ..op_table import OPS, REQUIRED, Argument, Op
from .files import NAMES, Problem, as_dtype, check_target, read, write

__all__ = ["add", "check_name", "example"]

VALUES = {
    "tensor": "FILE",
    "indices": "FILE",
    "shape": "LIST|FILE",
    "sequence": "LIST|FILE",
    "sizes": "LIST",
    "ratios": "LIST",
    "paddings": "LIST",
    "flag": "true|false",
    "integer": "N",
}
HOW = """\
FILE is an array saved by numpy.save, e.g. grad.npy; or one of an .npz file,
e.g. pooled.npz:argmax. LIST is numbers with commas, e.g. 1,2,2,1.
Options may also be spelled with underscores, as in TensorFlow.
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Run an op on .npy files; poolgrad run OP --help explains its arguments."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"for example:\n{example(OPS['AvgPoolGrad'])}"
    ops = parser.add_subparsers(title="ops", metavar="OP", required=True, dest="op")
    for op in OPS.values():
        _add_op(ops.add_parser(op.name, help=op.summary, allow_abbrev=False), op)


def check_name(name: str) -> None:
    """Say which op was probably meant; argparse would list all of them."""
    if name not in OPS:
        near = difflib.get_close_matches(name, OPS, 3, 0.5)
        meant = f"did you mean {' or '.join(near)}" if near else "poolgrad run --help lists them"
        raise Problem(f"run: {name!r} is not an op; {meant}")


def _add_op(parser: argparse.ArgumentParser, op: Op) -> None:
    several = len(op.outputs) > 1
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        f"{op.summary}\n\n{_wrapped(op.formula, '  ')}\n\n{HOW}{_wrapped('dtypes: ' + ', '.join(op.dtypes) + '.')}"
    )
    parser.epilog = f"for example:\n{example(op)}"
    needed = parser.add_argument_group("arguments")
    optional = parser.add_argument_group("arguments with a default")
    for argument in op.arguments:
        _add_argument(needed if argument.default is REQUIRED else optional, argument)
    if op.format_is_extra:
        layout = "{" + ",".join(op.formats) + "}"
        optional.add_argument(
            "--data-format", default=op.formats[0], metavar=layout, help="Order of the axes (default: %(default)s)."
        )
    ours = parser.add_argument_group("files and workers")
    ending = f".npz file, with {', '.join(op.outputs)}" if several else ".npy file"
    ours.add_argument("-o", "--output", metavar="FILE", help=f"Result, a {ending}; without it, printed.")
    ours.add_argument(
        "--dtype",
        choices=op.dtypes,
        metavar="NAME",
        help="Convert the input arrays to this dtype. bfloat16 also reads files of 2-byte void or uint16 as "
        "bfloat16, which is how numpy.save keeps it.",
    )
    ours.add_argument("--workers", type=int, metavar="N", help="Threads to use at most.")
    parser.set_defaults(command=_run)


def _add_argument(group: argparse._ArgumentGroup, argument: Argument) -> None:
    spellings = dict.fromkeys([option(argument.name), option(argument.name).lower()])
    words = argument.help
    keywords: dict[str, Any] = {"dest": argument.name, "metavar": VALUES.get(argument.kind)}
    if argument.kind == "choice":
        keywords["metavar"] = "{" + ",".join(argument.choices) + "}"
    if argument.kind == "flag":
        keywords |= {"nargs": "?", "const": "true"}
    if argument.default is REQUIRED:
        keywords["required"] = True
    else:
        default = argument.default
        shown = "none" if default == () else str(default).lower() if isinstance(default, bool) else default
        words = f"{words.removesuffix('.')} (default: {shown})."
    group.add_argument(*spellings, help=words, **keywords)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 80, initial_indent=indent, subsequent_indent=indent)


def option(name: str) -> str:
    return "--" + name.replace("_", "-")


# ---- running it -----------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    op = OPS[options.op]
    several = len(op.outputs) > 1
    target = None
    if options.output is not None:
        reason = f"{op.name} has {len(op.outputs)} outputs" if several else f"{op.name} has one output"
        target = check_target("--output", options.output, ".npz" if several else ".npy", reason)
    dtype = None if options.dtype is None else NAMES.get(options.dtype, np.dtype(options.dtype))
    values = {"data_format": options.data_format} if op.format_is_extra else {}
    for argument in op.arguments:
        text = getattr(options, argument.name)
        if text is not None:
            values[argument.name] = _value(argument, text, dtype)
    try:
        result = getattr(raw_ops, op.name)(**values, workers=options.workers)
    except PoolTypeError as error:
        if " has dtype " in str(error):
            raise _wrong_dtype(op, options, error) from None
        raise
    arrays: dict[str, Array] = result._asdict() if several else {op.outputs[0]: result}
    if target is not None:
        write(target, arrays)
    _report(options.output, arrays)
    return 0


def _wrong_dtype(op: Op, options: argparse.Namespace, error: PoolTypeError) -> Problem:
    """What `raw_ops` says of an array's dtype, in the words of files."""
    argument = op.argument(error.argument or "")
    remedy = "--dtype float32 converts every input"
    if argument.kind == "indices":
        remedy = "save it as int64"
    elif error.got in ("bool", "complex64", "complex128"):
        remedy = "save it as float32"
    elif error.got == "uint16" and "bfloat16" in str(error.expected):
        remedy = f"--dtype bfloat16 if these are its bits, else {remedy}"
    takes = f"it must be {error.expected}" if "," in str(error.expected) else f"another input holds {error.expected}"
    file = f"{option(argument.name)} {getattr(options, argument.name)}"
    return Problem(f"{op.name}: {file}: holds {error.got}; {takes}: {remedy}")


def _value(argument: Argument, text: str, dtype: np.dtype[Any] | None) -> object:
    name = option(argument.name)
    if argument.kind == "tensor":
        return as_dtype(name, text, read(name, text), dtype)
    if argument.kind == "indices":
        return read(name, text)
    if argument.kind in ("shape", "sequence") and (text.endswith(".npy") or ".npz:" in text):
        return read(name, text)
    if argument.kind in ("shape", "sequence", "sizes", "paddings"):
        return _numbers(name, text, int, "an integer")
    if argument.kind == "ratios":
        return _numbers(name, text, float, "a number")
    if argument.kind == "integer":
        return _number(name, text, text, int, "an integer")
    if argument.kind == "flag":
        if text.lower() not in ("true", "false"):
            raise Problem(f"{name} {text}: is neither true nor false; give {name} alone for true")
        return text.lower() == "true"
    return text


def _numbers(name: str, text: str, kind: Callable[[str], Any], word: str) -> list[Any]:
    inside = text.strip().strip("[]()").strip()
    return [_number(name, text, part, kind, word) for part in inside.removesuffix(",").split(",")] if inside else []


def _number(name: str, text: str, part: str, kind: Callable[[str], Any], word: str) -> Any:
    try:
        return kind(part)
    except ValueError:
        where = "" if part == text else f" in {text!r}"
        raise Problem(f"{name}: {part.strip()!r}{where} is not {word}; give e.g. {name} 1,2,2,1") from None


def _report(output: str | None, arrays: dict[str, Array]) -> None:
    for name, array in arrays.items():
        print(f"{name}: {array.dtype} {array.shape}")
        if output is None:
            print(np.array2string(array, threshold=200))
    if output is None:
        return
    print(f"wrote {output}")
    for name, array in arrays.items():
        if array.dtype == BFLOAT16:
            loaded = f"numpy.load({output!r})" + ("" if len(arrays) == 1 else f"[{name!r}]")
            print(f"numpy.save keeps bfloat16 as 2-byte void; read it back with {loaded}.view(ml_dtypes.bfloat16)")


# ---- an example for each op, which the tests run --------------------------------------------------------------


def example(op: Op) -> str:
    """Shell lines that make input files of ones and run ``op`` on them."""
    sides = {"input": (1, *(4,) * op.spatial, 1), "output": (1, *(2,) * op.spatial, 1)}
    twos = ",".join(map(str, sides["output"]))
    text = {
        "shape": ",".join(map(str, sides["input"])),
        "sequence": "0,2,4",
        "sizes": twos,
        "ratios": ",".join(f"{size}.0" for size in sides["output"]),
        "choice": "VALID",
    }
    files, words = [], [f"  poolgrad run {op.name}"]
    for argument in op.arguments:
        if argument.default is not REQUIRED:
            continue
        value = text.get(argument.kind, f"{argument.name}.npy")
        if argument.kind in ("tensor", "indices"):
            make = "ones" if argument.kind == "tensor" else "zeros"
            dtype = "float32" if argument.kind == "tensor" else "int64"
            files.append(f"np.save('{value}', np.{make}({sides[argument.side]}, '{dtype}'))")
        words.append(f"{option(argument.name)} {value}")
    words.append("-o result.npz" if len(op.outputs) > 1 else "-o result.npy")
    made = [f'  python -c "import numpy as np; \\\n      {file}"\n' for file in files]
    return "".join(made) + " \\\n      ".join(words) + "\n"
