"""ONE list of named cases that tests and benchmarks share: geometry x layout x dtype.

`CASES` are small and cover every kind of window; a benchmark scales one with ``batch`` and ``channels``. No pytest is
needed to import this, and poolgrad only when a table is asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
import reference
from reference import Array, Windows

DTYPES = (*reference.FLOATS, *reference.INTEGERS)
LAYOUTS = {"last": "N{}C", "first": "NC{}", "plain": "{}"}
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


@dataclass(frozen=True)
class Geometry:
    """Sizes and a maker of `poolgrad` with its arguments."""

    name: str
    input_size: tuple[int, ...]
    maker: str
    arguments: dict[str, Any] = field(hash=False)

    def table(self) -> Any:
        import poolgrad

        return getattr(poolgrad, self.maker)(self.input_size, **self.arguments)

    @cached_property
    def windows(self) -> Windows:
        """The same windows by the reference's own arithmetic."""
        given = self.arguments
        sizes = self.input_size
        if self.maker == "sliding":
            paddings = [given["padding"]] * len(sizes) if isinstance(given["padding"], str) else given["padding"]
            rows = zip(sizes, _each(given["window"], sizes), _each(given["stride"], sizes), paddings, strict=True)
            return [reference.sliding(*row) for row in rows]
        if self.maker == "fractional":
            overlapping = given.get("overlapping", False)
            return [reference.fractional(n, seq, overlapping) for n, seq in zip(sizes, given["sequences"], strict=True)]
        if self.maker == "adaptive":
            return [reference.adaptive(n, m) for n, m in zip(sizes, _each(given["output_size"], sizes), strict=True)]
        lengths = [
            [b - a for a, b in zip(*pair, strict=True)] for pair in zip(given["start"], given["stop"], strict=True)
        ]
        divisors = given.get("divisor", lengths)
        return [list(zip(*row, strict=True)) for row in zip(given["start"], given["stop"], divisors, strict=True)]

    @property
    def output_size(self) -> tuple[int, ...]:
        return tuple(map(len, self.windows))


@dataclass(frozen=True)
class Case:
    """One geometry in one layout and dtype."""

    geometry: Geometry
    layout: str
    dtype_name: str
    batch: int = 2
    channels: int = 3

    @property
    def name(self) -> str:
        return f"{self.geometry.name}/{self.layout}/{self.dtype_name}"

    @property
    def dtype(self) -> np.dtype[Any]:
        return reference.dtype(self.dtype_name)

    @property
    def first(self) -> int:
        """The first pooled axis."""
        return {"last": 1, "first": 2, "plain": 0}[self.layout]

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(range(self.first, self.first + len(self.geometry.input_size)))

    def _shape(self, sizes: Sequence[int]) -> tuple[int, ...]:
        around = {
            "last": ((self.batch,), (self.channels,)),
            "first": ((self.batch, self.channels), ()),
            "plain": ((), ()),
        }
        before, after = around[self.layout]
        return (*before, *sizes, *after)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape(self.geometry.input_size)

    @property
    def pooled_shape(self) -> tuple[int, ...]:
        return self._shape(self.geometry.output_size)

    def values(self, shape: Sequence[int], seed: int = 0, *, special: bool = False) -> Array:
        """Random data; ``special`` sprinkles NaN, infinities, zeros of both signs, subnormals, extreme integers."""
        return random_values(np.random.default_rng([seed, *map(ord, self.name)]), shape, self.dtype, special=special)


def random_values(
    rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any], *, special: bool = False
) -> Array:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        small = rng.integers(max(limits.min, -20), 20, shape).astype(dtype)
        wide = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, small, wide)
    values = rng.standard_normal(shape)
    # Ties matter to a max: half of the numbers are small integers.
    values = np.where(rng.random(shape) < 0.5, np.round(values * 2), values)
    if special:
        odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, float(ml_dtypes.finfo(dtype).smallest_subnormal), -1e-30]
        values = np.where(rng.random(shape) < 0.2, rng.choice(odd, shape), values)
    return values.astype(dtype)


def _each(value: Any, sizes: Sequence[int]) -> Sequence[int]:
    return [value] * len(sizes) if isinstance(value, int) else value


def _sliding(name: str, sizes: tuple[int, ...], window: Any, stride: Any, padding: Any = "VALID") -> Geometry:
    return Geometry(name, sizes, "sliding", {"window": window, "stride": stride, "padding": padding})


