"""The texts of errors, word for word: op, argument, value, and what would be right."""

# ruff: noqa: E501 (each text stands on one line, as a user sees it)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poolgrad as pg
from poolgrad import raw_ops
from poolgrad.errors import PoolTypeError, PoolValueError, shown

IMAGE = np.ones((1, 4, 4, 1), np.float32)
GRAD = np.ones((1, 2, 2, 1), np.float32)
TWO = [1, 2, 2, 1]
TABLE = pg.sliding((4, 4), 2)
FLOATS = "float16, bfloat16, float32, float64"


def avg_grad(**changes: Any) -> Any:
    given = {"orig_input_shape": [1, 4, 4, 1], "grad": GRAD, "ksize": TWO, "strides": TWO, "padding": "VALID"}
    return raw_ops.AvgPoolGrad(**{**given, **changes})


def max_pool(**changes: Any) -> Any:
    return raw_ops.MaxPool(**{"input": IMAGE, "ksize": TWO, "strides": TWO, "padding": "VALID", **changes})


def fractional_max_grad(**changes: Any) -> Any:
    given = {"orig_input": IMAGE, "orig_output": GRAD, "out_backprop": GRAD}
    given |= {"row_pooling_sequence": [0, 2, 4], "col_pooling_sequence": [0, 2, 4]}
    return raw_ops.FractionalMaxPoolGrad(**{**given, **changes})


