"""What a run gives: rows, families and the bars that the project sets itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from .workloads import FAMILIES, LARGE

SCRATCH = 4 << 20  # bytes a worker


@dataclass
class Row:
    """One case in one layout; times are seconds a call."""

    id: str
    name: str
    dtype: str
    step: str
    family: str
    kind: str  # "average" or "max"
    layout: str  # NHWC, NCHW (3-D alike) or "one channel"
    input: tuple[int, ...]
    output: tuple[int, ...]
    window: tuple[int, ...]
    covers: int
    input_bytes: int
    read_bytes: int
    write_bytes: int
    ours: float
    limit: float
    limit_stores: str  # which kind of stores gave the limit
    fresh: float | None = None  # ours with a new result each time
    one_worker: float | None = None
    limit_one_worker: float | None = None
    scratch_bytes: int = 0
    peers: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # peers without a time, and why
    unstable: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)  # peers whose numbers are others

    @property
    def of_limit(self) -> float:
        return self.ours / self.limit

    def gain(self, *prefixes: str) -> float | None:
        """How many times longer the best peer takes; None without a peer."""
        times = [time for name, time in self.peers.items() if not prefixes or name.startswith(prefixes)]
        return min(times) / self.ours if times else None

    @property
    def large(self) -> bool:
        return self.input_bytes >= LARGE

    @property
    def is_gradient(self) -> bool:
        return "gradient" in self.family

    @property
    def is_box9(self) -> bool:
        return self.window == (9, 9, 9)

    def label(self) -> str:
        return f"{self.id} {self.layout}"


@dataclass(frozen=True)
class Bar:
    """One wish of the project and how a run stands to it. ``value`` is a geometric mean unless ``single``."""

    what: str
    wanted: str
    value: float | None
    worst: float | None
    where: str
    rows: int
    missing: int
    verdict: str  # PASS, MISS, or "-" when the run has nothing to judge it by
    unsettled: int = 0  # rows with a time that did not settle

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def mean(values: Iterable[float]) -> float | None:
    """The geometric mean; None of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def judge(
    what: str,
    measured: Iterable[tuple[str, float | None]],
    *,
    least: float | None = None,
    most: float | None = None,
    single: bool = False,
    ceiling: float | None = None,
    unit: str = "x",
    unsettled: frozenset[str] = frozenset(),
) -> Bar:
    """A bar over ``(row, value)``: the mean, or with ``single`` every row; no row above ``ceiling``."""
    rows = [(value, where) for where, value in measured if value is not None]
    wanted = f">= {least:g}{unit}" if least is not None else f"<= {most:g}{unit}"
    if ceiling is not None:
        wanted += f", no row above {ceiling:g}"
    if not rows:
        return Bar(what, wanted, None, None, "", 0, 0, "-")

    def good(value: float, limit: float | None = None) -> bool:
        return value >= least if least is not None else value <= (limit or most or 0)

    worst, where = min(rows) if least is not None else max(rows)
    value = worst if single else mean(value for value, _ in rows)
    assert value is not None
    passed = good(value) and (ceiling is None or good(worst, ceiling))
    missing = sum(not good(value) for value, _ in rows)
    restless = sum(where in unsettled for _, where in rows)
    return Bar(what, wanted, value, worst, where, len(rows), missing, "PASS" if passed else "MISS", restless)


