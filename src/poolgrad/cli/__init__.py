"""The command line: ``poolgrad demo``, ``info``, ``run``, ``studio``, ``bench``.

A mistake is one line on standard error and exit code 2; nothing is written then.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from . import demo, info, run
from .extras import add_studio, bench
from .files import Problem

__all__ = ["main"]


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose mistakes are one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {one_line(message)} (see {self.prog} --help)\n")


def one_line(text: object) -> str:
    return " ".join(str(text).split())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Instead of ``sys.argv[1:]``.

    Returns
    -------
    int
        The exit code: 0, 2 for a mistake in the arguments or files, 1 for a check of the demo that failed.

    Examples
    --------
    >>> from poolgrad.cli import main
    >>> main(["run", "AvgPoolGrad", "--orig-input-shape", "1,1,4,1", "--grad", "missing.npy",
    ...       "--ksize", "1,1,2,1", "--strides", "1,1,2,1", "--padding", "VALID"])
    2
    """
    words = _spelled_out(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    try:
        if words[:1] == ["bench"]:  # its arguments are its own
            return bench(words[1:])
        if words[:1] == ["run"] and words[1:] and not words[1].startswith("-"):
            run.check_name(words[1])
        options = parser.parse_args(words)
        if "command" not in options:
            parser.print_help()
            return 0
        code: int = options.command(options)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # of argparse: --help, --version or a mistake it found
        return stop.code if isinstance(stop.code, int) else 0
    except BrokenPipeError:  # of `poolgrad demo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except (Problem, ValueError, TypeError, MemoryError, OSError) as error:
        print(f"poolgrad: {one_line(error) or type(error).__name__}", file=sys.stderr)
        return 2


def _spelled_out(words: Sequence[str]) -> list[str]:
    """``--orig_input_shape`` as ``--orig-input-shape``, and a value that begins with a minus joined to its option."""
    result: list[str] = []
    for word in words:
        if result and re.fullmatch(r"--[a-zA-Z0-9-]+", result[-1]) and re.match(r"-[\d.]", word):
            result[-1] += f"={word}"
        elif word.startswith("--"):
            option, equals, value = word.partition("=")
            result.append(option.replace("_", "-") + equals + value)
        else:
            result.append(word)
    return result


def _parser() -> Parser:
    parser = Parser(
        prog="poolgrad",
        description="Pooling and its gradients on plain arrays: TensorFlow's pooling ops without TensorFlow.",
        epilog="Start with: poolgrad demo. Then: poolgrad run --help.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"poolgrad {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    demo.add(commands.add_parser("demo", help="run every gradient on one screen", allow_abbrev=False))
    info.add(commands.add_parser("info", help="version, CPU dispatch, workers, dtypes", allow_abbrev=False))
    run.add(commands.add_parser("run", help="run an op on .npy files", allow_abbrev=False))
    add_studio(commands.add_parser("studio", help="the page on which ops are wired as blocks", allow_abbrev=False))
    commands.add_parser("bench", help="measure the ops on this machine", add_help=False)
    return parser
