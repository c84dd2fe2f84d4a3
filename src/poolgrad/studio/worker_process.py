"""The server's end of the worker process: started when needed, killed at a deadline or on request."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from . import limits
from .worker import receive, send

Array = npt.NDArray[Any]
WORKER = (sys.executable, "-P", "-m", "poolgrad.studio.worker")


class WorkerDied(RuntimeError):
    """The worker process ended during a call; ``code`` is the problem's code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Worker:
    """One worker process at a time, started when needed, killed at a deadline or on request."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._reason: tuple[str, str] | None = None

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    def call(self, header: dict[str, Any], arrays: list[Array], deadline: float) -> tuple[dict[str, Any], list[Array]]:
        """One call, finished by ``deadline`` (`time.monotonic`); `WorkerDied` says why it was not."""
        process = self.start()
        self._reason = None
        late = f"the run took longer than {limits.RUN_SECONDS:g} s, the limit, and was stopped at this block"
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), self.kill, ("time", late))
        timer.daemon = True
        timer.start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send(process.stdin, header, arrays)  # type: ignore[arg-type]
            return receive(process.stdout)  # type: ignore[arg-type]
        except (EOFError, OSError, ValueError):
            raise self._death(process) from None
        finally:
            timer.cancel()

    def kill(self, code: str = "stopped", message: str = "stopped on request at this block") -> bool:
        process = self._process
        if process is None or process.poll() is not None:
            return False
        self._reason = (code, message)
        process.kill()
        return True

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def start(self) -> subprocess.Popen[bytes]:
        """The running process, started if there is none."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._process = process
        try:
            receive(process.stdout)  # type: ignore[arg-type]
        except (EOFError, ValueError):
            raise self._death(process) from None
        return process

    def _death(self, process: subprocess.Popen[bytes]) -> WorkerDied:
        code = process.wait()
        self.close()
        if self._reason is not None:
            return WorkerDied(*self._reason)
        if code == -9:
            return WorkerDied("killed", "the worker process was killed at this block, perhaps for lack of memory")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return WorkerDied("crashed", f"the worker process ended at this block ({how}); it was started again")
