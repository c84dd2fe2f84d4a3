"""Every raw op against TensorFlow itself, with its native kernels and with oneDNN, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.framework
PROGRAM = Path(__file__).parent / "tensorflow_comparison.py"
GRADIENTS = ("AvgPoolGrad", "AvgPool3DGrad", "FractionalAvgPoolGrad", "FractionalMaxPoolGrad")
SLIDING = {"SAME with window > input", "stride > window", "gaps", "zero size", "NaN"}
CLASSES = {"FractionalAvgPool": {"NaN"}, "FractionalMaxPool": {"NaN"}}
CLASSES |= {
    "FractionalAvgPoolGrad": {"gaps", "zero size", "NaN"},
    "FractionalMaxPoolGrad": {"gaps", "zero size", "NaN"},
}


@pytest.mark.parametrize("onednn", ["0", "1"], ids=["native", "oneDNN"])
def test_live(onednn: str, seed: int, need: Callable[[str], None]) -> None:
    need("tensorflow")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--seed", str(seed)],
        env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": onednn, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"POOLGRAD_SEED={seed}, exit code {done.returncode}\n{done.stderr[-20000:]}"
    report: dict[str, Any] = json.loads(done.stdout)
    print(f"TensorFlow {report['tensorflow']}, oneDNN {report['oneDNN']}, POOLGRAD_SEED={seed}")
    assert len(report["ops"]) == (19 if onednn == "0" else 6)
    for op, counts in report["ops"].items():
        print(op, counts)
        assert counts["compared"] >= (5000 if op in GRADIENTS else 1000), op
        missing = {name for name in CLASSES.get(op, SLIDING) if not counts["classes"].get(name)}
        assert not missing, (op, missing)
