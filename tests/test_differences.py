"""Where poolgrad decides otherwise than TensorFlow: one test for each numbered row of docs/differences.md."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import reference
from raw_calls import OPS
from reference import assert_same_bits

import poolgrad as pg
from poolgrad import raw_ops

TWO = [1, 2, 2, 1]
ONES = [1, 1, 1, 1]


def row(values: list[float], kind: Any = np.float32) -> Any:
    """Numbers as a tensor of one row: NHWC with height 1."""
    return np.array(values, kind).reshape(1, 1, -1, 1)


def cube(values: list[float], kind: Any = np.float32) -> Any:
    return np.array(values, kind).reshape(1, 1, 1, -1, 1)


def test_01_float_results_are_the_mathematical_value() -> None:
    ones = np.ones((1, 16, 16, 16, 1), ml_dtypes.bfloat16)
    size = [1, 16, 16, 16, 1]
    assert raw_ops.AvgPool3D(ones, size, size, "VALID").item() == 1  # TensorFlow: 0.0625
    half = np.full((1, 60, 60, 1), 0.1, np.float16)
    mean = raw_ops.AvgPool(half, [1, 60, 60, 1], ONES, "VALID").item()
    assert mean == float(np.float16(0.1))
    x = np.random.default_rng(0).standard_normal((2, 9, 8, 5)).astype(np.float32)
    last = raw_ops.AvgPool(x, [1, 3, 3, 1], TWO, "SAME")
    first = raw_ops.AvgPool(np.moveaxis(x, 3, 1), [1, 1, 3, 3], [1, 1, 2, 2], "SAME", data_format="NCHW", workers=3)
    assert_same_bits(np.moveaxis(first, 1, 3), last)


def test_02_integer_fractional_gradients_truncate_and_saturate() -> None:
    def gradient(
        values: list[int], sequence: list[int], size: int, kind: Any = np.int32, overlapping: bool = True
    ) -> list[int]:
        dx = raw_ops.FractionalAvgPoolGrad([1, 1, size, 1], row(values, kind), [0, 1], sequence, overlapping)
        return dx.ravel().tolist()

    assert gradient([1, 1], [0, 1, 2], 3) == [0, 1, 0]  # 0.5, 0.5 + 0.5, 0.5
    assert gradient([-3, 0], [0, 1, 2], 3) == [-1, -1, 0]  # -1.5 truncates to -1
    largest, lowest = 2**31 - 1, -(2**31)
    assert gradient([largest, largest], [0, 1, 2], 2) == [2**30 - 1, largest]  # 2**30 - 0.5 and three quarters of 2**32
    assert gradient([lowest, lowest], [0, 1, 2], 2) == [-(2**30), lowest]
    assert gradient([2**63 - 1, 2**63 - 1], [0, 1, 2], 2, np.int64)[1] == 2**63 - 1
    x = row([-1, -2, 7, 2**31 - 1, 1], np.int32)
    y, rows, columns = raw_ops.FractionalAvgPool(x, [1.0, 1.0, 2.5, 1.0], deterministic=True, seed=1, seed2=1)
    assert y.dtype == np.int32
    windows = [reference.fractional(1, rows.tolist(), False), reference.fractional(5, columns.tolist(), False)]
    assert_same_bits(y, reference.avg_pool_integers(x, windows, 1))
    assert raw_ops.FractionalAvgPool(row([-1, -2], np.int64), [1.0, 1.0, 2.0, 1.0]).output.item() == -1


def test_03_gradients_are_the_adjoint_of_the_standard_windows() -> None:
    dx = raw_ops.AvgPoolGrad([1, 1, 4, 1], row([1, 1, 1, 1]), [1, 1, 5, 1], ONES, "SAME")
    right = [5 / 6, 7 / 6, 7 / 6, 5 / 6]  # TensorFlow: 0.75, 1.0833, 1.0833, 1.0833
    assert np.allclose(dx.ravel(), right, rtol=1e-6)
    far = raw_ops.AvgPool3D(cube([0, 1, 2, 3, 4, 5, 6, 7]), [1] * 5, [1, 1, 1, 4, 1], "SAME")
    assert far.ravel().tolist() == [0, 4]  # TensorFlow: 1, 5
    back = raw_ops.AvgPool3DGrad([1, 1, 1, 8, 1], cube([1, 1]), [1] * 5, [1, 1, 1, 4, 1], "SAME")
    assert back.ravel().tolist() == [1, 0, 0, 0, 1, 0, 0, 0]
    top = raw_ops.MaxPool3D(cube([0, 1, 2, 3, 4, 5, 6, 7]), [1] * 5, [1, 1, 1, 4, 1], "SAME")
    assert top.ravel().tolist() == [0, 4]


def test_04_ties_go_to_the_first_maximum() -> None:
    flat = np.ones((1, 2, 2, 2, 1), np.float32)
    size = [1, 2, 2, 2, 1]
    one = np.ones((1, 1, 1, 1, 1), np.float32)
    assert raw_ops.MaxPool3DGrad(flat, one, one, size, size, "VALID").ravel().tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    near = flat.copy()
    near[0, 1, 1, 1, 0] += 1e-6
    dx = raw_ops.MaxPool3DGrad(near, near.max().reshape(one.shape), one, size, size, "VALID")
    assert dx.ravel().tolist() == [0, 0, 0, 0, 0, 0, 0, 1]
    x, y = np.ones((1, 2, 2, 1), np.float32), np.ones((1, 1, 1, 1), np.float32)
    for gradient in (raw_ops.MaxPoolGrad, raw_ops.MaxPoolGradV2):
        assert gradient(x, y, y, TWO, TWO, "VALID").ravel().tolist() == [1, 0, 0, 0]
    assert raw_ops.MaxPoolWithArgmax(x, TWO, TWO, "VALID").argmax.item() == 0
    counting = np.arange(4, dtype=np.float32).reshape(x.shape)
    assert raw_ops.MaxPoolGradGrad(x, y, counting, TWO, TWO, "VALID").item() == 0
    cell = raw_ops.FractionalMaxPoolGrad(x, y, y, [0, 2], [0, 2])
    assert cell.ravel().tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_05_nan_wins_and_propagates(kind: str) -> None:
    dtype = reference.dtype(kind)
    for values, winner in (([np.nan, 1], 0), ([1, np.nan], 1), ([np.nan, np.nan], 0), ([np.inf, np.nan], 1)):
        x, g = row(values, dtype), row([3], dtype)
        size = [1, 1, 2, 1]
        y = raw_ops.MaxPool(x, size, size, "VALID")
        assert np.isnan(float(y.item()))
        expected = [3.0 * (k == winner) for k in range(2)]
        assert raw_ops.MaxPoolGrad(x, y, g, size, size, "VALID").ravel().tolist() == expected
        assert raw_ops.FractionalMaxPoolGrad(x, y, g, [0, 1], [0, 2]).ravel().tolist() == expected
        assert raw_ops.MaxPoolWithArgmax(x, size, size, "VALID").argmax.item() == winner
        volume = [1, 1, 1, 2, 1]
        deep = raw_ops.MaxPool3D(x[None], volume, volume, "VALID")
        assert np.isnan(float(deep.item()))
        assert raw_ops.MaxPool3DGrad(x[None], deep, g[None], volume, volume, "VALID").ravel().tolist() == expected
    lowest = row([-np.inf, -np.inf], dtype)
    assert raw_ops.MaxPool(lowest, [1, 1, 2, 1], ONES, "VALID").item() == -np.inf
    y, *sequences = raw_ops.FractionalMaxPool(lowest, [1.0, 1.0, 2.0, 1.0])
    assert y.item() == -np.inf
    assert raw_ops.FractionalMaxPoolGrad(lowest, y, row([1], dtype), *sequences).ravel().tolist() == [1, 0]


def test_06_orig_output_of_fractional_max_must_be_the_maximum() -> None:
    x = row([20, 5, 16, 3, 7])
    right = row([20, 16])
    assert raw_ops.FractionalMaxPoolGrad(x, right, right, [0, 1], [0, 2, 4], True).ravel().tolist() == [20, 0, 16, 0, 0]
    for wrong, place in (([20, 15], 1), ([np.nan, 16], 0), ([16, 20], 0)):
        with pytest.raises(
            ValueError, match=rf"^FractionalMaxPoolGrad: orig_output\[0, 0, {place}, 0\] is not the maximum"
        ):
            raw_ops.FractionalMaxPoolGrad(x, row(wrong), right, [0, 1], [0, 2, 4], True)
    # TensorFlow refuses ratio 1 on one channel: "Pooling region has more elements than the input tensor"
    same = raw_ops.FractionalMaxPoolGrad(x, x, x, [0, 1], [0, 1, 2, 3, 4, 5])
    assert_same_bits(same, x)
    zero = row([-0.0, 0.0])
    raw_ops.FractionalMaxPoolGrad(zero, row([0.0]), row([1.0]), [0, 1], [0, 2])


@pytest.mark.parametrize("op", [op for op in OPS if op.startswith("MaxPool") and "orig_output" in OPS[op][2]])
def test_07_orig_output_of_max_is_recomputed(op: str) -> None:
    rank = 5 if "3D" in op else 4
    shape, pooled, size = [1, *[4] * (rank - 2), 1], [1, *[2] * (rank - 2), 1], [1, *[2] * (rank - 2), 1]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    y = (raw_ops.MaxPool3D if "3D" in op else raw_ops.MaxPool)(x, size, size, "VALID")
    grad = x if "GradGrad" in op else y
    right = getattr(raw_ops, op)(x, y, grad, size, size, "VALID")
    assert_same_bits(getattr(raw_ops, op)(x, np.full_like(y, 99), grad, size, size, "VALID"), right)
    with pytest.raises(ValueError, match=f"^{op}: orig_output has shape"):
        getattr(raw_ops, op)(x, np.ones((1, *[1] * (rank - 2), 1), np.float32), grad, size, size, "VALID")
    assert list(y.shape) == pooled


def test_08_shapes_must_fit_and_nothing_is_uninitialised() -> None:
    for shape in ((1, 1, 1, 1), (1, 3, 3, 1), (2, 2, 2, 1), (1, 2, 2, 2), (0, 2, 2, 1)):
        with pytest.raises(ValueError, match=r"^AvgPoolGrad: grad has shape .* give \(1, 2, 2, 1\)$"):
            raw_ops.AvgPoolGrad([1, 4, 4, 1], np.ones(shape, np.float32), TWO, TWO, "VALID")
    nothing = np.ones((1, 0, 0, 1), np.float32)
    x = np.ones((1, 4, 4, 1), np.float32)
    large = [1, 5, 5, 1]
    assert raw_ops.MaxPool(x, large, ONES, "VALID").shape == (1, 0, 0, 1)
    for _ in range(20):
        np.full((1, 4, 4, 1), 7, np.float32)  # memory that would be seen again
        assert not raw_ops.MaxPoolGrad(x, nothing, nothing, large, ONES, "VALID").any()
        assert not raw_ops.AvgPoolGrad([1, 4, 4, 1], nothing, large, ONES, "VALID").any()
    for shape in ((0, 4, 4, 1), (1, 4, 4, 0)):
        empty = np.ones(shape, np.float32)
        y = raw_ops.AvgPool(empty, TWO, TWO, "SAME")
        assert y.shape == (shape[0], 2, 2, shape[3])
        assert raw_ops.AvgPoolGrad(list(shape), y, TWO, TWO, "SAME").shape == shape
        assert raw_ops.MaxPoolWithArgmax(empty, TWO, TWO, "SAME").argmax.shape == y.shape
    assert raw_ops.AvgPool(np.ones((1, 0, 4, 1), np.float32), TWO, TWO, "SAME").shape == (1, 0, 2, 1)


@pytest.mark.parametrize("op", OPS)
def test_09_channels_first_everywhere(op: str) -> None:
    import inspect

    parameter = inspect.signature(getattr(raw_ops, op)).parameters["data_format"]
    assert parameter.default == ("NDHWC" if OPS[op][1] == 3 else "NHWC")
    assert (parameter.kind is parameter.KEYWORD_ONLY) == ("Argmax" in op or "Fractional" in op)
    if op == "MaxPoolWithArgmax":
        x = np.random.default_rng(0).standard_normal((2, 3, 4, 6)).astype(np.float32)  # NCHW
        y, argmax = raw_ops.MaxPoolWithArgmax(x, [1, 1, 2, 2], [1, 1, 2, 2], "VALID", data_format="NCHW")
        assert_same_bits(np.take_along_axis(x.reshape(2, -1), argmax.reshape(2, -1), 1).reshape(y.shape), y)
    if op in ("MaxPool", "MaxPoolV2"):
        with pytest.raises(ValueError, match=f"^{op}: data_format='NCHW_VECT_C' is not supported"):
            getattr(raw_ops, op)(np.ones((1, 1, 4, 4, 4), np.int8), TWO, TWO, "VALID", data_format="NCHW_VECT_C")


@pytest.mark.parametrize("op", OPS)
def test_10_dtypes(op: str) -> None:
    from poolgrad.op_table import OPS as TABLE

    floats = {"float16", "bfloat16", "float32", "float64"}
    if op.startswith("Avg"):
        assert set(TABLE[op].dtypes) == floats
    elif op.startswith("Fractional"):
        assert set(TABLE[op].dtypes) == floats | {"int32", "int64"}
    else:
        assert set(TABLE[op].dtypes) == floats | set(reference.INTEGERS)
    for kind in ("bool", "complex64"):
        name = OPS[op][2].split(":")[0]
        others = {spec.split(":")[0]: raw_ops.Spec((1,) * (OPS[op][1] + 2), kind) for spec in OPS[op][2].split()}
        with pytest.raises(
            TypeError, match=f"^{op}: {name} has dtype {kind}; {op} takes {', '.join(TABLE[op].dtypes)}"
        ):
            getattr(raw_ops, "plan")(op, **_all_arguments(op), **others)  # noqa: B009


def _all_arguments(op: str) -> dict[str, Any]:
    from poolgrad.op_table import OPS as TABLE
    from poolgrad.op_table import REQUIRED

    values = {
        "sizes": [1] * (OPS[op][1] + 2),
        "shape": [1] * (OPS[op][1] + 2),
        "sequence": [0, 1],
        "choice": "VALID",
        "ratios": [1.0] * 4,
    }
    return {a.name: values[a.kind] for a in TABLE[op].arguments if a.default is REQUIRED and a.kind in values}


@pytest.mark.parametrize("kind", reference.INTEGERS)
def test_11_integer_max_gradients_wrap(kind: str) -> None:
    largest = np.iinfo(kind).max
    x = row([0, 9, 0], kind)
    size = [1, 1, 2, 1]
    y = raw_ops.MaxPool(x, size, ONES, "VALID")
    g = np.full_like(y, largest)
    dx = raw_ops.MaxPoolGrad(x, y, g, size, ONES, "VALID").ravel()
    with np.errstate(over="ignore"):
        assert dx.tolist() == [0, (g.ravel()[:1] + g.ravel()[:1]).item(), 0]


@pytest.mark.parametrize("bad", [2.0, True, "2", np.float32(2), np.bool_(True), None, 2 + 0j])
def test_12_only_integers_are_integers(bad: Any) -> None:
    grad = np.ones((1, 2, 2, 1), np.float32)
    for good in (2, np.int8(2), np.uint64(2), np.array(2)):
        raw_ops.AvgPoolGrad([1, 4, 4, 1], grad, [1, good, 2, 1], TWO, "VALID")
    for name, value in (("ksize", [1, bad, 2, 1]), ("strides", [1, bad, 2, 1]), ("orig_input_shape", [1, bad, 4, 1])):
        given: dict[str, Any] = {"orig_input_shape": [1, 4, 4, 1], "ksize": TWO, "strides": TWO, name: value}
        with pytest.raises(TypeError, match=rf"^AvgPoolGrad: {name}\[1\]="):
            raw_ops.AvgPoolGrad(grad=grad, padding="VALID", **given)
    with pytest.raises(TypeError, match="^FractionalAvgPoolGrad: row_pooling_sequence"):
        raw_ops.FractionalAvgPoolGrad([1, 4, 4, 1], grad, [0, bad, 4], [0, 2, 4])


@pytest.mark.parametrize("op", [op for op in OPS if not op.startswith("Fractional")])
def test_13_channel_strides_must_be_one(op: str) -> None:
    rank = OPS[op][1] + 2
    pins = {
        spec.split(":")[0]: raw_ops.Spec((1,) * rank, "int64" if spec.endswith("a") else "float32")
        for spec in OPS[op][2].split()
    }
    arguments = {**_all_arguments(op), **pins}
    raw_ops.plan(op, **arguments)
    for strides in ([1] * (rank - 1) + [30], [30] + [1] * (rank - 1)):
        with pytest.raises(ValueError, match=f"^{op}: strides="):
            raw_ops.plan(op, **{**arguments, "strides": strides})


def test_14_huge_windows_cost_what_the_input_costs() -> None:
    huge = 2**31 - 1
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4, 1)
    size = [1, huge, huge, huge, 1]
    assert (raw_ops.AvgPool3D(x, size, [1] * 5, "SAME") == 11.5).all()
    assert (raw_ops.MaxPool3D(x, size, [1] * 5, "SAME") == 23).all()
    dx = raw_ops.AvgPool3DGrad([1, 2, 3, 4, 1], np.ones_like(x), size, [1] * 5, "SAME")
    assert np.allclose(dx, 1)
    assert raw_ops.MaxPool(x[:, 0], [1, huge, huge, 1], [1, huge, huge, 1], "SAME").item() == 11


def test_15_depthwise_max() -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 3, 6)).astype(np.float32)
    y = raw_ops.MaxPool(x, [1, 1, 1, 3], [1, 1, 1, 3], "SAME")
    assert_same_bits(y, x.reshape(1, 2, 3, 2, 3).max(4))
    dx = raw_ops.MaxPoolGrad(x, y, y, [1, 1, 1, 3], [1, 1, 1, 3], "SAME")
    assert_same_bits(dx, np.where(x == np.repeat(y, 3, 3), x, 0))
    for ksize, strides in (
        ([1, 1, 1, 4], [1, 1, 1, 4]),
        ([1, 1, 1, 3], [1, 1, 1, 2]),
        ([1, 1, 1, 3], [1, 2, 2, 3]),
        ([1, 2, 1, 3], [1, 1, 1, 3]),
    ):
        for op in ("MaxPool", "MaxPoolV2"):
            with pytest.raises(ValueError, match=f"^{op}: (ksize|strides)="):
                getattr(raw_ops, op)(x, ksize, strides, "SAME")
    with pytest.raises(ValueError, match="^MaxPoolWithArgmax: ksize="):
        raw_ops.MaxPoolWithArgmax(x, [1, 1, 1, 3], [1, 1, 1, 3], "SAME")


def test_16_sequences() -> None:
    g = np.ones((1, 1, 2, 1), np.float32)

    def gradient(columns: Any, overlapping: bool = False) -> Any:
        return raw_ops.FractionalAvgPoolGrad([1, 1, 5, 1], g, [0, 1], columns, overlapping).ravel().tolist()

    assert gradient([0, 2, 9]) == [0.5, 0.5, 1 / 3, 1 / 3, 1 / 3] or np.allclose(
        gradient([0, 2, 9]), [0.5, 0.5, 1 / 3, 1 / 3, 1 / 3]
    )
    assert gradient([1, 2, 4]) == [0, 1, 0.5, 0.5, 0]
    for bad in ([-1, 2, 5], [0, 3, 2], [0, 0, 5], [0, 5, 6], [0, 5], [0, 1, 2, 5], [], [5, 6, 7]):
        with pytest.raises(ValueError, match="^FractionalAvgPoolGrad: "):
            gradient(bad)


def test_17_argmax_is_checked() -> None:
    x = np.ones((2, 2, 2, 1), np.float32)
    g = np.array([3, 5], np.float32).reshape(2, 1, 1, 1)

    def gradient(indices: list[int], batched: bool) -> Any:
        argmax = np.array(indices, np.int64).reshape(2, 1, 1, 1)
        return raw_ops.MaxPoolGradWithArgmax(x, g, argmax, TWO, TWO, "VALID", batched).ravel().tolist()

    assert gradient([1, 2], False) == [0, 3, 0, 0, 0, 0, 5, 0]
    assert gradient([1, 6], True) == [0, 3, 0, 0, 0, 0, 5, 0]
    for indices, batched in (
        ([4, 0], False),
        ([-1, 0], False),
        ([0, 2], True),
        ([5, 6], True),
        ([0, 8], True),
        ([0, 2**62], False),
    ):
        with pytest.raises(ValueError, match=r"^MaxPoolGradWithArgmax: argmax\["):
            gradient(indices, batched)
    wide = np.ones((1, 1, 4, 1), np.float32)
    twice = raw_ops.MaxPoolGradWithArgmax(
        wide, row([1, 2]), np.array([3, 3]).reshape(1, 1, 2, 1), [1, 1, 2, 1], [1, 1, 2, 1], "VALID"
    )
    assert twice.ravel().tolist() == [0, 0, 0, 3]


def test_18_random_sequences() -> None:
    x = np.zeros((1, 50, 60, 1), np.float32)
    ratio = [1.0, 1.4, 1.7, 1.0]

    def drawn(**more: Any) -> tuple[Any, ...]:
        result = raw_ops.FractionalAvgPool(x, ratio, **more)
        return tuple(result.row_pooling_sequence.tolist()), tuple(result.col_pooling_sequence.tolist())

    assert drawn(deterministic=True, seed=5, seed2=-9) == drawn(deterministic=True, seed=5, seed2=-9)
    assert drawn(deterministic=True, seed=5, seed2=-9) != drawn(deterministic=True, seed=5, seed2=-8)
    rows, columns = pg.sequences.tensorflow((50, 60), (1.4, 1.7), 5, -9)
    assert drawn(deterministic=True, seed=5, seed2=-9) == (tuple(rows.tolist()), tuple(columns.tolist()))
    assert drawn(deterministic=True) == drawn(deterministic=True)
    assert len({drawn() for _ in range(5)}) > 1
    with pytest.raises(ValueError, match="^FractionalAvgPool: seed="):
        drawn(seed=1)


@pytest.mark.parametrize("op", ["MaxPool", "MaxPoolGrad"])
def test_19_explicit_paddings_only_with_explicit(op: str) -> None:
    x = np.ones((1, 4, 4, 1), np.float32)
    y = np.ones((1, 2, 2, 1), np.float32)
    data = (x,) if op == "MaxPool" else (x, y, y)
    function = getattr(raw_ops, op)
    for padding in ("SAME", "VALID"):
        assert_same_bits(function(*data, TWO, TWO, padding, []), function(*data, TWO, TWO, padding))
        with pytest.raises(ValueError, match=f"^{op}: explicit_paddings="):
            function(*data, TWO, TWO, padding, [0] * 8)
    assert_same_bits(function(*data, TWO, TWO, "EXPLICIT", [0] * 8), function(*data, TWO, TWO, "VALID"))


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float64"])
def test_20_the_lowest_number_is_a_number(kind: str) -> None:
    dtype = reference.dtype(kind)
    lowest = float(ml_dtypes.finfo(dtype).min)
    y = raw_ops.AvgPool3D(cube([lowest, 0], dtype), [1, 1, 1, 2, 1], [1] * 5, "VALID")
    assert y.item() == lowest / 2  # TensorFlow: 0, it takes the lowest number for padding
    assert raw_ops.MaxPool3D(cube([lowest, lowest], dtype), [1, 1, 1, 2, 1], [1] * 5, "VALID").item() == lowest
