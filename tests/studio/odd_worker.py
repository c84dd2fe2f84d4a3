"""A worker process that misbehaves on AvgPoolGrad as its argument says, for the runner's tests."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from poolgrad.studio import worker


def call(header: dict[str, Any], arrays: list[Any]) -> worker.Message:
    if header["op"] == "AvgPoolGrad":
        if sys.argv[1] == "sleep":
            time.sleep(60)
        if sys.argv[1] == "hang":
            sum(range(1 << 40))  # In C, and never lets another thread run.
        if sys.argv[1] == "crash":
            os._exit(3)
        if sys.argv[1] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if sys.argv[1] == "memory":
            worker.limit_memory()
            bytearray(1 << 33)
        if sys.argv[1] == "print":
            print("not an answer", flush=True)
    return worker.call(header, arrays)


def guarded(header: dict[str, Any], arrays: list[Any]) -> worker.Message:
    try:
        return call(header, arrays)
    except MemoryError as error:
        return {"error": "MemoryError", "message": str(error), "argument": None, "expected": None, "got": None}, []


if __name__ == "__main__":
    worker.main(guarded)
