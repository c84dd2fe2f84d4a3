"""Measuring cases: ours, the limit and every peer, in interleaved rounds."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

from .facts import free_memory
from .local import Local
from .measure import Effort, Timing, measure
from .processes import Peer
from .rows import Row
from .workloads import Case

TOLERANCE = {"float32": 1e-3, "float64": 1e-9}  # relative; other dtypes are not compared, peers round them differently


def run(cases: Sequence[Case], peers: Sequence[Peer], workers: int, effort: Effort) -> list[Row]:
    """The rows of every case; a case or peer that does not fit into memory is left out and said so.

    An interrupt ends the measuring, not the report: what was measured until then is returned.
    """
    rows: list[Row] = []
    progress = Progress(len(cases))
    try:
        for case in cases:
            progress.show(case.id)
            # In inputs: ours holds at most five with what is pooled and the limit's source, a peer at most three.
            room = 0.8 * free_memory() / case.input_bytes
            fitting = peers[: max(0, int(room - 5) // 3)]
            if room < 5:
                progress.say(f"{case.id}: left out, needs {5 * case.input_bytes / 2**30:.0f} GiB")
            else:
                rows += measure_case(case, fitting, workers, effort)
                if len(fitting) < len(peers):
                    progress.say(f"{case.id}: no memory for {', '.join(peer.name for peer in peers[len(fitting) :])}")
            progress.step()
    except KeyboardInterrupt:
        if not rows:
            raise
        progress.say(f"interrupted in {case.id}: {len(rows)} rows were measured")
    progress.close()
    return rows


def measure_case(case: Case, peers: Sequence[Peer], workers: int, effort: Effort) -> list[Row]:
    spec = case.peer_spec
    for peer in peers:
        peer.ask_prepare(spec)
    local = Local(case, workers)
    absent, differs = {}, []
    takers: dict[tuple[str, str, int], Callable[[float], float]] = {
        name: local.participant(name) for name in local.calls
    }
    for peer in peers:
        sample, reason = peer.prepared()
        if sample is None:
            absent[peer.name] = reason
            continue
        takers["peer", peer.name, 0] = peer.burst
        if not agree(sample, local.sample, TOLERANCE.get(case.dtype)):
            differs.append(peer.name)
    by_text = {"|".join(map(str, name)): taker for name, taker in takers.items()}
    timings = dict(zip(takers, measure(by_text, effort).values(), strict=True))
    for peer in peers:
        peer.drop()
        if ("peer", peer.name, 0) in timings and math.isinf(timings["peer", peer.name, 0].best):
            del timings["peer", peer.name, 0]
            absent[peer.name] = "ended while it was measured"
    return [_row(case, layout, workers, timings, effort, local, absent, differs) for layout in case.layouts]


def _row(
    case: Case,
    layout: str,
    workers: int,
    timings: dict[tuple[str, str, int], Timing],
    effort: Effort,
    local: Local,
    absent: dict[str, str],
    differs: list[str],
) -> Row:
    load = case.workload
    reads, writes = case.traffic

    def best(what: str, place: str, count: int) -> float | None:
        timing = timings.get((what, place, count))
        return None if timing is None else timing.best

    def limit(count: int) -> tuple[float, str] | None:
        if ("plain", "", count) not in timings:
            return None
        return min((timings[what, "", count].best, what) for what in ("plain", "streaming"))

    both = limit(workers)
    assert both is not None
    alone = limit(1) if workers > 1 else None
    mine = {("ours", layout, workers): "ours", ("fresh", layout, workers): "fresh", (both[1], "", workers): "limit"}
    names = mine | {name: name[1] for name in timings if name[0] == "peer"}
    ours = best("ours", layout, workers)
    assert ours is not None
    return Row(
        id=case.id, name=load.name, dtype=case.dtype, step=case.step, family=case.family,
        kind="max" if "max" in load.kind else "average", layout=layout, input=load.input, output=load.output,
        window=load.window, covers=load.covers, input_bytes=case.input_bytes, read_bytes=reads, write_bytes=writes,
        ours=ours, limit=both[0], limit_stores=both[1], fresh=best("fresh", layout, workers),
        one_worker=best("ours", layout, 1) if workers > 1 else None,
        limit_one_worker=alone[0] if alone else None, scratch_bytes=local.scratch[layout],
        peers={name[1]: timing.best for name, timing in timings.items() if name[0] == "peer"},
        absent=absent, differs=differs,
        unstable=[word for name, word in names.items() if name in timings and not timings[name].stable(effort)],
    )  # fmt: skip


def agree(theirs: Sequence[float], ours: Sequence[float], tolerance: float | None) -> bool:
    """Whether two samples of a result are the same numbers, up to rounding."""
    if tolerance is None:
        return True
    scale = max(map(abs, ours), default=0.0)
    return len(theirs) == len(ours) and all(abs(a - b) <= tolerance * scale for a, b in zip(theirs, ours, strict=True))


class Progress:
    """A bar on standard error, where that is a terminal."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._shown = sys.stderr.isatty()

    def show(self, text: str) -> None:
        if self._shown:
            filled = 24 * self._done // max(1, self._total)
            bar = "#" * filled + "." * (24 - filled)
            print(f"\r\x1b[K[{bar}] {self._done}/{self._total} {text[:44]}", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        print(f"{chr(13) + chr(27) + '[K' if self._shown else ''}{text}", file=sys.stderr)

    def step(self) -> None:
        self._done += 1

    def close(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
