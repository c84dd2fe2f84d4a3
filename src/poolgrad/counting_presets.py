"""The presets whose averages may count padding, those of torch, ONNX and JAX, and the table that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from . import _core
from .checks import Padding, Sizes, axis_paddings, axis_sizes, choice, integer, integers
from .errors import bad_type, bad_value
from .window_table import WindowTable

__all__ = ["torch", "onnx", "jax"]

LARGEST_COUNTED = 2**40  # sizes below it: outputs times stride and all sums stay far below 2**62


def torch(
    input_size: Sizes,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: SupportsIndex | None = None,
) -> WindowTable:
    """Windows of ``torch.nn.functional.avg_pool2d``, ``max_pool2d`` and their 1-D and 3-D kin.

    Parameters
    ----------
    input_size : int or sequence of int
        Sizes of the pooled axes, one to three.
    kernel_size, stride, padding : int or sequence of int
        For all axes or for each. ``stride=None`` is the kernel. Padding lies on both sides and is at most half
        of the kernel.
    dilation : int or sequence of int
        Only 1: windows are intervals.
    ceil_mode : bool
        Keep a last window that is not full, if it starts in the input or the padding before it.
    count_include_pad : bool
        Whether an average counts padding. What ``ceil_mode`` adds beyond the padding never counts.
    divisor_override : int, optional
        Divide every window by this instead.

    Returns
    -------
    WindowTable

    Raises
    ------
    ValueError
        Where torch refuses the sizes (but for ``avg_pool3d``, which alone refuses a kernel larger than the unpadded
        input); for dilation, and for numbers from 2**40.
    TypeError
        For numbers that are not integers.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> w = pg.presets.torch((6,), kernel_size=3, stride=2, padding=1, ceil_mode=True)
    >>> w
    WindowTable((6,) -> (4,): [0:2 1:4 3:6 5:6])
    >>> [w.axes[0].divisor(i) for i in range(4)]
    [3, 3, 3, 2]
    >>> pg.avg_pool(np.ones(6), w, axes=0).round(2)
    array([0.67, 1.  , 1.  , 0.5 ])
    """
    op = "presets.torch"
    sizes = axis_sizes(op, "input_size", input_size, None, 1)
    rank = len(sizes)
    windows = axis_sizes(op, "kernel_size", kernel_size, rank, 1)
    steps = windows if stride is None else axis_sizes(op, "stride", stride, rank, 1)
    pads = axis_sizes(op, "padding", padding, rank, 0)
    _refuse_dilation(op, "dilation", dilation, rank)
    ceil, include = _flag(op, "ceil_mode", ceil_mode), _flag(op, "count_include_pad", count_include_pad)
    for k, (window, pad) in enumerate(zip(windows, pads, strict=True)):
        if 2 * pad > window:
            raise bad_value(
                op, "padding", padding, f"is more than half of kernel_size {window} (axis {k}); torch takes up to half"
            )
    names = ("kernel_size", "stride", "padding")
    table = _counting_table(op, names, sizes, windows, steps, [(pad, pad) for pad in pads], ceil, include)
    if divisor_override is None:
        return table
    return table.with_divisor(integer(op, "divisor_override", divisor_override, least=1))


def onnx(
    input_size: Sizes,
    kernel_shape: Sizes,
    strides: Sizes | None = None,
    auto_pad: str = "NOTSET",
    pads: Sequence[SupportsIndex] | None = None,
    ceil_mode: SupportsIndex = 0,
    count_include_pad: SupportsIndex = 0,
    dilations: Sizes | None = None,
) -> WindowTable:
    """Windows of ONNX ``AveragePool`` and ``MaxPool``, by the text of the operators.

    Parameters
    ----------
    input_size : int or sequence of int
        Sizes of the pooled axes, one to three.
    kernel_shape, strides : int or sequence of int
        For all axes or for each. ``strides=None`` is 1.
    auto_pad : "NOTSET", "VALID", "SAME_UPPER" or "SAME_LOWER"
        Where SAME padding is odd, UPPER puts the larger half after the input and LOWER before it. It must not come out
        negative (a stride beyond the window): there the text gives no answer and runtimes disagree.
    pads : sequence of int, optional
        With NOTSET: the begin of every axis, then the end of every axis.
    ceil_mode : 0 or 1
        Keep a last window that is not full, if it starts before the padding at the end. Changes nothing with
        ``auto_pad``.
    count_include_pad : 0 or 1
        Whether an average counts padding. What ``ceil_mode`` adds beyond ``pads`` never counts.
    dilations : int or sequence of int, optional
        Only 1: windows are intervals.

    Returns
    -------
    WindowTable

    Raises
    ------
    ValueError
        For a window larger than the padded input, or wholly in padding; for dilation, and for numbers from 2**40.
    TypeError
        For numbers that are not integers.

    Notes
    -----
    The reference evaluator of onnx 1.23 departs from the text: in an average with ``ceil_mode`` whose last window
    misses two or more elements it moves all windows to the left; in a max with strides of 1 it misreads
    ``pads`` and, but for two axes, fails with SAME; with larger strides SAME_LOWER has outputs too few.
    onnxruntime 1.31 has these right, but with VALID and ``ceil_mode`` keeps a last window that is not full.

    Examples
    --------
    >>> import poolgrad as pg
    >>> pg.presets.onnx((6,), [3], strides=[2], pads=[0, 1])
    WindowTable((6,) -> (3,): [0:3 2:5 4:6])
    >>> pg.presets.onnx((4,), [2], auto_pad="SAME_LOWER")
    WindowTable((4,) -> (4,): [0:1 0:2 1:3 2:4])
    """
    op = "presets.onnx"
    sizes = axis_sizes(op, "input_size", input_size, None, 1)
    rank = len(sizes)
    windows = axis_sizes(op, "kernel_shape", kernel_shape, rank, 1)
    steps = (1,) * rank if strides is None else axis_sizes(op, "strides", strides, rank, 1)
    _refuse_dilation(op, "dilations", 1 if dilations is None else dilations, rank)
    ceil, include = _flag(op, "ceil_mode", ceil_mode), _flag(op, "count_include_pad", count_include_pad)
    numbers = (0,) * (2 * rank) if pads is None else integers(op, "pads", pads, least=0)
    if len(numbers) != 2 * rank:
        raise bad_value(
            op, "pads", pads, f"has {len(numbers)} entries; give {2 * rank}: the begin of every axis, then every end"
        )
    choice(op, "auto_pad", auto_pad, ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if auto_pad != "NOTSET" and any(numbers):
        raise bad_value(op, "pads", pads, f"cannot be used together with auto_pad={auto_pad!r}; leave one out")
    pairs = list(zip(numbers[:rank], numbers[rank:], strict=True))
    if auto_pad.startswith("SAME"):
        pairs = _same_pads(sizes, windows, steps, lower=auto_pad == "SAME_LOWER")
        for k, (n, window, step) in enumerate(zip(sizes, windows, steps, strict=True)):
            if (-(-n // step) - 1) * step + window < n:
                raise bad_value(
                    op,
                    "auto_pad",
                    auto_pad,
                    f"would pad axis {k} (kernel {window}, stride {step}, input {n}) by less than nothing; "
                    f"use 'VALID', which gives as many outputs there",
                )
    ceil = ceil and auto_pad == "NOTSET"
    names = ("kernel_shape", "strides", "pads")
    return _counting_table(op, names, sizes, windows, steps, pairs, ceil, include, least=0)


def jax(
    input_size: Sizes,
    window_dimensions: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "VALID",
    count_include_pad: bool = True,
) -> WindowTable:
    """Windows of ``flax.linen.avg_pool``, ``max_pool`` and of ``jax.lax.reduce_window`` over the pooled axes.

    Parameters
    ----------
    input_size : int or sequence of int
        Sizes of the pooled axes, one to three.
    window_dimensions, strides : int or sequence of int
        For all axes or for each. ``strides=None`` is 1.
    padding : "VALID", "SAME", "SAME_LOWER" or sequence of (low, high)
        Where SAME padding is odd, the larger half lies after the input, with SAME_LOWER before it.
    count_include_pad : bool
        Whether an average counts padding, as flax has it: True divides by the whole window everywhere.

    Returns
    -------
    WindowTable

    Raises
    ------
    ValueError
        For sizes below 1, a window wholly in padding, negative padding, and numbers from 2**40.
    TypeError
        For numbers that are not integers.

    Examples
    --------
    >>> import poolgrad as pg
    >>> w = pg.presets.jax((4,), 3, 2, "SAME")
    >>> w
    WindowTable((4,) -> (2,): [0:3 2:4])
    >>> w.axes[0].divisor(1)
    3
    """
    op = "presets.jax"
    sizes = axis_sizes(op, "input_size", input_size, None, 0)
    rank = len(sizes)
    windows = axis_sizes(op, "window_dimensions", window_dimensions, rank, 1)
    steps = (1,) * rank if strides is None else axis_sizes(op, "strides", strides, rank, 1)
    include = _flag(op, "count_include_pad", count_include_pad)
    given = "SAME" if isinstance(padding, str) and padding == "SAME_LOWER" else axis_paddings(op, padding, rank)
    if given == "SAME":
        pairs = _same_pads(sizes, windows, steps, lower=padding == "SAME_LOWER")
    else:
        pairs = [(0, 0)] * rank if isinstance(given, str) else given
    names = ("window_dimensions", "strides", "padding")
    return _counting_table(op, names, sizes, windows, steps, pairs, False, include, least=-LARGEST_COUNTED)


# ---- what torch, ONNX and JAX share: padding that may count -----------------------------------------------------


def _counting_table(
    op: str,
    names: tuple[str, str, str],
    sizes: Sequence[int],
    windows: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    ceil: bool,
    include: bool,
    least: int = 1,
) -> WindowTable:
    """The windows of padded axes; ``names`` are the words of ``op`` for window, stride and padding.

    ``least`` is how many outputs the formula of ``op`` must come to; below 1 they are none.
    """
    axes = []
    for k, (n, window, stride, pad) in enumerate(zip(sizes, windows, strides, pads, strict=True)):
        before, after = pad
        for name, number in zip(("input_size", *names), (n, window, stride, max(pad)), strict=True):
            if number >= LARGEST_COUNTED:
                raise bad_value(op, name, number, "is too large; sizes stay below 2**40")
        room = n + before + after - window + (stride - 1 if ceil else 0)
        m = room // stride + 1
        if ceil:  # windows that would start in the padding after the input do not count
            m = min(m, -(-(n + before) // stride))
        if m < least:
            raise bad_value(
                op,
                names[0],
                window,
                f"on an input of {n} (axis {k}) with {names[2]} {pad} gives {m} outputs; use a smaller one",
            )
        if m <= 0:
            axes.append(_core.Axis.regular(n, 0, 1, 1, 0))
            continue
        if n == 0 or window <= before or (m - 1) * stride - before >= n:
            raise bad_value(
                op,
                names[2],
                pad,
                f"leaves a window of {window} (stride {stride}) wholly outside the {n} inputs of axis {k}; "
                f"keep it below the window",
            )
        counted = pad if include else (0, 0)
        axes.append(_core.Axis.regular(n, m, window, stride, before, *counted))
    return WindowTable(axes)


def _same_pads(
    sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int], lower: bool
) -> list[tuple[int, int]]:
    """Padding that makes ``ceil(n / stride)`` outputs; an odd one is larger after the input, or before (lower)."""
    pairs = []
    for n, window, stride in zip(sizes, windows, strides, strict=True):
        total = max(0, (-(-n // stride) - 1) * stride + window - n)
        before = (total + lower) // 2
        pairs.append((before, total - before))
    return pairs


def _flag(op: str, argument: str, value: object) -> bool:
    """A bool, or ONNX's 0 or 1."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)) and integer(op, argument, value) in (0, 1):
        return integer(op, argument, value) == 1
    raise bad_type(op, argument, value, "is not a flag; use True or False")


def _refuse_dilation(op: str, argument: str, value: object, rank: int) -> None:
    step = max(axis_sizes(op, argument, value, rank, 1))
    if step > 1:
        raise bad_value(
            op,
            argument,
            value,
            f"is not supported: a window must be an interval, and a dilated one has holes; with stride 1 pool "
            f"each slice x[r::{step}] of that axis undilated: its outputs are y[r::{step}]",
        )