#: Every kind of window the library knows.
GEOMETRIES = (
    # the documents' own examples
    _sliding("documents_3d", (9, 8, 6), (2, 2, 2), (4, 3, 2)),
    _sliding("documents_3d_same", (9, 7, 5), (2, 2, 2), (4, 3, 2), "SAME"),
    Geometry("documents_fractional", (5,), "fractional", {"sequences": [[0, 2, 4]], "overlapping": True}),
    # sliding, two axes
    _sliding("tiles_2x2", (6, 8), 2, 2),
    _sliding("tiles_with_rest", (7, 9), 2, 2),
    _sliding("same_3x3_step_2", (7, 8), 3, 2, "SAME"),
    _sliding("same_3x3_step_1", (6, 5), 3, 1, "SAME"),
    _sliding("valid_3x2_step_1", (6, 7), (3, 2), 1),
    _sliding("window_over_input_same", (4, 3), 5, 1, "SAME"),
    _sliding("window_over_input_steps", (4, 5), (7, 9), (2, 3), "SAME"),
    _sliding("window_huge", (4, 5), 2**31 - 1, 1, "SAME"),
    _sliding("gaps_valid", (11, 13), (2, 1), (4, 3)),
    _sliding("gaps_same", (9, 10), (1, 2), (4, 5), "SAME"),
    _sliding("explicit_padding", (6, 5), (3, 4), (2, 1), [(1, 2), (3, 0)]),
    _sliding("whole_7x7", (7, 7), 7, 1),
    _sliding("window_one", (3, 4), 1, 1),
    _sliding("no_output", (4, 6), 5, (1, 2)),
    _sliding("no_input", (0, 4), 2, 2, "SAME"),
    _sliding("wide_step_2", (3, 70), 3, 2, "SAME"),
    _sliding("wide_step_3", (2, 101), (1, 5), (1, 3)),
    _sliding("wide_step_4", (2, 67), (2, 3), (1, 4), "SAME"),
    _sliding("wide_step_5", (2, 83), (1, 11), (1, 5), "SAME"),
    _sliding("wide_step_1", (4, 37), 3, 1, "SAME"),
    _sliding("wide_tiles", (5, 51), 2, 2, [(1, 0), (1, 1)]),
    _sliding("wide_step_2_late", (4, 53), 3, 2, [(2, 0), (2, 1)]),
    _sliding("narrow_tiles", (4, 14), 2, 2),
    # one axis
    _sliding("line_tiles_4", (61,), 4, 4, [(3, 2)]),
    _sliding("line_step_1", (40,), 5, 1, "SAME"),
    _sliding("line_blocks_of_256", (1400,), 700, 300, "SAME"),
    # three axes
    _sliding("cube_3x3x3", (4, 5, 6), 3, 1, "SAME"),
    _sliding("cube_wide", (3, 4, 29), 3, (1, 1, 2), "SAME"),
    _sliding("cube_tiles", (4, 6, 4), (2, 3, 2), (2, 3, 2)),
    _sliding("cube_uneven", (5, 4, 7), (3, 1, 4), (2, 1, 3), "SAME"),
    _sliding("cube_no_output_last", (4, 2, 2), (2, 1, 3), (2, 1, 1)),
    _sliding("cube_no_output_first", (2, 4, 3), (3, 2, 1), (1, 2, 1)),
    _sliding("cube_no_input", (4, 0, 3), (2, 1, 2), 1, "SAME"),
    # other makers
    Geometry("fractional", (7, 9), "fractional", {"sequences": [[0, 2, 4, 5, 7], [0, 1, 3, 5, 6, 8, 9]]}),
    Geometry(
        "fractional_overlapping",
        (7, 8),
        "fractional",
        {"sequences": [[0, 2, 3, 5, 7], [0, 3, 5, 8]], "overlapping": True},
    ),
    Geometry("fractional_wide", (3, 37), "fractional", {"sequences": [[0, 1, 3], [*range(0, 30, 2), 31, 34, 37]]}),
    Geometry(
        "fractional_wide_overlapping",
        (4, 29),
        "fractional",
        {"sequences": [[0, 2, 4], [*range(0, 20, 2), 21, 24, 26, 29]], "overlapping": True},
    ),
    Geometry("fractional_gaps", (9, 8), "fractional", {"sequences": [[2, 4, 5, 7], [0, 3, 5, 12]]}),
    Geometry(
        "fractional_3d",
        (4, 5, 6),
        "fractional",
        {"sequences": [[0, 1, 4], [0, 2, 3, 5], [0, 2, 4, 6]], "overlapping": True},
    ),
    Geometry("adaptive", (7, 5), "adaptive", {"output_size": (3, 4)}),
    Geometry("adaptive_more_outputs", (3, 4), "adaptive", {"output_size": (5, 4)}),
    Geometry("intervals", (8, 6), "intervals", {"start": [[0, 1, 1, 6], [2]], "stop": [[2, 5, 6, 8], [5]]}),
    Geometry(
        "intervals_divisor",
        (8, 5),
        "intervals",
        {"start": [[0, 3], [0, 0, 4]], "stop": [[4, 8], [1, 5, 5]], "divisor": [[3, 7], [1, 2, 9]]},
    ),
    Geometry(
        "intervals_large_divisors",
        (6, 9),
        "intervals",
        {"start": [[0, 3], [0, 2, 5]], "stop": [[3, 6], [2, 6, 9]], "divisor": [[2**24 + 1, 3], [2**25 + 1, 7, 1]]},
    ),
)

#: Every geometry in every layout and dtype.
CASES = tuple(Case(*each) for each in itertools.product(GEOMETRIES, LAYOUTS, DTYPES))
FLOAT_CASES = tuple(case for case in CASES if case.dtype_name in reference.FLOATS)
BY_NAME = {case.name: case for case in CASES}
