"""The one place that words an error: every message names op, argument, value and remedy."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["PoolTypeError", "PoolValueError"]


class _Named:
    """What a program (the studio, say) wants to know of an error besides its text."""

    op: str
    argument: str | None
    expected: str | None
    got: str | None


class PoolValueError(_Named, ValueError):
    """A ValueError that knows its ``op``, ``argument``, and what was ``expected`` and ``got``."""


class PoolTypeError(_Named, TypeError):
    """A TypeError that knows its ``op``, ``argument``, and what was ``expected`` and ``got``."""


_Error = TypeVar("_Error", PoolValueError, PoolTypeError)


def shown(value: object, limit: int = 80) -> str:
    """``repr(value)`` short enough for one line of a message, whatever the value."""
    if isinstance(value, (list, tuple)) and len(value) > limit:
        value = [*value[:limit], ...]  # the rest would be cut below: do not spend seconds on writing it
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer too long to print, or a repr of its own that fails
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def _error(kind: type[_Error], op: str, argument: str | None, problem: str, expected: object, got: object) -> _Error:
    error = kind(f"{op}: {argument or ''}{problem}")
    error.op, error.argument = op, argument
    error.expected, error.got = (None if word is None else str(word) for word in (expected, got))
    return error


def value_error(
    op: str, argument: str | None, problem: str, *, expected: object = None, got: object = None
) -> PoolValueError:
    """``op: argument problem`` as a ValueError; ``problem`` says what is wrong and what would be right."""
    return _error(PoolValueError, op, argument, problem, expected, got)


def type_error(
    op: str, argument: str | None, problem: str, *, expected: object = None, got: object = None
) -> PoolTypeError:
    """Like `value_error`, for a value of the wrong kind."""
    return _error(PoolTypeError, op, argument, problem, expected, got)


def bad_value(op: str, argument: str, value: object, problem: str, *, expected: object = None) -> PoolValueError:
    """``op: argument=value problem``."""
    return value_error(op, argument, f"={shown(value)} {problem}", expected=expected, got=shown(value))


def bad_type(op: str, argument: str, value: object, problem: str, *, expected: object = None) -> PoolTypeError:
    """``op: argument=value problem``, for a value of the wrong kind."""
    return type_error(op, argument, f"={shown(value)} {problem}", expected=expected, got=shown(value))


def bad_shape(op: str, argument: str, got: tuple[int, ...], expected: tuple[int, ...], reason: str) -> PoolValueError:
    """``op: argument has shape got; reason expected``."""
    return value_error(op, argument, f" has shape {shown(got)}; {reason} {shown(expected)}", expected=expected, got=got)


def bad_dtype(op: str, argument: str, got: object, allowed: tuple[str, ...]) -> PoolTypeError:
    """``op: argument has dtype got; allowed are ...``."""
    usual = "float32" if "float32" in allowed else allowed[0]
    return type_error(
        op,
        argument,
        f" has dtype {got}; {op} takes {', '.join(allowed)}: convert it, e.g. with np.asarray({argument}, '{usual}')",
        expected=", ".join(allowed),
        got=got,
    )
