"""The studio's results are the library's, only what changed is computed, and a lost worker costs one block."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_graphs import JSON, average_gradient, page
from processes import gone

from poolgrad import op_table, raw_ops
from poolgrad.studio import limits, pages, worker_process
from poolgrad.studio.graph import read_graph
from poolgrad.studio.runner import Runner

ODD = Path(__file__).with_name("odd_worker.py")


def result(runner: Runner, answer: JSON, block: str, output: str) -> Any:
    return runner.tensors[answer["blocks"][block]["outputs"][output]["id"]]


def library_result(runner: Runner, graph: JSON, answer: JSON, block: JSON) -> Any:
    """The block's call made here, on the arrays that the studio shows at its pins."""
    op = op_table.OPS[block["op"]]
    fed = {w["to"][1]: result(runner, answer, *w["from"]) for w in graph["wires"] if w["to"][0] == block["id"]}
    numbers = {"ksize": int, "strides": int, "pooling_ratio": float}
    for name, text in block["properties"].items():
        if name in numbers:
            fed[name] = [numbers[name](part) for part in text.split(",")]
        else:
            fed[name] = {"true": True, "false": False}.get(text, int(text) if text.isdigit() else text)
    made = getattr(raw_ops, op.name)(**fed)
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("name", pages.GALLERY)
def test_every_gallery_graph_gives_the_librarys_own_result(name: str, runner: Runner, run: Any) -> None:
    graph = pages.read(name)
    answer = run(graph)
    assert answer["problems"] == []
    assert {block["status"] for block in answer["blocks"].values()} == {"ok"}
    compared = 0
    for block in graph["blocks"]:
        if block["op"] not in op_table.OPS:
            continue
        for output, expected in zip(
            op_table.OPS[block["op"]].outputs, library_result(runner, graph, answer, block), strict=True
        ):
            shown = result(runner, answer, block["id"], output)
            assert shown.dtype == expected.dtype
            assert shown.tobytes() == expected.tobytes()
            compared += 1
    assert compared > 0


def test_ten_gallery_graphs_are_listed_and_the_first_is_the_3d_average() -> None:
    listed = pages.gallery()
    assert [graph["id"] for graph in listed] == list(pages.GALLERY)
    assert len(listed) == 10
    assert listed[0]["title"] == "AvgPool3D and its gradient"


def test_windows_of_a_sliding_and_of_a_drawn_fractional_block(runner: Runner, run: Any) -> None:
    windows = run(average_gradient())["blocks"]["grad"]["windows"]
    assert (windows["axes"], windows["input_size"], windows["output_size"]) == ([1, 2, 3], [8, 6, 4], [2, 2, 2])
    assert [(rule["window"], rule["stride"], rule["before"]) for rule in windows["rules"]] == [
        (2, 4, 0),
        (2, 3, 0),
        (2, 2, 0),
    ]
    answer = run(pages.read("fractional-graham"))
    for block in ("pool", "grad"):
        for rule, output in zip(answer["blocks"][block]["windows"]["rules"], ["row", "col"], strict=True):
            drawn = result(runner, answer, "pool", f"{output}_pooling_sequence").tolist()
            assert rule["type"] == "listed"
            assert rule["start"] == drawn[:-1]
            assert rule["stop"] == [min(stop + 1, 10) for stop in drawn[1:]]


def test_undetermined_sequences_reach_the_gradient_as_drawn(runner: Runner, run: Any) -> None:
    graph = pages.read("fractional-graham")
    pool = next(block for block in graph["blocks"] if block["id"] == "pool")
    pool["properties"].update(deterministic="false", seed="0", seed2="0")
    answer = run(graph)
    assert answer["problems"] == []
    drawn = result(runner, answer, "pool", "row_pooling_sequence").tolist()
    assert answer["blocks"]["grad"]["windows"]["rules"][0]["start"] == drawn[:-1]


def test_only_what_changed_runs_again(run: Any) -> None:
    graph = pages.read("average-gradient-3d")
    first = run(graph)
    assert run(graph)["computed"] == []
    x = next(block for block in graph["blocks"] if block["id"] == "x")
    x["properties"]["seed"] = "99"
    # The shapes stay, so nothing behind ShapeOf runs again.
    assert run(graph)["computed"] == ["x", "pool"]
    x["properties"]["seed"] = "1"
    back = run(graph)
    assert back["computed"] == []
    assert back["blocks"]["pool"]["outputs"] == first["blocks"]["pool"]["outputs"]


