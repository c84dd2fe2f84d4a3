"""Run a checked graph: kernels in a worker process that can be killed, results kept by content."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from poolgrad import makers, raw_ops

from . import limits, problems, sources
from .check import check
from .checked import Checked, CheckedGraph
from .graph import Graph
from .problems import Problem
from .tensors import Shelf, describe
from .worker_process import WORKER, Permit, Worker, WorkerDied

Array = npt.NDArray[Any]


@dataclass
class Memo:
    """What a block computed: ids of its outputs on the shelf, their descriptions, its windows."""

    outputs: dict[str, dict[str, Any]]
    windows: dict[str, Any] | None
    milliseconds: float


@dataclass
class _Run:
    """One run: ``keys`` name the content of every output so far, ``blocks`` is what the page gets."""

    checked: CheckedGraph
    permit: Permit
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)


class Runner:
    """Runs graphs one at a time; ``files`` are the uploads, ``tensors`` the results by id."""

    def __init__(self, command: Sequence[str] = WORKER, seconds: float = limits.RUN_SECONDS) -> None:
        self.files = Shelf(limits.CACHE_BYTES)
        self.tensors = Shelf(limits.CACHE_BYTES)
        self.worker = Worker(command)
        self._seconds = seconds
        self._memos: dict[str, Memo] = {}
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(limits.WAITING_RUNS)
        self._permits: list[Permit] = []
        self._runs = 0
        # Ids of one server never meet those of another in a browser's cache.
        self._salt = secrets.token_hex(8)

    def run(self, graph: Graph, tab: str = "") -> dict[str, Any] | None:
        """Check and run on behalf of a browser's ``tab``; None when too many runs are waiting already."""
        if not self._waiting.acquire(blocking=False):
            return None
        permit = Permit(self._seconds, tab)
        self._permits.append(permit)
        try:
            with self._lock:
                permit.begin()
                return self._run(graph, permit)
        finally:
            self._permits.remove(permit)
            self._waiting.release()

    def warm(self) -> None:
        """Start the worker before the first run needs it: importing the library there takes a moment."""
        with self._lock, contextlib.suppress(WorkerDied):
            self.worker.start(Permit(self._seconds))

    def stop(self, tab: str = "") -> bool:
        """End the runs of ``tab``, waiting or in progress; without a tab the run in progress, whoever began it."""
        chosen = [permit for permit in self._permits if (permit.tab == tab if tab else permit.begun)]
        for permit in chosen:
            self._end(permit, "stopped on request at this block")
        return bool(chosen)

    def close(self) -> None:
        for permit in list(self._permits):
            self._end(permit, "the studio was closed at this block")
        self.worker.close()

    def _end(self, permit: Permit, words: str) -> None:
        permit.end("stopped", words)
        self.worker.end(permit)

    def _run(self, graph: Graph, permit: Permit) -> dict[str, Any]:
        start = time.monotonic()
        checked = check(graph, self.files, lambda: permit.ended)
        run = _Run(checked, permit)
        self._runs += 1
        for name, item in checked.blocks.items():
            self._run_block(run, name, item)
        if checked.ended_at is not None and checked.not_run:
            problem = checked.problems[checked.ended_at]
            after = f"; {checked.not_run} more {'block was' if checked.not_run == 1 else 'blocks were'} not run"
            checked.problems[checked.ended_at] = replace(problem, message=problem.message + after)
        self._memos = {key: memo for key, memo in self._memos.items() if self._kept(memo)}
        return {
            "run": self._runs,
            "milliseconds": (time.monotonic() - start) * 1e3,
            "bytes": checked.bytes,
            "computed": run.computed,
            "problems": [problem.as_json() for problem in checked.problems],
            "blocks": run.blocks,
        }

    def _kept(self, memo: Memo) -> bool:
        return all(output["id"] in self.tensors for output in memo.outputs.values())

    def _run_block(self, run: _Run, name: str, item: Checked) -> None:
        answer: dict[str, Any] = {"status": item.status, "outputs": {}, "call": None, "windows": None}
        answer.update(milliseconds=0.0, cached=False)
        run.blocks[name] = answer
        if item.status == "ok" and not all(source in run.keys for source in item.inputs.values()):
            item.status = answer["status"] = "waiting"
            run.checked.not_run += run.checked.ended_at is not None
        if item.status != "ok":
            return
        if not item.block.outputs:
            return
        key = self._key(run, item)
        memo = self._memos.get(key)
        answer["cached"] = memo is not None and self._kept(memo)
        if memo is None or not answer["cached"]:
            if run.permit.ended is not None:
                run.checked.end(item, *run.permit.ended)
                answer["status"] = item.status
                return
            try:
                memo = self._memos[key] = self._compute(run, item, key)
            except _Refused as refused:
                if refused.problem.code in ("time", "stopped"):
                    run.checked.ended_at = len(run.checked.problems)
                run.checked.refuse(item, refused.problem)
                answer["status"] = item.status
                return
            run.computed.append(name)
        for output, described in memo.outputs.items():
            run.keys[name, output] = described["id"]
            self.tensors.get(described["id"])  # Used now, so not the next to be dropped.
        answer.update(outputs=memo.outputs, windows=memo.windows, milliseconds=memo.milliseconds)
        answer["call"] = _call_text(item)

    def _key(self, run: _Run, item: Checked) -> str:
        """Names what a block will give: its op, its parsed properties and the content that feeds it."""
        fed = {pin: run.keys[source] for pin, source in item.inputs.items()}
        known = item.outputs.get("shape") if item.node.op == "ShapeOf" else None
        if known is not None and known.value is not None:
            # The shape of a tensor does not change with its numbers: nothing behind it need run again.
            fed = {"shape": str(known.value.tolist())}
        parts = [self._salt, item.node.op, item.values, repr(item.source), fed]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def _compute(self, run: _Run, item: Checked, key: str) -> Memo:
        start = time.perf_counter()
        fed = {pin: self.tensors[run.keys[source]] for pin, source in item.inputs.items()}
        windows = None
        if item.block.is_op:
            arrays, milliseconds = self._call(run, item, fed)
            windows = _windows(self._plan(run, item, fed, arrays))
        else:
            # A number too large for its type is inf, infinity less itself is nan: seen on the page, no warning here.
            with np.errstate(all="ignore"):
                arrays = _studio_block(item, fed, self.files)
            milliseconds = (time.perf_counter() - start) * 1e3
        outputs = {}
        for position, output in enumerate(item.block.outputs):
            tensor_id = f"{key}{position}"
            self.tensors.put(tensor_id, arrays[position])
            outputs[output.name] = {"id": tensor_id, "kind": output.kind, **describe(arrays[position])}
        return Memo(outputs, windows, milliseconds)

    def _call(self, run: _Run, item: Checked, fed: Mapping[str, Array]) -> tuple[list[Array], float]:
        header = {"op": item.node.op, "attributes": item.values, "pins": list(fed)}
        try:
            answer, arrays = self.worker.call(header, list(fed.values()), run.permit)
        except WorkerDied as death:
            raise _Refused(Problem(item.node.id, None, death.code, str(death))) from None
        if answer.get("error") == "MemoryError":
            raise _Refused(Problem(item.node.id, None, "memory", f"not enough memory: {answer['message']}"))
        if "error" in answer:
            error = (TypeError if answer["error"] == "TypeError" else ValueError)(answer["message"])
            error.__dict__.update((name, answer[name]) for name in ("argument", "expected", "got"))
            raise _Refused(problems.from_library(error, run.checked.graph, item.node, item.block))
        return arrays, answer["milliseconds"]

    def _plan(self, run: _Run, item: Checked, fed: Mapping[str, Array], arrays: list[Array]) -> raw_ops.Plan:
        """The plan with the sequences that were really drawn."""
        assert item.plan is not None
        drawn = [array for output, array in zip(item.block.outputs, arrays, strict=True) if output.kind == "sequence"]
        if drawn:
            overlapping = bool(item.values.get("overlapping", False))
            table = makers.fractional(item.plan.table.input_size, drawn, overlapping=overlapping)
            return replace(item.plan, table=table)
        if any(pin.kind == "sequence" for pin in item.block.pins):
            return raw_ops.plan(item.node.op, **item.values, **fed)
        return item.plan


