"""Forward, gradient, indices and second order against PyTorch, and its tensors as arguments."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import reference
from cases import random_values
from reference import Array, Windows, assert_close, assert_same_bits

import poolgrad as pg

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("ignore")]  # PyTorch's own warnings
SECONDS = 35  # for each of the random comparisons, which stop at their count before


@pytest.fixture
def torch(need: Callable[[str], None]) -> Any:
    need("torch")
    import torch

    torch.set_num_threads(1)
    return torch


def tensor(torch: Any, array: Array) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def numbers(torch: Any, value: Any) -> Array:
    if value.dtype == torch.bfloat16:
        return value.detach().contiguous().view(torch.int16).numpy().view(reference.dtype("bfloat16"))
    return value.detach().numpy()


def geometry(rng: np.random.Generator, spatial: int) -> tuple[list[int], list[int], list[int], list[int], Windows]:
    """Sizes, windows, strides and PyTorch's symmetric padding, at most half a window."""
    while True:
        sizes = rng.integers(1, 14 if spatial < 3 else 7, spatial).tolist()
        windows, strides = rng.integers(1, 6, spatial).tolist(), rng.integers(1, 5, spatial).tolist()
        pads = [int(rng.integers(0, k // 2 + 1)) for k in windows]
        if all(n >= k or (spatial < 3 and n + 2 * p >= k) for n, k, p in zip(sizes, windows, pads, strict=True)):
            rows = zip(sizes, windows, strides, pads, strict=True)
            return sizes, windows, strides, pads, [reference.sliding(n, k, s, (p, p)) for n, k, s, p in rows]


def cases(seed: int, count: int, kinds: tuple[str, ...]) -> Any:
    rng = np.random.default_rng(seed)
    began = time.monotonic()
    for number in range(count):
        if time.monotonic() - began > SECONDS:
            return
        spatial = int(rng.integers(1, 4))
        kind = str(rng.choice([kind for kind in kinds if spatial < 3 or kind in ("float32", "float64")]))
        sizes, windows, strides, pads, table = geometry(rng, spatial)
        x = random_values(rng, (int(rng.integers(1, 3)), int(rng.choice([1, 3, 8, 9])), *sizes), reference.dtype(kind))
        w = pg.sliding(sizes, windows, strides, [(p, p) for p in pads])
        axes = tuple(range(2, 2 + spatial))
        call = f"seed {seed}, case {number}: {kind} {x.shape}, window {windows}, stride {strides}, padding {pads}"
        yield rng, spatial, x, w, table, axes, (windows, strides, pads), call


def all_terms(exact: reference.Exact, spatial: int) -> reference.Exact:
    """PyTorch adds all terms of a window one after another, in the storage type."""
    return exact._replace(terms=exact.terms**spatial)


def test_averages(torch: Any, seed: int) -> None:
    functional, seen = torch.nn.functional, Counter()
    for rng, spatial, x, w, windows, axes, (size, stride, pad), call in cases(seed, 1500, reference.FLOATS):
        given = tensor(torch, x).requires_grad_()
        theirs = getattr(functional, f"avg_pool{spatial}d")(given, size, stride, pad, count_include_pad=False)
        ours = pg.avg_pool(x, w, axes=axes)
        exact = reference.avg_pool(x, windows, 2)
        assert_close(ours, exact, note=call)
        assert_close(numbers(torch, theirs), all_terms(exact, spatial), sums_in=x.dtype, note=f"PyTorch, {call}")
        g = random_values(rng, ours.shape, x.dtype)
        (back,) = torch.autograd.grad(theirs, given, tensor(torch, g))
        exact = reference.avg_pool_grad(g, windows, 2, x.shape[2:])
        assert_close(pg.avg_pool_grad(g, w, axes=axes), exact, note=call)
        assert_close(numbers(torch, back), all_terms(exact, spatial), sums_in=x.dtype, note=f"PyTorch, {call}")
        seen[spatial] += 1
        seen["gaps"] += any(s > k for s, k in zip(stride, size, strict=True))
        seen["padding"] += any(pad)
    print(f"POOLGRAD_SEED={seed}", dict(seen))
    assert all(seen[name] > 20 for name in (1, 2, 3, "gaps", "padding"))


def test_maxima_and_indices(torch: Any, seed: int) -> None:
    functional, seen = torch.nn.functional, Counter()
    for rng, spatial, x, w, _, axes, (size, stride, pad), call in cases(seed, 1500, ("float32", "float64", "bfloat16")):
        given = tensor(torch, x).requires_grad_()
        theirs, indices = getattr(functional, f"max_pool{spatial}d")(given, size, stride, pad, return_indices=True)
        ours, winners = pg.max_pool(x, w, axes=axes, return_winners=True)
        assert_same_bits(ours, numbers(torch, theirs), call)
        assert_same_bits(pg.winners_to_indices(winners, w, "torch", axes=axes), indices.numpy(), call)
        assert_same_bits(pg.indices_to_winners(indices, w, "torch", axes=axes), winners, call)
        g = random_values(rng, ours.shape, x.dtype)
        dx = pg.max_pool_grad(g, w, winners, axes=axes)
        assert_same_bits(dx, reference.scatter(g, indices.numpy(), 2, spatial, x.shape[2:]), call)
        (back,) = torch.autograd.grad(theirs, given, tensor(torch, g))
        if x.dtype.itemsize > 2:  # PyTorch adds bfloat16 gradients in bfloat16
            np.testing.assert_array_equal(dx, numbers(torch, back), call)
            seen["gradient"] += 1
        seen["ties"] += len(np.unique(x)) < x.size
        seen[spatial] += 1
    print(f"POOLGRAD_SEED={seed}", dict(seen))
    assert all(seen[name] > 20 for name in (1, 2, 3, "ties", "gradient"))


def test_adaptive(torch: Any, seed: int) -> None:
    functional, rng = torch.nn.functional, np.random.default_rng(seed)
    for number in range(300):
        spatial = int(rng.integers(1, 4))
        sizes, outputs = (rng.integers(1, 9, spatial).tolist() for _ in range(2))
        x = rng.standard_normal((2, 3, *sizes))
        w = pg.adaptive(sizes, outputs)
        axes = tuple(range(2, 2 + spatial))
        call = f"POOLGRAD_SEED={seed}, case {number}: {sizes} to {outputs}"
        given = tensor(torch, x).requires_grad_()
        theirs = getattr(functional, f"adaptive_avg_pool{spatial}d")(given, outputs)
        np.testing.assert_allclose(
            pg.avg_pool(x, w, axes=axes), numbers(torch, theirs), rtol=1e-12, atol=1e-13, err_msg=call
        )
        g = rng.standard_normal(theirs.shape)
        (back,) = torch.autograd.grad(theirs, given, tensor(torch, g))
        np.testing.assert_allclose(
            pg.avg_pool_grad(g, w, axes=axes), numbers(torch, back), rtol=1e-12, atol=1e-13, err_msg=call
        )
        theirs, indices = getattr(functional, f"adaptive_max_pool{spatial}d")(given, outputs, return_indices=True)
        y, winners = pg.max_pool(x, w, axes=axes, return_winners=True)
        assert_same_bits(y, numbers(torch, theirs), call)
        assert_same_bits(pg.winners_to_indices(winners, w, "torch", axes=axes), indices.numpy(), call)


def test_second_order(torch: Any, seed: int) -> None:
    """The gradient of the gradient: avg_pool for an average, take_winners for a maximum."""
    functional = torch.nn.functional
    for rng, spatial, x, w, _, axes, (size, stride, pad), call in cases(seed, 300, ("float64",)):
        v = rng.standard_normal(x.shape)
        given = tensor(torch, x).requires_grad_()
        for name in ("avg", "max"):
            more = {"count_include_pad": False} if name == "avg" else {}
            y = getattr(functional, f"{name}_pool{spatial}d")(given, size, stride, pad, **more)
            g = torch.ones_like(y, requires_grad=True)
            (dx,) = torch.autograd.grad(y, given, g, create_graph=True)
            (second,) = torch.autograd.grad(dx, g, tensor(torch, v))
            if name == "avg":
                ours = pg.avg_pool(v, w, axes=axes)
            else:
                _, winners = pg.max_pool(x, w, axes=axes, return_winners=True)
                ours = pg.take_winners(v, w, winners, axes=axes)
            np.testing.assert_allclose(ours, numbers(torch, second), rtol=1e-12, atol=1e-13, err_msg=call)


@pytest.mark.parametrize("kind", [*reference.FLOATS, "int8", "uint8", "int16", "int32", "int64"])
def test_tensors_as_arguments(torch: Any, kind: str) -> None:
    x = random_values(np.random.default_rng(1), (2, 3, 6, 8), reference.dtype(kind))
    right = pg.max_pool(x, window=2, data_format="NCHW")
    given = tensor(torch, x)
    views = [
        given,
        given.contiguous(memory_format=torch.channels_last),
        given.transpose(2, 3).contiguous().transpose(2, 3),
    ]
    for view in views:
        assert_same_bits(pg.max_pool(view, window=2, data_format="NCHW"), right)
        raw = pg.raw_ops.MaxPool(view, [1, 1, 2, 2], [1, 1, 2, 2], "VALID", data_format="NCHW")
        assert_same_bits(raw, right)


def test_tensors_refused(torch: Any) -> None:
    x = torch.ones(1, 1, 4, 4, requires_grad=True)
    with pytest.raises(TypeError, match=r"requires grad; pass x.detach\(\)"):
        pg.avg_pool(x, window=2, data_format="NCHW")
    pg.avg_pool(x.detach(), window=2, data_format="NCHW")
    with pytest.raises(TypeError, match=r"pass x.to_dense\(\)"):
        pg.avg_pool(torch.ones(4, 4).to_sparse(), window=2, axes=(0, 1))
    with pytest.raises(TypeError, match="^avg_pool: x"):
        pg.avg_pool(torch.ones(4, 4, device="meta"), window=2, axes=(0, 1))
    with pytest.raises(TypeError, match="^avg_pool: x has dtype complex64"):
        pg.avg_pool(torch.ones(4, 4, dtype=torch.complex64), window=2, axes=(0, 1))


def test_data_loader_workers(torch: Any) -> None:
    """PyTorch's loaders fork; a child pools with threads of its own."""
    images = np.random.default_rng(0).standard_normal((8, 64, 64, 16)).astype(np.float32)
    expected = [pg.avg_pool(image, window=2, axes=(0, 1), workers=2) for image in images]

    class Pooled(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return len(images)

        def __getitem__(self, number: int) -> Array:
            return pg.avg_pool(images[number], window=2, axes=(0, 1), workers=2)

    loader = torch.utils.data.DataLoader(Pooled(), batch_size=2, num_workers=2)
    results = list(itertools.chain.from_iterable(loader))
    for result, right in zip(results, expected, strict=True):
        assert_same_bits(result.numpy(), right)
