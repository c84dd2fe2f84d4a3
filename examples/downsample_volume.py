"""Downsample a memory-mapped volume in parts, and its gradient in parts: only a slab is in memory at a time.

A part of a table is a table: pooling the slab that ``part`` names gives the rows of the whole result, bit for bit, so
there is no overlap to configure and no seam to look for. The gradient goes the other way: ``cover`` says which outputs
reach a slab of the input.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import poolgrad as pg

SHAPE = (37, 96, 80)  # depth, height, width; stands for something larger than memory
SLAB = 4  # output planes at a time

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder)
    volume = np.lib.format.open_memmap(path / "volume.npy", "w+", np.uint8, SHAPE)
    volume[:] = np.random.default_rng(0).integers(0, 256, SHAPE, dtype=np.uint8)

    # Windows of 3 with step 2 overlap, so neighbouring slabs read a common plane; SAME cuts them at the edges.
    w = pg.sliding(SHAPE, window=3, stride=2, padding="SAME")
    print(w)

    # Forward. Integers are summed exactly; dtype=uint8 rounds the mean half to even.
    small = np.lib.format.open_memmap(path / "small.npy", "w+", np.uint8, w.output_size)
    for first in range(0, w.output_size[0], SLAB):
        last = min(first + SLAB, w.output_size[0])
        part, planes = w.part(0, first, last)
        pg.avg_pool(volume[planes], part, axes=(0, 1, 2), dtype=np.uint8, out=small[first:last])
    whole = pg.avg_pool(volume, w, axes=(0, 1, 2), dtype=np.uint8)
    assert (small == whole).all()
    print(f"forward in slabs of {SLAB}: {volume.shape} -> {small.shape}, equal to the whole bit for bit")

    # Gradient of the small volume, computed for a slab of the large one from the few planes that reach it.
    grad = np.random.default_rng(1).standard_normal(w.output_size).astype(np.float32)
    gradient = np.lib.format.open_memmap(path / "gradient.npy", "w+", np.float32, SHAPE)
    for first in range(0, SHAPE[0], 2 * SLAB):
        last = min(first + 2 * SLAB, SHAPE[0])
        outputs = w.cover(0, first, last)
        part, planes = w.part(0, outputs.start, outputs.stop)
        slab = pg.avg_pool_grad(grad[outputs], part, axes=(0, 1, 2))
        # The windows may begin before this slab or end within it; planes in a gap that no window reads get 0.
        begin, end = max(first, planes.start), min(last, planes.stop)
        gradient[first:last] = 0
        if begin < end:
            gradient[begin:end] = slab[begin - planes.start : end - planes.start]
    whole_gradient = pg.avg_pool_grad(grad, w, axes=(0, 1, 2))
    assert gradient.tobytes() == whole_gradient.tobytes()
    print(f"gradient in slabs of {2 * SLAB}: {grad.shape} -> {gradient.shape}, equal to the whole bit for bit")