TEXTS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    # the two of the design
    (
        lambda: raw_ops.AvgPool3DGrad([1] * 5, np.ones((1,) * 5, "f4"), [1] * 5, [1] * 5, "SAME", "NHWC"),
        ValueError, "AvgPool3DGrad: data_format='NHWC' is for 4-D tensors; use 'NDHWC' or 'NCDHW'",
    ),
    (
        lambda: avg_grad(grad=np.ones((1, 3, 3, 1), "f4"), padding="SAME"),
        ValueError,
        "AvgPoolGrad: grad has shape (1, 3, 3, 1); ksize=2, strides=2, padding='SAME' on input (1, 4, 4, 1) give (1, 2, 2, 1)",
    ),
    # raw ops: geometry
    (lambda: avg_grad(ksize=[1, 0, 2, 1]), ValueError, "AvgPoolGrad: ksize=[1, 0, 2, 1] must be positive on every axis"),
    (lambda: avg_grad(strides=[1, 2, -2, 1]), ValueError, "AvgPoolGrad: strides=[1, 2, -2, 1] must be positive on every axis"),
    (lambda: avg_grad(ksize=[1, 2, 2]), ValueError, "AvgPoolGrad: ksize=[1, 2, 2] has 3 entries; give 4, one for each of NHWC"),
    (
        lambda: avg_grad(ksize=[2, 2, 2, 1]),
        ValueError, "AvgPoolGrad: ksize=[2, 2, 2, 1] pools the batch axis, which AvgPoolGrad does not; use 1 at entry 0",
    ),
    (
        lambda: avg_grad(strides=[1, 2, 2, 3]),
        ValueError, "AvgPoolGrad: strides=[1, 2, 2, 3] pools the channels axis, which AvgPoolGrad does not; use 1 at entry 3",
    ),
    (lambda: avg_grad(ksize=2), TypeError, "AvgPoolGrad: ksize=2 is not a sequence of integers; give a list such as [1, 2, 2, 1]"),
    (
        lambda: avg_grad(ksize=[1, 2.0, 2, 1]),
        TypeError, "AvgPoolGrad: ksize[1]=2.0 is not an integer; give a Python or NumPy integer",
    ),
    (
        lambda: avg_grad(strides=[1, True, 2, 1]),
        TypeError, "AvgPoolGrad: strides[1]=True is not an integer; give a Python or NumPy integer",
    ),
    (
        lambda: max_pool(ksize=[1, 50, 2, 1], strides=[1, 1, 1, 1]),
        ValueError, "MaxPool: ksize=50 on an input of 4 (axis 0) would give -45 outputs; use a smaller one or SAME",
    ),
    (lambda: avg_grad(padding="FOO"), ValueError, "AvgPoolGrad: padding='FOO' is not known; use 'SAME' or 'VALID'"),
    (lambda: max_pool(data_format="NCHW_VECT_C"), ValueError, "MaxPool: data_format='NCHW_VECT_C' is not supported; use 'NHWC' or 'NCHW'"),
    (
        lambda: max_pool(explicit_paddings=[0] * 8),
        ValueError, "MaxPool: explicit_paddings=[0, 0, 0, 0, 0, 0, 0, 0] is for padding='EXPLICIT'; with 'VALID' it must be empty",
    ),
    (
        lambda: max_pool(padding="EXPLICIT", explicit_paddings=[1]),
        ValueError, "MaxPool: explicit_paddings=[1] has 1 entries; give 8: two for each axis",
    ),
    (
        lambda: max_pool(padding="EXPLICIT", explicit_paddings=[0, 0, 2, 0, 0, 0, 0, 0]),
        ValueError, "MaxPool: explicit_paddings=[0, 0, 2, 0, 0, 0, 0, 0] pads axis 1 by 2; it must be below the window 2",
    ),
    (
        lambda: max_pool(padding="EXPLICIT", explicit_paddings=[0, 0, 0, 0, 0, 0, 1, 0]),
        ValueError, "MaxPool: explicit_paddings=[0, 0, 0, 0, 0, 0, 1, 0] pads axis 3, which is not pooled; use 0 there",
    ),
    # raw ops: shapes and dtypes
    (
        lambda: avg_grad(orig_input_shape=[1, 4, 4]),
        ValueError, "AvgPoolGrad: orig_input_shape=[1, 4, 4] has 3 entries; AvgPoolGrad takes the 4 sizes of a 4-D tensor",
    ),
    (
        lambda: avg_grad(orig_input_shape=[1, 4, -4, 1]),
        ValueError, "AvgPoolGrad: orig_input_shape[2]=-4 is out of range; it must be at least 0",
    ),
    (
        lambda: avg_grad(grad=np.ones((1, 2, 2, 1), np.int32)),
        TypeError,
        f"AvgPoolGrad: grad has dtype int32; AvgPoolGrad takes {FLOATS}: convert it, e.g. with np.asarray(grad, 'float32')",
    ),
    (
        lambda: raw_ops.MaxPoolGrad(IMAGE, GRAD.astype("f8"), GRAD, TWO, TWO, "VALID"),
        TypeError, "MaxPoolGrad: orig_output has dtype float64 and orig_input has float32; give both the same",
    ),
    (lambda: avg_grad(workers=0), ValueError, "AvgPoolGrad: workers=0 is out of range; it must be at least 1"),
    # raw ops: values
    (
        lambda: fractional_max_grad(row_pooling_sequence=[0, 3, 2]),
        ValueError,
        "FractionalMaxPoolGrad: row_pooling_sequence=[0, 3, 2] decreases after entry 1 (3 to 2); it must not",
    ),
    (
        lambda: fractional_max_grad(col_pooling_sequence=[-1, 2, 4]),
        ValueError,
        "FractionalMaxPoolGrad: col_pooling_sequence=[-1, 2, 4] starts below 0; it must start at 0 or more, got -1",
    ),
    (
        lambda: fractional_max_grad(row_pooling_sequence=[0, 2, 2]),
        ValueError,
        "FractionalMaxPoolGrad: row_pooling_sequence=[0, 2, 2] has an empty cell 1: [2, 2) on 4 inputs; make its steps at least 1",
    ),
    (
        lambda: fractional_max_grad(orig_output=GRAD * 2),
        ValueError,
        "FractionalMaxPoolGrad: orig_output[0, 0, 0, 0] is not the maximum of its cell; pass what FractionalMaxPool gave, with the same overlapping",
    ),
    (
        lambda: raw_ops.MaxPoolGradWithArgmax(IMAGE, GRAD, np.full((1, 2, 2, 1), 16), TWO, TWO, "VALID"),
        ValueError,
        "MaxPoolGradWithArgmax: argmax[0, 0, 0, 0]=16 is not an index of its own batch element, which has 16 elements; "
        "pass what MaxPoolWithArgmax gave, with the same include_batch_in_index",
    ),
    (
        lambda: raw_ops.FractionalAvgPool(IMAGE, [1.0, 0.5, 1.0, 1.0]),
        ValueError, "FractionalAvgPool: pooling_ratio=[1.0, 0.5, 1.0, 1.0] must be finite and at least 1 on every axis",
    ),
    (
        lambda: raw_ops.FractionalAvgPool(IMAGE, [1.0, 1.5, 1.0, 1.0], seed=3),
        ValueError, "FractionalAvgPool: seed=(3, 0) is not used unless deterministic=True; set that, or leave both 0",
    ),
    (lambda: raw_ops.plan("Pool"), ValueError, f"plan: op_name='Pool' is not a pooling op; there are {', '.join(pg.op_table.OPS)}"),
    # makers
    (lambda: pg.sliding(4, 0), ValueError, "sliding: window=0 is out of range; it must be at least 1"),
    (lambda: pg.avg_pool(np.ones(4), window=0, axes=0), ValueError, "avg_pool: window=0 is out of range; it must be at least 1"),
    (lambda: pg.avg_pool(np.ones(4), window=2, divisor=0, axes=0), ValueError, "avg_pool: divisor=0 is out of range; it must be at least 1"),
    (lambda: pg.sliding(4, 2, padding="same"), ValueError, "sliding: padding='same' is not known; use 'VALID', 'SAME' or a list of (before, after)"),
    (
        lambda: pg.sliding(4, 2, 2, [(2, 0)]),
        ValueError, "sliding: padding=(2, 0) leaves a window of 2 (stride 2) wholly outside the 4 inputs of axis 0",
    ),
    (lambda: pg.sliding((4, 4, 4, 4), 2), ValueError, "sliding: input_size=(4, 4, 4, 4) has 4 entries; one to three axes can be pooled"),
    (lambda: pg.sliding((4, 4), (2, 2, 2)), ValueError, "sliding: window=(2, 2, 2) has 3 entries; give one number or 2"),
    (lambda: pg.fractional(5, [[0, 2, 4]], 1), TypeError, "fractional: overlapping=1 is not a bool; use True or False"),
    (lambda: pg.fractional((5, 5), [[0, 5]]), ValueError, "fractional: sequences has 1 entries for 2 axes; give one array for each axis"),
    (lambda: pg.adaptive(4, 0), ValueError, "adaptive: output_size=0 is out of range; it must be at least 1"),
    (
        lambda: pg.intervals(4, [0, 3], [2, 5]),
        ValueError, "intervals: start[0], stop[0]: window 1 is [3, 5); it must lie within [0, 4) and not be empty",
    ),
    (lambda: pg.intervals(4, [0, 1], [2, 3], [1, 0]), ValueError, "intervals: divisor[0]=0 must be at least 1"),
    (lambda: pg.intervals(4, [0], [2, 3]), ValueError, "intervals: stop[0] has 2 entries and start[0] 1; give as many of each"),
    (lambda: TABLE.part(2, 0, 1), ValueError, "WindowTable.part: axis=2 is not a pooled axis; this table has axes 0 to 1"),
    (
        lambda: TABLE.part(0, 1, 3),
        ValueError, "WindowTable.part: [1, 3) is not a range of the 2 outputs; use 0 <= start <= stop <= 2",
    ),
    (
        lambda: TABLE.cover(0, 3, 2),
        ValueError, "WindowTable.cover: [3, 2) is not a range of the 4 inputs; use 0 <= start <= stop <= 4",
    ),
    # ops
    (
        lambda: pg.avg_pool(IMAGE, TABLE),
        TypeError, "avg_pool: say which axes of x are pooled, once: axes=(1, 2), or data_format='NHWC' for short",
    ),
    (
        lambda: pg.avg_pool(IMAGE, TABLE, axes=(1, 2), data_format="NHWC"),
        TypeError, "avg_pool: say which axes of x are pooled, once: axes=(1, 2), or data_format='NHWC' for short",
    ),
    (lambda: pg.max_pool(IMAGE, axes=1), TypeError, "max_pool: say which windows: a WindowTable as second argument, or window=2"),
    (
        lambda: pg.avg_pool_grad(GRAD, window=2, axes=(1, 2)),
        TypeError, "avg_pool_grad: input_size is missing: give the sizes of the pooled axes before pooling, or a WindowTable",
    ),
    (
        lambda: pg.avg_pool(IMAGE, TABLE, axes=(1, 3)),
        ValueError, "avg_pool: axes=(1, 3) is not a run of one to three adjacent axes in order, such as (1, 2)",
    ),
    (lambda: pg.avg_pool(IMAGE, TABLE, axes=(3, 4)), ValueError, "avg_pool: axes=(3, 4) is outside the 4 axes of x"),
    (
        lambda: pg.avg_pool(IMAGE, TABLE, axes=1),
        ValueError, "avg_pool: x is pooled over 1 axes and the WindowTable has 2; make them the same",
    ),
    (
        lambda: pg.avg_pool(GRAD, TABLE, axes=(1, 2)),
        ValueError, "avg_pool: x has shape (1, 2, 2, 1); the WindowTable wants (1, 4, 4, 1)",
    ),
    (lambda: pg.avg_pool(IMAGE, TABLE, data_format="NHCW"), ValueError, "avg_pool: data_format='NHCW' is not known; use one of NWC, NCW, NHWC, NCHW, NDHWC, NCDHW"),
    (lambda: pg.avg_pool(IMAGE, TABLE, data_format="NWC"), ValueError, "avg_pool: data_format='NWC' is for 3-D arrays; x has 4 axes"),
    (
        lambda: pg.avg_pool(IMAGE, (2, 2), axes=(1, 2)),
        TypeError, "avg_pool: w=(2, 2) is not a WindowTable; make one, e.g. w = poolgrad.sliding((56, 56), window=2)",
    ),
    (
        lambda: pg.max_pool_grad(GRAD, TABLE, np.zeros((1, 2, 2, 1), np.int64), axes=(1, 2)),
        TypeError, "max_pool_grad: winners have dtype int64; pass those of max_pool, here uint8",
    ),
    (
        lambda: pg.max_pool_grad(GRAD, TABLE, np.full((1, 2, 2, 1), 9, np.uint8), axes=(1, 2)),
        ValueError, "max_pool_grad: winners[0, 0, 0, 0]=9 lies outside its window; pass those of max_pool",
    ),
    (
        lambda: pg.avg_pool(IMAGE, TABLE, axes=(1, 2), out=np.empty((1, 2, 2, 2), "f4")),
        ValueError, "avg_pool: out has shape (1, 2, 2, 2); the result has (1, 2, 2, 1)",
    ),
    (
        lambda: pg.avg_pool(IMAGE, TABLE, axes=(1, 2), out=np.empty((1, 2, 2, 1))),
        TypeError, "avg_pool: out has dtype float64; the result has float32",
    ),
    (lambda: pg.avg_pool(np.ones((4, 4), complex), TABLE, axes=(0, 1)), TypeError,
     f"avg_pool: x has dtype complex128; avg_pool takes {FLOATS}, int8, uint8, int16, uint16, int32, uint32, int64, uint64: "
     "convert it, e.g. with np.asarray(x, 'float32')"),
    (lambda: pg.set_workers(0), ValueError, "set_workers: workers=0 is out of range; it must be at least 1"),
    (lambda: pg.set_workers(5000), ValueError, "set_workers: workers=5000 is too many; use at most 1024"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), TEXTS, ids=[text[:60] for _, _, text in TEXTS])
