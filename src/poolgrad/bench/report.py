"""A run as text, as the README's block and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .rows import Bar, Row, families
from .workloads import FAMILIES

SCHEMA = 1
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def shown(seconds: float | None) -> str:
    """A time with three digits and its unit."""
    if seconds is None:
        return "-"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale * 0.9995 or unit == "us":
            value = seconds / scale
            return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:.3g} {unit}"
    raise AssertionError


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 99.5 else f"{value:.3g}"


def table(rows: Sequence[Row], peers: Sequence[str]) -> str:
    """Every row, family by family. ``~`` marks a time that was not stable, ``!`` a peer with other numbers."""
    lines = []
    for family in FAMILIES:
        chosen = [row for row in rows if row.family == family]
        if not chosen:
            continue
        seen = [peer for peer in peers if any(peer in row.peers for row in chosen)]
        heads = ["", "layout", "ours", "new array", "limit", "/limit", *seen, "best peer/ours"]
        body = [_line(row, seen) for row in chosen]
        means = next(each for each in families(chosen))
        body.append(["geometric mean", "", "", "", "", ratio(means.of_limit), *[""] * len(seen), ratio(means.gain)])
        lines += [family, *_columns(heads, body), ""]
    return "\n".join(lines)


def _line(row: Row, peers: Sequence[str]) -> list[str]:
    def mark(name: str) -> str:
        return ("~" if name in row.unstable else "") + ("!" if name in row.differs else "")

    return [
        f"{row.name} {row.step if row.family == 'call overhead' else row.dtype}",
        row.layout,
        shown(row.ours) + mark("ours"),
        shown(row.fresh) + mark("fresh"),
        shown(row.limit) + mark("limit"),
        ratio(row.of_limit),
        *(shown(row.peers.get(peer)) + mark(peer) for peer in peers),
        ratio(row.gain()),
    ]


def _columns(heads: list[str], body: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(heads, *body, strict=True)]
    lines = []
    for cells in (heads, *body):
        first = [cell.ljust(width) for cell, width in zip(cells[:2], widths[:2], strict=True)]
        rest = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
        lines.append("  " + "  ".join(first + rest).rstrip())
    return lines


def bar_table(bars: Sequence[Bar]) -> str:
    """The bars, one a line: value (a mean unless of every row), the worst row, how many miss it or did not settle."""
    body = [
        [
            bar.what, bar.verdict, bar.wanted, ratio(bar.value), ratio(bar.worst),
            f"{bar.missing} of {bar.rows}" if bar.rows > 1 else "", str(bar.unsettled or ""),
            bar.where if bar.missing else "",
        ]
        for bar in bars
        if bar.verdict != "-"
    ]  # fmt: skip
    heads = ["", "", "wanted", "value", "worst", "rows miss", "unsettled", "the worst"]
    return "\n".join([f"bars ({len(bars) - len(body)} more need other cases or peers)", *_columns(heads, body)])


def as_json(run: dict[str, Any], rows: Sequence[Row], bars: Sequence[Bar]) -> dict[str, Any]:
    """All of a run; times in seconds."""
    return {
        "schema": SCHEMA,
        **run,
        "rows": [asdict(row) | {"of_limit": row.of_limit, "gain": row.gain()} for row in rows],
        "families": [asdict(family) for family in families(rows)],
        "bars": [bar.as_dict() for bar in bars],
    }


def block(run: dict[str, Any], rows: Sequence[Row], bars: Sequence[Bar]) -> str:
    """The README's figures, in Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    commit = f", commit {run['commit']}" if run["commit"] else ""
    unstable = sum(bool(row.unstable) for row in rows)
    lines = [
        f"Measured by `poolgrad bench` on {run['cpu']} with {run['workers']} workers, {run['date'][:10]}{commit};",
        f"{versions}.",
        f"{len(rows)} rows" + (f", {unstable} of them with a time that did not settle" if unstable else "") + ".",
        "Geometric means; *over the limit*: our time over that of a kernel that just reads and writes the same bytes.",
        "",
        "| family | rows | over the limit | best peer takes |",
        "|---|--:|--:|--:|",
    ]
    for family in families(rows):
        gain = "-" if family.gain is None else f"{ratio(family.gain)}x as long"
        lines.append(f"| {family.name} | {family.rows} | {ratio(family.of_limit)} | {gain} |")
    lines += ["", "| bar | wanted | measured | worst row | rows (unsettled) | |", "|---|---|--:|--:|--:|---|"]
    lines += [
        f"| {bar.what} | {bar.wanted} | {ratio(bar.value)} | {ratio(bar.worst)} "
        f"| {bar.rows} ({bar.unsettled}) | {bar.verdict} |"
        for bar in bars
        if bar.verdict != "-"
    ]
    return "\n".join(lines)


def replace_block(text: str, new: str) -> str:
    """``text`` with what stands between the two markers replaced; ValueError unless both are there once, in order."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"needs the lines {BEGIN} and {END}, each once, in this order")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{new}\n{END}{after}"