def test_what_the_page_is_told_of_a_tensor(run: Any) -> None:
    graph = page(
        {"x": ("Tensor", {"shape": "5", "fill": "values", "values": "nan,-2,inf,7,-inf", "dtype": "bfloat16"})}, {}
    )
    told = run(graph)["blocks"]["x"]["outputs"]["tensor"]
    assert (told["minimum"], told["maximum"], told["nan"], told["infinite"]) == (-2.0, 7.0, 1, 2)
    assert (told["shape"], told["dtype"], told["bytes"]) == ([5], "bfloat16", 10)
    empty = run(page({"x": ("Tensor", {"shape": "0,3"})}, {}))["blocks"]["x"]["outputs"]["tensor"]
    assert (empty["minimum"], empty["maximum"]) == (None, None)


def test_every_fill(runner: Runner, run: Any) -> None:
    def filled(**properties: str) -> Any:
        return result(runner, run(page({"x": ("Tensor", {"shape": "2,3", **properties})}, {})), "x", "tensor").tolist()

    assert filled(fill="ones") == [[1, 1, 1]] * 2
    assert filled(fill="zeros", dtype="int8") == [[0, 0, 0]] * 2
    assert filled(fill="counting", dtype="uint8") == [[0, 1, 2], [3, 4, 5]]
    assert filled(fill="one-hot") == [[0, 0, 0], [0, 1, 0]]
    assert filled(fill="one-hot", position="0,2") == [[0, 0, 1], [0, 0, 0]]
    assert filled(fill="values", values="9223372036854775807 1 2 3 4 -5", dtype="int64")[0][0] == 2**63 - 1
    expected = np.random.default_rng(4).standard_normal((2, 3)).astype("float32")
    assert filled(fill="random", seed="4") == expected.tolist()


def test_a_refusal_found_in_the_values_lands_on_its_pin(run: Any) -> None:
    graph = pages.read("fractional-by-hand")
    next(block for block in graph["blocks"] if block["id"] == "y")["properties"]["values"] = "20,7"
    graph["blocks"].append({"id": "view", "op": "Viewer", "x": 0, "y": 0, "properties": {}})
    graph["wires"].append({"from": ["maximum", "output"], "to": ["view", "tensor"]})
    answer = run(graph)
    assert [(p["node"], p["pin"], p["code"]) for p in answer["problems"]] == [("maximum", "orig_output", "value")]
    assert answer["blocks"]["view"]["status"] == "waiting"
    assert answer["blocks"]["average"]["status"] == "ok"


# ---- a worker that is lost -----------------------------------------------------------------------------------


def edge_counts() -> JSON:
    """A forward block that works, then AvgPoolGrad, where an odd worker goes wrong, then another block behind it."""
    sizes = {"ksize": "1,3,3,1", "strides": "1,1,1,1", "padding": "SAME"}
    blocks = {
        "x": ("Tensor", {"shape": "1,5,5,1"}),
        "pool": ("AvgPool", sizes),
        "shape": ("Shape", {"values": "1,5,5,1"}),
        "grad": ("AvgPoolGrad", sizes),
        "behind": ("AvgPool", sizes),
        "view": ("Viewer", {}),
    }
    wires = {
        "pool.value": "x.tensor",
        "grad.orig_input_shape": "shape.shape",
        "grad.grad": "pool.output",
        "behind.value": "grad.output",
        "view.tensor": "behind.output",
    }
    return page(blocks, wires)


@pytest.fixture
def odd_runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    made = Runner([sys.executable, str(ODD), request.param], seconds=1.5 if request.param == "sleep" else 10)
    made.warm()
    yield made
    made.close()


def test_a_worker_that_never_starts_is_given_up_and_reported() -> None:
    """As one that is stopped (kill -STOP) while it imports the library: warming up must not hold up runs for ever."""
    made = Runner([sys.executable, "-c", "import time; time.sleep(60)"])
    made.worker = worker_process.Worker(made.worker._command, start_seconds=0.5)
    try:
        start = time.monotonic()
        threading.Thread(target=made.warm).start()
        time.sleep(0.1)
        answer = made.run(read_graph(edge_counts()))
        assert time.monotonic() - start < 5
        assert answer is not None
        (problem,) = answer["problems"]
        assert (problem["node"], problem["code"]) == ("pool", "time")
        assert problem["message"].startswith("the worker process did not start within 0.5 s and was stopped")
        made.worker = worker_process.Worker(worker_process.WORKER)
        again = made.run(read_graph(edge_counts()))
        assert again is not None
        assert again["problems"] == []
    finally:
        made.close()


