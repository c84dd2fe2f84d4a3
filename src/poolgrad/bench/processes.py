"""The peers that are installed, each in a process of its own (see `peers/child.py` for what is said to them)."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Name in the table: module to import, mode, environment.
PEERS: dict[str, tuple[str, str, dict[str, str]]] = {
    "TF": ("tensorflow", "0", {"TF_ENABLE_ONEDNN_OPTS": "0"}),
    "TF oneDNN": ("tensorflow", "1", {"TF_ENABLE_ONEDNN_OPTS": "1"}),
    "torch last": ("torch", "last", {}),
    "torch first": ("torch", "first", {}),
    "JAX": ("jax", "jit", {}),
}
LONGEST = 120.0  # seconds for one answer; a call that takes longer is not worth the wait
_CHILD = Path(__file__).with_name("peers") / "child.py"


class Died(Exception):
    """The process ended or did not answer in time."""


class Peer:
    """A running peer."""

    def __init__(self, name: str, python: str, workers: int) -> None:
        self.name, self.python, self.workers = name, python, workers
        self.versions: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Begin the process; says why not, or nothing."""
        module, mode, extra = PEERS[self.name]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        environment = {**os.environ, **extra, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": str(self.workers)}
        self._process = subprocess.Popen(
            [self.python, str(_CHILD), module, mode, str(self.workers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment,
        )  # fmt: skip
        try:
            answer = self._receive()
        except Died as error:
            return str(error)
        self.versions = answer.get("versions", {})
        return str(answer.get("missing", ""))

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._errors.close()
            self._process = None

    def ask_prepare(self, case: dict[str, Any]) -> None:
        """Tell it to get ready; `prepared` waits for that, so that the peers get ready side by side."""
        if self._process is None:
            self.start()
        self._send({"do": "prepare", "case": case})

    def prepared(self) -> tuple[list[float] | None, str]:
        """A sample of its result, or None and why there is none."""
        try:
            answer = self._receive()
        except Died as error:
            return None, str(error)
        return answer.get("sample"), answer.get("unsupported", "")

    def burst(self, seconds: float) -> float:
        """The best time of a call; infinity if the process did not survive it."""
        try:
            self._send({"do": "burst", "seconds": seconds})
            return float(self._receive()["best"])
        except Died:
            return float("inf")

    def drop(self) -> None:
        """Free the memory of the case."""
        if self._process is not None:
            try:
                self._send({"do": "drop"})
                self._receive()
            except Died:
                pass

    def _send(self, message: dict[str, Any]) -> None:
        pipe = self._process.stdin if self._process else None
        if pipe is None:
            return  # the answer will be missing, and `_receive` says so
        try:
            pipe.write(json.dumps(message) + "\n")
            pipe.flush()
        except (BrokenPipeError, ValueError):
            pass  # likewise

    def _receive(self) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdout is None:
            raise Died("not running")
        # An answer is one line written at once, so once there is something to read the line is not long in coming.
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            late = not ready.select(LONGEST)
        line = "" if late else process.stdout.readline()
        if line:
            message: dict[str, Any] = json.loads(line)
            return message
        self._errors.seek(0)
        last = (self._errors.read().strip().splitlines() or ["?"])[-1]
        self.stop()
        raise Died(f"no answer in {LONGEST:.0f} s" if late else f"the process ended: {last[:160]}")


def find(names: Sequence[str], pythons: Sequence[str], workers: int) -> tuple[list[Peer], dict[str, str]]:
    """Start every peer that one of the interpreters has; and why the others did not start."""
    running, missing = [], {}
    modules = sorted({PEERS[name][0] for name in names})
    probe = "import sys, importlib.util as u; print(*[n for n in sys.argv[1:] if u.find_spec(n)])"
    have: dict[str, str] = {}
    for python in (sys.executable, *pythons):
        found = subprocess.run([python, "-c", probe, *modules], capture_output=True, text=True, check=False)
        for module in found.stdout.split():
            have.setdefault(module, python)
    for name in names:
        module = PEERS[name][0]
        if module not in have:
            missing[name] = "not installed"
            continue
        peer = Peer(name, have[module], workers)
        reason = peer.start()
        if reason:
            peer.stop()
            missing[name] = reason
        else:
            running.append(peer)
    return running, missing


def settle() -> None:
    """Let the threads of the peer that was measured last go to sleep: they spin for a few milliseconds."""
    time.sleep(0.005)