def test_text(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text
    error = caught.value
    assert isinstance(error, (PoolValueError, PoolTypeError))
    assert text.startswith(f"{error.op}: ")
    assert error.argument is None or error.argument in text


def test_attributes() -> None:
    with pytest.raises(PoolValueError) as caught:
        avg_grad(grad=np.ones((1, 3, 3, 1), "f4"))
    error = caught.value
    assert (error.op, error.argument, error.expected, error.got) == (
        "AvgPoolGrad",
        "grad",
        "(1, 2, 2, 1)",
        "(1, 3, 3, 1)",
    )
    with pytest.raises(PoolTypeError) as refused:
        avg_grad(grad=np.ones((1, 2, 2, 1), np.int32))
    assert (refused.value.argument, refused.value.got) == ("grad", "int32")


def test_missing_and_unknown_arguments() -> None:
    with pytest.raises(
        PoolTypeError, match=r"^AvgPool: missing a required argument: 'padding'; its arguments are \(value, ksize"
    ):
        raw_ops.AvgPool(IMAGE, TWO, TWO)
    with pytest.raises(PoolTypeError, match="^AvgPool: got an unexpected keyword argument 'foo'; its arguments are"):
        raw_ops.AvgPool(IMAGE, TWO, TWO, "SAME", foo=1)
    with pytest.raises(PoolTypeError, match="^AvgPool: multiple values for argument 'value'; its arguments are"):
        raw_ops.AvgPool(IMAGE, TWO, TWO, "SAME", value=IMAGE)
    with pytest.raises(PoolTypeError, match="^AvgPool: too many positional arguments; its arguments are"):
        raw_ops.AvgPool(IMAGE, TWO, TWO, "SAME", "NHWC", None, None)


def test_messages_stay_on_one_short_line() -> None:
    assert shown(list(range(1000))).endswith(" ...")
    assert len(shown(np.zeros((100, 100)))) <= 80
    assert "\n" not in shown(np.zeros((3, 3)))
    with pytest.raises(ValueError) as caught:
        fractional_max_grad(row_pooling_sequence=list(range(5000, 0, -1)))
    assert len(str(caught.value)) < 300


def test_nothing_is_written_when_arguments_are_bad() -> None:
    out = np.full((1, 4, 4, 1), 7, np.float32)
    for changes in ({"grad": np.ones((1, 3, 3, 1), "f4")}, {"ksize": [1, 0, 2, 1]}, {"padding": "X"}, {"workers": 0}):
        with pytest.raises((ValueError, TypeError)):
            avg_grad(out=out, **changes)
    assert (out == 7).all()


class _Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value", [10**5000, [1, 10**5000, 2, 1], _Mute(), [1, _Mute(), 2, 1]], ids=["number", "list", "mute", "mute list"]
)
def test_values_that_cannot_be_printed(value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="AvgPool: ksize"):
        pg.raw_ops.AvgPool(np.zeros((1, 4, 4, 1), "float32"), value, [1, 2, 2, 1], "VALID")
    with pytest.raises((ValueError, TypeError), match="FractionalAvgPool: pooling_ratio"):
        pg.raw_ops.FractionalAvgPool(np.zeros((1, 4, 4, 1), "float32"), value)


