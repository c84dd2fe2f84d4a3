"""Made from the op table by tools/make_stubs.py."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from .plans import Plan as Plan
from .plans import Spec as Spec

_Array: TypeAlias = npt.NDArray[Any]
_Integers: TypeAlias = Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]
_Numbers: TypeAlias = Sequence[float | np.floating[Any] | np.integer[Any]] | npt.NDArray[np.floating[Any]]

__all__ = [
    "AvgPool",
    "AvgPoolGrad",
    "AvgPool3D",
    "AvgPool3DGrad",
    "MaxPool",
    "MaxPoolGrad",
    "MaxPoolGradGrad",
    "MaxPoolV2",
    "MaxPoolGradV2",
    "MaxPoolGradGradV2",
    "MaxPool3D",
    "MaxPool3DGrad",
    "MaxPool3DGradGrad",
    "MaxPoolWithArgmax",
    "MaxPoolGradWithArgmax",
    "MaxPoolGradGradWithArgmax",
    "FractionalAvgPool",
    "FractionalMaxPool",
    "FractionalAvgPoolGrad",
    "FractionalMaxPoolGrad",
    "Plan",
    "Spec",
    "plan",
]

def plan(op_name: str, **arguments: Any) -> Plan: ...

class _MaxPoolWithArgmaxOutputs(NamedTuple):
    output: _Array
    argmax: npt.NDArray[np.int32] | npt.NDArray[np.int64]

class _FractionalAvgPoolOutputs(NamedTuple):
    output: _Array
    row_pooling_sequence: npt.NDArray[np.int64]
    col_pooling_sequence: npt.NDArray[np.int64]

class _FractionalMaxPoolOutputs(NamedTuple):
    output: _Array
    row_pooling_sequence: npt.NDArray[np.int64]
    col_pooling_sequence: npt.NDArray[np.int64]

def AvgPool(
    value: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Average of each 2-D window."""

def AvgPoolGrad(
    orig_input_shape: _Integers,
    grad: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Gradient of AvgPool: each grad divided evenly over its window."""

def AvgPool3D(
    input: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    data_format: Literal["NDHWC", "NCDHW"] = "NDHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Average of each 3-D window."""

def AvgPool3DGrad(
    orig_input_shape: _Integers,
    grad: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    data_format: Literal["NDHWC", "NCDHW"] = "NDHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Gradient of AvgPool3D: each grad divided evenly over its window."""

def MaxPool(
    input: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID", "EXPLICIT"],
    explicit_paddings: _Integers = (),
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Maximum of each 2-D window."""

def MaxPoolGrad(
    orig_input: npt.ArrayLike,
    orig_output: npt.ArrayLike,
    grad: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID", "EXPLICIT"],
    explicit_paddings: _Integers = (),
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Gradient of MaxPool: each grad added to the element that won its window."""

def MaxPoolGradGrad(
    orig_input: npt.ArrayLike,
    orig_output: npt.ArrayLike,
    grad: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Second order of MaxPool: grad at the element that won each window."""

def MaxPoolV2(
    input: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Maximum of each 2-D window."""

def MaxPoolGradV2(
    orig_input: npt.ArrayLike,
    orig_output: npt.ArrayLike,
    grad: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Gradient of MaxPoolV2: each grad added to the element that won its window."""

def MaxPoolGradGradV2(
    orig_input: npt.ArrayLike,
    orig_output: npt.ArrayLike,
    grad: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Second order of MaxPoolV2: grad at the element that won each window."""

def MaxPool3D(
    input: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    data_format: Literal["NDHWC", "NCDHW"] = "NDHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Maximum of each 3-D window."""

def MaxPool3DGrad(
    orig_input: npt.ArrayLike,
    orig_output: npt.ArrayLike,
    grad: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    data_format: Literal["NDHWC", "NCDHW"] = "NDHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Gradient of MaxPool3D: each grad added to the element that won its window."""

def MaxPool3DGradGrad(
    orig_input: npt.ArrayLike,
    orig_output: npt.ArrayLike,
    grad: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    data_format: Literal["NDHWC", "NCDHW"] = "NDHWC",
    name: object = None,
    *,
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Second order of MaxPool3D: grad at the element that won each window."""

def MaxPoolWithArgmax(
    input: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    Targmax: Literal["int32", "int64"]
    | type[np.int32]
    | type[np.int64]
    | np.dtype[np.int32]
    | np.dtype[np.int64] = "int64",
    include_batch_in_index: bool = False,
    name: object = None,
    *,
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    out: tuple[_Array, _Array] | None = None,
    workers: SupportsIndex | None = None,
) -> _MaxPoolWithArgmaxOutputs:
    """Maximum of each window and its flat index."""

def MaxPoolGradWithArgmax(
    input: npt.ArrayLike,
    grad: npt.ArrayLike,
    argmax: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    include_batch_in_index: bool = False,
    name: object = None,
    *,
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Gradient of MaxPoolWithArgmax from its indices."""

def MaxPoolGradGradWithArgmax(
    input: npt.ArrayLike,
    grad: npt.ArrayLike,
    argmax: npt.ArrayLike,
    ksize: _Integers,
    strides: _Integers,
    padding: Literal["SAME", "VALID"],
    include_batch_in_index: bool = False,
    name: object = None,
    *,
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Second order of MaxPoolWithArgmax from its indices."""

def FractionalAvgPool(
    value: npt.ArrayLike,
    pooling_ratio: _Numbers,
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: SupportsIndex = 0,
    seed2: SupportsIndex = 0,
    name: object = None,
    *,
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    out: tuple[_Array, _Array, _Array] | None = None,
    workers: SupportsIndex | None = None,
) -> _FractionalAvgPoolOutputs:
    """Average of each cell of fractional pooling, whose rows and columns are drawn."""

def FractionalMaxPool(
    value: npt.ArrayLike,
    pooling_ratio: _Numbers,
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: SupportsIndex = 0,
    seed2: SupportsIndex = 0,
    name: object = None,
    *,
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    out: tuple[_Array, _Array, _Array] | None = None,
    workers: SupportsIndex | None = None,
) -> _FractionalMaxPoolOutputs:
    """Maximum of each cell of fractional pooling, whose rows and columns are drawn."""

def FractionalAvgPoolGrad(
    orig_input_tensor_shape: _Integers,
    out_backprop: npt.ArrayLike,
    row_pooling_sequence: _Integers,
    col_pooling_sequence: _Integers,
    overlapping: bool = False,
    name: object = None,
    *,
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Gradient of FractionalAvgPool: each grad divided evenly over its cell."""

def FractionalMaxPoolGrad(
    orig_input: npt.ArrayLike,
    orig_output: npt.ArrayLike,
    out_backprop: npt.ArrayLike,
    row_pooling_sequence: _Integers,
    col_pooling_sequence: _Integers,
    overlapping: bool = False,
    name: object = None,
    *,
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    out: _Array | None = None,
    workers: SupportsIndex | None = None,
) -> _Array:
    """Gradient of FractionalMaxPool: each grad added to the element that won its cell."""
