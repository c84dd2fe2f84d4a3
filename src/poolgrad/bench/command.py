"""``poolgrad bench``: choose, measure, report."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from ..workers import MOST, available
from .chart import chart
from .facts import facts, import_seconds
from .measure import QUICK, Effort
from .processes import PEERS, Peer, find
from .report import as_json, bar_table, block, replace_block, table
from .rows import bars
from .run import run
from .workloads import FAMILIES, Case, cases


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Instead of ``sys.argv[1:]``.

    Returns
    -------
    int
        0, or 2 for a mistake in the arguments. A bar that is missed is reported and does not change it.
    """
    try:
        return _main(_parser().parse_args(argv))
    except SystemExit as stop:  # of argparse
        return stop.code if isinstance(stop.code, int) else 0
    except BrokenPipeError:  # of `poolgrad bench --list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("poolgrad bench: interrupted", file=sys.stderr)
        return 130
    except (OSError, ValueError) as error:
        print(f"poolgrad bench: {error}", file=sys.stderr)
        return 2


def _parser() -> _Parser:
    parser = _Parser(
        prog="poolgrad bench",
        allow_abbrev=False,
        description="Time every op beside the installed frameworks and beside the machine's memory limit.",
        epilog="Ratios from one run are what counts: absolute times depend on the machine and on what else it does.",
    )
    parser.add_argument("--quick", action="store_true", help="a handful of workloads, under a minute, no frameworks")
    parser.add_argument(
        "--seconds", type=_seconds, metavar="S", help=f"of a case, at most (default: {Effort.seconds:g})"
    )
    parser.add_argument("--list", action="store_true", help="name the cases and measure nothing")
    parser.add_argument(
        "--filter", action="append", default=[], metavar="TEXT", help="only cases whose name has this text"
    )
    parser.add_argument(
        "--family", action="append", default=[], metavar="TEXT", help="only families whose name has this text"
    )
    parser.add_argument("--workers", type=_workers, default=available(), metavar="N", help="threads (default: all)")
    parser.add_argument(
        "--peers", default="all", metavar="NAMES", help=f"all, none, or a comma list of: {', '.join(PEERS)}"
    )
    parser.add_argument(
        "--python", action="append", default=[], metavar="PATH", help="another interpreter that has frameworks"
    )
    parser.add_argument("--json", metavar="PATH", help="write everything there (- for standard output, no table)")
    parser.add_argument("--svg", metavar="PATH", help="write a chart of the families there")
    parser.add_argument("--update-readme", metavar="PATH", help="write the figures between the file's bench markers")
    return parser


def _workers(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and below 3600")
    return seconds


def _main(options: argparse.Namespace) -> int:
    chosen = _chosen(options)
    if options.list:
        for case in chosen:
            print(f"{case.id:52} {case.family:28} {case.workload.about}")
        return 0
    readme = Path(options.update_readme) if options.update_readme else None
    if readme is not None:
        replace_block(readme.read_text(), "")  # complain before measuring, not after
    effort = QUICK if options.quick else Effort()
    if options.seconds:
        effort = replace(effort, seconds=options.seconds)
    peers, missing = _peers(options)
    run_facts = facts(options.workers)
    try:
        rows = run(chosen, peers, options.workers, effort)
    finally:
        for peer in peers:
            peer.stop()
    for peer in peers:
        run_facts["versions"] |= peer.versions
    run_facts["absent"] = missing
    run_facts["import_seconds"] = import_seconds(2 if options.quick else 5)
    judged = bars(rows, options.workers, run_facts["import_seconds"])
    if options.json:
        text = json.dumps(as_json(run_facts, rows, judged), indent=1) + "\n"
        if options.json == "-":
            sys.stdout.write(text)
        else:
            Path(options.json).write_text(text)
    if options.json != "-":
        for name, reason in missing.items():
            print(f"{name}: {reason}")
        print(f"{run_facts['cpu']}, {options.workers} workers, {run_facts['isa']}\n")
        print(table(rows, [peer.name for peer in peers]))
        print(bar_table(judged))
        if any(row.unstable for row in rows):
            print("\n~ not stable: its best three rounds differ by more than 5 %")
        if any(row.differs for row in rows):
            print("\n! this peer's numbers differ from ours")
    if options.svg:
        Path(options.svg).write_text(chart(run_facts, rows))
    if readme is not None:
        readme.write_text(replace_block(readme.read_text(), block(run_facts, rows, judged)))
    return 0


def _chosen(options: argparse.Namespace) -> list[Case]:
    for text in options.family:
        if not any(text in family for family in FAMILIES):
            raise ValueError(f"no family has {text!r} in its name; there are: {', '.join(FAMILIES)}")
    result = [
        case
        for case in cases()
        if (not options.quick or options.filter or (case.workload.quick and case.dtype == case.workload.dtypes[0]))
        and all(text in case.id for text in options.filter)
        and (not options.family or any(text in case.family for text in options.family))
    ]
    if not result:
        raise ValueError("no case has that name and family; see --list")
    return result


def _peers(options: argparse.Namespace) -> tuple[list[Peer], dict[str, str]]:
    if options.quick or options.peers == "none":
        return [], {}
    names = list(PEERS) if options.peers == "all" else [name.strip() for name in options.peers.split(",")]
    for name in names:
        if name not in PEERS:
            raise ValueError(f"no peer is named {name!r}; there are: {', '.join(PEERS)}")
    return find(names, options.python, options.workers)