class _Liar(int):
    """Says that it is within every range, and is not."""

    def __lt__(self, other: object) -> bool:
        return False

    __gt__ = __lt__

    def __le__(self, other: object) -> bool:
        return True

    __ge__ = __eq__ = __le__  # type: ignore[assignment]

    def __hash__(self) -> int:
        return hash(1)

    def __index__(self) -> int:
        return 2

    __int__ = __index__


ODD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: pg.sliding(4, _Liar(-3)), ValueError, "sliding: window=-3 is out of range; it must be at least 1"),
    (lambda: pg.sliding(_Liar(-1), 2), ValueError, "sliding: input_size=-1 is out of range; it must be at least 0"),
    (lambda: avg_grad(ksize=[1, _Liar(-2), 2, 1]), ValueError, "AvgPoolGrad: ksize=[1, -2, 2, 1] must be positive on every axis"),
    (lambda: avg_grad(orig_input_shape=[1, _Liar(-4), 4, 1]), ValueError, "AvgPoolGrad: orig_input_shape[1]=-4 is out of range; it must be at least 0"),
    (lambda: avg_grad(workers=_Liar(-1)), ValueError, "AvgPoolGrad: workers=-1 is out of range; it must be at least 1"),
    (lambda: pg.presets.onnx(4, 2, ceil_mode=_Liar(7)), TypeError, "presets.onnx: ceil_mode=7 is not a flag; use True or False"),
    (lambda: pg.sequences.graham(4, 2, rng=_Liar(-7)), ValueError, "sequences.graham: rng=-7 is out of range; it must be at least 0"),
    (lambda: pg.sliding(4, 2, padding=np.array(3)), ValueError, "sliding: padding=array(3) must be 'VALID', 'SAME' or 1 pairs (before, after)"),
    (lambda: pg.presets.keras(4, 2, padding=np.array(["same"])), ValueError, "presets.keras: padding=array(['same'], dtype='<U4') is not known; use 'valid' or 'same'"),
    (lambda: pg.winners_to_indices(np.zeros((1, 2, 2, 1), "u1"), TABLE, np.array(["torch", "torch"]), data_format="NHWC"), ValueError, "winners_to_indices: style=array(['torch', 'torch'], dtype='<U5') is not known; use 'tensorflow' or 'torch'"),
    (lambda: pg.winners_to_indices(np.zeros((1, 2, 2, 1), "u1"), TABLE, data_format="NHWC", include_batch=np.ones(2)), TypeError, "winners_to_indices: include_batch=array([1., 1.]) is not a bool; use True or False"),
    (lambda: pg.max_pool(IMAGE, TABLE, data_format="NHWC", return_winners=np.ones(2)), TypeError, "max_pool: return_winners=array([1., 1.]) is not a bool; use True or False"),
    (lambda: pg.sliding(4, {2}), TypeError, "sliding: window={2} is not a sequence of integers; give an integer, or a list of one for each pooled axis"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), ODD, ids=[text.split("=")[0] for _, _, text in ODD])
