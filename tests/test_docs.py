"""What the documentation says is run: docstrings, the README's blocks, the signatures people see."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest
from test_op_table import SIGNATURES

import poolgrad
from poolgrad import raw_ops
from poolgrad.op_table import OPS

ROOT = Path(__file__).parents[1]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.FAIL_FAST


def modules() -> list[str]:
    names = [info.name for info in pkgutil.iter_modules(poolgrad.__path__)]
    return [name for name in names if not name.startswith("_") and name not in ("cli", "bench", "studio")]


@pytest.mark.parametrize("name", modules())
def test_doctests(name: str) -> None:
    module = importlib.import_module(f"poolgrad.{name}")
    poolgrad.set_workers(None)
    result = doctest.testmod(module, optionflags=FLAGS)
    assert result.failed == 0


def public_functions() -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name in poolgrad.__all__:
        value = getattr(poolgrad, name)
        if isinstance(value, ModuleType):
            exported = getattr(value, "__all__", [])
            found += [
                (f"{name}.{each}", getattr(value, each))
                for each in exported
                if inspect.isfunction(getattr(value, each))
            ]
        else:
            found.append((name, value))
    for name in ("part", "cover", "with_divisor"):
        found.append((f"WindowTable.{name}", getattr(poolgrad.WindowTable, name)))
    return found


@pytest.mark.parametrize(("name", "value"), public_functions(), ids=[name for name, _ in public_functions()])
def test_every_public_function_is_documented_with_a_running_example(name: str, value: object) -> None:
    text = inspect.getdoc(value) or ""
    for section in ("Examples",) if inspect.isclass(value) else ("Parameters", "Returns", "Raises", "Examples"):
        if section in ("Parameters", "Raises") and not inspect.signature(value).parameters:  # type: ignore[arg-type]
            continue
        if section == "Returns" and inspect.signature(value).return_annotation in (None, "None", "Iterator[None]"):  # type: ignore[arg-type]
            continue
        assert section in text, f"{name} has no section {section}"
    parser = doctest.DocTestParser()
    example = parser.get_doctest(text, {}, name, None, None)
    assert example.examples, f"{name} has no example"
    assert doctest.DocTestRunner(optionflags=FLAGS).run(example).failed == 0


@pytest.mark.parametrize("op", SIGNATURES)
def test_signature_as_people_see_it(op: str) -> None:
    parameters = inspect.signature(getattr(raw_ops, op)).parameters.values()
    shown = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in parameters
        if p.kind is not p.KEYWORD_ONLY
    ]
    assert " ".join(shown) == f"{SIGNATURES[op][0]} name=None"
    own = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    assert own == (["data_format"] if "data_format" not in SIGNATURES[op][0] else []) + ["out", "workers"]


def blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(), re.S)


def documents() -> list[Path]:
    return [
        path
        for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))
        if path.exists() and blocks(path)
    ]


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_code_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page, one after another in one scope; prompts make a block a doctest."""
    for framework in ("tensorflow", "torch", "jax", "keras", "onnx"):
        if any(re.search(rf"^\s*(import|from) {framework}\b", block, re.M) for block in blocks(path)):
            pytest.importorskip(framework)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(path)):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, scope, path.name, str(path), 0)
            assert doctest.DocTestRunner(optionflags=FLAGS).run(test, clear_globs=False).failed == 0
            scope.update(test.globs)
        else:
            exec(compile(block, f"{path.name}, block {number}", "exec"), scope)


def test_the_page_of_every_op_shows_the_windows_of_its_example(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "make_docs.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name, op in OPS.items():
        page = (tmp_path / f"{name}.md").read_text()
        assert f"]({name}.svg)" in page
        assert name in (tmp_path / "index.md").read_text()
        texts = [element.text for element in ElementTree.parse(tmp_path / f"{name}.svg").iter() if element.text]
        assert any(text.startswith("window 0: 0:2") for text in texts) or name.startswith("Fractional"), texts
        assert any(text.startswith("grad") for text in texts) == ("Grad" in name), texts
        pooled = any(argument.side == "input" for argument in op.arguments)
        assert any(text.startswith("x") for text in texts) == pooled, texts


def test_readme_is_there_in_a_checkout() -> None:
    assert (ROOT / "README.md").exists()
    assert documents(), "no code block was found: the test above ran nothing"
