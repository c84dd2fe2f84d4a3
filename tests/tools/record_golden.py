"""Record what TensorFlow answers, for tests/test_golden.py to replay without it.

    TF_ENABLE_ONEDNN_OPTS=0 python tests/tools/record_golden.py --count 16 --seed 1

writes tests/golden/<Op>.npz for every op TensorFlow has a CPU kernel for; needs TensorFlow and this directory, not
poolgrad. Only answers that are to be compared are recorded: see `known` in frameworks/tensorflow_comparison.py.
Tensors always go through tf.constant: in eager mode some ops turn NumPy arrays of any dtype into float32.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "frameworks")]
import raw_calls
import tensorflow_comparison as comparison


def stored(value: Any) -> Any:
    """bfloat16 as its 16 bits: NumPy's files would lose it."""
    return value.view(np.uint16) if value.dtype.name == "bfloat16" else value


def main() -> None:
    parser = argparse.ArgumentParser(description="Record what TensorFlow answers.")
    parser.add_argument("--count", type=int, default=16, help="calls of each op")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    import tensorflow as tf

    for op in raw_calls.OPS:
        if op == comparison.NO_KERNEL:
            continue
        rng = np.random.default_rng([arguments.seed, *map(ord, op)])
        arrays: dict[str, Any] = {}
        calls: list[dict[str, Any]] = []
        while len(calls) < arguments.count:
            dtypes = comparison.DTYPES.get(op, ())
            call = raw_calls.random_call(rng, op, dtypes, formats="Argmax" not in op, subnormals=False)
            if comparison.known(call) or call.data.size > 500:
                continue
            answer = comparison.ask(tf, call)
            row: dict[str, Any] = {
                "first": call.first,
                "sizes": call.sizes,
                "windows": call.windows,
                "arguments": {},
                "dtypes": {},
            }
            for name, value in (*call.arguments.items(), *((f"answer {key}", each) for key, each in answer.items())):
                if isinstance(value, np.ndarray):
                    arrays[f"{len(calls)} {name}"] = stored(value)
                    row["dtypes"][name] = value.dtype.name
                else:
                    row["arguments"][name] = value
            calls.append(row)
        header = json.dumps({"tensorflow": tf.__version__, "op": op, "calls": calls})
        np.savez_compressed(TESTS / "golden" / f"{op}.npz", header=np.array(header), **arrays)
        print(f"{op}: {len(calls)} calls")


if __name__ == "__main__":
    main()
