"""Calls that crashed, corrupted or confused TensorFlow, each in a process of its own, and more of their kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "data" / "hostile_inputs.json").read_text())
Call = dict[str, Any]
Ask = Callable[[str, list[Call]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
    server = subprocess.Popen(
        [sys.executable, str(HERE / "tools" / "hostile_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )

    def send(message: Any) -> Any:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())

    def answers(op: str, arguments: list[Call]) -> list[dict[str, Any]]:
        """Those of all calls in one process; in one each if it dies, so that the guilty one is named."""
        calls = [{"op": op, "arguments": each} for each in arguments]
        together = send(calls) if len(calls) > 1 else None
        return together if isinstance(together, list) else [send(call) for call in calls]

    yield answers
    server.communicate()
    assert server.returncode == 0


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: entry["id"])
def test_recorded(ask: Ask, entry: dict[str, Any]) -> None:
    (answer,) = ask(entry["op"], [entry["arguments"]])
    if "error" in entry:
        assert entry["error"] in answer.get("error", []), answer
        assert answer["text"].startswith(f"{entry['op']}: "), answer
        assert entry["names"] in answer["names"], answer
    else:
        assert answer.get("shape") == entry["shape"], answer
        assert answer["values"] == ([] if entry["all"] is None else [entry["all"]])


def test_every_process_is_its_own(ask: Ask) -> None:
    """The server reports a child that dies: a recorded crash cannot pass unseen."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from tools import hostile_server as s; import os, signal;"
        "s.answer = lambda call: os.kill(os.getpid(), signal.SIGKILL); print(s.in_a_child('{}'));"
        "s.answer = lambda call: os._exit(3); print(s.in_a_child('[{}, {}]'))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(HERE)], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ['{"signal": 9}', '{"exit": 3}']


# ---- variants: every argument of every op, spoiled in every way we know ----------------------------------------------