class _Refused(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _studio_block(item: Checked, fed: Mapping[str, Array], files: Mapping[str, Array]) -> list[Array]:
    if item.source is not None:
        try:
            return [item.source.fill(files)]
        except KeyError:
            text = "the file was dropped to make room for others; choose it again"
            raise _Refused(Problem(item.node.id, "file", "file_missing", text)) from None
    if item.node.op == "Difference":
        return [sources.difference(fed["a"], fed["b"])]
    return [known.value for known in item.outputs.values() if known.value is not None]


def _windows(plan: raw_ops.Plan) -> dict[str, Any]:
    return {
        "axes": list(plan.axes),
        "input_size": list(plan.table.input_size),
        "output_size": list(plan.table.output_size),
        "channel_axis": plan.channel_axis,
        "rules": [_rule(axis) for axis in plan.table.axes],
    }


def _rule(axis: Any) -> dict[str, Any]:
    sizes = {"input_size": axis.input_size, "output_size": axis.output_size}
    if axis.rule is not None:
        names = ("window", "stride", "before", "count_before", "count_after", "divisor")
        return {"type": "regular", **sizes, **dict(zip(names, axis.rule[2:8], strict=True))}
    listed: list[Any] = [None, None, None]
    if axis.output_size <= limits.LISTED_WINDOWS:
        listed = np.asarray(axis.windows(0, axis.output_size)).T.tolist()
    return {"type": "listed", **sizes, **dict(zip(("start", "stop", "divisor"), listed, strict=True))}


def _call_text(item: Checked) -> str | None:
    if not item.block.is_op:
        return None
    wired = [f"{pin}={block}.{output}" for pin, (block, output) in item.inputs.items()]
    typed = [f"{name}={value!r}" for name, value in item.values.items()]
    return f"{item.node.op}({', '.join(wired + typed)})"
