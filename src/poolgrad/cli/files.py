"""Arrays from and to files: ``.npy``, and ``.npz`` for several; a file appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np

from ..arrays import BFLOAT16, Array

__all__ = ["Problem", "as_dtype", "check_target", "read", "write"]

NAMES = {"bfloat16": np.dtype(ml_dtypes.bfloat16)}


class Problem(Exception):
    """A mistake in what was typed or in a file; its text is the one line the user sees."""


def read(option: str, text: str) -> Array:
    """The array of ``file.npy``, or of ``file.npz:name``. Memory-mapped, so a false header allocates nothing."""
    path, name = text, ""
    if ".npz:" in text and not os.path.exists(text):
        path, _, name = text.rpartition(":")
    if os.path.exists(path) and not os.path.isfile(path):
        raise Problem(f"{option} {text}: cannot be read: it is not a file")
    try:
        with open(path, "rb") as file:
            magic = file.read(6)
            if magic.startswith(b"PK"):  # a zip file, empty or not
                file.seek(0)
                return _from_npz(option, text, path, name, file)
            if magic != b"\x93NUMPY":
                raise Problem(f"{option} {text}: is not an array saved by numpy.save (it begins otherwise)")
        mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return mapped.view(np.ndarray)
    except FileNotFoundError:
        raise Problem(f"{option} {text}: there is no such file") from None
    except OSError as error:
        raise Problem(f"{option} {text}: cannot be read ({error.strerror or error})") from None
    except Problem:
        raise
    except Exception as error:  # NumPy and zipfile raise what their parsers do: TokenError, NotImplementedError, ...
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Problem(f"{option} {text}: is not an array saved by numpy.save ({reason})") from None


def _from_npz(option: str, text: str, path: str, name: str, file: IO[bytes]) -> Array:
    with np.load(file, allow_pickle=False) as arrays:
        if name in arrays.files:
            array: Array = arrays[name]
            if not isinstance(array, np.ndarray):
                raise Problem(f"{option} {text}: is not an array")
            return array
        names = " or ".join(f"{path}:{key}" for key in arrays.files) or "but this file has none"
    raise Problem(f"{option} {text}: say which array: {names}")


def as_dtype(option: str, text: str, array: Array, dtype: np.dtype[Any] | None) -> Array:
    """``array`` in the dtype the user said; NumPy's files hold bfloat16 as 2-byte void."""
    bits = array.dtype.itemsize == 2 and array.dtype.kind in "Vu"
    if dtype is None:
        if array.dtype.kind == "V":
            remedy = "for bfloat16 say --dtype bfloat16" if bits else "save plain numbers"
            raise Problem(f"{option} {text}: holds {array.dtype} data; {remedy}")
        return array
    if dtype == BFLOAT16 and bits:
        return array.view(np.uint16).view(BFLOAT16)
    floating = array.dtype.kind == "f" or array.dtype == BFLOAT16
    if array.dtype.kind not in "iuf" or (floating and dtype.kind in "iu"):
        raise Problem(f"{option} {text}: holds {array.dtype}, which --dtype {dtype} would not keep; save it as {dtype}")
    return array.astype(dtype, copy=False)


def check_target(option: str, text: str, ending: str, reason: str) -> Path:
    """Where to write, before anything is computed: the right ending, in a folder that is there."""
    if not text.endswith(ending):
        raise Problem(f"{option} {text}: {reason}; name a {ending} file, e.g. {Path(text).stem or 'result'}{ending}")
    target = Path(os.path.realpath(text))
    if not target.parent.is_dir():
        raise Problem(f"{option} {text}: there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise Problem(f"{option} {text}: the folder {target.parent} cannot be written")
    # A finished file is renamed over the target, which would do harm to a device or a folder.
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        raise Problem(f"{option} {text}: is there and is not a regular file")
    return target


def write(target: Path, arrays: Mapping[str, Array]) -> None:
    """One array as ``.npy``, or all as ``.npz`` under their names."""
    if target.suffix == ".npz":
        named: dict[str, Any] = dict(arrays)
        write_whole(target, lambda file: np.savez(file, **named))
    else:
        (array,) = arrays.values()
        write_whole(target, lambda file: np.save(file, array, allow_pickle=False))


def write_whole(target: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """What ``fill`` writes becomes ``target`` at once, or leaves nothing behind."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with _stoppable(), _new_file(part) as file:
            fill(file)
            if not part.exists():
                file.flush()
                here = file.fileno()
                os.link(f"/proc/self/fd/{here}", part, src_dir_fd=here)  # with a folder, or Python would link the link
        os.replace(part, target)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        if isinstance(error, OSError):
            raise Problem(f"{target}: cannot be written ({error.strerror or error})") from None
        raise


def _new_file(part: Path) -> IO[bytes]:
    """A file that has no name yet, so that not even kill -9 leaves it behind; ``part`` where the system has none."""
    try:
        return os.fdopen(os.open(part.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666), "wb")
    except (AttributeError, OSError):
        return open(part, "xb")


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """A SIGTERM within is a SystemExit, so that what was begun is taken away; Ctrl-C is an exception already."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    here = threading.current_thread() is threading.main_thread()  # others may not set handlers
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
