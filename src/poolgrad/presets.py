"""Windows as other libraries mean them: one function for each convention, each returns a `WindowTable`.

Arguments have the names and defaults of the library. The conventions differ in three things:

==========  ==========  ================  =====================================
function    stride      average counts    a last window that is not full
            left out    padding
==========  ==========  ================  =====================================
tensorflow  the window  never             with SAME
keras       the window  never             with same
torch       the window  by default        with ``ceil_mode``, if it starts in
                                          the input or the padding before it
onnx        1           on request        as torch, and with SAME_*
jax         1           by default        with SAME, SAME_LOWER
==========  ==========  ================  =====================================

Windows are intervals, so none of them has dilation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from . import makers
from .checks import Padding, Sizes, axis_sizes, choice
from .counting_presets import jax, onnx, torch
from .errors import bad_value
from .makers import named_sliding, sliding_table
from .window_table import WindowTable

__all__ = ["tensorflow", "keras", "torch", "onnx", "jax", "adaptive", "global_pool"]


def __dir__() -> list[str]:
    """What Tab shows: the public names."""
    return __all__


def tensorflow(
    input_size: Sizes, window: Sizes, stride: Sizes | None = None, padding: Padding = "VALID"
) -> WindowTable:
    """Windows of ``tf.nn.avg_pool`` and ``tf.nn.max_pool``: `sliding` under another name.

    Parameters
    ----------
    input_size : int or sequence of int
        Sizes of the pooled axes, one to three.
    window, stride : int or sequence of int
        For all axes or for each. ``stride=None`` is the window.
    padding : "VALID", "SAME" or sequence of (before, after)
        The pairs are TensorFlow's EXPLICIT, of the pooled axes only.

    Returns
    -------
    WindowTable

    Raises
    ------
    ValueError, TypeError
        As for `sliding`.

    Examples
    --------
    >>> import poolgrad as pg
    >>> pg.presets.tensorflow((5,), 3, 2, "SAME")
    WindowTable((5,) -> (3,): [0:2 1:4 3:5])
    """
    return named_sliding("presets.tensorflow", input_size, window, stride, padding)


def keras(input_size: Sizes, pool_size: Sizes, strides: Sizes | None = None, padding: str = "valid") -> WindowTable:
    """Windows of ``keras.layers.AveragePooling2D``, ``MaxPooling2D`` and their 1-D and 3-D kin.

    Parameters
    ----------
    input_size : int or sequence of int
        Sizes of the pooled axes, one to three.
    pool_size, strides : int or sequence of int
        For all axes or for each. ``strides=None`` is the window.
    padding : "valid" or "same"
        In lower case, as Keras has it.

    Returns
    -------
    WindowTable

    Raises
    ------
    ValueError
        For sizes below 1 and, as in Keras, a valid window larger than the input.
    TypeError
        For numbers that are not integers.

    Examples
    --------
    >>> import poolgrad as pg
    >>> pg.presets.keras((4, 5), pool_size=2, padding="same")
    WindowTable((4, 5) -> (2, 3): [0:2 2:4] x [0:2 2:4 4:5])
    """
    op = "presets.keras"
    sizes = axis_sizes(op, "input_size", input_size, None, 1)
    windows = axis_sizes(op, "pool_size", pool_size, len(sizes), 1)
    steps = windows if strides is None else axis_sizes(op, "strides", strides, len(sizes), 1)
    choice(op, "padding", padding, ("valid", "same"))
    for k, (n, window) in enumerate(zip(sizes, windows, strict=True)):
        if padding == "valid" and window > n:
            raise bad_value(op, "pool_size", pool_size, f"is larger than the {n} inputs of axis {k}; use 'same'")
    return sliding_table(op, sizes, windows, steps, padding.upper(), ("pool_size", "padding"))


def adaptive(input_size: Sizes, output_size: SupportsIndex | Sequence[SupportsIndex | None] | None) -> WindowTable:
    """Windows of torch's ``adaptive_avg_pool2d`` and ``adaptive_max_pool2d``: `poolgrad.adaptive` that takes None.

    Parameters
    ----------
    input_size : int or sequence of int
        Sizes of the pooled axes, one to three.
    output_size : int, None or sequence of them
        None keeps the size of an axis.

    Returns
    -------
    WindowTable

    Raises
    ------
    ValueError, TypeError
        As for `poolgrad.adaptive`.

    Examples
    --------
    >>> import poolgrad as pg
    >>> pg.presets.adaptive((7, 2), (3, None))
    WindowTable((7, 2) -> (3, 2): [0:3 2:5 4:7] x [0:1 1:2])
    """
    op = "presets.adaptive"
    sizes = axis_sizes(op, "input_size", input_size, None, 1)
    wanted: object = sizes if output_size is None else output_size
    if isinstance(wanted, (list, tuple)):
        if len(wanted) != len(sizes):
            raise bad_value(op, "output_size", wanted, f"has {len(wanted)} entries; give one number or {len(sizes)}")
        wanted = [n if entry is None else entry for n, entry in zip(sizes, wanted, strict=True)]
    return makers.adaptive(sizes, axis_sizes(op, "output_size", wanted, len(sizes), 1))


def global_pool(input_size: Sizes) -> WindowTable:
    """One window over all: ``GlobalAveragePool`` of ONNX, ``GlobalAveragePooling2D`` of Keras, the mean of each map.

    Parameters
    ----------
    input_size : int or sequence of int
        Sizes of the pooled axes, one to three.

    Returns
    -------
    WindowTable

    Raises
    ------
    ValueError
        For sizes below 1.
    TypeError
        For numbers that are not integers.

    Examples
    --------
    >>> import poolgrad as pg
    >>> pg.presets.global_pool((7, 5))
    WindowTable((7, 5) -> (1, 1): [0:7] x [0:5])
    """
    return makers.adaptive(axis_sizes("presets.global_pool", "input_size", input_size, None, 1), 1)