def statuses(answer: JSON) -> dict[str, str]:
    return {name: block["status"] for name, block in answer["blocks"].items()}


@pytest.mark.parametrize(
    ("odd_runner", "code", "words"),
    [
        ("sleep", "time", "longer than"),
        ("crash", "crashed", "exit code 3"),
        ("kill", "killed", "killed"),
        ("memory", "memory", "not enough memory"),
    ],
    indirect=["odd_runner"],
)
def test_a_lost_worker_is_reported_at_its_block_and_started_again(odd_runner: Runner, code: str, words: str) -> None:
    graph = read_graph(edge_counts())
    answer = odd_runner.run(graph)
    assert answer is not None
    assert [(p["node"], p["pin"], p["code"]) for p in answer["problems"]] == [("grad", None, code)]
    assert words in answer["problems"][0]["message"]
    expected = {"x": "ok", "pool": "ok", "shape": "ok", "grad": "problem", "behind": "waiting", "view": "waiting"}
    assert statuses(answer) == expected
    after = odd_runner.run(read_graph(pages.read("max-ties-and-nan")))
    assert after is not None
    assert after["problems"] == []


@pytest.mark.parametrize("odd_runner", ["sleep"], indirect=True)
def test_a_run_is_stopped_on_request(odd_runner: Runner) -> None:
    answers: list[Any] = []
    assert odd_runner.stop() is False
    thread = threading.Thread(target=lambda: answers.append(odd_runner.run(read_graph(edge_counts()))))
    thread.start()
    time.sleep(0.5)
    assert odd_runner.stop() is True
    thread.join()
    assert [(p["node"], p["code"]) for p in answers[0]["problems"]] == [("grad", "stopped")]


def slow_blocks(count: int) -> JSON:
    """``count`` blocks at which an odd worker goes wrong, none behind another, then as many that are quick."""
    blocks: dict[str, tuple[str, dict[str, str]]] = {
        "shape": ("Shape", {"values": "1,4,4,1"}),
        "g": ("Tensor", {"shape": "1,2,2,1"}),
    }
    wires = {}
    for n in range(count):
        blocks[f"slow{n}"] = ("AvgPoolGrad", {"ksize": "1,2,2,1", "strides": "1,2,2,1"})
        blocks[f"x{n}"] = ("Tensor", {"fill": "random", "seed": str(n)})
        blocks[f"quick{n}"] = ("AvgPool", {})
        wires |= {
            f"slow{n}.orig_input_shape": "shape.shape",
            f"slow{n}.grad": "g.tensor",
            f"quick{n}.value": f"x{n}.tensor",
        }
    return page(blocks, wires)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every worker process that is started from here on."""
    made: list[Any] = []

    def popen(*arguments: Any, **options: Any) -> Any:
        made.append(subprocess_popen(*arguments, **options))
        return made[-1]

    subprocess_popen = worker_process.subprocess.Popen
    monkeypatch.setattr(worker_process.subprocess, "Popen", popen)
    return made


@pytest.mark.parametrize("odd_runner", ["sleep"], indirect=True)
def test_the_limit_of_time_is_one_for_the_whole_run(odd_runner: Runner, starts: list[Any]) -> None:
    start = time.monotonic()
    answer = odd_runner.run(read_graph(slow_blocks(40)))
    assert time.monotonic() - start < 4
    assert starts == []
    assert answer is not None
    assert [problem["code"] for problem in answer["problems"]] == ["time"]
    found = statuses(answer)
    assert list(found.values()).count("problem") == 1
    waiting = list(found.values()).count("waiting")
    assert waiting > 40
    assert answer["problems"][0]["message"].endswith(f"at this block; {waiting} more blocks were not run")


@pytest.mark.parametrize("odd_runner", ["sleep"], indirect=True)
def test_one_stop_ends_the_whole_run(odd_runner: Runner, starts: list[Any]) -> None:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(odd_runner.run(read_graph(slow_blocks(5)))))
    thread.start()
    time.sleep(0.5)
    assert odd_runner.stop() is True
    start = time.monotonic()
    thread.join()
    assert time.monotonic() - start < 0.7
    assert starts == []
    assert [problem["code"] for problem in answers[0]["problems"]] == ["stopped"]
    assert list(statuses(answers[0]).values()).count("problem") == 1


@pytest.mark.parametrize("odd_runner", ["sleep"], indirect=True)
def test_a_tab_stops_its_own_runs_only(odd_runner: Runner) -> None:
    answers: dict[str, Any] = {}

    def run(tab: str) -> None:
        answers[tab] = odd_runner.run(read_graph(edge_counts()), tab)

    first = threading.Thread(target=run, args=("first",))
    first.start()
    time.sleep(0.3)
    second = threading.Thread(target=run, args=("second",))
    second.start()
    time.sleep(0.3)
    assert odd_runner.stop("third") is False
    assert odd_runner.stop("second") is True
    first.join()
    second.join()
    assert [problem["code"] for problem in answers["first"]["problems"]] == ["time"]
    assert [problem["code"] for problem in answers["second"]["problems"]] == ["stopped"]


def test_a_long_check_is_ended_like_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = raw_ops.plan

    def slow_plan(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.1)
        return plan(*arguments, **options)

    monkeypatch.setattr(raw_ops, "plan", slow_plan)
    start = time.monotonic()
    answer = Runner(["/no/such/program"], seconds=0.5).run(read_graph(slow_blocks(40)))
    assert time.monotonic() - start < 2
    assert answer is not None
    assert [problem["code"] for problem in answer["problems"]] == ["time"]
    assert set(statuses(answer).values()) == {"problem", "waiting"}


def test_a_worker_that_cannot_be_started_is_a_problem_of_the_block() -> None:
    answer = Runner(["/no/such/program"]).run(read_graph(average_gradient()))
    assert answer is not None
    assert [(p["node"], p["code"]) for p in answer["problems"]] == [("grad", "crashed")]


@pytest.mark.parametrize(("mode", "seconds"), [("sleep", 60.0), ("hang", 0.5)])
def test_a_worker_ends_by_itself_when_the_server_is_gone(mode: str, seconds: float) -> None:
    """While a kernel runs, at once; while one runs that lets no other thread run, at its own deadline."""
    program = f"""
