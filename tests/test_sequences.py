"""Pooling sequences: bit-exact to what TensorFlow drew, and the properties Graham's paper asks for."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolgrad import sequences
from tools import record_sequences

RECORDED = json.loads((Path(__file__).parent / "data" / "fractional_sequences.json").read_text())


def drawn(call: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Our sequences for a recorded call."""
    rows, columns = sequences.tensorflow(
        (call["height"], call["width"]),
        (call["row_ratio"], call["column_ratio"]),
        call["seed"],
        call["seed2"],
        pseudo_random=call["pseudo_random"],
    )
    return rows.tolist(), columns.tolist()


def unpacked(size: int, longer: str) -> list[int]:
    """The sequence that tests/data/README.md describes."""
    boundaries = [0]
    for extra in longer:
        boundaries.append(boundaries[-1] + size // len(longer) + int(extra))
    return boundaries


@pytest.mark.parametrize("case", RECORDED)
def test_recorded_from_tensorflow(case: dict[str, Any]) -> None:
    rows, columns = unpacked(case["height"], case["rows"]), unpacked(case["width"], case["columns"])
    assert (rows[-1], columns[-1]) == (case["height"], case["width"])
    assert drawn(case) == (rows, columns)


@pytest.mark.framework
@pytest.mark.filterwarnings("ignore")  # TensorFlow's own
def test_live_tensorflow() -> None:
    pytest.importorskip("tensorflow")
    seed = random.randrange(2**32)
    source = random.Random(seed)
    for number in range(400):
        call = record_sequences.random_call(source, 3000 if number % 20 else 300_000)
        assert drawn(call) == record_sequences.run(call), f"seed {seed}, call {number}: {call}"


def test_philox_known_answers() -> None:
    # From the known-answer file of Random123, the generator's own distribution.
    zero = sequences.Philox(0, 0)
    assert [f"{word:08x}" for word in zero.words(4)] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    pi = sequences.Philox(0x299F31D0A4093822, 0x0370734413198A2E)
    pi.block = 0x85A308D3243F6A88
    assert [f"{word:08x}" for word in pi.words(4)] == ["d16cfe09", "94fdcceb", "5001e420", "24126ea1"]


def test_philox_is_one_stream_however_it_is_cut() -> None:
    whole = sequences.Philox(-5, 12).words(200_001)
    cut = sequences.Philox(-5, 12)
    parts = [cut.words(count) for count in (4, 65_532, 100_000, 34_465)]
    assert np.array_equal(whole, np.concatenate(parts))
    skipping = sequences.Philox(-5, 12)
    skipping.words(5)  # uses two blocks
    assert np.array_equal(skipping.words(3), whole[8:11])


@pytest.mark.parametrize("pseudo_random", [False, True])
def test_axes_share_one_stream(pseudo_random: bool) -> None:
    rows, columns, depth = sequences.tensorflow((400, 300, 200), 1.44, 5, 6, pseudo_random=pseudo_random)
    alone = [sequences.tensorflow(size, 1.44, 5, 6, pseudo_random=pseudo_random) for size in (400, 300, 200)]
    assert np.array_equal(rows, alone[0])
    assert not np.array_equal(columns, alone[1])
    assert not np.array_equal(depth, alone[2])


def test_equal_cells_still_advance_the_stream() -> None:
    after_equal = sequences.tensorflow((8, 300), (2.0, 1.44), 5, 6)[1]
    assert np.array_equal(after_equal, sequences.tensorflow((9, 300), (2.0, 1.44), 5, 6)[1])  # 4 cells both
    assert not np.array_equal(after_equal, sequences.tensorflow(300, 1.44, 5, 6))


@pytest.mark.parametrize("draw", [lambda *a: sequences.tensorflow(*a, 3, 4), sequences.graham])
def test_forms(draw: Any) -> None:
    one = draw(np.int32(20), np.float64(1.5))
    assert isinstance(one, np.ndarray)
    assert one.dtype == np.int64
    assert isinstance(draw(np.array(20), np.array(1.5)), np.ndarray)
    for sizes in ([20], (20,), range(20, 21), np.array([20])):
        several = draw(sizes, [1.5])
        assert isinstance(several, tuple)
        assert [len(boundaries) for boundaries in several] == [len(one)]
    assert [len(boundaries) for boundaries in draw((20, 9, 4), 2)] == [11, 5, 3]
    assert [len(boundaries) for boundaries in draw((20, 9, 4), np.array([2.0, 3.0, 4.0]))] == [11, 4, 2]


@given(
    size=st.integers(1, 3000),
    part=st.floats(0, 1),
    seeds=st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 2),
    even=st.booleans(),
)
def test_every_sequence_cuts_the_axis(size: int, part: float, seeds: tuple[int, int], even: bool) -> None:
    ratio = size**part
    cells = sequences.output_size(size, ratio)
    for boundaries in (
        sequences.tensorflow(size, ratio, *seeds, pseudo_random=even),
        sequences.graham(size, ratio, random=not even, rng=abs(seeds[0])),
    ):
        assert (boundaries[0], boundaries[-1], len(boundaries)) == (0, size, cells + 1)
        assert np.count_nonzero(np.diff(boundaries) == size // cells + 1) == size % cells
        assert np.count_nonzero(np.diff(boundaries) == size // cells) == cells - size % cells


def test_seed_pair_of_zeros_is_one_pair_per_process() -> None:
    here = sequences.tensorflow((500, 300), 1.5, 0, 0)
    again = sequences.tensorflow((500, 300), 1.5, 0, 0)
    assert all(np.array_equal(a, b) for a, b in zip(here, again, strict=True))
    script = "from poolgrad import sequences; print(sequences.tensorflow(500, 1.5, 0, 0).tolist())"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    elsewhere = subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert json.loads(elsewhere) != here[0].tolist()
    assert len(json.loads(elsewhere)) == len(here[0])


def test_random_seeds_are_fresh_and_signed() -> None:
    pairs = {sequences.random_seeds() for _ in range(100)}
    assert len(pairs) == 100
    assert all(-(2**63) <= number < 2**63 for pair in pairs for number in pair)
    assert min(pair[0] for pair in pairs) < 0 < max(pair[0] for pair in pairs)


def test_graham_random_is_a_uniform_permutation() -> None:
    rng = np.random.default_rng(20)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(3000):
        cuts = tuple(sequences.graham(5, 1.6, rng=rng).tolist())
        counts[cuts] = counts.get(cuts, 0) + 1
    assert set(counts) == {(0, 1, 3, 5), (0, 2, 3, 5), (0, 2, 4, 5)}
    assert all(abs(count - 1000) < 130 for count in counts.values())  # five standard deviations of 26


@pytest.mark.parametrize(("size", "ratio"), [(7, 1.5), (20, 1.44), (33, 1.1), (12, 4.0), (9, 9.0), (40, 1.0)])
def test_graham_pseudo_random_is_the_formula_of_the_paper(size: int, ratio: float) -> None:
    cells = sequences.output_size(size, ratio)
    alpha = Fraction(size, cells)
    expected = set()
    for numerator in range(1, 8 * size):
        u = Fraction(numerator, 8 * size)
        cuts = [math.ceil(alpha * (i + u)) for i in range(cells + 1)]
        expected.add(tuple(cut - cuts[0] for cut in cuts))
    rng = np.random.default_rng(3)
    drawn = {tuple(sequences.graham(size, ratio, random=False, rng=rng).tolist()) for _ in range(60 * size)}
    assert drawn == expected


@pytest.mark.parametrize("random_", [False, True])
def test_graham_draws_from_what_it_is_given(random_: bool) -> None:
    first, second = (sequences.graham((500, 400), 1.44, random=random_, rng=9) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    rng = np.random.default_rng(9)
    assert np.array_equal(sequences.graham(500, 1.44, random=random_, rng=rng), first[0])
    assert np.array_equal(sequences.graham(400, 1.44, random=random_, rng=rng), first[1])
    fresh = {tuple(sequences.graham(500, 1.44, random=random_).tolist()) for _ in range(20)}
    assert len(fresh) > 1


def test_largest_size_does_not_overflow() -> None:
    for boundaries in (
        sequences.graham(2**31 - 1, 5000.5, random=False, rng=1),
        sequences.graham(2**31 - 1, 5000.5, rng=1),
        sequences.tensorflow(2**31 - 1, 5000.5, 1, 1),
        sequences.tensorflow(2**31 - 1, 5000.5, 1, 1, pseudo_random=True),
    ):
        assert boundaries[-1] == 2**31 - 1
        assert np.diff(boundaries).min() >= 5000


@pytest.mark.parametrize(
    ("size", "ratio", "cells"),
    [
        (18, 1.2, 14),  # 15 in float64
        (33, 1.1, 30),  # 29 in float64
        (5, 5.00000001, 1),  # 5 in float32, so not larger than the size
        (5, 0.99999999, 5),  # 1 in float32
        (1, 1, 1),
        (7, np.float32(3.5), 2),
    ],
)
def test_output_size_is_computed_in_float32(size: int, ratio: float, cells: int) -> None:
    assert sequences.output_size(size, ratio) == cells


SMALL = "is out of range; it must be at least 1"
LARGE = "is out of range; it must be at most 2147483647"
RANGE = "is out of range; give a ratio from 1 to size=5"
LOW_SEED = "is out of range; it must be at least -9223372036854775808"
HIGH_SEED = "is out of range; it must be at most 9223372036854775807"
ENTRIES = "ratio has 1 entries for 2 sizes; give one each, or one number for all"
INTEGER = "is not an integer; give a Python or NumPy integer"


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((5, 0.5, 1, 1), ValueError, f"ratio=0.5 {RANGE}"),
        ((5, 5.5, 1, 1), ValueError, f"ratio=5.5 {RANGE}"),
        ((5, math.nan, 1, 1), ValueError, f"ratio=nan {RANGE}"),
        ((5, math.inf, 1, 1), ValueError, f"ratio=inf {RANGE}"),
        ((5, -math.inf, 1, 1), ValueError, f"ratio=-inf {RANGE}"),
        ((5, 1e300, 1, 1), ValueError, f"ratio=1e+300 {RANGE}"),
        ((5, True, 1, 1), TypeError, "ratio=True is not a number; give a float of at least 1"),
        ((5, "2", 1, 1), TypeError, "ratio='2' is not a number; give a float of at least 1"),
        ((5, (2, 2), 1, 1), TypeError, "ratio=(2, 2) is not a number; give a float of at least 1"),
        ((0, 1, 1, 1), ValueError, f"size=0 {SMALL}"),
        ((-3, 1, 1, 1), ValueError, f"size=-3 {SMALL}"),
        ((2**31, 2, 1, 1), ValueError, f"size=2147483648 {LARGE}"),
        ((5.0, 2, 1, 1), TypeError, f"size=5.0 {INTEGER}"),
        ((True, 1, 1, 1), TypeError, f"size=True {INTEGER}"),
        (("5", 1, 1, 1), TypeError, f"size='5' {INTEGER}"),
        (((5, 6.0), 1, 1, 1), TypeError, f"size[1]=6.0 {INTEGER}"),
        (((5, 6), (2, 7), 1, 1), ValueError, "ratio[1]=7 is out of range; give a ratio from 1 to size[1]=6"),
        (((5, 6), (2,), 1, 1), ValueError, ENTRIES),
        (((), 2, 1, 1), ValueError, "size=() is empty; give at least one size"),
        ((5, 2, 2**63, 1), ValueError, f"seed=9223372036854775808 {HIGH_SEED}"),
        ((5, 2, 1, -(2**63) - 1), ValueError, f"seed2=-9223372036854775809 {LOW_SEED}"),
        ((5, 2, 1.0, 1), TypeError, f"seed=1.0 {INTEGER}"),
        ((5, 2, 1, None), TypeError, f"seed2=None {INTEGER}"),
        (
            (2**24 + 3, 1, 1, 1),
            ValueError,
            "size=16777219 gives 16777220 cells with ratio=1, for float32 rounds the size up; "
            "give a larger ratio or a size that float32 holds",
        ),
        (
            (2**30, 1, 1, 1),
            ValueError,
            "size=1073741824 gives 1073741824 cells with ratio=1; a sequence has at most 268435456, "
            "give a larger ratio",
        ),
    ],
)
def test_errors(arguments: tuple[Any, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        sequences.tensorflow(*arguments)
    assert str(caught.value) == f"sequences.tensorflow: {text}"
    if "seed" not in text:
        with pytest.raises(error) as caught:
            sequences.graham(*arguments[:2])
        assert str(caught.value) == f"sequences.graham: {text}"


def test_errors_of_a_ratio_no_float_holds() -> None:
    with pytest.raises(ValueError, match=r"sequences\.output_size: ratio=1000+.* is out of range"):
        sequences.output_size(5, 10**400)


def test_errors_of_flags_and_rng() -> None:
    with pytest.raises(TypeError, match=r"sequences\.tensorflow: pseudo_random='no' is not a bool; use True or"):
        sequences.tensorflow(5, 2, 1, 1, pseudo_random="no")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"sequences\.graham: random=0 is not a bool; use True or False"):
        sequences.graham(5, 2, random=0)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"sequences\.graham: rng=-1 is out of range; it must be at least 0"):
        sequences.graham(5, 2, rng=-1)
    for rng in (True, 1.5, "seed", np.random.RandomState(1)):
        with pytest.raises(TypeError, match=r"sequences\.graham: rng=.* is no random source; give a numpy"):
            sequences.graham(5, 2, rng=rng)  # type: ignore[call-overload]
