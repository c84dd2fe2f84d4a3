"""Plans: everything about a call without its data."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
import raw_calls
from raw_calls import OPS, random_call

from poolgrad import raw_ops

every_op = pytest.mark.parametrize("op", OPS)


def with_specs(op: str, arguments: dict[str, Any]) -> dict[str, Any]:
    names = [spec.split(":")[0] for spec in OPS[op][2].split()]
    return {
        name: raw_ops.Spec(value.shape, value.dtype) if name in names else value for name, value in arguments.items()
    }


@every_op
def test_plan_tells_what_the_call_returns(op: str, seed: int) -> None:
    rng = np.random.default_rng([seed, *map(ord, op)])
    for _ in range(60):
        call = random_call(rng, op)
        if "zero size" in call.tags and op in ("FractionalAvgPool", "FractionalMaxPool"):
            continue
        result = getattr(raw_ops, op)(**call.arguments)
        outputs = result._asdict() if isinstance(result, tuple) else {"output": result}
        for arguments in (call.arguments, with_specs(op, call.arguments)):
            plan = raw_ops.plan(op, **arguments)
            assert plan.result_shapes == {name: array.shape for name, array in outputs.items()}, call
            assert plan.result_dtypes == {name: array.dtype for name, array in outputs.items()}, call
            assert plan.axes == tuple(range(call.first, call.first + len(call.sizes))), call
            assert plan.table.input_size == call.sizes, call
            assert plan.channel_axis == (1 if call.first == 2 else len(call.sizes) + 1), call
            if call.windows:
                assert plan.table.output_size == tuple(map(len, call.windows)), call
            first, last = plan.axes[0], plan.axes[-1] + 1
            assert plan.input_shape[first:last] == plan.table.input_size
            assert plan.output_shape[first:last] == plan.table.output_size


@every_op
def test_plan_refuses_what_the_call_refuses(op: str) -> None:
    rng = np.random.default_rng(3)
    call = random_call(rng, op)
    while "zero size" in call.tags:
        call = random_call(rng, op)
    name = OPS[op][2].split(":")[0]
    value = call.arguments[name]
    for wrong in (value[0], np.zeros((*value.shape, 1), value.dtype), value.astype(complex)):
        given = {**call.arguments, name: wrong}
        texts = []
        for run in (getattr(raw_ops, op), lambda **given: raw_ops.plan(op, **given)):
            with pytest.raises((ValueError, TypeError)) as caught:
                run(**given)
            texts.append(str(caught.value))
        with pytest.raises((ValueError, TypeError)) as caught:
            raw_ops.plan(op, **with_specs(op, given))
        assert {*texts, str(caught.value)} == {texts[0]}


def test_plan_allocates_nothing() -> None:
    plan = raw_ops.plan(
        "AvgPool3DGrad", orig_input_shape=[1, 1000, 1000, 1000, 2], grad=raw_ops.Spec((1, 500, 500, 500, 2), "float32"),
        ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="VALID",
    )  # fmt: skip
    assert plan.table.output_size == (500, 500, 500)


def test_one_plan_does_not_stand_for_another() -> None:
    """Plans are remembered; calls that differ in any argument, or in the type of one, must not share one."""
    x = np.arange(36, dtype=np.float32).reshape(1, 6, 6, 1)
    base: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    for changes in (
        {},
        {"ksize": [1, 3, 2, 1]},
        {"strides": [1, 1, 2, 1]},
        {"padding": "SAME", "ksize": [1, 4, 4, 1]},
        {},
    ):
        call = {**base, **changes}
        windows = [
            raw_calls.reference.sliding(6, k, s, call["padding"])
            for k, s in zip(call["ksize"][1:3], call["strides"][1:3], strict=True)
        ]
        got = raw_ops.AvgPool(x, **call)
        raw_calls.reference.assert_close(got, raw_calls.reference.avg_pool(x, windows, 1))
    for bad in ([1, 2.0, 2, 1], [1, True, 2, 1], [1, "2", 2, 1], (1, 2.0, 2, 1), np.array([1.0, 2, 2, 1])):
        with pytest.raises(TypeError):
            raw_ops.AvgPool(x, bad, [1, 2, 2, 1], "VALID")
    raw_ops.AvgPool(x, [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
    with pytest.raises(TypeError):
        raw_ops.AvgPool(x, [True, True, True, True], [1, 1, 1, 1], "VALID")
    ints = np.arange(36).reshape(1, 6, 6, 1)
    with pytest.raises(TypeError):
        raw_ops.AvgPool(ints, **base)
    g = np.ones((1, 2, 2, 1), np.float32)
    for sequence in ([0, 2, 4], [0, 3, 4], np.array([0, 2, 4]), np.array([0, 1, 4]), np.array([0, 1, 4], np.int32)):
        for overlapping in (False, True):
            got = raw_ops.FractionalAvgPoolGrad([1, 4, 4, 1], g, sequence, [0, 2, 4], overlapping)
            rows = raw_calls.reference.fractional(4, list(map(int, sequence)), overlapping)
            columns = raw_calls.reference.fractional(4, [0, 2, 4], overlapping)
            raw_calls.reference.assert_close(got, raw_calls.reference.avg_pool_grad(g, [rows, columns], 1, (4, 4)))


def test_a_changed_list_is_a_changed_call() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    size = [1, 2, 2, 1]
    assert raw_ops.MaxPool(x, size, size, "VALID").shape == (1, 2, 2, 1)
    size[1] = 4
    assert raw_ops.MaxPool(x, size, size, "VALID").shape == (1, 1, 2, 1)
    rows = np.array([0, 2, 4])
    g = np.ones((1, 2, 2, 1), np.float32)
    first = raw_ops.FractionalAvgPoolGrad([1, 4, 4, 1], g, rows, rows)
    rows[1] = 3
    second = raw_ops.FractionalAvgPoolGrad([1, 4, 4, 1], g, rows, rows)
    assert (first != second).any()


@every_op
def test_plans_pickle_and_copy(op: str, seed: int) -> None:
    call = random_call(np.random.default_rng([seed, *map(ord, op)]), op)
    while "zero size" in call.tags:
        call = random_call(np.random.default_rng([seed, 1, *map(ord, op)]), op)
        seed += 1
    plan = raw_ops.plan(op, **call.arguments)
    for again in (pickle.loads(pickle.dumps(plan)), copy.copy(plan), copy.deepcopy(plan)):
        assert again is not plan
        assert again == plan
        assert again.op is plan.op, "there is one row of each op"
        assert again.table == plan.table
        assert again.result_shapes == plan.result_shapes
        assert again.frame[1:] == plan.frame[1:]
        with pytest.raises(TypeError):
            again.attributes["data_format"] = "other"  # type: ignore[index]
    assert dataclasses.replace(plan, outer=plan.outer + 1) != plan


def test_unknown_op() -> None:
    with pytest.raises(ValueError, match="^plan: op_name='AvgPool4D' is not a pooling op; there are AvgPool, "):
        raw_ops.plan("AvgPool4D")


def test_odd_specs_and_names_are_refused_by_name() -> None:
    sizes = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    for shape, dtype in (((1, -4, 4, 1), "f4"), ((1, 4.0, 4, 1), "f4"), ((1, 4, 4, 1), "nope")):
        with pytest.raises((ValueError, TypeError), match=r"AvgPool: value"):
            raw_ops.plan("AvgPool", value=raw_ops.Spec(shape, dtype), **sizes)
    with pytest.raises(TypeError, match="AvgPool: value=Spec.* has no data"):
        raw_ops.AvgPool(raw_ops.Spec((1, 4, 4, 1), "f4"), **sizes)
    with pytest.raises(ValueError, match="plan: op_name"):
        raw_ops.plan([1], **sizes)  # type: ignore[arg-type]
