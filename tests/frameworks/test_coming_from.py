"""Every pair of calls on the page "Coming from ..." gives the same result, each framework in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.framework
EXAMPLES = Path(__file__).parents[2] / "examples"

PROGRAM = """
import sys
sys.path.insert(0, {examples!r})
import coming_from
pairs = [pair for pair in coming_from.PAIRS if pair.framework == {framework!r}]
for pair in pairs:
    coming_from.check(pair)
print(len(pairs))
"""


@pytest.mark.parametrize("framework", ["tensorflow", "torch", "jax", "onnx"])
def test_pairs_agree(framework: str, need: Callable[[str], None], run_python: Callable[..., str]) -> None:
    need(framework)
    assert int(run_python(PROGRAM.format(examples=str(EXAMPLES), framework=framework)).split()[-1]) > 0
