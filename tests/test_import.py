"""Importing poolgrad imports no framework; and this test can fail."""

from __future__ import annotations

from collections.abc import Callable

FRAMEWORKS = (
    "torch",
    "tensorflow",
    "jax",
    "jaxlib",
    "keras",
    "onnx",
    "dask",
    "cupy",
    "numba",
    "scipy",
    "starlette",
    "uvicorn",
)
PROGRAM = """
import sys
{first}
import poolgrad
loaded = sorted(name for name in {names!r} if name in sys.modules)
print(",".join(loaded))
"""


def test_no_framework(run_python: Callable[..., str]) -> None:
    assert run_python(PROGRAM.format(first="", names=FRAMEWORKS)) == "\n"


def test_this_test_can_fail(run_python: Callable[..., str]) -> None:
    """A poolgrad that imported torch would be seen, installed or not."""
    fake = "import types; sys.modules['torch'] = types.ModuleType('torch')"
    assert run_python(PROGRAM.format(first=fake, names=FRAMEWORKS)) == "torch\n"


def test_using_it_imports_none_either(run_python: Callable[..., str]) -> None:
    program = """
import sys, numpy as np, poolgrad as pg
x = np.ones((1, 4, 4, 1), np.float32)
pg.raw_ops.AvgPoolGrad([1, 4, 4, 1], pg.avg_pool(x, window=2, data_format="NHWC"), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
pg.draw(pg.sliding((4, 4), 2))
print(sorted(name for name in {names!r} if name in sys.modules))
"""
    assert run_python(program.format(names=FRAMEWORKS)) == "[]\n"


def test_nothing_is_started_or_printed(run_python: Callable[..., str]) -> None:
    program = """
import sys, os, threading
import numpy, ml_dtypes
tasks = len(os.listdir("/proc/self/task"))
import poolgrad
assert threading.active_count() == 1
assert len(os.listdir("/proc/self/task")) == tasks
"""
    assert run_python(program) == ""


def test_tab_shows_public_names_only() -> None:
    import poolgrad

    assert set(dir(poolgrad)) == {*poolgrad.__all__, "__version__"}
    for module in (poolgrad.raw_ops, poolgrad.presets, poolgrad.sequences):
        assert set(dir(module)) == set(module.__all__), module.__name__
    assert "np" not in dir(poolgrad.raw_ops)
    assert "AvgPoolGrad" in dir(poolgrad.raw_ops)


def test_public_names() -> None:
    import poolgrad

    for name in poolgrad.__all__:
        assert getattr(poolgrad, name) is not None
    assert len(set(poolgrad.__all__)) == len(poolgrad.__all__)
    scope: dict[str, object] = {}
    exec("from poolgrad import *", scope)
    assert set(poolgrad.__all__) <= set(scope)
    assert poolgrad.__version__.count(".") == 2