def test_odd_arguments(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text


def test_an_iterator_is_no_list() -> None:
    """It can be read once, and an error further on would show it empty."""
    for given in ((k for k in TWO), map(int, TWO), iter(TWO)):
        with pytest.raises(TypeError, match="^AvgPoolGrad: ksize=.* is not a sequence of integers; give a list such"):
            avg_grad(ksize=given, grad=np.ones((1, 3, 3, 1), "f4"))
    with pytest.raises(ValueError, match="ksize=2, strides=2, padding='VALID' on input"):
        avg_grad(ksize=tuple(TWO), strides=np.array(TWO), grad=np.ones((1, 3, 3, 1), "f4"))


def test_a_liar_does_not_stand_for_a_number() -> None:
    """Plans are remembered by their numbers; what only claims to be equal to one is another call."""
    expected = avg_grad()
    for _ in range(2):
        np.testing.assert_array_equal(avg_grad(ksize=[1, _Liar(2), _Liar(2), 1]), expected)
        with pytest.raises(ValueError, match="pools the batch axis"):
            avg_grad(ksize=[_Liar(2), 2, 2, 1])


def test_a_long_wrong_sequence_is_refused_at_once() -> None:
    row = np.zeros(2**24, np.int64)
    with pytest.raises(ValueError, match="row_pooling_sequence=.*empty cell 0") as caught:
        pg.raw_ops.FractionalAvgPoolGrad([1, 4, 4, 1], np.ones((1, 2, 2, 1), "float32"), row, [0, 2, 4])
    assert len(str(caught.value)) < 300


def test_divisors_stay_within_64_bits() -> None:
    with pytest.raises(ValueError, match=r"intervals: divisor\[1\]"):
        pg.intervals((4, 4), [[0], [0]], [[4], [4]], [[2**40], [2**40]])
