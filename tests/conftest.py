"""What several test files share."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("fast", max_examples=60, deadline=None)
settings.register_profile("full", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("POOLGRAD_HYPOTHESIS", "fast"))

# Kept in the environment, so that every process of a run has the same.
SEED = int(os.environ.setdefault("POOLGRAD_SEED", str(random.randrange(2**32))))


def pytest_report_header() -> str:
    return f"POOLGRAD_SEED={SEED}"


@pytest.fixture
def need() -> Callable[[str], None]:
    """Skip where a framework is not installed; with POOLGRAD_REQUIRE_FRAMEWORKS=1 a missing one is a failure."""

    def check(framework: str) -> None:
        if importlib.util.find_spec(framework) is None:
            if os.environ.get("POOLGRAD_REQUIRE_FRAMEWORKS") == "1":
                pytest.fail(f"{framework} is not installed and POOLGRAD_REQUIRE_FRAMEWORKS=1")
            pytest.skip(f"{framework} is not installed")

    return check


@pytest.fixture
def seed() -> int:
    """The seed of this run: set POOLGRAD_SEED to repeat one."""
    return SEED


@pytest.fixture
def run_python() -> Callable[..., str]:
    """Run a program in a fresh interpreter that sees tests/ and return what it printed."""

    def run(program: str, **environment: str) -> str:
        path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": path, **environment},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
