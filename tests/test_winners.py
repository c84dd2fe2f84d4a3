"""Winners and flat indices, both styles, both ways."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import reference
from cases import GEOMETRIES, LAYOUTS, Case, Geometry
from reference import assert_same_bits

import poolgrad as pg

every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: geometry.name)


@every_geometry
def test_there_and_back(geometry: Geometry) -> None:
    table, sizes = geometry.table(), geometry.input_size
    count = len(sizes)
    for case in itertools.starmap(Case, itertools.product([geometry], LAYOUTS, ["float32", "uint8"])):
        x = case.values(case.shape)
        _, winners = pg.max_pool(x, table, axes=case.axes, return_winners=True)
        positions = reference.max_positions(x, geometry.windows, case.first)
        torch = pg.winners_to_indices(winners, table, "torch", axes=case.axes)
        assert_same_bits(torch, positions, case.name)
        assert_same_bits(pg.indices_to_winners(torch, table, "torch", axes=case.axes), winners, case.name)
        if case.layout == "plain":
            continue
        for batch in (False, True):
            flat = pg.winners_to_indices(winners, table, axes=case.axes, include_batch=batch)
            right = reference.tensorflow_indices(positions, case.first, count, sizes, batch)
            assert_same_bits(flat, right, case.name)
            back = pg.indices_to_winners(flat, table, axes=case.axes, include_batch=batch)
            assert_same_bits(back, winners, case.name)
            for kind in (np.int32, np.uint64):
                again = pg.indices_to_winners(flat.astype(kind), table, axes=case.axes, include_batch=batch)
                assert_same_bits(again, winners, case.name)


def test_flat_index_takes_the_value() -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 6, 2))
    w = pg.sliding((5, 6), 3, 2, "SAME")
    y, winners = pg.max_pool(x, w, data_format="NHWC", return_winners=True)
    whole = pg.winners_to_indices(winners, w, data_format="NHWC", include_batch=True)
    assert_same_bits(x.ravel()[whole], y)
    each = pg.winners_to_indices(winners, w, data_format="NHWC")
    assert_same_bits(np.take_along_axis(x.reshape(3, -1), each.reshape(3, -1), 1).reshape(y.shape), y)


def test_bad_arguments() -> None:
    w = pg.sliding((4, 4), 2)
    winners = np.zeros((1, 2, 2, 1), np.uint8)
    with pytest.raises(ValueError, match="^winners_to_indices: style='jax' is not known; use 'tensorflow' or 'torch'"):
        pg.winners_to_indices(winners, w, "jax", axes=(1, 2))
    with pytest.raises(
        TypeError, match="^winners_to_indices: winners have dtype int64; pass those of max_pool, here uint8"
    ):
        pg.winners_to_indices(winners.astype(np.int64), w, axes=(1, 2))
    with pytest.raises(ValueError, match="^winners_to_indices: winners lie outside their windows"):
        pg.winners_to_indices(winners + 4, w, axes=(1, 2))
    with pytest.raises(ValueError, match="^winners_to_indices: winners has shape"):
        pg.winners_to_indices(winners[:, :1], w, axes=(1, 2))
    with pytest.raises(TypeError, match="^indices_to_winners: indices have dtype float64"):
        pg.indices_to_winners(np.zeros((1, 2, 2, 1)), w, axes=(1, 2))
    right = pg.winners_to_indices(winners, w, axes=(1, 2))
    for wrong in (right + 1000, right - 1000, right[..., ::-1, ::-1, :], -right - 1):
        with pytest.raises(ValueError, match="^indices_to_winners: indices "):
            pg.indices_to_winners(wrong, w, axes=(1, 2))
    with pytest.raises(TypeError, match="^winners_to_indices: say which windows"):
        pg.winners_to_indices(winners, None, axes=(1, 2))


def test_indices_of_another_channel_or_batch_are_found() -> None:
    w = pg.sliding((4, 4), 2)
    x = np.random.default_rng(0).standard_normal((2, 4, 4, 3))
    _, winners = pg.max_pool(x, w, data_format="NHWC", return_winners=True)
    each = pg.winners_to_indices(winners, w, data_format="NHWC")
    whole = pg.winners_to_indices(winners, w, data_format="NHWC", include_batch=True)
    for indices, batch in ((whole, False), (each, True), (each + 1, False), (each - 1, False)):
        with pytest.raises(ValueError, match="^indices_to_winners: indices "):
            pg.indices_to_winners(indices, w, data_format="NHWC", include_batch=batch)


def test_parts_have_the_winners_of_the_whole() -> None:
    x = np.random.default_rng(4).standard_normal((9, 40, 3))
    w = pg.sliding((9, 40), (5, 9), (2, 3), "SAME")
    _, winners = pg.max_pool(x, w, axes=(0, 1), return_winners=True)
    for a, b in ((0, 1), (3, 9), (9, 14)):
        part, where = w.part(1, a, b)
        _, some = pg.max_pool(x[:, where], part, axes=(0, 1), return_winners=True)
        assert_same_bits(some, winners[:, a:b])
