"""The benchmark: what it measures and how it reports. Nothing here asserts a time."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from poolgrad import raw_ops
from poolgrad.bench import main
from poolgrad.bench.chart import chart
from poolgrad.bench.measure import Effort, measure
from poolgrad.bench.processes import PEERS, Peer, find
from poolgrad.bench.report import BEGIN, END, as_json, bar_table, block, replace_block, table
from poolgrad.bench.rows import Row, bars, families, judge
from poolgrad.bench.run import agree, measure_case
from poolgrad.bench.workloads import FAMILIES, Case, Workload, arranged, cases, load

ONCE = Effort(burst=0.0, least=1, most=1)
RUN = {
    "date": "2026-01-02T03:04:05+00:00", "commit": "abc", "cpu": "a <fast> CPU", "workers": 2,
    "versions": {"poolgrad": "0.1.0"},
}  # fmt: skip


def row(**changes: Any) -> Row:
    given: dict[str, Any] = {
        "id": "layer/float32/gradient", "name": "layer", "dtype": "float32", "step": "gradient",
        "family": "average 2-D gradient", "kind": "average", "layout": "NHWC", "input": (1, 8, 8, 4),
        "output": (1, 4, 4, 4), "window": (2, 2), "covers": 1, "input_bytes": 1024, "read_bytes": 256,
        "write_bytes": 1024, "ours": 2e-3, "limit": 1e-3, "limit_stores": "plain", "peers": {"TF": 8e-3, "JAX": 6e-3},
    }  # fmt: skip
    return Row(**(given | changes))


# ---- what is measured -----------------------------------------------------------------------------------------


def test_every_family_and_the_extensions_are_there() -> None:
    found = list(cases())
    assert {case.family for case in found} == set(FAMILIES)
    assert len({case.id for case in found}) == len(found)
    assert {"float16", "bfloat16", "float64", "int32", "int64", "uint8"} <= {case.dtype for case in found}
    assert any(case.workload.window == (9, 9, 9) and case.workload.input[-1] == 1 for case in found)
    assert any(case.workload.input[0] == 1 and case.large for case in found)


@pytest.mark.parametrize("workload", load(), ids=lambda workload: workload.name)
def test_shapes_agree_with_plan(workload: Workload) -> None:
    assert workload.table.output_size == workload.output[1:-1]
    planned = 0
    for case in cases():
        if case.workload is not workload:
            continue
        for layout in case.layouts:
            raw = case.raw_call(layout)
            if raw is None:
                continue
            ready = raw_ops.plan(raw[0], **raw[1])
            first = layout == "NCHW"
            assert ready.input_shape == arranged(workload.input, first)
            assert ready.output_shape == arranged(workload.output, first)
            assert ready.table == workload.table
            planned += 1
    # Only integer averages and padded volumes have no raw op at all, or none for some steps.
    assert planned or workload.dtypes == ("uint8",) or not isinstance(workload.padding, str)


def layer(**changes: Any) -> Workload:
    given: dict[str, Any] = {
        "name": "layer", "kind": "max", "input": (2, 7, 8, 3), "output": (2, 3, 4, 3), "dtypes": ("float32",),
        "about": "", "window": (3, 2), "stride": (2, 2), "padding": "VALID",
    }  # fmt: skip
    return Workload(**(given | changes))


def test_traffic_counts_each_byte_once() -> None:
    inputs, outputs = 2 * 7 * 8 * 3 * 4, 2 * 3 * 4 * 3 * 4
    assert Case(layer(), "float32", "forward").traffic == (inputs, outputs)
    assert Case(layer(), "float32", "winners").traffic == (inputs, outputs + outputs // 4)
    assert Case(layer(), "float32", "gradient").traffic == (inputs + outputs, inputs)
    assert Case(layer(), "float32", "saved").traffic == (outputs + outputs // 4, inputs)
    assert Case(layer(kind="average"), "float32", "gradient").traffic == (outputs, inputs)


def test_elements_between_windows_are_not_read() -> None:
    gaps = layer(window=(1, 1), stride=(2, 2), output=(2, 4, 4, 3))
    assert gaps.used == 2 * 4 * 4 * 3
    assert gaps.covers == 1
    assert layer().covers == 2


# ---- measuring ------------------------------------------------------------------------------------------------


def test_rounds_are_interleaved_and_go_on_until_stable() -> None:
    order = []

    def participant(name: str, times: list[float]) -> Any:
        def burst(seconds: float) -> float:
            order.append(name)
            return times.pop(0) if times else 1e-3

        return burst

    timings = measure({"a": participant("a", [5e-3, 4e-3]), "b": participant("b", [])}, Effort(least=3, most=9))
    assert order[:6] == ["a", "b", "b", "a", "a", "b"]
    assert [len(timing.rounds) for timing in timings.values()] == [5, 5]
    assert timings["a"].best == 1e-3


def test_what_never_settles_is_reported() -> None:
    times = iter([1e-3, 8e-4, 6e-4, 4e-4, 2e-4])
    effort = Effort(least=2, most=5)
    timing = measure({"a": lambda seconds: next(times)}, effort)["a"]
    assert len(timing.rounds) == 5
    assert not timing.stable(effort)


def test_a_peer_that_is_not_there_or_dies_is_said(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    program.chmod(0o755)
    assert "broken" in Peer("TF", str(program), 1).start()
    running, missing = find([], [], 1)
    assert (running, missing) == ([], {})


def test_samples_agree_up_to_rounding() -> None:
    assert agree([1.0, 2.0], [1.0, 2.0001], 1e-3)
    assert not agree([1.0, 2.0], [2.0, 1.0], 1e-3)
    assert not agree([1.0], [1.0, 2.0], 1e-3)


@pytest.mark.parametrize("kind", ["average", "max", "fractional average", "fractional max"])
def test_a_case_without_peers(kind: str) -> None:
    fractional = {"window": (), "stride": (), "padding": "", "ratio": (2.0, 2.0), "output": (2, 3, 4, 3)}
    chosen = layer(kind=kind, **(fractional if "fractional" in kind else {}))
    for step in ("forward", "gradient", *(("winners", "saved") if kind == "max" else ())):
        rows = measure_case(Case(chosen, "float32", step), [], 2, ONCE)
        assert [row.layout for row in rows] == ["NHWC", "NCHW"]
        assert all(row.ours > 0 and row.limit > 0 and row.peers == {} for row in rows)


# ---- reporting ------------------------------------------------------------------------------------------------


def test_a_bar_is_of_the_mean_unless_of_every_row() -> None:
    values = [("a", 1.0), ("b", 4.0), ("none", None)]
    bar = judge("x", values, least=1.8)
    assert (bar.value, bar.worst, bar.where, bar.missing, bar.rows, bar.verdict) == (2.0, 1.0, "a", 1, 2, "PASS")
    assert judge("x", values, least=1.8, single=True).verdict == "MISS"
    assert judge("x", values, most=2.5).verdict == "PASS"
    assert judge("x", values, most=2.5, ceiling=3).verdict == "MISS"
    assert judge("x", [("none", None)], most=1).verdict == "-"
    assert judge("x", values, most=2.5, unsettled=frozenset({"a", "other"})).unsettled == 1


def test_bars_take_the_rows_they_name() -> None:
    rows = [
        row(),
        row(layout="NCHW", ours=5e-3),
        row(dtype="float16", ours=1e-3, input_bytes=1 << 27),
        row(input_bytes=1 << 27, one_worker=4e-3, limit_one_worker=2e-3),
        row(family="call overhead", step="ready", ours=3e-6, scratch_bytes=6 << 20),
    ]
    found = {bar.what: bar for bar in bars(rows, 2, 0.03)}
    assert found["2-D average gradients against the best peer"].rows == 4
    assert found["average gradients over the limit, smaller, NHWC"].value == pytest.approx(2)
    assert found["average gradients over the limit, smaller, NCHW"].value == pytest.approx(5)
    assert found["float16 and bfloat16 over float32, large"].value == pytest.approx(0.5)
    assert found["second worker: our gain over the limit's gain, large"].value == pytest.approx(1)
    assert found["call overhead, op with a ready table"].verdict == "PASS"
    assert found["call overhead, raw op"].verdict == "-"
    assert found["scratch a worker"].value == 3
    assert found["import poolgrad beyond import numpy"].value == pytest.approx(30)


def test_text_chart_and_block_render() -> None:
    rows = [row(), row(layout="NCHW", unstable=["ours"], differs=["TF"])]
    text = table(rows, ["TF", "JAX"])
    assert "2 ms~" in text
    assert "8 ms!" in text
    assert "geometric mean" in text
    judged = bars(rows, 2, None)
    assert "MISS" in bar_table(judged)
    assert "| average 2-D gradient | 2 | 2 | 3x as long |" in block(RUN, rows, judged)
    assert "a &lt;fast&gt; CPU" in chart(RUN, rows)
    ElementTree.fromstring(chart(RUN, rows))


def test_json_has_everything_and_is_json() -> None:
    rows = [row()]
    judged = bars(rows, 2, None)
    result = json.loads(json.dumps(as_json(RUN, rows, judged)))
    assert result["schema"] == 1
    assert {"date", "commit", "cpu", "workers", "versions", "rows", "families", "bars"} <= result.keys()
    assert {field.name for field in dataclasses.fields(Row)} | {"of_limit", "gain"} == result["rows"][0].keys()
    assert result["rows"][0]["gain"] == 3
    assert [family["name"] for family in result["families"]] == [family.name for family in families(rows)]
    assert {bar["verdict"] for bar in result["bars"]} <= {"PASS", "MISS", "-"}


def test_only_the_block_is_replaced() -> None:
    text = f"# Title\n{BEGIN}\nold\n{END}\nrest\n"
    assert replace_block(text, "new") == f"# Title\n{BEGIN}\nnew\n{END}\nrest\n"
    for wrong in ("", BEGIN, f"{END}{BEGIN}", text + text):
        with pytest.raises(ValueError, match="bench:begin"):
            replace_block(wrong, "new")


# ---- the command ----------------------------------------------------------------------------------------------


def test_an_interrupt_ends_the_measuring_and_not_the_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(case: Case, *_: Any) -> list[Row]:
        if case.step == "gradient":
            raise KeyboardInterrupt
        return [row()]

    monkeypatch.setattr("poolgrad.bench.run.measure_case", measured)
    words = ["--filter", "resnetd_skip_avg/float32", "--peers", "none"]
    assert main(words) == 0
    captured = capsys.readouterr()
    assert "interrupted in resnetd_skip_avg/float32/gradient: 1 rows were measured" in captured.err
    assert "geometric mean" in captured.out
    assert main([*words, "--filter", "gradient"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_quick_run_of_a_tiny_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readme, result, picture = tmp_path / "README.md", tmp_path / "run.json", tmp_path / "run.svg"
    readme.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    words = ["--quick", "--filter", "call_overhead", "--workers", "1", "--json", str(result), "--svg", str(picture)]
    assert main([*words, "--update-readme", str(readme)]) == 0
    captured = capsys.readouterr()
    assert "call overhead" in captured.out
    assert captured.err == ""  # no progress bar where it is not a terminal
    found = json.loads(result.read_text())
    assert [row["step"] for row in found["rows"]] == ["gradient", "ready"]
    assert found["workers"] == 1
    ElementTree.fromstring(picture.read_text())
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "call overhead" in text


def test_list_and_mistakes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--list", "--family", "max gradient", "--filter", "vgg16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all("vgg16" in line and "max gradient" in line for line in lines)
    plain = tmp_path / "plain.md"
    plain.write_text("no markers\n")
    for words, message in (
        (["--filter", "no such"], "see --list"),
        (["--family", "no such"], "there are: average 2-D gradient"),
        (["--peers", "Theano"], "no peer is named 'Theano'"),
        (["--workers", "0"], "is not a number from 1"),
        (["--seconds", "nan"], "is not a number of seconds"),
        (["--quick", "--update-readme", str(plain)], "bench:begin"),
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert plain.read_text() == "no markers\n"


# ---- peers and the guard --------------------------------------------------------------------------------------


@pytest.mark.framework
@pytest.mark.parametrize("name", PEERS)
def test_peers_compute_the_same(name: str) -> None:
    running, missing = find([name], [], 2)
    if missing:
        assert not os.environ.get("POOLGRAD_REQUIRE_FRAMEWORKS"), missing
        pytest.skip(f"{name}: {missing[name]}")
    volume = {"input": (1, 6, 7, 8, 3), "output": (1, 3, 4, 4, 3), "window": (3, 3, 3), "stride": (2, 2, 2)}
    fractional = {"window": (), "stride": (), "padding": "", "ratio": (2.0, 1.5), "overlapping": True}
    workloads = [
        layer(kind="average"),
        layer(padding="SAME", output=(2, 4, 4, 3), kind="average"),
        layer(padding=((1, 1), (1, 1)), output=(2, 4, 5, 3)),
        layer(padding="SAME", output=(2, 4, 4, 3)),
        layer(**volume, padding="SAME", kind="average"),
        layer(**volume, padding="SAME"),
        layer(**fractional, kind="fractional average", output=(2, 3, 5, 3)),
        layer(**fractional, kind="fractional max", output=(2, 3, 5, 3)),
    ]
    measured = set()
    try:
        for workload in workloads:
            steps = ("forward", "gradient", *(("winners", "saved") if workload.kind == "max" else ()))
            for step in steps:
                (first, *_) = measure_case(Case(workload, "float32", step), running, 2, ONCE)
                assert first.differs == [], (workload, step)
                measured |= {(workload.kind, step)} if first.peers else set()
    finally:
        running[0].stop()
    assert ("average", "gradient") in measured
    assert ("max", "saved" if "torch" in name else "gradient") in measured
    assert (("fractional max", "gradient") in measured) == name.startswith("TF")


def guard() -> ModuleType:
    path = Path(__file__).parents[1] / "tools" / "instructions.py"
    spec = importlib.util.spec_from_file_location("instructions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["instructions"] = module
    spec.loader.exec_module(module)
    return module


def test_guard_finds_what_became_slower() -> None:
    recorded = {"avx2": {"a": 1000, "b": 1000, "c": 1000}}
    lines, slower = guard().compare(recorded, {"avx2": {"a": 1029, "b": 1031, "c": 500, "new": 1}})
    assert slower == ["avx2 b"]
    assert [line.split()[-1] for line in lines] == ["+2.9%", "MORE", "it", "recorded"]
