"""Scratch memory stays within 4 MiB a worker, whatever the shape; counted by the core's own allocation hook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poolgrad as pg
from poolgrad import _core, raw_ops

LIMIT = 4 << 20

#: name: sizes, window, stride, padding, array shape around them (before, after)
HOSTILE: dict[str, Any] = {
    "line of 10 million": ((10_000_000,), 5, 3, "SAME", (), ()),
    "line, stride 1": ((2_000_000,), 3, 1, "SAME", (), ()),
    "million channels": ((3, 4), 2, 1, "SAME", (), (1_000_000,)),
    "million channels, 1-D": ((5,), 3, 1, "SAME", (), (1_000_000,)),
    "huge window": ((2000, 1000), 1001, 500, "SAME", (), ()),
    "huge window, channels": ((200, 300), 2**31 - 1, 100, "SAME", (), (16,)),
    "million-long window": ((1_500_000,), 1_000_000, 250_000, "VALID", (), ()),
    "wide volume": ((3, 4, 100_000), 3, 1, "SAME", (), ()),
    "deep volume": ((20_000, 4, 5), (9, 2, 2), (1, 1, 1), "SAME", (), (3,)),
    "volume, wide rows of channels": ((4, 5, 6), 3, 1, "SAME", (), (20_000,)),
    "many small planes": ((7, 7), 3, 2, "SAME", (50_000,), ()),
    "one row": ((1, 1_000_000), (1, 9), (1, 2), "SAME", (), ()),
    "one column": ((1_000_000, 1), (9, 1), (1, 1), "SAME", (), ()),
    "huge stride": ((200_002,), 2, 200_000, "VALID", (), ()),
}


def peak(call: Any) -> int:
    _core.scratch_peak(True)
    call()
    return _core.scratch_peak(False)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(("kind", "workers"), [("float32", 1), ("float16", 3)])
def test_bound(name: str, kind: str, workers: int) -> None:
    sizes, window, stride, padding, before, after = HOSTILE[name]
    w = pg.sliding(sizes, window, stride, padding)
    axes = tuple(range(len(before), len(before) + len(sizes)))
    x = np.ones((*before, *sizes, *after), kind)
    grad = np.ones((*before, *w.output_size, *after), kind)
    winners = np.zeros(grad.shape, w.winner_dtype)
    out, pooled = np.empty_like(x), np.empty_like(grad)
    more: dict[str, Any] = {"axes": axes, "workers": workers}
    calls = {
        "avg_pool": lambda: pg.avg_pool(x, w, out=pooled, **more),
        "avg_pool_grad": lambda: pg.avg_pool_grad(grad, w, out=out, **more),
        "max_pool": lambda: pg.max_pool(x, w, return_winners=True, out=(pooled, winners), **more),
        "max_pool_grad": lambda: pg.max_pool_grad(grad, w, winners, out=out, **more),
        "take_winners": lambda: pg.take_winners(x, w, winners, out=pooled, **more),
    }
    for op, call in calls.items():
        used = peak(call)
        assert used <= LIMIT * workers, f"{op}: {used / 2**20:.1f} MiB with {workers} workers"


@pytest.mark.parametrize("channels", [1, 16, 300])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_bound_where_outputs_are_many(kind: str, channels: int) -> None:
    """Fourteen outputs for each input: rows of outputs are far longer than those of inputs."""
    w = pg.adaptive((600,), (8400,))
    x = np.ones((600, channels), kind)
    y, winners = pg.max_pool(x, w, axes=0, return_winners=True)
    assert peak(lambda: pg.max_pool_grad(y, w, winners, axes=0, workers=1)) <= LIMIT


@pytest.mark.parametrize("shape", [(1, 3000, 3000, 1), (1, 3, 4, 500_000), (4000, 7, 7, 8), (1, 1, 2_000_000, 1)])
def test_bound_of_max_gradients_from_the_input(shape: tuple[int, ...]) -> None:
    """MaxPoolGrad finds its winners tile by tile: no array of winners of the whole."""
    x = np.ones(shape, np.float32)
    size = [1, min(3, shape[1]), min(3, shape[2]), 1]
    y = raw_ops.MaxPool(x, size, size, "SAME")
    for workers in (1, 3):
        used = peak(lambda workers=workers: raw_ops.MaxPoolGrad(x, y, y, size, size, "SAME", workers=workers))
        assert used <= LIMIT * workers, f"{used / 2**20:.1f} MiB with {workers} workers"
    _, winners = pg.max_pool(x, pg.sliding(shape[1:3], size[1:3], None, "SAME"), axes=(1, 2), return_winners=True)
    assert winners.shape == y.shape


@pytest.mark.parametrize("kind", ["uint8", "int32", "int64"])
def test_bound_of_integers(kind: str) -> None:
    x = np.ones((3, 300_000), kind)
    w = pg.sliding(300_000, 7, 2, "SAME")
    grad = np.ones((3, w.output_size[0]), kind)
    for workers in (1, 3):
        assert peak(lambda workers=workers: pg.avg_pool(x, w, axes=1, workers=workers)) <= LIMIT * workers
        if kind != "uint8":
            used = peak(lambda workers=workers: pg.avg_pool_grad(grad, w, axes=1, workers=workers))
            assert used <= LIMIT * workers


def test_irregular_axis() -> None:
    """A million cells of 1 to 3 elements."""
    steps = np.random.default_rng(0).integers(1, 4, 1_000_000)
    sequence = np.concatenate([[0], np.cumsum(steps)])
    n = int(sequence[-1])
    w = pg.fractional(n, [sequence], overlapping=True)
    x = np.random.default_rng(1).standard_normal(n).astype(np.float32)
    for workers in (1, 3):
        assert peak(lambda workers=workers: pg.avg_pool(x, w, axes=0, workers=workers)) <= LIMIT * workers
    y = pg.avg_pool(x, w, axes=0)
    picks = np.random.default_rng(2).integers(0, 1_000_000 - 1, 50)
    for i in picks:
        start, stop = w.axes[0].window(int(i))
        assert abs(float(y[i]) - float(x[start:stop].astype(np.float64).mean())) < 1e-6


def test_the_hook_counts() -> None:
    """A bound on nothing would always hold."""
    x = np.ones((64, 300, 33), np.float32)
    used = [
        peak(lambda: pg.avg_pool(x, window=(3, 3), stride=1, axes=(0, 1), workers=1)),
        peak(lambda: pg.avg_pool_grad(x, input_size=(66, 302), window=3, stride=1, axes=(0, 1), workers=1)),
        peak(lambda: pg.max_pool(x, window=3, stride=1, axes=(0, 1), return_winners=True, workers=1)),
    ]
    assert max(used) > 0
