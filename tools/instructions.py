"""The guard of speed: instructions of a handful of kernels, counted by callgrind, against those in `instructions.json`.

    python tools/instructions.py             compare; exit code 1 if a kernel needs over 3 % more
    python tools/instructions.py --record    write the counts of now

Counts do not depend on what else the machine does: a difference is the code's or the compiler's, which is recorded too.
Needs valgrind, cmake and a C++ compiler ($CXX, else c++); takes a few minutes, most of it the build.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tools" / "instructions.json"
TOLERANCE = 0.03

Counts = dict[str, dict[str, int]]  # instruction set -> kernel -> instructions of one call


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the kernels' instruction counts with the recorded ones.")
    parser.add_argument("--record", action="store_true", help="write the counts instead")
    options = parser.parse_args()
    compiler = os.environ.get("CXX", "c++")
    for tool in ("valgrind", "cmake", compiler):
        if shutil.which(tool) is None:
            print(f"instructions: {tool} is not installed, so nothing was counted", file=sys.stderr)
            return 2
    if not options.record and not RECORD.exists():
        print(f"instructions: nothing is recorded in {RECORD.relative_to(ROOT)} yet; use --record", file=sys.stderr)
        return 2
    version = _output([compiler, "--version"]).splitlines()[0]
    with tempfile.TemporaryDirectory() as folder:
        counts = count(build(Path(folder), compiler), Path(folder))
    if options.record:
        RECORD.write_text(json.dumps({"compiler": version, "counts": counts}, indent=1) + "\n")
        print(f"recorded in {RECORD.relative_to(ROOT)}")
        return 0
    recorded = json.loads(RECORD.read_text())
    if recorded["compiler"] != version:
        print(f"recorded with {recorded['compiler']}, this is {version}: differences may be the compiler's")
    lines, slower = compare(recorded["counts"], counts)
    print("\n".join(lines))
    return 1 if slower else 0


def build(folder: Path, compiler: str) -> Path:
    """The program, linked with the kernels as they are shipped."""
    settings = ["-DPOOLGRAD_MODULE=OFF", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_COMPILER={compiler}"]
    _output(["cmake", "-S", str(ROOT), "-B", str(folder), *settings])
    _output(["cmake", "--build", str(folder), "--target", "poolgrad_core", "--parallel", "2"])
    program = folder / "instructions"
    source, library = ROOT / "tools" / "instructions.cpp", folder / "libpoolgrad_core.a"
    words = ["-std=gnu++17", "-O1", f"-I{ROOT / 'native' / 'core'}", str(source), str(library), "-pthread"]
    _output([compiler, *words, "-o", str(program)])
    return program


def count(program: Path, folder: Path) -> Counts:
    """Instructions of one call of every kernel, for each instruction set this CPU has."""
    names = _output([str(program)]).split()
    counts: Counts = {}
    for isa in ("baseline", "avx2"):
        if isa == "avx2" and "avx2" not in Path("/proc/cpuinfo").read_text().split():
            continue
        counts[isa] = {}
        for name in names:
            once, twice = (_collected(program, name, calls, isa, folder) for calls in (1, 2))
            counts[isa][name] = twice - once
    return counts


def compare(recorded: Counts, now: Counts, tolerance: float = TOLERANCE) -> tuple[list[str], list[str]]:
    """A line for each kernel, and the kernels that became slower; one that is not recorded is neither."""
    lines, slower = [], []
    for isa, kernels in now.items():
        for name, instructions in kernels.items():
            before = recorded.get(isa, {}).get(name)
            if before is None:
                lines.append(f"{isa:9}{name:36}{instructions:>12}  not recorded")
                continue
            change = instructions / before - 1
            word = "MORE" if change > tolerance else "fewer: record it" if change < -tolerance else ""
            if change > tolerance:
                slower.append(f"{isa} {name}")
            lines.append(f"{isa:9}{name:36}{before:>12}{instructions:>12}{change:>+8.1%}  {word}".rstrip())
    return lines, slower


def _collected(program: Path, name: str, calls: int, isa: str, folder: Path) -> int:
    words = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'callgrind.out'}"]
    done = subprocess.run(
        [*words, str(program), name, str(calls)],
        capture_output=True,
        text=True,
        env={**os.environ, "POOLGRAD_ISA": isa},
        check=False,
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f"instructions: {name} ({isa}) failed under valgrind: {done.stderr.strip()[-300:]}")
    return int(found[1])


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"instructions: {' '.join(command[:3])} failed: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
