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
ONEDNN = ("AvgPool", "AvgPoolGrad", "AvgPool3D", "AvgPool3DGrad", "MaxPool", "MaxPool3D")
EMPTY = ("AvgPool", "AvgPoolGrad", "AvgPool3D", "AvgPool3DGrad", "MaxPool", "MaxPoolV2", "MaxPool3D")
NO_NAN = ("AvgPool3D", "MaxPool", "MaxPoolV2", "MaxPool3D", "MaxPoolWithArgmax", "FractionalMaxPool")


def classes(op: str, onednn: bool) -> set[str]:
    """What must occur among the calls compared; NaN and empty tensors only where TensorFlow has an answer."""
    wanted = set() if op.startswith("Fractional") else {"SAME with window > input", "stride > window", "gaps"}
    if op in ("FractionalAvgPoolGrad", "FractionalMaxPoolGrad"):
        wanted.add("gaps")
    if not onednn and op in EMPTY:
        wanted.add("zero size")
    if op not in NO_NAN and (op in ONEDNN or not onednn):  # 200 calls of a max's gradient may have none
        wanted.add("NaN")
    return wanted


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
    assert len(report["ops"]) == 19, "all but MaxPoolGradGradWithArgmax, for which TensorFlow has no kernel"
    for op, counts in report["ops"].items():
        print(op, counts)
        least = 5000 if op in GRADIENTS else 1000
        if onednn == "1":
            least = min(least, 2000 if op in ONEDNN else 200)
        assert counts["compared"] >= least, op
        missing = {name for name in classes(op, onednn == "1") if not counts["classes"].get(name)}
        assert not missing, (op, missing)