import sys
sys.path.insert(0, {str(ODD.parent)!r})
from poolgrad.studio.graph import read_graph
from poolgrad.studio.runner import Runner
from test_runner import edge_counts
runner = Runner([sys.executable, {str(ODD)!r}, {mode!r}], seconds=600)
runner.warm()
runner._seconds = {seconds}
print(runner.worker.process_id, flush=True)
runner.worker.end = lambda permit: None
runner.run(read_graph(edge_counts()))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        worker = int(server.stdout.readline())
        time.sleep(0.4)
        assert not gone(worker, 0.1)
        server.kill()
        assert gone(worker, 5)


@pytest.mark.parametrize("odd_runner", ["print"], indirect=True)
def test_what_a_worker_prints_is_not_taken_for_an_answer(odd_runner: Runner) -> None:
    answer = odd_runner.run(read_graph(edge_counts()))
    assert answer is not None
    assert answer["problems"] == []


def test_a_worker_killed_between_runs_is_not_noticed(runner: Runner, run: Any) -> None:
    run(average_gradient(g={"fill": "random", "seed": "31"}))
    assert runner.worker.process_id is not None
    os.kill(runner.worker.process_id, signal.SIGKILL)
    time.sleep(0.1)
    answer = run(average_gradient(g={"fill": "random", "seed": "32"}))
    assert answer["problems"] == []
    assert "grad" in answer["computed"]


def test_too_large_a_run_never_reaches_the_worker() -> None:
    made = Runner(["/no/such/program"])
    huge = {f"x{n}": ("Tensor", {"shape": "1,2048,2048,1", "dtype": "float64"}) for n in range(9)}
    answer = made.run(read_graph(page({**huge, "pool": ("AvgPool", {})}, {"pool.value": "x0.tensor"})))
    assert answer is not None
    assert [problem["code"] for problem in answer["problems"]] == ["run_too_large"]
    assert answer["computed"] == []
    assert set(statuses(answer).values()) == {"waiting"}


def test_a_tensor_of_the_largest_size_runs(runner: Runner, run: Any) -> None:
    sizes = {"ksize": "1,64,64,1", "strides": "1,64,64,1", "padding": "VALID"}
    graph = page(
        {"x": ("Tensor", {"shape": "1,2048,2048,1", "fill": "counting"}), "pool": ("AvgPool", sizes)},
        {"pool.value": "x.tensor"},
    )
    answer = run(graph)
    assert answer["problems"] == []
    assert answer["blocks"]["x"]["outputs"]["tensor"]["bytes"] == 4 * limits.ELEMENTS
    assert answer["blocks"]["pool"]["outputs"]["output"]["shape"] == [1, 32, 32, 1]
