"""Answer calls of raw ops, each in a process of its own: one JSON call a line in, one JSON answer a line out.
A list of calls shares a process, and has a list of answers.

The server imports poolgrad once and forks for every call, so a crash, a hang or a corrupted heap stays there and is
reported: ``{"signal": 11}``. A tensor is ``{"dtype", "shape", "values"}``, its values one number for all, a flat list
or ``{"range": n}``.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

import ml_dtypes
import numpy as np

from poolgrad import raw_ops

SECONDS = 20
ADDRESS_SPACE = 6 << 30  # an absurd allocation fails at once instead of filling the machine


def value_of(given: Any) -> Any:
    """A JSON value as the argument it stands for."""
    if isinstance(given, dict) and "dtype" in given:
        kind = np.dtype(ml_dtypes.bfloat16) if given["dtype"] == "bfloat16" else np.dtype(given["dtype"])
        values = given["values"]
        if isinstance(values, dict):
            values = range(values["range"])
        if not isinstance(values, (list, range)):
            return np.full(given["shape"], values, dtype=kind)
        return np.array([kind.type(number) for number in values], kind).reshape(given["shape"])
    if isinstance(given, dict) and "bytes" in given:
        return given["bytes"].encode()
    return given


def answer(call: dict[str, Any]) -> dict[str, Any]:
    """What the call returned or raised."""
    arguments = {name: value_of(given) for name, given in call["arguments"].items()}
    try:
        result = getattr(raw_ops, call["op"])(**arguments)
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return {"error": kinds, "text": str(error), "names": getattr(error, "argument", None)}
    array = result[0] if isinstance(result, tuple) else result
    values = sorted({float(number) for number in array.ravel()[:1000]})
    return {"dtype": array.dtype.name, "shape": list(array.shape), "values": values}


def in_a_child(line: str) -> str:
    """The answer of a forked child, or how it ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        if "asan" not in os.environ.get("LD_PRELOAD", ""):  # AddressSanitizer maps terabytes of shadow
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        signal.alarm(SECONDS)
        with os.fdopen(writer, "w") as pipe:
            call = json.loads(line)
            pipe.write(json.dumps([answer(each) for each in call] if isinstance(call, list) else answer(call)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return json.dumps({"signal": os.WTERMSIG(status)})
    return text or json.dumps({"exit": os.WEXITSTATUS(status)})


if __name__ == "__main__":
    for request in sys.stdin:
        print(in_a_child(request), flush=True)
