"""The process in which kernels run, so that it can be killed: ``python -m poolgrad.studio.worker``.

Messages over stdin and stdout: 8 bytes length of a JSON header, the header, then the bytes of the
arrays it lists. A request is one call of a raw op; the answer its outputs or the library's refusal.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
import numpy.typing as npt

from . import limits

Array = npt.NDArray[Any]
Message = tuple[dict[str, Any], list[Array]]
#: The server kills a late worker; this much later the worker ends by itself.
SPARE_SECONDS = 1.0


def send(stream: BinaryIO, header: dict[str, Any], arrays: list[Array]) -> None:
    arrays = [np.asarray(array, order="C") for array in arrays]
    listed = [{"dtype": array.dtype.name, "shape": array.shape} for array in arrays]
    text = json.dumps({**header, "arrays": listed}).encode()
    stream.write(struct.pack("<Q", len(text)) + text)
    for array in arrays:
        stream.write(array.reshape(-1).view(np.uint8).data if array.size else b"")
    stream.flush()


def receive(stream: BinaryIO) -> Message:
    """The next message; EOFError when the other side is gone."""
    header = json.loads(_exactly(stream, struct.unpack("<Q", _exactly(stream, 8))[0]))
    arrays = []
    for listed in header["arrays"]:
        dtype = np.dtype(ml_dtypes.bfloat16 if listed["dtype"] == "bfloat16" else listed["dtype"])
        array: Array = np.empty(listed["shape"], dtype)
        if array.size:
            view = memoryview(array.reshape(-1).view(np.uint8).data)
            while len(view):
                count = stream.readinto(view)  # type: ignore[attr-defined]
                if not count:
                    raise EOFError
                view = view[count:]
        arrays.append(array)
    return header, arrays


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def call(header: dict[str, Any], arrays: list[Array]) -> Message:
    """Run one op; a refusal of the library travels back as its text and attributes."""
    from poolgrad import raw_ops

    arguments = {**header["attributes"], **dict(zip(header["pins"], arrays, strict=True))}
    start = time.perf_counter()
    try:
        result = getattr(raw_ops, header["op"])(**arguments)
    except (ValueError, TypeError, MemoryError) as error:
        fields = {name: getattr(error, name, None) for name in ("argument", "expected", "got")}
        kind = next(kind for kind in (MemoryError, TypeError, ValueError) if isinstance(error, kind))
        return {"error": kind.__name__, "message": str(error), **fields}, []
    outputs = list(result) if isinstance(result, tuple) else [result]
    return {"milliseconds": (time.perf_counter() - start) * 1e3}, outputs


def limit_memory() -> None:
    """Private memory beyond four full runs is a MemoryError here instead of trouble for the whole machine."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = 4 * limits.RUN_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))


def end_with_the_server() -> None:
    """End this process once nobody can write to its stdin any more, whatever runs here.

    The kernel's own signal at a parent's death will not do: it comes when the thread that started us ends.
    """
    if not hasattr(select, "poll"):
        return
    server = select.poll()
    server.register(0, 0)  # No event asked for: a hang-up is always reported.

    def wait() -> None:
        server.poll()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def limit_time(seconds: float) -> None:
    """End this process after ``seconds`` even if no Python can run here meanwhile; 0 takes that back."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)  # SIGALRM, which nobody handles.


def main(run: Callable[[dict[str, Any], list[Array]], Message] = call) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's business; it ends this process.
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Whatever prints must not end up among the answers.
    import poolgrad

    # Threads' stacks count as private memory: eight of them stay far below the limit.
    poolgrad.set_workers(min(poolgrad.get_workers(), 8))
    limit_memory()
    end_with_the_server()
    send(answers, {"ready": True}, [])
    while True:
        try:
            header, arrays = receive(requests)
        except EOFError:
            return
        limit_time(header["seconds"] + SPARE_SECONDS)
        send(answers, *run(header, arrays))
        limit_time(0)


if __name__ == "__main__":
    main()
