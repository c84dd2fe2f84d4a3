"""Record the pooling sequences that TensorFlow draws, for tests/test_sequences.py to replay.

    python tests/tools/record_sequences.py --count 200 --seed 1 --output recorded.json

needs TensorFlow and NumPy, not poolgrad. tests/data/README.md describes the file it writes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
from typing import Any

COMMON_RATIOS = (1.0, 1.0001, 1.2, 1.25, 1.414, 1.44, 1.5, 1.732, 2.0, 2.3, 2.5, 3.0, 4.0, 7.7)
EDGE_SEEDS = (1, -1, 7, 2**31 - 1, 2**31, 2**32, -(2**32), 2**40 + 3, 2**63 - 1, -(2**63))


def random_call(source: random.Random, largest: int = 3000) -> dict[str, Any]:
    """Arguments of one call: sizes mostly small, some large; ratios also near 1 and near the size."""
    height = _size(source, largest)
    width = _size(source, max(1, min(largest, 4_000_000 // height)))
    if source.random() < 0.5:
        height, width = width, height
    seed, seed2 = (_seed(source) for _ in range(2))
    return {
        "op": source.choice(("FractionalAvgPool", "FractionalMaxPool")),
        "height": height,
        "width": width,
        "row_ratio": _ratio(source, height),
        "column_ratio": _ratio(source, width),
        "pseudo_random": source.random() < 0.5,
        "overlapping": source.random() < 0.5,
        "seed": seed,
        "seed2": seed2 or int(seed == 0),  # (0, 0) means "random" to TensorFlow
    }


def run(call: dict[str, Any]) -> tuple[list[int], list[int]]:
    """The row and the column sequence TensorFlow draws for this call."""
    import tensorflow as tf

    value = tf.zeros((1, call["height"], call["width"], 1), tf.float32)
    result = getattr(tf.raw_ops, call["op"])(
        value=value,
        pooling_ratio=[1.0, call["row_ratio"], call["column_ratio"], 1.0],
        pseudo_random=call["pseudo_random"],
        overlapping=call["overlapping"],
        deterministic=True,
        seed=call["seed"],
        seed2=call["seed2"],
    )
    return result.row_pooling_sequence.numpy().tolist(), result.col_pooling_sequence.numpy().tolist()


def packed(sequence: list[int]) -> str:
    """One character per cell: 1 where it has one element more than size // cells, else 0."""
    lengths = [stop - start for start, stop in itertools.pairwise(sequence)]
    shorter = sequence[-1] // len(lengths)
    if sequence[0] != 0 or not {shorter, shorter + 1}.issuperset(lengths):
        raise ValueError(f"not a sequence of cells of {shorter} and {shorter + 1} elements from 0: {sequence}")
    return "".join(str(length - shorter) for length in lengths)


def record(call: dict[str, Any]) -> dict[str, Any]:
    """The call and, packed, what TensorFlow drew."""
    rows, columns = run(call)
    return call | {"rows": packed(rows), "columns": packed(columns)}


def write(cases: list[dict[str, Any]], path: str) -> None:
    """One case a line."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def _size(source: random.Random, largest: int) -> int:
    return source.randint(1, min(largest, source.choices((12, 400, largest), weights=(5, 4, 1))[0]))


def _ratio(source: random.Random, size: int) -> float:
    choices = (
        source.choice(COMMON_RATIOS),
        1.0 + 2.0 ** -source.randint(8, 23),  # near 1; 2**-23 is float32's first step
        size * (1.0 - source.choice((0.0, 1e-6, 0.01, 0.1))),  # near the size: one cell
        size / source.randint(1, size),  # quotients near a whole number
        math.exp(source.uniform(0.0, math.log(size))),
    )
    return min(max(source.choice(choices), 1.0), float(size))


def _seed(source: random.Random) -> int:
    any_seed = source.randint(-(2**63), 2**63 - 1)
    return source.choice((source.choice(EDGE_SEEDS), source.randint(0, 1000), any_seed))


def main() -> None:
    """Record `--count` random calls."""
    parser = argparse.ArgumentParser(description="Record the pooling sequences that TensorFlow draws.")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="chooses the calls")
    parser.add_argument("--largest", type=int, default=3000, help="the largest size of an axis")
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    calls = [random_call(source, arguments.largest) for _ in range(arguments.count)]
    write([record(call) for call in calls], arguments.output)
    print(f"{arguments.count} cases, seed {arguments.seed}, in {arguments.output}")


if __name__ == "__main__":
    main()
