"""The raw ops against the reference, called as TensorFlow spells them."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import raw_calls
from raw_calls import OPS, random_call
from reference import assert_same_bits

from poolgrad import raw_ops
from poolgrad.op_table import OPS as TABLE

every_op = pytest.mark.parametrize("op", OPS)
CLASSES = {"SAME with window > input", "stride > window", "gaps", "zero size", "NaN"}


def test_the_reference_knows_every_op() -> None:
    assert set(OPS) == set(TABLE)


@every_op
def test_random_calls(op: str, seed: int) -> None:
    rng = np.random.default_rng([seed, *map(ord, op)])
    seen: set[str] = set()
    for number in range(200):
        call = random_call(rng, op)
        seen |= call.tags
        if op in ("FractionalAvgPool", "FractionalMaxPool") and "zero size" in call.tags:
            continue
        result = getattr(raw_ops, op)(**call.arguments)
        raw_calls.check(call, result)
        if number % 10 == 0:
            positional = [call.arguments[name] for name in _positional(op, call.arguments)]
            named = {k: v for k, v in call.arguments.items() if k not in _positional(op, call.arguments)}
            again = getattr(raw_ops, op)(*positional, **named, name="ignored", workers=2)
            for a, b in zip(_outputs(result), _outputs(again), strict=True):
                assert_same_bits(a, b, str(call))
    assert seen >= (CLASSES if "Fractional" not in op else {"NaN"})


def _outputs(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _positional(op: str, given: dict[str, Any]) -> list[str]:
    names = []
    for name, parameter in inspect.signature(getattr(raw_ops, op)).parameters.items():
        if name not in given or parameter.kind is parameter.KEYWORD_ONLY:
            break
        names.append(name)
    return names


@every_op
def test_out(op: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(10):
        call = random_call(rng, op)
        if "zero size" in call.tags:
            continue
        fresh = _outputs(getattr(raw_ops, op)(**call.arguments))
        outs = tuple(np.full((2, *each.shape), 1, each.dtype)[1] for each in fresh)
        strided = tuple(np.full((*each.shape, 2), 1, each.dtype)[..., 0] for each in fresh)
        for out in (outs, strided):
            given = out if len(out) > 1 else out[0]
            result = _outputs(getattr(raw_ops, op)(**call.arguments, out=given))
            for mine, returned, right in zip(out, result, fresh, strict=True):
                assert returned is mine
                assert_same_bits(mine, right, str(call))
        wrong = tuple(np.empty((7, 7), each.dtype) for each in fresh)
        with pytest.raises(ValueError, match=rf"^{op}: out has shape \(7, 7\)"):
            getattr(raw_ops, op)(**call.arguments, out=wrong if len(wrong) > 1 else wrong[0])


@every_op
def test_named_tuples(op: str) -> None:
    call = random_call(np.random.default_rng(8), op)
    result = getattr(raw_ops, op)(**call.arguments)
    fields = {
        "MaxPoolWithArgmax": ("output", "argmax"),
        "FractionalAvgPool": ("output", "row_pooling_sequence", "col_pooling_sequence"),
        "FractionalMaxPool": ("output", "row_pooling_sequence", "col_pooling_sequence"),
    }.get(op)
    assert getattr(result, "_fields", None) == fields
    assert isinstance(result, np.ndarray if fields is None else tuple)


def test_python_numbers_are_32_bit() -> None:
    image = [[[[1.0], [2.0]], [[3.0], [4.5]]]]
    y = raw_ops.AvgPool(image, [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
    assert y.dtype == np.float32
    assert y.item() == 2.625
    top = raw_ops.MaxPool([[[[1], [2]], [[3], [4]]]], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
    assert top.dtype == np.int32
    assert top.item() == 4
    with pytest.raises(ValueError, match="^MaxPool: input has Python integers beyond int32"):
        raw_ops.MaxPool([[[[2**31]]]], [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
    with pytest.raises(TypeError, match="^AvgPool: value has dtype int32"):
        raw_ops.AvgPool([[[[1]]]], [1, 1, 1, 1], [1, 1, 1, 1], "VALID")


def test_numpy_integers_everywhere() -> None:
    grad = np.ones((1, 2, 2, 1), np.float32)
    plain = raw_ops.AvgPoolGrad([1, 4, 4, 1], grad, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    for kind in (np.int8, np.uint8, np.int32, np.int64, np.uint64):
        shape, two = np.array([1, 4, 4, 1], kind), np.array([1, 2, 2, 1], kind)
        assert_same_bits(raw_ops.AvgPoolGrad(shape, grad, two, two, "VALID"), plain)
        assert_same_bits(raw_ops.AvgPoolGrad(list(shape), grad, tuple(two), list(two), "VALID"), plain)
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    sizes = np.array([1, 2, 2, 1], np.int32)
    assert raw_ops.MaxPoolV2(x, sizes, sizes, "VALID").ravel().tolist() == [5, 7, 13, 15]


def test_targmax() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    for given, kind in (("int32", np.int32), (np.int32, np.int32), (np.dtype("int32"), np.int32), ("int64", np.int64)):
        result = raw_ops.MaxPoolWithArgmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID", given)
        assert result.argmax.dtype == kind
        assert result.argmax.ravel().tolist() == [5, 7, 13, 15]


def test_documents_examples() -> None:
    """20 5 16 3 7 with sequence 0 2 4, overlapping: [41/3, 26/3] for average, [20, 16] for max; then the gradients."""
    for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
        x = np.array([20, 5, 16, 3, 7], kind).reshape(1, 1, 5, 1)
        one = [0, 1]
        y = np.array([20, 16], kind).reshape(1, 1, 2, 1)
        sequence = [0, 2, 4]
        dx = raw_ops.FractionalMaxPoolGrad(x, y, y, one, sequence, overlapping=True)
        assert dx.ravel().tolist() == [20, 0, 16, 0, 0]
        g = np.array([3, 6], kind).reshape(1, 1, 2, 1)
        dx = raw_ops.FractionalAvgPoolGrad([1, 1, 5, 1], g, one, sequence, overlapping=True)
        assert dx.ravel().tolist() == [1, 1, 3, 2, 2]
    import poolgrad as pg

    w = pg.fractional(5, [[0, 2, 4]], overlapping=True)
    values = np.array([20.0, 5, 16, 3, 7])
    assert pg.avg_pool(values, w, axes=0).tolist() == [41 / 3, 26 / 3]
    assert pg.max_pool(values, w, axes=0).tolist() == [20, 16]


def test_documents_gaps() -> None:
    """ksize 1,2,2,2,1 with strides 1,4,3,2,1: planes and rows between the windows get nothing."""
    shape = (1, 9, 8, 6, 1)
    grad = np.ones((1, 2, 3, 3, 1), np.float32)
    dx = raw_ops.AvgPool3DGrad(shape, grad, [1, 2, 2, 2, 1], [1, 4, 3, 2, 1], "VALID")
    inside = np.zeros(shape, bool)
    inside[:, [0, 1, 4, 5]] = True
    inside[:, :, [2, 5]] = False
    assert (dx[inside] == 0.125).all()
    assert (dx[~inside] == 0).all()
    assert dx.sum() == grad.sum()


def test_remembered_draws_are_not_the_callers() -> None:
    x = np.arange(64, dtype=np.float32).reshape(1, 8, 8, 1)
    seeds = {"deterministic": True, "seed": 3, "seed2": 4}
    first = raw_ops.FractionalMaxPool(x, [1.0, 1.5, 1.5, 1.0], **seeds)
    kept = [field.copy() for field in first]
    for field in first:
        field[...] = 0
    for again, right in zip(raw_ops.FractionalMaxPool(x, [1.0, 1.5, 1.5, 1.0], **seeds), kept, strict=True):
        np.testing.assert_array_equal(again, right)
    other = raw_ops.FractionalMaxPool(x, [1.0, 1.5, 1.5, 1.0], overlapping=True, **seeds)
    assert not np.array_equal(other.output, kept[0])


def test_deterministic_false_draws_afresh() -> None:
    x = np.zeros((1, 40, 40, 1), np.float32)
    drawn = {tuple(raw_ops.FractionalAvgPool(x, [1.0, 1.5, 1.5, 1.0]).row_pooling_sequence.tolist()) for _ in range(6)}
    assert len(drawn) > 1
    fixed = {
        tuple(raw_ops.FractionalMaxPool(x, [1.0, 1.5, 1.5, 1.0], deterministic=True).row_pooling_sequence.tolist())
        for _ in range(3)
    }
    assert len(fixed) == 1


def test_depthwise_max() -> None:
    rng = np.random.default_rng(2)
    for kind in (np.float32, np.int16):
        x = (rng.standard_normal((2, 3, 4, 6)) * 9).astype(kind)
        size = [1, 1, 1, 3]
        right = x.reshape(2, 3, 4, 2, 3).max(axis=4)
        for forward in (raw_ops.MaxPool, raw_ops.MaxPoolV2):
            assert_same_bits(forward(x, size, size, "VALID"), right)
            assert_same_bits(forward(x, size, size, "SAME"), right)
            first = forward(np.moveaxis(x, 3, 1), [1, 3, 1, 1], [1, 3, 1, 1], "VALID", data_format="NCHW")
            assert_same_bits(first, np.moveaxis(right, 3, 1))
        grad = (rng.standard_normal(right.shape) * 9).astype(kind)
        winner = x.reshape(2, 3, 4, 2, 3).argmax(axis=4)
        scattered = np.zeros((2, 3, 4, 2, 3), kind)
        np.put_along_axis(scattered, winner[..., None], grad[..., None], axis=4)
        for backward in (raw_ops.MaxPoolGrad, raw_ops.MaxPoolGradV2):
            assert_same_bits(backward(x, right, grad, size, size, "VALID"), scattered.reshape(x.shape))


@every_op
def test_help(op: str) -> None:
    function = getattr(raw_ops, op)
    text = inspect.getdoc(function)
    for word in ("Parameters", "Returns", "Raises", "Examples", *inspect.signature(function).parameters):
        assert word in text
    assert function.__name__ == op
    assert op in dir(raw_ops)
    assert op in raw_ops.__all__


def test_outputs_can_be_pickled() -> None:
    x = np.arange(16, dtype="float32").reshape(1, 4, 4, 1)
    result = raw_ops.MaxPoolWithArgmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is type(result)
    assert_same_bits(again.argmax, result.argmax)


def test_a_plan_cannot_be_changed() -> None:
    grad = raw_ops.Spec((1, 2, 2, 1), "float32")
    sizes = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    ready = raw_ops.plan("AvgPoolGrad", orig_input_shape=[1, 4, 4, 1], grad=grad, **sizes)
    for shared in (ready.attributes, ready.result_shapes, ready.result_dtypes):
        with pytest.raises(TypeError):
            shared["padding"] = "VALID"  # type: ignore[index]


def test_drawn_tables_are_not_kept() -> None:
    from poolgrad import raw_windows

    before = raw_windows._known_table.cache_info().currsize
    for _ in range(5):
        raw_ops.FractionalAvgPool(np.zeros((1, 9, 9, 1), "float32"), [1, 1.5, 1.5, 1])
    assert raw_windows._known_table.cache_info().currsize == before
