"""Known wrong elsewhere: small questions with one right answer, put to poolgrad and to every framework installed.

python docs/known_wrong_elsewhere.py             print the table
python docs/known_wrong_elsewhere.py --update    and write it to known-wrong-elsewhere.md, if all are installed

Each framework answers in a process of its own. poolgrad's column must be right: exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PEERS = ("poolgrad", "tensorflow", "torch", "jax")
# TensorFlow has two sets of CPU kernels and picks by the machine; both are asked.
SETTINGS = {
    "tensorflow": [("oneDNN off", {"TF_ENABLE_ONEDNN_OPTS": "0"}), ("oneDNN on", {"TF_ENABLE_ONEDNN_OPTS": "1"})]
}
ONE_D = "[1, 1, {0}, 1], strides=[1, 1, {1}, 1], padding='SAME'"


@dataclass(frozen=True)
class Question:
    words: str
    right: list[float]
    asked: dict[str, str]  # peer: expression
    tolerance: float = 0.0  # relative


QUESTIONS = [
    Question(
        "bfloat16 mean of 16x16x16 ones",
        [1.0],
        {
            "poolgrad": "pg.avg_pool(np.ones((16, 16, 16), bfloat16), window=16, axes=(0, 1, 2))",
            "tensorflow": "tf.nn.avg_pool3d(tf.ones((1, 16, 16, 16, 1), tf.bfloat16), 16, 16, 'VALID')",
            "torch": "F.avg_pool3d(torch.ones(1, 1, 16, 16, 16, dtype=torch.bfloat16), 16)",
            "jax": "lax.reduce_window(jnp.ones((16, 16, 16), 'bfloat16'), jnp.bfloat16(0), lax.add, (16,) * 3, "
            "(1,) * 3, 'VALID') / jnp.bfloat16(4096)",
        },
    ),
    Question(
        "bfloat16 gradient of ones, 15x15 windows with step 1, at the centre of 45x45",
        [1.0],
        {
            "poolgrad": "pg.avg_pool_grad(np.ones((31, 31), bfloat16), input_size=(45, 45), window=15, stride=1, "
            "axes=(0, 1))[22, 22]",
            "tensorflow": "tf.raw_ops.AvgPoolGrad(orig_input_shape=[1, 45, 45, 1], grad=tf.ones((1, 31, 31, 1), "
            "tf.bfloat16), ksize=[1, 15, 15, 1], strides=[1, 1, 1, 1], padding='VALID')[0, 22, 22, 0]",
            "torch": "gradient(lambda x: F.avg_pool2d(x, 15, 1), torch.ones(1, 1, 45, 45, dtype=torch.bfloat16))"
            "[0, 0, 22, 22]",
            "jax": "jax.grad(lambda x: (lax.reduce_window(x, jnp.bfloat16(0), lax.add, (15, 15), (1, 1), 'VALID') / "
            "jnp.bfloat16(225)).sum())(jnp.ones((45, 45), 'bfloat16'))[22, 22]",
        },
        tolerance=2**-8,  # half a unit in the last place on either side of 1
    ),
    Question(
        "gradient of ones, SAME, window 5 on 4 inputs",
        [5 / 6, 7 / 6, 7 / 6, 5 / 6],
        {
            "poolgrad": "pg.avg_pool_grad(np.ones(4), input_size=4, window=5, stride=1, padding='SAME', axes=0)",
            "tensorflow": "tf.raw_ops.AvgPoolGrad(orig_input_shape=[1, 1, 4, 1], grad=tf.ones((1, 1, 4, 1)), "
            f"ksize={ONE_D.format(5, 1)})",
        },
        tolerance=1e-6,
    ),
    Question(
        "which of 0..7 does 3-D SAME pick with window 1, stride 4 (2-D picks 0 and 4)",
        [0.0, 4.0],
        {
            "poolgrad": "pg.raw_ops.MaxPool3D(np.arange(8.0).reshape(1, 1, 1, 8, 1), [1] * 5, [1, 1, 1, 4, 1], 'SAME')",
            "tensorflow": "tf.nn.max_pool3d(tf.reshape(tf.range(8.0), (1, 1, 1, 8, 1)), 1, [1, 1, 1, 4, 1], 'SAME')",
            "jax": "lax.reduce_window(jnp.arange(8.0), -jnp.inf, lax.max, (1,), (4,), 'SAME')",
        },
    ),
    Question(
        "gradient of the maximum of 2x2x2 equal values",
        [1.0] + [0.0] * 7,
        {
            "poolgrad": "pg.raw_ops.MaxPool3DGrad(np.ones((1, 2, 2, 2, 1)), np.ones((1, 1, 1, 1, 1)), "
            "np.ones((1, 1, 1, 1, 1)), [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], 'VALID')",
            "tensorflow": "tf.raw_ops.MaxPool3DGrad(orig_input=tf.ones((1, 2, 2, 2, 1)), orig_output=tf.ones([1] * 5), "
            "grad=tf.ones([1] * 5), ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding='VALID')",
            "torch": "gradient(lambda x: F.max_pool3d(x, 2), torch.ones(1, 1, 2, 2, 2))",
            "jax": "jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,) * 3, (2,) * 3, 'VALID').sum())"
            "(jnp.ones((2, 2, 2)))",
        },
    ),
    Question(
        "maximum of (NaN, 1)",
        [math.nan],
        {
            "poolgrad": "pg.max_pool(np.array([np.nan, 1.0]), window=2, axes=0)",
            "tensorflow": "tf.nn.max_pool2d(tf.reshape([np.nan, 1.0], (1, 1, 2, 1)), [1, 2], 1, 'VALID')",
            "torch": "F.max_pool1d(torch.tensor([[[np.nan, 1.0]]]), 2)",
            "jax": "lax.reduce_window(jnp.array([np.nan, 1.0]), -jnp.inf, lax.max, (2,), (2,), 'VALID')",
        },
    ),
    Question(
        "maximum of (-inf, -inf)",
        [-math.inf],
        {
            "poolgrad": "pg.max_pool(np.array([-np.inf, -np.inf]), window=2, axes=0)",
            "tensorflow": "tf.nn.max_pool2d(tf.reshape([-np.inf, -np.inf], (1, 1, 2, 1)), [1, 2], 1, 'VALID')",
            "torch": "F.max_pool1d(torch.tensor([[[-np.inf, -np.inf]]]), 2)",
            "jax": "lax.reduce_window(jnp.array([-np.inf, -np.inf]), -jnp.inf, lax.max, (2,), (2,), 'VALID')",
        },
    ),
    Question(
        "3-D mean of (lowest float32, 2), over the lowest float32",
        [0.5],
        {
            "poolgrad": "pg.avg_pool(np.array([LOWEST, 2], 'f4'), window=2, axes=0) / LOWEST",
            "tensorflow": "tf.nn.avg_pool3d(tf.reshape([LOWEST, 2.0], [1, 1, 1, 2, 1]), [1, 1, 2], 1, 'VALID') "
            "/ LOWEST",
            "torch": "F.avg_pool3d(torch.tensor([LOWEST, 2.0]).reshape(1, 1, 1, 1, 2), (1, 1, 2)) / LOWEST",
        },
        tolerance=1e-6,
    ),
    Question(
        "3-D mean with windows of one element of 0..3 in two channels, put into an `out` whose channels are last",
        [0.0, 1.0, 2.0, 3.0],
        {
            "poolgrad": "pg.avg_pool(np.arange(4.0).reshape(1, 2, 1, 1, 2), window=1, data_format='NCDHW', "
            "out=np.empty((1, 1, 1, 2, 2)).transpose(0, 4, 1, 2, 3))",
            "torch": "F.avg_pool3d(torch.arange(4.0).reshape(1, 2, 1, 1, 2), 1, "
            "out=torch.empty(1, 2, 1, 1, 2).to(memory_format=torch.channels_last_3d))",
        },
    ),
    Question(
        "fractional max gradient of ones, cells of one element",
        [1.0] * 4,
        {
            "poolgrad": "pg.raw_ops.FractionalMaxPoolGrad(*[np.ones((1, 2, 2, 1))] * 3, [0, 1, 2], [0, 1, 2])",
            "tensorflow": "tf.raw_ops.FractionalMaxPoolGrad(orig_input=tf.ones((1, 2, 2, 1)), "
            "orig_output=tf.ones((1, 2, 2, 1)), out_backprop=tf.ones((1, 2, 2, 1)), "
            "row_pooling_sequence=[0, 1, 2], col_pooling_sequence=[0, 1, 2])",
        },
    ),
    Question(
        "second order of a 3x3 maximum, stride 1, SAME, compiled: sum for ones on 4x4",
        [16.0],
        {
            "poolgrad": "pg.raw_ops.MaxPoolGradGrad(np.ones((1, 4, 4, 1)), np.ones((1, 4, 4, 1)), "
            "np.ones((1, 4, 4, 1)), [1, 3, 3, 1], [1, 1, 1, 1], 'SAME').sum()",
            "tensorflow": "tf.reduce_sum(second_order(tf.ones((1, 4, 4, 1)), tf.zeros((1, 4, 4, 1))))",
        },
    ),
]


# ---- asking ---------------------------------------------------------------------------------------------------


def names(peer: str) -> dict[str, Any]:
    here: dict[str, Any] = {"np": np, "LOWEST": float(np.finfo("f4").min)}
    module: Any = importlib.import_module(peer)
    if peer == "poolgrad":
        return {**here, "pg": module, "bfloat16": importlib.import_module("ml_dtypes").bfloat16}
    if peer == "torch":

        def gradient(function: Any, x: Any) -> Any:
            return module.autograd.grad(function(x.requires_grad_()).sum(), x)[0]

        return {**here, "torch": module, "F": module.nn.functional, "gradient": gradient}
    if peer == "jax":
        return {**here, "jax": module, "lax": module.lax, "jnp": module.numpy}

    @module.function
    def second_order(ones: Any, zeros: Any) -> Any:
        grad = module.exp(zeros)  # ones, computed on the way and not used again, as in a real second derivative
        sizes = {"ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
        return module.raw_ops.MaxPoolGradGrad(orig_input=ones, orig_output=ones, grad=grad, **sizes)

    return {**here, "tf": module, "second_order": second_order}


def answers(peer: str) -> list[str | list[float] | None]:
    """An answer each: numbers, what the error said, or None where the peer has no such op."""
    known = names(peer)
    given: list[str | list[float] | None] = []
    for question in QUESTIONS:
        if peer not in question.asked:
            given.append(None)
            continue
        try:
            answer = eval(question.asked[peer], known)
            answer = answer.detach().float() if peer == "torch" else answer
            answer = answer.numpy() if hasattr(answer, "numpy") else answer
            given.append(np.asarray(answer).astype(np.float64).ravel().tolist())
        except NotImplementedError:
            given.append(None)
        except Exception as error:
            given.append(type(error).__name__)
    return given


def shown(question: Question, answer: str | list[float] | None) -> str:
    if answer is None:
        return "-"
    text = answer if isinstance(answer, str) else numbers(answer)
    return text if is_right(question, answer) else f"**{text}**"


def is_right(question: Question, answer: str | list[float] | None) -> bool:
    if not isinstance(answer, list):
        return False
    return len(answer) == len(question.right) and bool(
        np.allclose(answer, question.right, rtol=question.tolerance, atol=0, equal_nan=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=PEERS, help="print this one's answers as JSON")
    parser.add_argument("--update", action="store_true", help="write known-wrong-elsewhere.md")
    options = parser.parse_args()
    if options.peer:
        version = importlib.import_module(options.peer).__version__
        print(json.dumps({"version": version, "answers": answers(options.peer)}))
        return 0
    missing = [peer for peer in PEERS if importlib.util.find_spec(peer) is None]
    if missing:
        print(f"(not installed: {', '.join(missing)})", file=sys.stderr)
    columns = {}
    for peer in (peer for peer in PEERS if peer not in missing):
        command = [sys.executable, os.path.abspath(__file__), "--peer", peer]
        for setting, variables in SETTINGS.get(peer, [("", {})]):
            environment = {**os.environ, **variables}
            result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            said = json.loads(result.stdout.splitlines()[-1])
            columns[f"{peer} {said['version']} {setting}".rstrip()] = said["answers"]
    text = table(columns)
    print(text, end="")
    if options.update:
        if missing:
            print("known-wrong-elsewhere.md is not written: install them first", file=sys.stderr)
            return 1
        Path(__file__).with_name("known-wrong-elsewhere.md").write_text(HEAD + text)
    return 0 if all(map(is_right, QUESTIONS, next(iter(columns.values())))) else 1


def table(columns: dict[str, list[str | list[float] | None]]) -> str:
    lines = [f"| | right | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for k, question in enumerate(QUESTIONS):
        cells = [shown(question, given[k]) for given in columns.values()]
        lines.append(f"| {question.words} | {numbers(question.right)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def numbers(values: list[float]) -> str:
    return " ".join(f"{value:.4g}" for value in values)


HEAD = """\
# Known wrong elsewhere

Small questions with one right answer, put to poolgrad and to the frameworks, each in a process of its own, by
[known_wrong_elsewhere.py](known_wrong_elsewhere.py), which wrote this page. A wrong answer is bold; `-`: there is
no such op there, or not for this dtype. TensorFlow has two sets of CPU kernels, picked by the machine; both were asked.

"""


if __name__ == "__main__":
    sys.exit(main())
