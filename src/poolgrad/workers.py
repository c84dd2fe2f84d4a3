"""How many threads an op may use: `set_workers` for the process, `use_workers` for a block of code."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import SupportsIndex

from .checks import integer
from .errors import bad_value

__all__ = ["get_workers", "set_workers", "use_workers"]

MOST = 1024
_here: ContextVar[int] = ContextVar("poolgrad_workers", default=0)
_process = 0


def available() -> int:
    """The CPUs this process may use, by affinity and by cgroup quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        if quota != "max":
            count = min(count, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        pass  # no cgroup v2 here
    return max(1, count)


def _from_environment() -> int:
    for name in ("POOLGRAD_WORKERS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").split(",")[0].strip()
        if text.isdecimal() and len(text) < 10 and int(text) > 0:
            return min(int(text), MOST)
        if text and name == "POOLGRAD_WORKERS":
            message = f"POOLGRAD_WORKERS={text!r} is ignored: set it to a whole number from 1 to {MOST}"
            warnings.warn(message, RuntimeWarning, stacklevel=3)
    return min(available(), MOST)


def check(op: str, workers: SupportsIndex) -> int:
    """``workers`` of a call as an int."""
    if type(workers) is int and 1 <= workers <= MOST:
        return workers
    number = integer(op, "workers", workers, least=1)
    if number > MOST:
        raise bad_value(op, "workers", number, f"is too many; use at most {MOST}")
    return number


def get_workers() -> int:
    """The number of threads an op uses here by default.

    ``POOLGRAD_WORKERS``, else ``OMP_NUM_THREADS``, else the CPUs this process may use, unless `set_workers` or
    `use_workers` said otherwise.

    Returns
    -------
    int

    Examples
    --------
    >>> import poolgrad as pg
    >>> pg.get_workers() >= 1
    True
    """
    global _process
    number = _here.get() or _process
    if not number:
        number = _process = _from_environment()
    return number


def set_workers(workers: SupportsIndex | None) -> None:
    """Set the number of threads for the whole process.

    Parameters
    ----------
    workers : int or None
        At least 1; None goes back to the default.

    Raises
    ------
    ValueError, TypeError
        If it is not an integer from 1 to 1024.

    Examples
    --------
    >>> import poolgrad as pg
    >>> pg.set_workers(1)
    >>> pg.get_workers()
    1
    >>> pg.set_workers(None)
    """
    global _process
    _process = 0 if workers is None else check("set_workers", workers)


@contextmanager
def use_workers(workers: SupportsIndex) -> Iterator[None]:
    """Use this number of threads inside a ``with`` block, in this thread or task only.

    Parameters
    ----------
    workers : int
        From 1 to 1024.

    Raises
    ------
    ValueError, TypeError
        If it is not an integer from 1 to 1024.

    Examples
    --------
    >>> import poolgrad as pg
    >>> with pg.use_workers(3):
    ...     pg.get_workers()
    3
    """
    token = _here.set(check("use_workers", workers))
    try:
        yield
    finally:
        _here.reset(token)
