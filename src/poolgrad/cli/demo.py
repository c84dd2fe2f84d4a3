"""``poolgrad demo``: the main job on one screen of 80 columns."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__, _core, avg_pool_grad, draw, get_workers, max_pool, max_pool_grad, raw_ops, sliding
from ..op_table import OPS, Op
from .files import check_target, write_whole
from .picture import Screen

__all__ = ["add"]

PICTURE = (6, 16)  # cells of the terminal's pictures: 12 lines for two of them, beside twelve gradients
TIMED = (8, 56, 56, 64)  # a result of 6.4 MB, as inside a small network
TOLERANCE = 1e-9  # float64 and steps of 1/4: pooling is linear between ties, so the quotient is exact but for rounding


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Run every gradient on a small example, check it, time it and draw it."
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-o",
        "--output",
        "--svg",
        default="poolgrad-demo.svg",
        metavar="FILE",
        help="the picture (default: %(default)s)",
    )
    where.add_argument("--no-svg", action="store_true", help="write no picture")
    parser.set_defaults(command=_demo)


def _demo(options: argparse.Namespace) -> int:
    target = None if options.no_svg else check_target("--output", options.output, ".svg", "the picture is SVG")
    screen = Screen(sys.stdout)
    print(f"poolgrad {__version__}: pooling gradients on plain arrays ({_core.isa()}, workers: {get_workers()})")
    checks = {op.name: _difference(op) for op in OPS.values() if "Grad" in op.name}
    left = [f"{'gradient':26} {'off by':>8}"]
    left += [f"{name:26} {off:8.0e} {'ok' if off < TOLERANCE else 'WRONG'}" for name, off in checks.items()]
    right = _pictures(screen, target)
    for row in range(max(len(left), len(right))):
        print(f"{left[row] if row < len(left) else '':42}{right[row] if row < len(right) else ''}".rstrip())
    print("(off by: largest difference from numerical differentiation, float64)")
    print()
    for line in _times():
        print(line)
    if target is not None:
        here = "" if os.path.dirname(options.output) else ", in this folder"
        print(f"picture (--no-svg for none): {options.output}{here}")
    print("next: poolgrad run --help   (any of these on your own .npy files)")
    return 0 if max(checks.values()) < TOLERANCE else 1


# ---- numerical differentiation --------------------------------------------------------------------------------


def _difference(op: Op) -> float:
    """The largest difference of gradient ``op`` from numerical differentiation of the op it belongs to."""
    function = next(row for row in OPS.values() if row.gradient == op.name)
    arguments = _arguments(function)
    data = "grad" if "grad" in arguments else function.named("tensor")[0]
    result = _call(function, arguments)
    seed = np.random.default_rng(2).standard_normal(result["output"].shape)
    known = {**arguments, **result, "grad": seed}
    wired = {}
    for name, source in function.wiring.items():
        shape_of = source.removeprefix("shape of ")
        wired[name] = known[source] if shape_of == source else known[shape_of].shape
    kept = {name: value for name, value in arguments.items() if name in {a.name for a in op.arguments}}
    analytic = _call(op, {**kept, **wired})["output"]

    numeric = np.zeros_like(analytic)
    x = arguments[data].copy()
    for place in np.ndindex(x.shape):
        value = x[place]
        sums = []
        for step in (0.25, -0.25):
            x[place] = value + step
            sums.append(float((seed * _call(function, {**arguments, data: x})["output"]).sum()))
        x[place] = value
        numeric[place] = (sums[0] - sums[1]) / 0.5
    return float(np.abs(analytic - numeric).max())


def _arguments(op: Op) -> dict[str, Any]:
    """A small call of ``op``: overlapping windows, distinct numbers (no ties), drawn with fixed seeds."""
    rng = np.random.default_rng(1)
    shape = (1, *(5, 4, 3)[: op.spatial], 2)
    whole = [1, *(3, 2, 2)[: op.spatial], 1]
    arguments: dict[str, Any] = {"ksize": whole, "strides": [min(size, 2) for size in whole], "padding": "SAME"}
    arguments |= {
        "pooling_ratio": [1.0, 1.6, 1.3, 1.0],
        "deterministic": True,
        "seed": 1,
        "seed2": 2,
        "overlapping": True,
    }
    arguments = {name: value for name, value in arguments.items() if name in {a.name for a in op.arguments}}
    x = rng.permutation(float(np.prod(shape)) - np.arange(np.prod(shape))).reshape(shape)
    if "orig_input" in op.named("tensor") or "argmax" in op.named("indices"):
        forward = OPS["MaxPoolWithArgmax" if "argmax" in op.named("indices") else op.name.split("Grad")[0]]
        pooled = _call(forward, {**arguments, "input": x})
        arguments |= {"orig_input": x, "orig_output": pooled["output"], "input": x, "argmax": pooled.get("argmax")}
        side = op.argument("grad").side
        arguments["grad"] = rng.standard_normal(shape if side == "input" else pooled["output"].shape)
        return {name: value for name, value in arguments.items() if name in {a.name for a in op.arguments}}
    return {op.named("tensor")[0]: x, **arguments}


def _call(op: Op, arguments: dict[str, Any]) -> dict[str, Any]:
    names = {argument.name for argument in op.arguments}
    result = getattr(raw_ops, op.name)(**{name: value for name, value in arguments.items() if name in names})
    return result._asdict() if len(op.outputs) > 1 else {"output": result}


# ---- pictures and times ---------------------------------------------------------------------------------------


def _pictures(screen: Screen, target: Path | None) -> list[str]:
    """Gradients of an average and of a max as lines for the terminal; the max as SVG too."""
    w = sliding(PICTURE, window=3, stride=2, padding="SAME")
    x = np.random.default_rng(4).standard_normal(PICTURE)
    y, winners = max_pool(x, w, axes=(0, 1), return_winners=True)
    ones = np.ones_like(y)
    spread, won = avg_pool_grad(ones, w, axes=(0, 1)), max_pool_grad(ones, w, winners, axes=(0, 1))
    if target is not None:
        write_whole(target, lambda file: file.write(draw(w, x=x, grad=won).encode()))
    return ["an average's gradient, 3x3 step 2:", *screen.picture(spread), "a maximum's:", *screen.picture(won)]


def _times() -> list[str]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(TIMED, np.float32)
    sizes: dict[str, Any] = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    y = raw_ops.MaxPool(x, **sizes)
    out = np.empty_like(x)
    calls: dict[str, Callable[[], object]] = {
        "AvgPoolGrad": lambda: raw_ops.AvgPoolGrad(x.shape, y, **sizes, out=out),
        "MaxPoolGrad": lambda: raw_ops.MaxPoolGrad(x, y, y, **sizes, out=out),
    }
    limit = _best(lambda: _core.limit_copy(x.view(np.uint8), out, x.nbytes, out.nbytes, False, get_workers()))
    times = {name: _best(call) for name, call in calls.items()}
    return [
        f"to {'x'.join(map(str, TIMED))} float32: "
        + ", ".join(f"{name} {took * 1e3:.2f} ms" for name, took in times.items()),
        f"(copy limit here {limit * 1e3:.2f} ms: what copying an array of that size takes)",
    ]


def _best(call: Callable[[], object], repeats: int = 15) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
