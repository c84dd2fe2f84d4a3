"""Tensors of more than 2**31 elements: a real average gradient and a real max gradient (marker `full`: 5 GB)."""

from __future__ import annotations

import numpy as np
import pytest

import poolgrad as pg

pytestmark = pytest.mark.full
ROWS = 2**15 + 2  # ROWS * 2**16 elements: past 2**31 by two rows
COLUMNS = 2**16


def test_average_gradient_past_32_bits() -> None:
    grad = np.zeros((1, ROWS // 2, COLUMNS // 2, 1), np.float16)
    grad[0, -1, -1, 0] = 4
    shape, sizes = [1, ROWS, COLUMNS, 1], [1, 2, 2, 1]
    result = pg.raw_ops.AvgPoolGrad(shape, grad, sizes, sizes, "VALID")
    assert result.size > 2**31
    assert (result[0, -2:, -2:, 0] == 1).all()
    assert not result[0, :-2].any()


def test_max_gradient_past_32_bits() -> None:
    x = np.zeros((1, ROWS, COLUMNS, 1), np.int8)
    x[0, -1, -1, 0] = 5
    w = pg.sliding((ROWS, COLUMNS), window=2)
    y, winners = pg.max_pool(x, w, data_format="NHWC", return_winners=True)
    assert y[0, -1, -1, 0] == 5
    assert winners[0, -1, -1, 0] == 3
    result = pg.max_pool_grad(np.ones_like(y), w, winners, data_format="NHWC")
    assert result[0, -1, -1, 0] == 1
    assert int(result[0, -2:].sum(dtype=np.int64)) == COLUMNS // 2
