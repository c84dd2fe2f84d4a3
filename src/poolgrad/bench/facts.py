"""What a result must say about the machine and the code that gave it."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import _core

_HERE = Path(__file__).parent


def facts(workers: int) -> dict[str, Any]:
    """CPU, versions, commit if known, date and workers."""
    import poolgrad

    versions = {"poolgrad": poolgrad.__version__, "python": platform.python_version()}
    for name in ("numpy", "ml_dtypes"):
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu(),
        "cpus": os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.machine()}",
        "workers": workers,
        "isa": _core.isa(),
        "versions": versions,
    }


def cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def commit() -> str | None:
    """The commit of the checkout this code is from, with ``+`` when it was changed; None when that is not known.

    An installed package knows it only if run inside a checkout that has the same benchmark.
    """
    for folder in (_HERE, Path.cwd()):
        top = _git(folder, "rev-parse", "--show-toplevel")
        if top is None:
            continue
        same = Path(top) / "src" / "poolgrad" / "bench" / "workloads.json"
        if not same.is_file() or same.read_bytes() != (_HERE / "workloads.json").read_bytes():
            continue
        head = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
        return None if head is None else head + ("+" if changed else "")
    return None


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def import_seconds(times: int = 5) -> float:
    """What ``import poolgrad`` costs after ``import numpy``: best of a few fresh interpreters, with bytecode."""
    code = "import time, numpy; t = time.perf_counter(); import poolgrad; print(time.perf_counter() - t)"
    path = os.pathsep.join([str(_HERE.parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    best = float("inf")
    with tempfile.TemporaryDirectory() as cache:  # a checkout may have none, or not be writable
        environment |= {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": cache}
        for _ in range(1 + times):  # the first writes it
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment)
            best = min(best, float(done.stdout))
    return best


def free_memory() -> int:
    """Bytes that could be used without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 2**62
