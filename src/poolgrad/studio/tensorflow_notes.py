"""Where TensorFlow 2.21 cannot run a block on a CPU or gives another result: comments for exported scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping

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


def notes(plan: raw_ops.Plan) -> list[str]:
    """Comment lines for a planned call; none where TensorFlow runs it on a CPU with the same values."""
    op, dtype, attributes = plan.op.name, plan.dtype.name, plan.attributes
    found = []
    if op == "MaxPoolGradGradWithArgmax":
        found.append("TensorFlow has no CPU kernel for this op.")
    if str(attributes.get("data_format", "N...C")).startswith("NC"):
        layout = attributes["data_format"]
        found.append(f"TensorFlow has no CPU kernel for {layout} (with oneDNN it runs some ops in float32).")
    if dtype not in _CPU_DTYPES.get(op, (dtype,)):
        found.append(f"TensorFlow has no CPU kernel for {dtype} here; it takes {', '.join(_CPU_DTYPES[op])}.")
    if op == "MaxPool3DGrad":
        found.append("On ties (within 1e-5) TensorFlow gives each the whole gradient; poolgrad the first one alone.")
    cells = math.prod(size + 1 for size in plan.table.output_size)
    if op == "FractionalMaxPoolGrad" and cells > math.prod(plan.input_shape):
        found.append(f"TensorFlow refuses this: (rows + 1) * (columns + 1) = {cells} exceeds the input's elements.")
    return found
