"""The process of one peer: ``python child.py tensorflow|torch|jax MODE WORKERS``. It is told and answers lines of JSON:

- ``{"do": "prepare", "case": {...}}``: ``{"sample": [...]}`` or ``{"unsupported": "why"}``
- ``{"do": "burst", "seconds": 0.03}``: ``{"best": seconds a call}``
- ``{"do": "drop"}``: ``{}``
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

PERIOD = 1_000_003  # a prime, so that no row of a tensor repeats another
SAMPLES = 64


def numbers(shape: Any, dtype: Any, seed: int) -> Any:
    """An array of reproducible numbers: a block of random ones, repeated (drawing gigabytes would take minutes)."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        block = random.integers(0 if kind.kind == "u" else -100, 101, PERIOD).astype(kind)
    else:
        block = random.standard_normal(PERIOD, np.float32).astype(kind)
    result = np.empty(shape, kind)
    flat = result.reshape(-1)
    for begin in range(0, flat.size, PERIOD):
        piece = flat[begin : begin + PERIOD]
        piece[:] = block[: piece.size]
    return result


def sample(result: Any) -> list[float]:
    """A few elements of a channels-last result, by which two implementations are compared."""
    flat = np.asarray(result).reshape(-1)
    return [float(number) for number in flat[:: max(1, flat.size // SAMPLES)][:SAMPLES]]


def calibrate(call: Callable[[], object]) -> int:
    """How many calls make a sample of 100 microseconds, so that the clock does not count."""
    for _ in range(2):  # the first may have something to set up
        begin = time.perf_counter()
        call()
        seconds = time.perf_counter() - begin
        if seconds > 0.1:
            break
    return max(1, int(100e-6 / max(seconds, 1e-8)))


def burst(call: Callable[[], object], seconds: float, count: int) -> float:
    """The best time of a call over so many seconds, at least one sample."""
    best = float("inf")
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        while True:
            begin = time.perf_counter()
            for _ in range(count):
                call()
            now = time.perf_counter()
            best = min(best, (now - begin) / count)
            if now >= end:
                return best
    finally:
        gc.enable()


def main() -> None:
    name, mode, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a framework prints must not look like an answer

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    if hasattr(os, "sched_setaffinity"):
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cpus[: max(1, workers)])
    try:
        peer = importlib.import_module(f"with_{name}")
        answer({"versions": peer.start(mode, workers)})
    except Exception as error:
        answer({"missing": f"{type(error).__name__}: {error}"[:200]})
        return
    call: Any = None
    count = 1
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "burst":
            answer({"best": burst(call, message["seconds"], count)})
            continue
        call = None
        gc.collect()
        if message["do"] == "drop":
            answer({})
            continue
        try:
            call, show = peer.prepare(message["case"])
            seen = sample(show(call()))
            count = calibrate(call)
            answer({"sample": seen})
        except Exception as error:
            call = None
            word = "" if isinstance(error, NotImplementedError) else f"{type(error).__name__}: "
            answer({"unsupported": (word + " ".join(str(error).split()))[:200]})


if __name__ == "__main__":
    main()
