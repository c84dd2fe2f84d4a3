"""docs/known-wrong-elsewhere.md has what PyTorch and JAX answer; TensorFlow's columns need processes of their own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("ignore")]
DOCS = Path(__file__).parents[2] / "docs"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("known_wrong_elsewhere", DOCS / "known_wrong_elsewhere.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("peer", ["torch", "jax"])
def test_the_page_has_the_answers_of(peer: str, need: Callable[[str], None]) -> None:
    need(peer)
    module = script()
    head, _, *rows = [
        line.strip("| ").split(" | ")
        for line in (DOCS / "known-wrong-elsewhere.md").read_text().splitlines()
        if line.startswith("|")
    ]
    column = next(k for k, name in enumerate(head) if name.startswith(peer)) + 1
    assert len(rows) == len(module.QUESTIONS)
    for question, answer, row in zip(module.QUESTIONS, module.answers(peer), rows, strict=True):
        assert row[0] == question.words
        assert row[column] == module.shown(question, answer), question.words
