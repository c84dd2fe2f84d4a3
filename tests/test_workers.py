"""Threads: how many, from where, many callers at once, after a fork."""

from __future__ import annotations

import contextvars
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from reference import assert_same_bits

import poolgrad as pg

W = pg.sliding((64, 64), 3, 2, "SAME")


@pytest.fixture(autouse=True)
def default_workers() -> Iterator[None]:
    yield
    pg.set_workers(None)


def work(seed: int = 0, workers: int | None = None) -> list[np.ndarray]:
    """A few ops, large enough (2 MiB) to be shared out among workers."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4, 64, 64, 32)).astype(np.float32)
    grad = rng.standard_normal((4, 32, 32, 32)).astype(np.float32)
    y, winners = pg.max_pool(x, W, data_format="NHWC", return_winners=True, workers=workers)
    more = {"data_format": "NHWC", "workers": workers}
    dx = pg.max_pool_grad(grad, W, winners, **more)
    return [y, winners, dx, pg.avg_pool(x, W, **more), pg.avg_pool_grad(grad, W, **more)]


def check(results: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for result, right in zip(results, expected, strict=True):
        assert_same_bits(result, right)


def test_default_from_environment(run_python: Callable[..., str]) -> None:
    program = "import poolgrad; print(poolgrad.get_workers())"
    available = len(os.sched_getaffinity(0))
    for environment, expected in (
        ({"POOLGRAD_WORKERS": "3", "OMP_NUM_THREADS": "5"}, 3),
        ({"POOLGRAD_WORKERS": "", "OMP_NUM_THREADS": "5"}, 5),
        ({"POOLGRAD_WORKERS": "nonsense", "OMP_NUM_THREADS": "4,2"}, 4),
        ({"POOLGRAD_WORKERS": "0", "OMP_NUM_THREADS": "-1"}, None),
        ({"POOLGRAD_WORKERS": "", "OMP_NUM_THREADS": ""}, None),
        ({"POOLGRAD_WORKERS": "99999999"}, 1024),
    ):
        got = int(run_python(program, **environment))
        assert got == expected if expected else 1 <= got <= available, environment


@pytest.mark.parametrize("text", ["nonsense", "0", "-3"])
def test_a_bad_environment_is_told(run_python: Callable[..., str], text: str) -> None:
    program = """
import warnings, poolgrad
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    poolgrad.get_workers(), poolgrad.get_workers()
print(*[f"{each.category.__name__}: {each.message}" for each in told], sep="|")
"""
    expected = f"RuntimeWarning: POOLGRAD_WORKERS={text!r} is ignored: set it to a whole number from 1 to 1024\n"
    assert run_python(program, POOLGRAD_WORKERS=text) == expected


def test_default_from_affinity(run_python: Callable[..., str]) -> None:
    program = """
import os
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import poolgrad
print(poolgrad.get_workers())
"""
    assert run_python(program, POOLGRAD_WORKERS="", OMP_NUM_THREADS="") == "1\n"


def test_set_and_use() -> None:
    pg.set_workers(3)
    assert pg.get_workers() == 3
    with pg.use_workers(2):
        assert pg.get_workers() == 2
        with pg.use_workers(np.int64(7)):
            assert pg.get_workers() == 7
        assert pg.get_workers() == 2
    assert pg.get_workers() == 3
    with pytest.raises(KeyError), pg.use_workers(5):
        raise KeyError
    assert pg.get_workers() == 3
    pg.set_workers(None)
    assert pg.get_workers() >= 1


def test_use_workers_is_of_this_thread() -> None:
    pg.set_workers(3)
    seen: list[int] = []
    with pg.use_workers(2):
        thread = threading.Thread(target=lambda: seen.append(pg.get_workers()))
        thread.start()
        thread.join()
        assert contextvars.copy_context().run(pg.get_workers) == 2
    assert seen == [3]


@pytest.mark.parametrize("bad", [0, -1, 1025, 2**70, True, 2.0, "2", None, [1]])
def test_bad_numbers(bad: object) -> None:
    before = pg.get_workers()
    for call in (pg.set_workers, lambda value: pg.use_workers(value).__enter__()):
        if bad is None and call is pg.set_workers:
            continue
        with pytest.raises((ValueError, TypeError), match=r"^(set|use)_workers: workers="):
            call(bad)
    assert pg.get_workers() == before
    if bad is not None:
        with pytest.raises((ValueError, TypeError), match="^avg_pool: workers="):
            pg.avg_pool(np.ones(4), window=2, axes=0, workers=bad)


def test_many_more_workers_than_work() -> None:
    expected = work(workers=1)
    for workers in (2, 3, 64, 1024):
        check(work(workers=workers), expected)
    assert pg.avg_pool(np.ones(4), window=2, axes=0, workers=1024).tolist() == [1, 1]


def test_many_callers_at_once() -> None:
    expected = [work(seed, workers=1) for seed in range(4)]

    def caller(number: int) -> None:
        for step in range(4):
            seed = (number + step) % 4
            check(work(seed, workers=1 + (number + step) % 3), expected[seed])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(caller, range(8)))


def test_other_python_threads_run_meanwhile() -> None:
    """The interpreter's lock is released: a counting thread goes on during one long call."""
    x = np.ones((400, 400, 40), np.float32)
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    during = 0
    try:
        for _ in range(20):  # on a busy machine the thread may not get its turn during one call
            before = counted[0]
            pg.avg_pool(x, window=(201, 201), stride=(4, 4), axes=(0, 1), workers=1)
            during = max(during, counted[0] - before)
            if during > 10:
                break
    finally:
        stop.set()
        thread.join()
    assert during > 10


# Python warns of any fork beside threads from 3.12 on; here that is the point.
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@forks
def test_after_fork() -> None:
    """A child starts a pool of its own, whatever the parent's threads were doing."""
    expected = work(workers=3)
    busy = threading.Thread(target=lambda: [work(workers=3) for _ in range(6)])
    busy.start()
    for _ in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(60)
                check(work(workers=3), expected)
                grandchild = os.fork()
                if grandchild == 0:
                    check(work(workers=2), expected)
                    os._exit(0)
                code = os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1])
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    busy.join()
    check(work(workers=3), expected)


def _sum_in_child(seed: int) -> float:
    return float(sum(np.sum(result.astype(np.float64)) for result in work(seed, workers=2)))


@forks
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(method: str) -> None:
    work(workers=2)
    expected = [_sum_in_child(seed) for seed in range(3)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_sum_in_child, range(3)) == expected


def test_threads_do_not_multiply(run_python: Callable[..., str]) -> None:
    """Many calls with three workers keep at most two threads besides the caller."""
    program = """
import os, numpy as np, poolgrad as pg
before = len(os.listdir("/proc/self/task"))
x = np.ones((64, 64, 64, 8), np.float32)
for _ in range(50):
    pg.avg_pool(x, window=2, data_format="NHWC", workers=3)
print(len(os.listdir("/proc/self/task")) - before)
"""
    assert int(run_python(program)) <= 2


def test_interpreter_ends_with_threads_alive(run_python: Callable[..., str]) -> None:
    program = """
import threading, numpy as np, poolgrad as pg
x = np.ones((64, 64, 64, 8), np.float32)
def forever():
    while True:
        pg.avg_pool(x, window=2, data_format="NHWC", workers=3)
threading.Thread(target=forever, daemon=True).start()
pg.avg_pool(x, window=2, data_format="NHWC", workers=3)
print("end")
"""
    for _ in range(3):
        assert run_python(program) == "end\n"
