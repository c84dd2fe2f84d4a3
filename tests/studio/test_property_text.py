"""Property texts: every spelling a person may bring along, and what is refused with which words."""

from __future__ import annotations

import math
import time

import pytest

from poolgrad.studio.property_text import TextError, join_attributes, parse, split_attributes


@pytest.mark.parametrize(
    "text",
    [
        "1,4,3,2,1",
        "1;4;3;2;1",
        "{1,4,3,2,1}",
        "[1, 4, 3, 2, 1]",
        "(1,4,3,2,1)",
        "1 4 3 2 1",
        " 1,4, 3,2,1 ;",
        "ksize_ = 1,4,3,2,1;",
    ],
)
def test_a_list_in_every_spelling(text: str) -> None:
    assert parse("ksize", "sizes", text) == [1, 4, 3, 2, 1]


def test_the_other_kinds() -> None:
    assert parse("seed", "integer", " -7; ") == -7
    assert parse("overlapping", "flag", "Yes") is True
    assert parse("overlapping", "flag", "0") is False
    assert parse("pooling_ratio", "ratios", "1, 1.44, 1.73, 1") == [1, 1.44, 1.73, 1]
    assert parse("data_format", "choice", "data_format_ = NDHWC;") == "NDHWC"
    assert parse("padding", "choice", "'SAME'") == "SAME"
    assert parse("explicit_paddings", "paddings", "{{0,0},{1,1},{0,1},{0,0}}") == [0, 0, 1, 1, 0, 1, 0, 0]
    assert parse("ksize", "sizes", "") == []
    assert parse("crop", "slices", "0:1, 3:2048") == [0, 1, 3, 2048]
    assert parse("crop", "slices", "") == []
    numbers = parse("values", "values", "1 -2.5 nan\n-inf 1e3 .5")
    assert isinstance(numbers, list)
    assert math.isnan(numbers.pop(2))
    assert numbers == [1, -2.5, -math.inf, 1000.0, 0.5]


@pytest.mark.parametrize("text", ["lr=0.1.npy", "file_name=a.npy", "'quoted'.npy", '"a"', " a ;", "a;b.npy"])
def test_names_of_files_are_taken_to_the_letter(text: str) -> None:
    assert parse("file_name", "file_name", text) == text
    assert parse("file", "file", text) == text


@pytest.mark.parametrize(
    ("name", "kind", "text", "expected"),
    [
        ("ksize", "sizes", "1,2.0,2,1", "whole numbers"),
        ("ksize", "sizes", "1,two,1", "whole numbers"),
        ("ksize", "sizes", "1_0", "whole numbers"),
        ("ksize", "sizes", "٣", "whole numbers"),
        ("ksize", "sizes", "strides_ = 1,2,2,1;", "a value for ksize"),
        ("seed", "integer", "", "a whole number"),
        ("overlapping", "flag", "maybe", "true or false"),
        ("values", "values", "1,__import__", "numbers"),
        ("crop", "slices", "0:1,3", "start:stop of every axis"),
        ("crop", "slices", "0:-1", "start:stop of every axis"),
        ("crop", "slices", "0:1:2", "start:stop of every axis"),
    ],
)
def test_what_is_refused(name: str, kind: str, text: str, expected: str) -> None:
    with pytest.raises(TextError) as caught:
        parse(name, kind, text)
    assert expected in caught.value.expected
    assert caught.value.got.startswith("'")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("values", "1" * 150_000 + "x"),
        ("values", "1." + "1" * 150_000 + "x"),
        ("ratios", "1e" + "1" * 150_000),
        ("sizes", "1" * 150_000 + "x"),
        ("values", "a" + "_" * 150_000),
        ("values", "a" + " " * 150_000 + "x"),
    ],
)
def test_a_text_is_refused_in_a_time_that_grows_with_its_length_only(kind: str, text: str) -> None:
    start = time.monotonic()
    with pytest.raises(TextError):
        parse("values", kind, text)
    assert time.monotonic() - start < 1


@pytest.mark.parametrize(("kind", "limit"), [("values", 200_000), ("choice", 10_000)])
def test_a_text_beyond_the_limit_is_not_read(kind: str, limit: int) -> None:
    assert parse("x", kind, " " * limit) in ([], "")
    with pytest.raises(TextError, match=f"at most {limit:,} characters, got {limit + 1:,} characters"):
        parse("x", kind, " " * (limit + 1))
    with pytest.raises(TextError, match="at most 10,000 characters"):
        split_attributes(" " * 10_001)


def test_attributes_as_text() -> None:
    text = "data_format_ = NHWC; padding_= SAME ;ksize_ = 1;2;2;1;"
    split = split_attributes(text)
    assert split == {"data_format": "NHWC", "padding": "SAME", "ksize": "1;2;2;1"}
    assert split_attributes(join_attributes(split)) == split
    assert split_attributes(" ; ") == {}
    with pytest.raises(TextError, match="name_ = value"):
        split_attributes("NDHWC")
