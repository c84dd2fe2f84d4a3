"""Answers recorded from TensorFlow 2.21 by tests/tools/record_golden.py, replayed without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import raw_calls
from raw_calls import OPS, Call

from poolgrad import raw_ops

HERE = Path(__file__).parent
sys.path.append(str(HERE / "frameworks"))
import tensorflow_comparison as comparison

RECORDED = sorted((HERE / "golden").glob("*.npz"))


def recorded(path: Path) -> tuple[str, list[tuple[Call, dict[str, Any]]]]:
    """The calls of one file and TensorFlow's answers."""
    with np.load(path) as file:
        header = json.loads(str(file["header"]))
        calls = []
        for number, row in enumerate(header["calls"]):
            tensors = {}
            for name, kind in row["dtypes"].items():
                array = file[f"{number} {name}"]
                tensors[name] = array.view(ml_dtypes.bfloat16) if kind == "bfloat16" else array
            answer = {
                name.removeprefix("answer "): array for name, array in tensors.items() if name.startswith("answer ")
            }
            given = {name: array for name, array in tensors.items() if not name.startswith("answer ")}
            windows = [[tuple(window) for window in axis] for axis in row["windows"]]
            call = Call(header["op"], {**given, **row["arguments"]}, windows, tuple(row["sizes"]), row["first"])
            calls.append((call, answer))
    assert header["tensorflow"].startswith("2.21")
    return header["op"], calls


def test_every_op_is_recorded() -> None:
    assert {path.stem for path in RECORDED} == set(OPS) - {"MaxPoolGradGradWithArgmax"}
    assert sum(path.stat().st_size for path in RECORDED) < 1 << 20


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_answers(path: Path) -> None:
    op, calls = recorded(path)
    assert len(calls) >= 10
    for call, answer in calls:
        result = getattr(raw_ops, op)(**call.arguments)
        wanted = raw_calls.check(call, result)
        comparison.compare(call, answer, wanted)
        outputs = result._asdict() if isinstance(result, tuple) else {"output": result}
        for name, theirs in answer.items():
            ours = outputs[name]
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), call
            if ours.dtype.kind in "iu" or ("Max" in op and not op.endswith("Grad")):
                np.testing.assert_array_equal(ours, theirs, str(call))
