"""Conventions of other libraries: each against a twin that walks along the padded axis, and their errors."""

from __future__ import annotations

import doctest
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import poolgrad as pg
from poolgrad import counting_presets, presets

Rows = list[tuple[int, int, int]]


def rows(w: pg.WindowTable, axis: int = 0) -> Rows:
    """(start, stop, divisor) of every window of one axis."""
    return [tuple(row) for row in w.axes[axis].windows(0, w.output_size[axis]).tolist()]


def walked(n: int, window: int, stride: int, before: int, after: int, ceil: bool, include: bool) -> Rows | None:
    """Windows found by stepping along the padded axis; None where one of them holds no input at all."""
    result = []
    position = -before
    while True:
        places = range(position, position + window)
        if ceil and position >= n:  # windows that would start in the padding after the input are left out
            return result
        if places[-1] >= n + after and not (ceil and position - stride + window < n + after):
            return result
        inside = [place for place in places if 0 <= place < n]
        if not inside:
            return None
        counted = [place for place in places if -before <= place < n + after] if include else inside
        result.append((inside[0], inside[-1] + 1, len(counted)))
        position += stride


def same_pads(n: int, window: int, stride: int, lower: bool) -> tuple[int, int]:
    """The least padding with which every ``stride``-th input starts a full window, halved."""
    total = 0
    while len(walked(n + total, window, stride, 0, 0, False, False) or []) < len(range(0, n, stride)):
        total += 1
    return (total - total // 2, total // 2) if lower else (total // 2, total - total // 2)


sizes = st.integers(1, 14)
small = st.integers(1, 6)


@given(sizes, small, small, st.data(), st.booleans(), st.booleans())
def test_torch_windows(n: int, window: int, stride: int, data: st.DataObject, ceil: bool, include: bool) -> None:
    pad = data.draw(st.integers(0, window // 2))
    expected = walked(n, window, stride, pad, pad, ceil, include)
    call: dict[str, Any] = {"padding": pad, "ceil_mode": ceil, "count_include_pad": include}
    if not expected:
        with pytest.raises(ValueError, match=r"^presets\.torch: kernel_size="):
            presets.torch(n, window, stride, **call)
        return
    w = presets.torch(n, window, stride, **call)
    assert rows(w) == expected
    assert rows(presets.torch(n, window, stride, **call, divisor_override=7)) == [(a, b, 7) for a, b, _ in expected]
    piece, place = w.part(0, len(expected) // 2, len(expected))
    assert [(a + place.start, b + place.start, d) for a, b, d in rows(piece)] == expected[len(expected) // 2 :]


@given(sizes, small, small, st.integers(0, 5), st.integers(0, 5), st.booleans(), st.booleans())
def test_onnx_explicit_windows(
    n: int, window: int, stride: int, before: int, after: int, ceil: bool, include: bool
) -> None:
    call: dict[str, Any] = {"pads": [before, after], "ceil_mode": int(ceil), "count_include_pad": int(include)}
    expected = walked(n, window, stride, before, after, ceil, include)
    too_large = not expected and window > n + before + after + (2 * stride - 1 if ceil else stride)
    if expected is None or too_large:
        with pytest.raises(ValueError, match=r"^presets\.onnx: (pads|kernel_shape)="):
            presets.onnx(n, window, stride, **call)
    else:
        assert rows(presets.onnx(n, window, stride, **call)) == expected


@given(sizes, small, small, st.booleans(), st.booleans(), st.integers(0, 1))
def test_same_windows(n: int, window: int, stride: int, lower: bool, include: bool, ceil: int) -> None:
    pair = same_pads(n, window, stride, lower)
    expected = walked(n, window, stride, *pair, False, include)
    assert expected is not None
    assert len(expected) == len(range(0, n, stride))
    padding = "SAME_LOWER" if lower else "SAME"
    assert rows(presets.jax(n, window, stride, padding, count_include_pad=include)) == expected
    auto_pad = "SAME_LOWER" if lower else "SAME_UPPER"
    call: dict[str, Any] = {"auto_pad": auto_pad, "count_include_pad": int(include), "ceil_mode": ceil}
    if (len(expected) - 1) * stride + window < n:
        with pytest.raises(ValueError, match=r"by less than nothing; use 'VALID', which gives as many"):
            presets.onnx(n, window, stride, **call)
        assert presets.onnx(n, window, stride, auto_pad="VALID").output_size == (len(expected),)
    else:
        assert rows(presets.onnx(n, window, stride, **call)) == expected
    if not lower and not include:
        assert rows(presets.keras(n, window, stride, "same")) == expected
        assert rows(presets.tensorflow(n, window, stride, "SAME")) == expected


@given(sizes, small, small, st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_jax_explicit_windows(n: int, window: int, stride: int, low: int, high: int, include: bool) -> None:
    expected = walked(n, window, stride, low, high, False, include)
    if expected is None:
        with pytest.raises(ValueError, match=r"^presets\.jax: padding=.* wholly outside"):
            presets.jax(n, window, stride, [(low, high)], include)
        return
    w = presets.jax(n, window, stride, [(low, high)], include)
    assert rows(w) == expected
    assert not include or {divisor for _, _, divisor in expected} <= {window}


@given(sizes, small, small)
def test_valid_is_the_same_everywhere(n: int, window: int, stride: int) -> None:
    expected = walked(n, window, stride, 0, 0, False, False)
    assert rows(presets.jax(n, window, stride)) == expected
    if expected:
        valid = pg.sliding(n, window, stride)
        assert rows(valid) == expected
        for table in (
            presets.tensorflow(n, window, stride),
            presets.keras(n, window, stride),
            presets.torch(n, window, stride),
            presets.onnx(n, window, stride, auto_pad="VALID", ceil_mode=1),
            presets.jax(n, window, stride),
        ):
            assert table == valid
            assert hash(table) == hash(valid)


def test_defaults_are_those_of_the_library() -> None:
    assert presets.tensorflow(9, 3).output_size == (3,)
    assert presets.keras(9, 3).output_size == (3,)
    assert presets.torch(9, 3).output_size == (3,)
    assert presets.onnx(9, 3).output_size == (7,)
    assert presets.jax(9, 3).output_size == (7,)
    assert rows(presets.torch(4, 3, 2, padding=1)) == [(0, 2, 3), (1, 4, 3)]
    assert rows(presets.onnx(4, 3, 2, pads=[1, 1])) == [(0, 2, 2), (1, 4, 3)]
    assert rows(presets.jax(4, 3, 2, [(1, 1)])) == [(0, 2, 3), (1, 4, 3)]


def test_arguments_for_each_axis() -> None:
    w = presets.torch((5, 6, 7), (2, 3, 4), (1, 2, 3), (1, 0, 2))
    for k, call in enumerate([(5, 2, 1, 1), (6, 3, 2, 0), (7, 4, 3, 2)]):
        assert rows(w, k) == rows(presets.torch(*call))
    w = presets.onnx([5, 6], [2, 3], [2, 1], pads=[1, 2, 0, 1])
    assert rows(w, 0) == rows(presets.onnx(5, 2, 2, pads=[1, 0]))
    assert rows(w, 1) == rows(presets.onnx(6, 3, 1, pads=[2, 1]))
    w = presets.jax((5, 6), (2, 3), 2, [(0, 1), (2, 0)], count_include_pad=False)
    assert rows(w, 1) == rows(presets.jax(6, 3, 2, [(2, 0)], False))
    explicit = presets.tensorflow((5, 6), 3, 2, [(1, 0), (0, 2)])
    assert explicit == pg.sliding((5, 6), 3, 2, [(1, 0), (0, 2)])


def test_ceil_mode_excess_never_counts() -> None:
    assert rows(presets.torch(5, 3, 3, ceil_mode=True)) == [(0, 3, 3), (3, 5, 2)]
    assert rows(presets.torch(2, 3, 2, ceil_mode=True)) == [(0, 2, 2)]
    # The third window would start in the padding after the input, so there is none.
    assert rows(presets.torch(3, 2, 2, padding=1, ceil_mode=True)) == [(0, 1, 2), (1, 3, 2)]


def test_torch_counts_padding_in_average_and_gradient() -> None:
    w = presets.torch((3, 3), 3, 2, padding=1)
    y = pg.avg_pool(np.full((3, 3), 9.0), w, axes=(0, 1))
    np.testing.assert_array_equal(y, [[4.0, 4.0], [4.0, 4.0]])
    gradient = pg.avg_pool_grad(np.full((2, 2), 9.0), w, axes=(0, 1))
    np.testing.assert_allclose(gradient, [[1, 2, 1], [2, 4, 2], [1, 2, 1]], rtol=1e-15)
    fixed = presets.torch((3, 3), 3, 2, padding=1, divisor_override=2)
    np.testing.assert_array_equal(pg.avg_pool(np.full((3, 3), 9.0), fixed, axes=(0, 1)), np.full((2, 2), 18.0))


@given(st.lists(sizes, min_size=1, max_size=3), st.data())
def test_adaptive(size: list[int], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.none() | small, min_size=len(size), max_size=len(size)))
    full = [n if m is None else m for n, m in zip(size, wanted, strict=True)]
    assert presets.adaptive(size, wanted) == pg.adaptive(size, full)
    assert presets.adaptive(size, None) == pg.adaptive(size, size)
    assert presets.adaptive(size, 2) == pg.adaptive(size, 2)
    assert presets.global_pool(size) == pg.adaptive(size, 1)
    assert [rows(presets.global_pool(size), k) for k in range(len(size))] == [[(0, n, n)] for n in size]


def test_empty_results() -> None:
    assert presets.onnx(3, 4).output_size == (0,)
    assert presets.jax(3, 9).output_size == (0,)
    assert presets.jax(0, 2, 1, "SAME").output_size == (0,)
    assert pg.avg_pool(np.ones(3), presets.jax(3, 9), axes=0).shape == (0,)


def test_numbers_up_to_the_limit() -> None:
    top = 2**40 - 1
    w = presets.torch(top, top, 1, padding=top // 2)
    assert w.output_size == (top // 2 * 2 + 1,)
    assert w.axes[0].window(0) == (0, top - top // 2)
    assert w.axes[0].divisor(0) == w.axes[0].divisor(w.output_size[0] - 1) == top
    assert rows(presets.torch(5, 2, top, ceil_mode=True)) == [(0, 2, 2)]
    assert rows(presets.jax(5, top, top, "SAME")) == [(0, 5, top)]
    assert presets.tensorflow(2**50, 2, padding="SAME").output_size == (2**49,)


@pytest.mark.parametrize("flag", [True, np.True_, 1, np.int64(1)])
def test_flags(flag: Any) -> None:
    assert presets.torch(5, 3, 3, ceil_mode=flag) == presets.onnx(5, 3, 3, ceil_mode=flag)


def test_pickle_keeps_what_counts() -> None:
    w = presets.torch(6, 3, 2, padding=1, ceil_mode=True)
    assert rows(pickle.loads(pickle.dumps(w))) == rows(w) == [(0, 2, 3), (1, 4, 3), (3, 6, 3), (5, 6, 2)]
    assert w != presets.torch(6, 3, 2, padding=1, ceil_mode=True, count_include_pad=False)


HOLES = (
    " is not supported: a window must be an interval, and a dilated one has holes; with stride 1 pool each slice "
    "x[r::2] of that axis undilated: its outputs are y[r::2]"
)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: presets.torch(8, 3, dilation=2), ValueError, f"presets.torch: dilation=2{HOLES}"),
        (lambda: presets.torch((8, 8), 3, dilation=(1, 2)), ValueError, f"presets.torch: dilation=(1, 2){HOLES}"),
        (lambda: presets.onnx(8, 3, dilations=[2]), ValueError, f"presets.onnx: dilations=[2]{HOLES}"),
        (
            lambda: presets.torch((8, 8), (4, 3), padding=(1, 2)),
            ValueError,
            "presets.torch: padding=(1, 2) is more than half of kernel_size 3 (axis 1); torch takes up to half",
        ),
        (
            lambda: presets.torch(2, 4, padding=0),
            ValueError,
            "presets.torch: kernel_size=4 on an input of 2 (axis 0) with padding (0, 0) gives 0 outputs; "
            "use a smaller one",
        ),
        (
            lambda: presets.torch(8, 3, divisor_override=0),
            ValueError,
            "presets.torch: divisor_override=0 is out of range; it must be at least 1",
        ),
        (
            lambda: presets.torch(8, 3, ceil_mode="yes"),  # type: ignore[arg-type]
            TypeError,
            "presets.torch: ceil_mode='yes' is not a flag; use True or False",
        ),
        (
            lambda: presets.onnx(8, 3, count_include_pad=2),
            TypeError,
            "presets.onnx: count_include_pad=2 is not a flag; use True or False",
        ),
        (
            lambda: presets.torch(8, 2.5),  # type: ignore[arg-type]
            TypeError,
            "presets.torch: kernel_size=2.5 is not a sequence of integers; "
            "give an integer, or a list of one for each pooled axis",
        ),
        (
            lambda: presets.torch(2**40, 3),
            ValueError,
            "presets.torch: input_size=1099511627776 is too large; sizes stay below 2**40",
        ),
        (
            lambda: presets.jax(8, 3, strides=2**40),
            ValueError,
            "presets.jax: strides=1099511627776 is too large; sizes stay below 2**40",
        ),
        (
            lambda: presets.onnx(8, 3, pads=[0, 2**40]),
            ValueError,
            "presets.onnx: pads=1099511627776 is too large; sizes stay below 2**40",
        ),
        (
            lambda: presets.onnx((8, 8), 3, pads=[1, 1]),
            ValueError,
            "presets.onnx: pads=[1, 1] has 2 entries; give 4: the begin of every axis, then every end",
        ),
        (
            lambda: presets.onnx(8, 3, auto_pad="SAME_UPPER", pads=[1, 1]),
            ValueError,
            "presets.onnx: pads=[1, 1] cannot be used together with auto_pad='SAME_UPPER'; leave one out",
        ),
        (
            lambda: presets.onnx(8, 3, auto_pad="SAME"),
            ValueError,
            "presets.onnx: auto_pad='SAME' is not known; use 'NOTSET', 'VALID', 'SAME_UPPER' or 'SAME_LOWER'",
        ),
        (
            lambda: presets.onnx(8, 3, pads=[3, 0]),
            ValueError,
            "presets.onnx: pads=(3, 0) leaves a window of 3 (stride 1) wholly outside the 8 inputs of axis 0; "
            "keep it below the window",
        ),
        (
            lambda: presets.onnx(8, 1, 4, auto_pad="SAME_LOWER"),
            ValueError,
            "presets.onnx: auto_pad='SAME_LOWER' would pad axis 0 (kernel 1, stride 4, input 8) by less than nothing; "
            "use 'VALID', which gives as many outputs there",
        ),
        (
            lambda: presets.keras((8, 2), 3),
            ValueError,
            "presets.keras: pool_size=3 is larger than the 2 inputs of axis 1; use 'same'",
        ),
        (
            lambda: presets.keras(8, 3, padding="SAME"),
            ValueError,
            "presets.keras: padding='SAME' is not known; use 'valid' or 'same'",
        ),
        (
            lambda: presets.jax(8, 3, padding="same"),
            ValueError,
            "presets.jax: padding='same' is not known; use 'VALID', 'SAME' or a list of (before, after)",
        ),
        (
            lambda: presets.jax(8, 3, padding=[(-1, 0)]),
            ValueError,
            "presets.jax: padding[0][0]=-1 is out of range; it must be at least 0",
        ),
        (
            lambda: presets.jax(0, 3, padding=[(2, 1)]),
            ValueError,
            "presets.jax: padding=(2, 1) leaves a window of 3 (stride 1) wholly outside the 0 inputs of axis 0; "
            "keep it below the window",
        ),
        (
            lambda: presets.adaptive((8, 8), (3, None, 2)),
            ValueError,
            "presets.adaptive: output_size=(3, None, 2) has 3 entries; give one number or 2",
        ),
        (
            lambda: presets.global_pool((8, 0)),
            ValueError,
            "presets.global_pool: input_size[1]=0 is out of range; it must be at least 1",
        ),
        (
            lambda: presets.tensorflow(8, 3, padding="EXPLICIT"),
            ValueError,
            "presets.tensorflow: padding='EXPLICIT' is not known; use 'VALID', 'SAME' or a list of (before, after)",
        ),
    ],
)
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text
    assert caught.value.op == text.split(":")[0]  # type: ignore[attr-defined]


def test_advice_for_dilation_is_right() -> None:
    """A dilated max with stride 1, computed the long way, is the interleaved pooling of the slices."""
    x = np.random.default_rng(7).permutation(23).astype(np.float64)
    dilated = np.array([max(x[i], x[i + 3], x[i + 6]) for i in range(23 - 6)])
    y = np.empty(23 - 6)
    for r in range(3):
        y[r::3] = pg.max_pool(x[r::3], presets.torch(len(x[r::3]), 3, 1), axes=0)
    np.testing.assert_array_equal(y, dilated)


def test_examples() -> None:
    results = [doctest.testmod(module) for module in (presets, counting_presets)]
    assert sum(result.attempted for result in results) >= 20
    assert sum(result.failed for result in results) == 0