def tensor(shape: list[int], values: Any = 1.0, dtype: str = "float32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "values": values}


TWO = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
THREE = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
IMAGE, POOLED = tensor([1, 4, 4, 1]), tensor([1, 2, 2, 1])
VOLUME, SMALL = tensor([1, 4, 4, 4, 1]), tensor([1, 2, 2, 2, 1])
ARGMAX = tensor([1, 2, 2, 1], [0, 2, 8, 10], "int64")
SEQUENCES = {"row_pooling_sequence": [0, 2, 4], "col_pooling_sequence": [0, 2, 4]}
CALLS: dict[str, dict[str, Any]] = {
    "AvgPool": {"value": IMAGE, **TWO},
    "AvgPoolGrad": {"orig_input_shape": [1, 4, 4, 1], "grad": POOLED, **TWO},
    "AvgPool3D": {"input": VOLUME, **THREE},
    "AvgPool3DGrad": {"orig_input_shape": [1, 4, 4, 4, 1], "grad": SMALL, **THREE},
    "MaxPool": {"input": IMAGE, **TWO, "explicit_paddings": []},
    "MaxPoolV2": {"input": IMAGE, **TWO},
    "MaxPool3D": {"input": VOLUME, **THREE},
    "MaxPoolGrad": {"orig_input": IMAGE, "orig_output": POOLED, "grad": POOLED, **TWO, "explicit_paddings": []},
    "MaxPoolGradV2": {"orig_input": IMAGE, "orig_output": POOLED, "grad": POOLED, **TWO},
    "MaxPool3DGrad": {"orig_input": VOLUME, "orig_output": SMALL, "grad": SMALL, **THREE},
    "MaxPoolGradGrad": {"orig_input": IMAGE, "orig_output": POOLED, "grad": IMAGE, **TWO},
    "MaxPoolGradGradV2": {"orig_input": IMAGE, "orig_output": POOLED, "grad": IMAGE, **TWO},
    "MaxPool3DGradGrad": {"orig_input": VOLUME, "orig_output": SMALL, "grad": VOLUME, **THREE},
    "MaxPoolWithArgmax": {"input": IMAGE, **TWO, "Targmax": "int64", "include_batch_in_index": False},
    "MaxPoolGradWithArgmax": {"input": IMAGE, "grad": POOLED, "argmax": ARGMAX, **TWO, "include_batch_in_index": False},
    "MaxPoolGradGradWithArgmax": {
        "input": IMAGE,
        "grad": IMAGE,
        "argmax": ARGMAX,
        **TWO,
        "include_batch_in_index": False,
    },
    "FractionalAvgPool": {
        "value": IMAGE,
        "pooling_ratio": [1.0, 1.5, 1.5, 1.0],
        "pseudo_random": False,
        "overlapping": False,
        "deterministic": True,
        "seed": 1,
        "seed2": 2,
    },
    "FractionalMaxPool": {
        "value": IMAGE,
        "pooling_ratio": [1.0, 1.5, 1.5, 1.0],
        "pseudo_random": True,
        "overlapping": True,
        "deterministic": True,
        "seed": 1,
        "seed2": 2,
    },
    "FractionalAvgPoolGrad": {
        "orig_input_tensor_shape": [1, 4, 4, 1],
        "out_backprop": POOLED,
        **SEQUENCES,
        "overlapping": False,
    },
    "FractionalMaxPoolGrad": {
        "orig_input": IMAGE,
        "orig_output": POOLED,
        "out_backprop": POOLED,
        **SEQUENCES,
        "overlapping": True,
    },
}

NAN, INFINITY = float("nan"), float("inf")


def spoiled(op: str, name: str, good: Any) -> list[Any]:
    """Values of this argument that no call may accept."""
    rank = 5 if "3D" in op else 4
    middle = rank - 2
    if name in ("ksize", "strides"):

        def around(value: Any) -> list[Any]:
            return [1, value, *[2] * (middle - 1), 1]

        entries = [
            around(value) for value in (0, -1, -(2**31), -(2**63), 2**62, 2**63, 2**64, 2.0, True, "2", None, [2], NAN)
        ]
        lists = [[], [1], [1] * (rank - 1), [1] * (rank + 1), [2, *[2] * middle, 1], [1, *[2] * middle, 2], [0] * rank]
        arrays = [tensor([], 2, "int32"), tensor([rank, 1], 1, "int32"), tensor([rank], 1.0), tensor([rank], 1, "bool")]
        huge = [around(2**31)] if name == "ksize" else []
        return [*entries, *lists, *arrays, *huge, 2, 2.0, "2222", None, {"bytes": "1221"}, {"a": 1}]
    if name in ("orig_input_shape", "orig_input_tensor_shape"):

        def with_rows(value: Any) -> list[Any]:
            return [1, value, *[4] * (middle - 1), 1]

        entries = [with_rows(value) for value in (-1, -4, 0, 1, 2**61, 2**62, 2**63, -(2**63), 4.0, True, "4", None)]
        if op != "FractionalAvgPoolGrad":  # there more rows than the cells cover are fine, and a last cell is clipped
            entries += [with_rows(value) for value in (3, 6, 7, 2**31)]
        lists = [
            [],
            [4],
            [1, 4, 4],
            [1] * (rank + 1),
            [2**31] * rank,
            [2**40] * rank,
            [0] * rank,
            [1, *[4] * middle, 2],
            [2, *[4] * middle, 1],
        ]
        arrays = [
            tensor([], 4, "int32"),
            tensor([rank, 1], 4, "int32"),
            tensor([rank], 4.0),
            tensor([rank], 2**63, "uint64"),
        ]
        return [*entries, *lists, *arrays, 4, None, "1441"]
    if name.endswith("_pooling_sequence"):
        values = [
            [],
            [0],
            [0, 4],
            [0, 1, 2, 4],
            [0, 2, 1],
            [4, 2, 0],
            [-1, 2, 4],
            [-(2**62), 2, 4],
            [-(2**63), 2, 4],
            [0, 0, 4],
            [0, 2, 2],
            [0, 4, 5],
            [5, 6, 7],
            [0, 2**62, 2**62],
            [0, 2, 2**63],
            [0, 2**64, 3],
            [0.0, 2.0, 4.0],
            [0, 2.5, 4],
            [False, True, True],
            ["0", "2", "4"],
            [[0, 2, 4]],
            [0, None, 4],
        ]
        if op == "FractionalMaxPoolGrad":  # overlapping: these two cells are not empty
            values = [v for v in values if v not in ([0, 0, 4], [0, 2, 2])]
        return [
            *values,
            tensor([3, 1], 2, "int64"),
            tensor([], 0, "int64"),
            tensor([3], 1.0),
            tensor([3], -1, "int64"),
            None,
            3,
            "024",
        ]
    if name == "argmax":
        bad = [[0, 2, 8, number] for number in (-1, 16, 1000, 2**31, 2**62, 2**63 - 1, -(2**63))]
        arrays = [tensor([1, 2, 2, 1], row, "int64") for row in bad]
        shapes = [
            tensor(shape, 0, "int64")
            for shape in ([4], [1, 2, 2], [0, 0, 0, 0], [2, 2, 2, 1], [1, 2, 2, 2], [1, 3, 2, 1], [])
        ]
        return [
            *arrays,
            *shapes,
            tensor([1, 2, 2, 1], 0.0),
            tensor([1, 2, 2, 1], 0, "bool"),
            tensor([1, 2, 2, 1], 0, "uint8"),
            None,
            "x",
        ]
    if isinstance(good, dict):
        shape = good["shape"]
        shapes = [[], [4], shape[1:], [*shape, 1], [1, *shape, 1], [0] * (len(shape) - 1)]
        if not (
            op in ("AvgPool", "AvgPool3D", "MaxPool", "MaxPoolV2", "MaxPool3D", "MaxPoolWithArgmax")
            or ("Pool" in op and name == "value")
        ):
            shapes += [
                [2, *shape[1:]],
                [0, *shape[1:]],
                [*shape[:-1], 2],
                [*shape[:-1], 0],
                [*shape[:-1], 1000],
                [1000, *shape[1:]],
                [shape[0], 1, *shape[2:]],
                [shape[0], 0, *shape[2:]],
            ]
            if not (op == "FractionalMaxPoolGrad" and name == "orig_input"):  # more rows than the cells cover are fine
                shapes += [[shape[0], shape[1] + 2, *shape[2:]], [shape[0], 400, *shape[2:]]]
        odd = ["complex64", "bool", "float128", "U3", "M8[s]"]
        if op.startswith("Avg"):
            odd += ["int32", "uint8"]
        if op.startswith("Fractional"):
            odd += ["int8", "uint64"]
        return [
            *(tensor(each) for each in shapes),
            *(tensor(shape, 1, kind) for kind in odd),
            None,
            "x",
            {"a": 1},
            [],
            [[1.0], [1.0, 2.0]],
            ["x"],
        ]
    if name == "padding":
        return [
            "same",
            "",
            "FULL",
            None,
            3,
            True,
            ["SAME"],
            {"bytes": "SAME"},
            *([] if "explicit_paddings" in CALLS[op] else ["EXPLICIT"]),
        ]
    if name == "explicit_paddings":
        return [[0] * 8, [1], [0, 0, 1, 1, 1, 1, 0, 0], None, "0", 3, [0.0], [True]]
    if name == "Targmax":
        return ["int8", "float32", "", None, 3, "uint64"]
    if name == "pooling_ratio":
        rows = [
            [1.0, value, 1.5, 1.0]
            for value in (0.5, 0.0, -1.0, NAN, INFINITY, -INFINITY, 1e30, 4.5, 0.9999999, "1.5", None, True, [1.5])
        ]
        return [
            *rows,
            [],
            [1.5],
            [1.0] * 3,
            [1.0] * 5,
            [2.0, 1.5, 1.5, 1.0],
            [1.0, 1.5, 1.5, 2.0],
            1.5,
            None,
            "1.5",
            tensor([4, 1], 1.0),
            tensor([], 1.0),
        ]
    if name in ("seed", "seed2"):
        return [2**63, -(2**63) - 1, 2**70, 1.0, 1.5, NAN, "1", None, True, [1]]
    return [1, 0, "True", None, 0.5, [True]]  # flags


EXTRA = {
    "data_format": ["NCHW_VECT_C", "nhwc", "", None, 3, "NC", ["NHWC"]],
    "workers": [0, -1, 2**40, 2**70, 1.5, "2", True, [1]],
    "out": ["x", [1.0], 3, tensor([1]), tensor([7, 7, 7, 7])],
    "foo": [1],
}
VARIANTS = [
    pytest.param(op, name, values, id=f"{op}-{name}")
    for op, call in CALLS.items()
    for name, values in [*((name, spoiled(op, name, good)) for name, good in call.items()), *EXTRA.items()]
]


@pytest.mark.parametrize("op", CALLS)
def test_unspoiled(ask: Ask, op: str) -> None:
    (answer,) = ask(op, [CALLS[op]])
    assert "shape" in answer


@pytest.mark.parametrize(("op", "name", "values"), VARIANTS)
def test_variants(ask: Ask, op: str, name: str, values: list[Any]) -> None:
    answers = ask(op, [{**CALLS[op], name: value} for value in values])
    assert len(answers) == len(values)
    accepted = [(value, answer) for value, answer in zip(values, answers, strict=True) if "error" not in answer]
    assert not accepted