def bars(rows: Sequence[Row], workers: int, import_seconds: float | None) -> list[Bar]:
    """Every bar, in the order in which the project lists them."""
    work = [row for row in rows if row.family != "call overhead"]
    judged = partial(judge, unsettled=frozenset(row.label() for row in rows if row.unstable))
    tensorflow, jax = ("TF",), ("TF", "JAX")

    def gains(test: Callable[[Row], bool], *prefixes: str) -> list[tuple[str, float | None]]:
        return [(row.label(), row.gain(*prefixes)) for row in work if test(row)]

    def limits(test: Callable[[Row], bool]) -> list[tuple[str, float | None]]:
        return [(row.label(), row.of_limit) for row in work if test(row)]

    def inner(row: Row, layout: str) -> bool:  # one channel has no inner run, as channels first
        return (row.layout == "NHWC") == (layout == "NHWC")

    two, three = "average 2-D gradient", "average 3-D gradient"
    result = [
        judged("every row against its best peer", gains(lambda row: True), least=0.95, single=True),
        judged("2-D average gradients against the best peer", gains(lambda row: row.family == two), least=1.8),
        judged(
            "3-D average gradients against the best peer (9x9x9 apart)",
            gains(lambda row: row.family == three and not row.is_box9),
            least=4,
        ),
        judged(
            "3-D average gradients, 9x9x9 on one channel",
            gains(lambda row: row.family == three and row.is_box9 and row.layout == "one channel"),
            least=100,
        ),
        judged(
            "max gradients, raw op, against TensorFlow and JAX",
            gains(lambda row: row.family == "max gradient", *jax),
            least=6,
        ),
    ]
    for kind, least in (("average", 5), ("max", 8)):
        chosen = gains(lambda row, kind=kind: row.family == f"fractional {kind} gradient", *tensorflow)  # type: ignore[misc]
        result.append(judged(f"fractional {kind} gradients against TensorFlow's better mode", chosen, least=least))
    for word, gradient in (("gradients", True), ("forward", False)):
        if not gradient:
            forward = gains(lambda row: not row.is_gradient)
            result.append(judged("forward ops against the best peer", forward, least=1))
        for large, layout, most, ceiling in (
            (True, "NHWC", 1.3, 2.0),
            (True, "NCHW", 1.6, 2.0),
            (False, "NHWC", 1.7, None),
            (False, "NCHW", 2.2, None),
        ):
            chosen = [
                (row.label(), row.of_limit)
                for row in work
                if row.kind == "average"
                and (row.is_gradient, row.large) == (gradient, large)
                and inner(row, layout)
                and not row.is_box9
            ]
            size = "64 MiB and more" if large else "smaller"
            what = f"average {word} over the limit, {size}, {layout}"
            result.append(judged(what, chosen, most=most, ceiling=ceiling))
        for many, most in ((False, 2.5), (True, 6.0)):
            chosen = [
                (row.label(), row.of_limit)
                for row in work
                if row.kind == "max" and row.is_gradient == gradient and (row.covers > 9) == many
            ]
            what = f"max {word} over the limit" + (", more than nine windows cover an element" if many else "")
            result.append(judged(what, chosen, most=most))
    box9 = limits(lambda row: row.is_box9 and row.kind == "average")
    result.append(judged("9x9x9 stride 1 averages over the limit", box9, most=4))
    result.append(judged("float16 and bfloat16 over float32, large", _halves(work), most=0.8))
    result.append(judged("second worker: our gain over the limit's gain, large", _scaling(work), least=0.9))
    calls = {row.step: row.ours * 1e6 for row in rows if row.family == "call overhead"}
    for step, word, most in (("gradient", "raw op", 8), ("ready", "op with a ready table", 4)):
        result.append(judged(f"call overhead, {word}", [("1x4x4x1", calls.get(step))], most=most, unit=" us"))
    peaks = [(row.label(), row.scratch_bytes / 2**20 / workers or None) for row in rows]
    result.append(judged("scratch a worker", peaks, most=SCRATCH / 2**20, single=True, unit=" MiB"))
    imports = None if import_seconds is None else import_seconds * 1e3
    result.append(judged("import poolgrad beyond import numpy", [("", imports)], most=40, unit=" ms"))
    return result


def _halves(rows: Sequence[Row]) -> list[tuple[str, float | None]]:
    full = {(row.name, row.step, row.layout): row for row in rows if row.dtype == "float32" and row.large}
    pairs = [(row, full.get((row.name, row.step, row.layout))) for row in rows if row.dtype in ("float16", "bfloat16")]
    return [(row.label(), row.ours / other.ours) for row, other in pairs if other is not None]


def _scaling(rows: Sequence[Row]) -> list[tuple[str, float | None]]:
    return [
        (row.label(), (row.one_worker / row.ours) / (row.limit_one_worker / row.limit))
        for row in rows
        if row.one_worker is not None and row.limit_one_worker is not None
    ]


@dataclass(frozen=True)
class Family:
    """Geometric means over the rows of a family."""

    name: str
    rows: int
    of_limit: float
    gain: float | None  # over the best peer of each row
    others: dict[str, float]  # each peer's time over the limit, on the rows it has


def families(rows: Sequence[Row]) -> list[Family]:
    """A summary of each family that was measured."""
    result = []
    for name in FAMILIES:
        chosen = [row for row in rows if row.family == name]
        ratio = mean(row.of_limit for row in chosen)
        if ratio is None:
            continue
        gains = [gain for row in chosen if (gain := row.gain()) is not None]
        peers = list(dict.fromkeys(peer for row in chosen for peer in row.peers))
        others = {peer: mean(row.peers[peer] / row.limit for row in chosen if peer in row.peers) for peer in peers}
        known = {peer: value for peer, value in others.items() if value is not None}
        result.append(Family(name, len(chosen), ratio, mean(gains), known))
    return result
