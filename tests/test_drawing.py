"""`poolgrad.draw`: well-formed, small, and of the right cells and windows."""

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import poolgrad as pg
from poolgrad import drawing

MOST_ELEMENTS = 400


def parsed(picture):
    root = ElementTree.fromstring(picture)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return list(root.iter())


def named(elements, tag):
    return [element for element in elements if element.tag.endswith("}" + tag)]


def texts(picture):
    return [element.text for element in named(parsed(picture), "text")]


def fills(picture):
    """How many cells have each colour."""
    paths = [element for element in named(parsed(picture), "path") if element.get("fill") != "none"]
    counts = Counter()
    for path in paths:
        counts[path.get("fill")] += path.get("d").count("M")
    return counts


def test_every_window_of_one_axis_is_a_bar_over_its_cells():
    picture = pg.draw(pg.sliding(10, window=3, stride=2, padding="SAME"))
    bars = [rect for rect in named(parsed(picture), "rect") if len(rect)]
    labels = [rect[0].text for rect in bars]
    assert labels == [
        "window 0: 0:3, divisor 3",
        "window 1: 2:5, divisor 3",
        "window 2: 4:7, divisor 3",
        "window 3: 6:9, divisor 3",
        "window 4: 8:10, divisor 2",
    ]
    cell = float(bars[1].get("x")) - float(bars[0].get("x"))
    assert [float(bar.get("x")) for bar in bars] == [1 + i * cell for i in range(5)]
    assert len({bar.get("y") for bar in bars}) == 2, "overlapping windows stand in lanes of their own"


def test_two_axes_outline_the_product_of_their_windows():
    picture = pg.draw(pg.sliding((4, 6), window=2))
    outlines = [path for path in named(parsed(picture), "path") if "z" in path.get("d")]
    assert sum(path.get("d").count("z") for path in outlines) == 2 * 3


@pytest.mark.parametrize(
    ("table", "shape"),
    [
        (pg.sliding(7, 2), (7,)),
        (pg.sliding((4, 5), 2), (4, 5)),
        (pg.sliding((4, 5), 2), (1, 4, 5, 1)),
        (pg.sliding((3, 4, 5), 2), (3, 4, 5)),
        (pg.sliding((3, 4, 5), 2), (4, 5)),
    ],
)
def test_cells_are_coloured_by_value(table, shape):
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    coloured = fills(pg.draw(table, x=x))
    assert sum(coloured.values()) == x.size
    assert "#ffffff" in coloured, "the smallest value has the first colour"
    assert "#54585e" in coloured, "the largest value has the last colour"


def test_gradients_diverge_from_zero_and_zero_is_white():
    grad = np.array([-2.0, 0.0, 2.0, 2.0])
    assert fills(pg.draw(pg.sliding(4, 2), grad=grad)) == {"#1d4f95": 1, "#f6f5f1": 1, "#b55a17": 2}


def test_the_diverging_colours_are_the_studios():
    source = Path(__file__).parents[1] / "studio-web" / "src" / "model" / "scale.ts"
    if not source.exists():
        pytest.skip("the sdist has no source of the page")
    stops = re.findall(r"#[0-9a-f]{6}", re.search(r"light: \[(.*?)\]", source.read_text())[1])
    assert [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in drawing.DIVERGING] == stops


def test_a_gradient_may_have_the_size_of_the_output():
    w = pg.sliding((4, 4), window=2)
    assert sum(fills(pg.draw(w, grad=np.ones((2, 2)))).values()) == 4
    assert sum(fills(pg.draw(w, grad=np.ones((4, 4)))).values()) == 16


def test_nan_is_hatched_and_infinity_is_the_end_of_the_scale():
    x = np.array([np.nan, 1.0, np.inf, -np.inf, 2.0, np.nan])
    picture = pg.draw(pg.sliding(6, 2), x=x)
    assert sum(fills(picture).values()) == 4
    (hatched,) = [path for path in named(parsed(picture), "path") if len(path) and path[0].text == "NaN"]
    assert hatched.get("d").count("M") == 2
    assert fills(picture)["#ffffff"] == 2, "1, the smallest number, and -inf"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, 1e308])
def test_arrays_of_one_value(value):
    x = np.full((3, 3), value)
    parsed(pg.draw(pg.sliding((3, 3), 2), x=x, grad=x))


def test_the_largest_floats_do_not_overflow_the_scale():
    x = np.array([-1.7e308, 0.0, 1.7e308])
    assert sum(fills(pg.draw(pg.sliding(3, 1), x=x)).values()) == 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint64", "bool"])
def test_dtypes(dtype):
    from ml_dtypes import bfloat16

    x = np.array([0, 1, 1, 0], bfloat16 if dtype == "bfloat16" else dtype)
    assert fills(pg.draw(pg.sliding(4, 2), x=x)) == {"#ffffff": 2, "#54585e": 2}


@pytest.mark.parametrize(
    "table",
    [
        pg.sliding(10_000_000, 3, 2),
        pg.sliding(1000, 500, 1),
        pg.sliding((1000, 1000), 3, 1, "SAME"),
        pg.sliding((300, 300, 300), 2, 1),
        pg.adaptive((3,), 1000),
        pg.sliding((2**31, 2**31), 2**31 - 1, padding="SAME"),
    ],
)
def test_large_tables_are_abbreviated_and_say_so(table):
    picture = pg.draw(table)
    assert len(parsed(picture)) < MOST_ELEMENTS
    assert len(picture) < 100_000
    assert any("first" in text for text in texts(picture))


def test_a_large_array_costs_what_a_small_one_costs():
    w = pg.sliding((200, 200, 200), 2, 1)
    x = np.broadcast_to(np.float32(1), (200, 200, 200))
    assert len(parsed(pg.draw(w, x=x, grad=x))) < MOST_ELEMENTS


@pytest.mark.parametrize("size", [(0,), (0, 5), (5, 0), (0, 0, 0)])
def test_empty_tables(size):
    w = pg.sliding(size, 2, 2, "SAME")
    parsed(pg.draw(w, x=np.ones(size), grad=np.ones(w.output_size)))


def test_numbers_are_written_where_they_fit():
    assert "0.333" in texts(pg.draw(pg.sliding(3, 1), x=np.array([1 / 3, 2, 3])))
    assert "0.333" not in texts(pg.draw(pg.sliding(30, 1), x=np.full(30, 1 / 3)))


def test_a_notebook_draws_the_table():
    w = pg.sliding((4, 4), 2)
    assert w._repr_svg_() == pg.draw(w)


def test_text_is_escaped_and_nothing_is_referred_to():
    picture = pg.draw(pg.sliding((4, 4), 2), x=np.ones((4, 4)), grad=np.ones((2, 2)))
    assert not re.search(r"href|<script|<style|url\(|\bid=", picture)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"w": 3}, TypeError, "draw: w=3 is not a WindowTable; make one, e.g. poolgrad.sliding((4, 4), window=2)"),
        ({"x": np.ones(3)}, ValueError, "draw: x has shape (3,); this WindowTable takes (4, 4)"),
        ({"grad": np.ones((3, 3))}, ValueError, "draw: grad has shape (3, 3); this WindowTable takes (4, 4) or (2, 2)"),
        ({"x": np.ones((4, 4), complex)}, TypeError, "draw: x='complex128' cannot be drawn; give real numbers"),
    ],
)
def test_errors(arguments, kind, message):
    with pytest.raises(kind) as caught:
        pg.draw(**{"w": pg.sliding((4, 4), window=2), **arguments})
    assert str(caught.value) == message
