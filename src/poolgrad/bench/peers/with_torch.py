"""PyTorch's kernels, called with ``out=`` as ours are; MODE is the memory format, "last" or "first"."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from child import numbers  # type: ignore[import-not-found]

torch: Any = None
channels_last = False


def start(mode: str, workers: int) -> dict[str, str]:
    global torch, channels_last
    torch = importlib.import_module("torch")
    torch.set_num_threads(workers)
    torch.set_grad_enabled(False)
    channels_last = mode == "last"
    return {"torch": torch.__version__}


def prepare(case: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    kind, step = case["kind"], case["step"]
    if case["ratio"]:
        raise NotImplementedError("PyTorch draws other cells")
    if kind == "max" and step == "gradient":
        raise NotImplementedError("PyTorch's max gradient starts from saved indices")
    if step == "ready":
        raise NotImplementedError("PyTorch has no ready table")
    ceil = _ceil_mode(case)
    rank = len(case["window"])
    dtype = getattr(torch, case["dtype"])
    window, stride, padding = case["window"], case["stride"], case["before"]
    family = f"{'avg' if kind == 'average' else 'max'}_pool{rank}d" + ("" if kind == "average" else "_with_indices")
    forward, backward = getattr(torch.ops.aten, family), getattr(torch.ops.aten, family + "_backward")
    rest: tuple[Any, ...]
    # Results are kept where a first call put them: PyTorch 2.13's avg_pool3d always answers channels first, and given
    # an `out` that is channels last it writes wrong numbers.
    x = _tensor(case["input"], dtype, 1)
    if kind == "average":
        rest = (window, stride, padding, ceil, False, None)  # padding is not counted, no divisor of its own
        if step == "forward":
            y = forward(x, *rest)
            return lambda: forward.out(x, *rest, out=y), _show
        grad = _tensor(case["output"], dtype, 2)
        if case["fresh"]:
            return lambda: backward(grad, x, *rest), _show
        dx = backward(grad, x, *rest)
        return lambda: backward.grad_input(grad, x, *rest, grad_input=dx), _show
    rest = (window, stride, padding, [1] * rank, ceil)  # 1: no dilation
    y, indices = forward(x, *rest)
    if step in ("forward", "winners"):
        return lambda: forward.out(x, *rest, out=y, indices=indices)[0], _show
    grad = _tensor(case["output"], dtype, 2)
    dx = backward(grad, x, *rest, indices)
    return lambda: backward.grad_input(grad, x, *rest, indices, grad_input=dx), _show


def _ceil_mode(case: dict[str, Any]) -> bool:
    """Which rounding of sizes gives these outputs: windows begin at -padding and are clipped, so no more is needed."""
    for ceil in (False, True):
        sizes = []
        rows = zip(case["input"][1:-1], case["window"], case["stride"], case["before"], strict=True)
        for size, window, stride, before in rows:
            steps = size + 2 * before - window
            count = (-(-steps // stride) if ceil else steps // stride) + 1
            sizes.append(count - 1 if ceil and (count - 1) * stride >= size + before else count)
        if sizes == list(case["output"][1:-1]):
            return ceil
    raise NotImplementedError("PyTorch has no such padding")


def _format(rank: int) -> Any:
    if not channels_last:
        return torch.contiguous_format
    return torch.channels_last if rank == 4 else torch.channels_last_3d


def _tensor(shape: list[int], dtype: Any, seed: int) -> Any:
    name = str(dtype).removeprefix("torch.")
    source = torch.from_numpy(numbers(shape, "float32" if name == "bfloat16" else name, seed)).to(dtype)
    return source.movedim(-1, 1).contiguous(memory_format=_format(len(shape)))


def _show(result: Any) -> Any:
    return np.asarray(result.movedim(1, -1).to(torch.float64).numpy())
