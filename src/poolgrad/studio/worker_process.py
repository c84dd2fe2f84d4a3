"""The server's end of the worker process: started when needed, killed at a deadline or on request."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from .worker import receive, send

Array = npt.NDArray[Any]
WORKER = (sys.executable, "-P", "-m", "poolgrad.studio.worker")
#: Importing the library takes half a second; on a busy machine several.
START_SECONDS = 8.0


class WorkerDied(RuntimeError):
    """The worker process ended during a call, or may not begin one; ``code`` is the problem's code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Permit:
    """How long one run may go on: until ``seconds`` after it began, or until someone ends it."""

    def __init__(self, seconds: float, tab: str = "") -> None:
        self.seconds, self.tab = seconds, tab
        self._deadline = math.inf
        self._end: tuple[str, str] | None = None

    def begin(self) -> None:
        self._deadline = time.monotonic() + self.seconds

    @property
    def begun(self) -> bool:
        return self._deadline < math.inf

    @property
    def remaining(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def end(self, code: str, message: str) -> None:
        self._end = self._end or (code, message)

    @property
    def ended(self) -> tuple[str, str] | None:
        """Code and words of why the run may not go on; None while it may."""
        if self._end is None and self.remaining == 0:
            self.end("time", f"the run took longer than {self.seconds:g} s, the limit, and was stopped at this block")
        return self._end


class Worker:
    """One worker process at a time, which serves one call at a time."""

    def __init__(self, command: Sequence[str], start_seconds: float = START_SECONDS) -> None:
        self._command, self._start_seconds = command, start_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._permit: Permit | None = None
        self._closed = False
        # Re-entrant: Ctrl-C may come while the same thread is ending a run.
        self._lock = threading.RLock()

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    def call(self, header: dict[str, Any], arrays: list[Array], permit: Permit) -> tuple[dict[str, Any], list[Array]]:
        """One call, finished while ``permit`` lasts; `WorkerDied` says why it was not."""
        timer = threading.Timer(permit.remaining, self.end, (permit,))
        timer.daemon = True
        timer.start()
        try:
            process = self.start(permit)
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                send(process.stdin, {**header, "seconds": permit.remaining}, arrays)  # type: ignore[arg-type]
                return receive(process.stdout)  # type: ignore[arg-type]
            except (EOFError, OSError, ValueError):
                raise self._death(process, permit) from None
        finally:
            timer.cancel()
            with self._lock:
                self._permit = None

    def end(self, permit: Permit) -> None:
        """Kill the process if it works for ``permit``, which has ended; never another run's."""
        with self._lock:
            if permit.ended is not None and self._permit is permit and self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """End the process for good: no other is started."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
        self._drop()

    def start(self, permit: Permit) -> subprocess.Popen[bytes]:
        """The running process, started if there is none and ``permit`` lasts."""
        with self._lock:
            # Under the lock: whoever ends the permit from here on finds the process to kill.
            self._permit = permit
            if self._closed:
                permit.end("stopped", "the studio was closed before this block")
            if permit.ended is not None:
                raise WorkerDied(*permit.ended)
            if self._process is not None and self._process.poll() is None:
                return self._process
            self._drop()
            try:
                process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            except OSError as error:
                raise WorkerDied("crashed", f"the worker process cannot be started: {error.strerror}") from None
            self._process = process
        timer = threading.Timer(self._start_seconds, self._give_up, (process, permit))
        timer.daemon = True
        timer.start()
        try:
            receive(process.stdout)  # type: ignore[arg-type]
        except (EOFError, ValueError):
            raise self._death(process, permit) from None
        finally:
            timer.cancel()
        return process

    def _give_up(self, process: subprocess.Popen[bytes], permit: Permit) -> None:
        permit.end("time", f"the worker process did not start within {self._start_seconds:g} s and was stopped")
        process.kill()

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def _death(self, process: subprocess.Popen[bytes], permit: Permit) -> WorkerDied:
        # A process whose answer was no message is still there; it has half a second to end by itself.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.kill()
        code = process.wait()
        self._drop()
        if permit.ended is not None:
            return WorkerDied(*permit.ended)
        if code == -9:
            return WorkerDied("killed", "the worker process was killed at this block, perhaps for lack of memory")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return WorkerDied("crashed", f"the worker process ended at this block ({how}); it was started again")
