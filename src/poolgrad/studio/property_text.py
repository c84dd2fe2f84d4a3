"""Property texts as people type them: ``1,4,3,2,1``, ``3;5``, ``{1,3}``, ``data_format_ = NDHWC;``."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SEPARATORS = re.compile(r"[\s,;(){}\[\]]+")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*?)_?\s*=\s*(.*)\Z", re.DOTALL)
_SLICE = re.compile(r"([0-9]{1,18}):([0-9]{1,18})")
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NUMBER = re.compile(r"[+-]?(?:nan|inf|infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]{1,4})?)")
#: Characters: a list typed by hand, anything else, and one number of a list.
LIST_LIMIT, TEXT_LIMIT, _NUMBER_LIMIT = 200_000, 10_000, 400
#: What names a file is taken to the letter: ``lr=0.1.npy`` and ``'a' .npy`` are names like any other.
_VERBATIM = ("file", "file_name")
_LISTS = ("sizes", "shape", "paddings", "position", "ratios", "values")
Value = str | bool | int | list[int] | list[float] | list[int | float]


class TextError(ValueError):
    """A text that is not what its kind needs; says what would be."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected, self.got = expected, got


def shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:56] + " ...")


def parse(name: str, kind: str, text: str) -> Value:
    """The value that ``text`` spells for a property ``name`` of ``kind``; `TextError` if it spells none."""
    _limit_length(text, LIST_LIMIT if kind in _LISTS else TEXT_LIMIT)
    if kind in _VERBATIM:
        return text
    text = _without_name(name, text).strip().rstrip(";").strip()
    if kind in ("sizes", "shape", "paddings", "position"):
        return _integers(text)
    if kind in ("ratios", "values"):
        return _numbers(text)
    if kind == "slices":
        return _slices(text)
    if kind == "integer":
        return _integer(text)
    if kind == "flag":
        if text.lower() not in _FLAGS:
            raise TextError("true or false", shown(text))
        return _FLAGS[text.lower()]
    return text.strip("\"'")


def split_attributes(text: str) -> dict[str, str]:
    """``data_format_ = NDHWC; padding_ = SAME;`` as ``{"data_format": "NDHWC", "padding": "SAME"}``."""
    attributes: dict[str, str] = {}
    _limit_length(text, TEXT_LIMIT)
    # A list's own semicolons (``ksize_ = 1;2;2;1;``) belong to the value: a new entry starts with a name and '='.
    for part in re.split(r";(?=\s*(?:[A-Za-z][A-Za-z0-9_]*\s*=|\Z))", text):
        if not part.strip(" ;\n\t"):
            continue
        found = _ASSIGNMENT.match(part)
        if found is None:
            raise TextError("name_ = value;", shown(part.strip()))
        attributes[found.group(1)] = found.group(2).strip()
    return attributes


def join_attributes(attributes: Mapping[str, str]) -> str:
    return " ".join(f"{name}_ = {value};" for name, value in attributes.items())


def list_text(values: object) -> str:
    """``(1, 2, 2, 1)`` or its text as ``"1,2,2,1"``."""
    return ",".join(re.findall(r"-?\d+", str(values)))


def _without_name(name: str, text: str) -> str:
    found = _ASSIGNMENT.match(text)
    if found is None:
        return text
    if found.group(1) != name:
        raise TextError(f"a value for {name}", shown(text.strip()))
    return found.group(2)


def _limit_length(text: str, limit: int) -> None:
    if len(text) > limit:
        raise TextError(f"a text of at most {limit:,} characters", f"{len(text):,} characters: {shown(text)}")


def _items(text: str) -> list[str]:
    return [item for item in _SEPARATORS.split(text) if item]


def _integer(text: str) -> int:
    # int() alone would take '1_000' and digits of other scripts.
    if not re.fullmatch(r"[+-]?[0-9]{1,40}", text):
        raise TextError("a whole number", shown(text))
    return int(text)


def _integers(text: str) -> list[int]:
    try:
        return [_integer(item) for item in _items(text)]
    except TextError:
        raise TextError("whole numbers such as 1,2,2,1", shown(text)) from None


def _slices(text: str) -> list[int]:
    """``0:1, 3:9`` as ``[0, 1, 3, 9]``: start and stop of each axis."""
    bounds: list[int] = []
    for item in _items(text):
        found = _SLICE.fullmatch(item)
        if found is None:
            raise TextError("start:stop of every axis such as 0:1,3:9", shown(text))
        bounds += map(int, found.groups())
    return bounds


def _number(text: str) -> int | float:
    if re.fullmatch(r"[+-]?[0-9]{1,40}", text):
        return int(text)
    if len(text) > _NUMBER_LIMIT or not _NUMBER.fullmatch(text.lower()):
        raise TextError("a number", shown(text))
    return float(text)


def _numbers(text: str) -> list[int | float]:
    try:
        return [_number(item) for item in _items(text)]
    except TextError as error:
        raise TextError("numbers such as 1, 2.5, nan", error.got) from None
