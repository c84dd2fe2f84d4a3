"""``poolgrad info``: what this installation is and what it would use."""

from __future__ import annotations

import argparse
import platform
import textwrap

import ml_dtypes
import numpy as np

from .. import __version__, _core
from ..arrays import BFLOAT16, KINDS
from ..op_table import OPS
from ..workers import available, get_workers

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print version, CPU dispatch, workers and dtypes."
    parser.set_defaults(command=_info)


def _info(options: argparse.Namespace) -> int:
    dtypes = ["bfloat16" if dtype == BFLOAT16 else dtype.name for dtype in KINDS]
    rows = {
        "poolgrad": __version__,
        "dispatch": f"{_core.isa()} (POOLGRAD_ISA=baseline or avx2 overrides)",
        "workers": f"{get_workers()} of {available()} CPUs (POOLGRAD_WORKERS overrides)",
        "dtypes": ", ".join(dtypes),
        "ops": f"{len(OPS)} (poolgrad run --help lists them)",
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
    }
    for name, value in rows.items():
        print(textwrap.fill(f"{name:10} {value}", 80, subsequent_indent=" " * 11))
    return 0
