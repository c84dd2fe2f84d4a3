"""Where TensorFlow 2.21 cannot run a block on a CPU or gives another result: comments for exported scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from poolgrad import raw_ops

_FLOATS_3D = ("float32", "bfloat16")
_FRACTIONAL = ("float32", "float64", "int32", "int64")
_FORWARD_MAX = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "int64"]

#: Dtypes that have a CPU kernel, for the ops that take fewer there than here.
_CPU_DTYPES: Mapping[str, tuple[str, ...] | list[str]] = {
    **dict.fromkeys(("AvgPool3D", "AvgPool3DGrad", "MaxPool3D", "MaxPool3DGrad", "MaxPool3DGradGrad"), _FLOATS_3D),
    **dict.fromkeys(("MaxPool", "MaxPoolV2"), _FORWARD_MAX),
    **dict.fromkeys(
        ("FractionalAvgPool", "FractionalMaxPool", "FractionalAvgPoolGrad", "FractionalMaxPoolGrad"), _FRACTIONAL
    ),
}


#: The ops that oneDNN runs with the channels first, in float32 and on some CPUs in float16 and bfloat16.
_CHANNELS_FIRST_WITH_ONEDNN = ("AvgPool", "AvgPoolGrad", "AvgPool3D", "AvgPool3DGrad", "MaxPool", "MaxPool3D")


def notes(plan: raw_ops.Plan, has_nan: bool) -> list[str]:
    """Comment lines for a planned call; none where TensorFlow runs it on a CPU with the same values.

    ``has_nan`` says whether some tensor that reaches the call holds a NaN.
    """
    op, dtype = plan.op.name, plan.dtype.name
    found = []
    if op == "MaxPoolGradGradWithArgmax":
        found.append("TensorFlow has no CPU kernel for this op.")
    found += _layout(plan)
    if dtype not in _CPU_DTYPES.get(op, (dtype,)):
        found.append(f"TensorFlow has no CPU kernel for {dtype} here; it takes {', '.join(_CPU_DTYPES[op])}.")
    if op in ("AvgPool3D", "MaxPool3D") and any(axis.is_shifted for axis in _same_axes(plan)):
        found.append("With TF_ENABLE_ONEDNN_OPTS=0, and by default on CPUs without AVX512_VNNI or the like, TensorFlow")
        found.append("shifts the windows of this call (3-D SAME, stride larger than the window): the values differ.")
    if op in ("AvgPoolGrad", "AvgPool3DGrad", "MaxPool3DGrad") and any(axis.is_too_long for axis in _same_axes(plan)):
        found.append("Without oneDNN TensorFlow takes too long windows here (SAME, window larger than the input):")
        found.append("the values differ.")
    if "Avg" in op and dtype in ("float16", "bfloat16"):
        found.append(f"With TF_ENABLE_ONEDNN_OPTS=0, and by default on CPUs not made for {dtype}, TensorFlow sums in")
        found.append(f"{dtype} itself; poolgrad sums in float32 and rounds once: the values differ by some percent.")
    if op == "MaxPool3DGrad":
        found.append("On ties (within 1e-5) TensorFlow gives each the whole gradient; poolgrad the first one alone.")
    if has_nan and "Max" in op:
        found.append("There is a NaN among the inputs. Here the first NaN of a window wins; TensorFlow's MaxPool skips")
        found.append("NaN, its argmax and gradients keep only a NaN that comes first: the values differ.")
    cells = math.prod(size + 1 for size in plan.table.output_size)
    if op == "FractionalMaxPoolGrad" and cells > math.prod(plan.input_shape):
        found.append(f"TensorFlow refuses this: (rows + 1) * (columns + 1) = {cells} exceeds the input's elements.")
    return found


def _layout(plan: raw_ops.Plan) -> list[str]:
    layout = str(plan.attributes.get("data_format", ""))
    if not layout.startswith("NC"):
        return []
    if plan.op.format_is_extra:
        return [f"TensorFlow's op has no data_format: it reads these {layout} tensors as NHWC, and the values differ."]
    if plan.op.name in _CHANNELS_FIRST_WITH_ONEDNN and plan.dtype.name in ("float32", "float16", "bfloat16"):
        narrow = "" if plan.dtype.name == "float32" else f" and a CPU made for {plan.dtype.name}"
        return [f"On a CPU TensorFlow runs {layout} with oneDNN only (TF_ENABLE_ONEDNN_OPTS=1){narrow}."]
    return [f"TensorFlow has no CPU kernel for {layout} here."]


@dataclass(frozen=True)
class _SameAxis:
    """One axis under SAME; ``padding`` is what it would pad in all, before that is cut off at 0."""

    size: int
    window: int
    stride: int
    padding: int

    @property
    def is_shifted(self) -> bool:
        """TensorFlow's own 3-D kernels halve the padding although it is negative."""
        return self.padding <= -2

    @property
    def is_too_long(self) -> bool:
        """Some window begins before the input, ends within it, and is taken for one that covers all of it."""
        before = max(self.padding, 0) // 2
        starts = range(0, before, self.stride) if self.window > self.size else ()
        return any(self.window + start - before < self.size for start in starts)


def _same_axes(plan: raw_ops.Plan) -> list[_SameAxis]:
    """The axes of a SAME pooling; none for another padding."""
    if plan.attributes.get("padding") != "SAME":
        return []
    axes = []
    for axis in plan.table.axes:
        if axis.rule is not None:
            window, stride = axis.rule[2], axis.rule[3]
            padding = (axis.output_size - 1) * stride + window - axis.input_size
            axes.append(_SameAxis(axis.input_size, window, stride, padding))
    return axes
