"""Commands whose code is imported only when asked for: the studio and the benchmark."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from types import ModuleType

from .files import Problem

__all__ = ["add_studio", "bench"]


def add_studio(parser: argparse.ArgumentParser) -> None:
    parser.description = "Serve the studio, a page on which ops are wired as blocks, until Ctrl-C."
    parser.add_argument("page", nargs="?", metavar="PAGE", help="a page saved from the studio, to open")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, help="exactly this port (default: 7677, or the next free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a further name to answer to, for a tunnel"
    )
    parser.set_defaults(command=_serve)


def _serve(options: argparse.Namespace) -> int:
    module = _part("poolgrad.studio", "studio")
    try:
        module.serve(options.page, options.host, options.port, not options.no_browser, options.allow_host)
    except module.StudioError as error:
        raise Problem(str(error)) from None
    return 0


def bench(words: Sequence[str]) -> int:
    """``poolgrad bench``: everything after it belongs to `poolgrad.bench`."""
    return int(_part("poolgrad.bench", "test").main(list(words)) or 0)


def _part(name: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = error.name or str(error)
        if missing.startswith("poolgrad"):
            raise Problem(f"this installation has no {missing}; install poolgrad from its source tree") from None
        remedy = f'pip install "poolgrad[{extra}]", or from a clone: pip install ".[{extra}]"'
        raise Problem(f"{name} needs {missing}, which is not installed: {remedy}") from None
