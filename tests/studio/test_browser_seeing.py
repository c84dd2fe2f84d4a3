"""The studio in a real browser: seeing what a cell is made of."""

from __future__ import annotations

from typing import Any

import pytest
from browser_page import MARKS, StudioPage
from page_graphs import page, spread
from page_scripts import CORNER_AND_MIDDLE

from poolgrad.studio import pages

pytestmark = MARKS


@pytest.mark.parametrize(
    ("name", "pointed", "shown", "words"),
    [
        ("same-edge-counts", "grad", "g", "dx[0,0,0,0] = g[0,0,0,0]/4 + g[0,0,1,0]/6 + g[0,1,0,0]/6 + g[0,1,1,0]/9"),
        ("same-edge-counts", "g", "grad", "tensor[0, 0, 0, 0] = 1"),
        ("average-gradient-3d", "pool", "x", "/ 8"),
        ("average-gradient-3d", "x", "pool", "tensor[0, 0, 0, 0, 0] = 0.34558"),
        ("average-gradient-3d", "grad", "g", "dx[0,0,0,0,0] = g[0,0,0,0,0]/8 = 1/8 = 0.125"),
        ("fractional-graham", "pool", "x", "the winner is x[0,2,1,0]"),
        ("fractional-graham", "grad", "g", "1 window reaches this cell; it wins 0"),
        ("max-ties-and-nan", "pool", "x", "the winner is x[0,0,0,0]"),
        ("max-ties-and-nan", "g", "grad", "tensor[0, 0, 0, 0] = 1"),
    ],
)
def test_pointing_at_a_cell_marks_its_window_elsewhere(
    studio: StudioPage, name: str, pointed: str, shown: str, words: str
) -> None:
    studio.load(pages.read(name))
    # Just inside the first cell; a volume has the caption of its first slice, about 12 pixels, above it.
    caption = 15 * studio.zoom() if "3d" in name else 0
    studio.hover_cell(pointed, 0.02, 0.02 + caption / studio.heat(pointed).bounding_box()["height"])
    assert words in studio.cell_text()
    overlay = studio.heat(shown).locator("canvas.heat-overlay")
    overlay.wait_for()
    painted = overlay.evaluate(
        "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v, i) => i % 4 === 3 && v > 0)"
    )
    assert painted


def test_hover_costs_no_request(studio: StudioPage) -> None:
    asked: list[str] = []
    studio.tab.on("request", lambda request: asked.append(request.url) if "/api/" in request.url else None)
    for at in range(12):
        studio.hover_cell("grad", 0.05 + 0.07 * at, 0.2)
    assert asked == []


def test_the_formula_of_a_cell_pin_walk_and_play(browser: Any, address: str) -> None:
    studio = StudioPage(browser, address, motion="no-preference").open()
    studio.load(pages.read("overlap-adds-up"))
    studio.heat("together").click(position={"x": 3, "y": 3})
    assert "pinned" in studio.cell_text()
    studio.tab.keyboard.press("ArrowRight")
    studio.tab.keyboard.press("ArrowRight")
    assert "dx[0,0,2,0] = g[0,0,0,0]/9 + g[0,0,1,0]/9 = 1/9 + 1/9" in studio.cell_text()
    studio.tab.get_by_role("button", name="Play: sweep through the cells").click()
    before = studio.cell_text()
    studio.tab.wait_for_timeout(1500)
    assert studio.cell_text() != before
    studio.tab.get_by_role("button", name="Pause the sweep").click()
    studio.tab.get_by_role("button", name="Let go of the pinned cell").click()
    assert "pinned" not in studio.cell_text()
    studio.close()


def test_with_less_motion_the_sweep_steps_on_request(studio: StudioPage) -> None:
    button = studio.tab.get_by_role("button", name="Step: sweep through the cells")
    button.click()
    assert "[0, 0, 0, 0, 0]" in studio.cell_text()
    studio.tab.wait_for_timeout(1500)
    assert "[0, 0, 0, 0, 0]" in studio.cell_text()
    button.click()
    assert "[0, 0, 0, 1, 0]" in studio.cell_text()
    studio.tab.keyboard.press("p")
    assert "[0, 0, 1, 0, 0]" in studio.cell_text()


def test_the_winners_mark_leaves_its_number_to_be_read(studio: StudioPage) -> None:
    studio.load(pages.read("max-ties-and-nan"))
    studio.hover_cell("pool", 0.25, 0.25)
    overlay = studio.heat("x").locator("canvas.heat-overlay")
    overlay.wait_for()
    scale = overlay.evaluate("c => c.width / c.getBoundingClientRect().width") * studio.zoom()
    assert overlay.evaluate(CORNER_AND_MIDDLE, scale) == [True, False]


def test_nan_is_told_and_slices_are_stepped(studio: StudioPage) -> None:
    studio.load(pages.read("max-ties-and-nan"))
    assert "NaN" in studio.node("x").inner_text() or "nan" in studio.node("x").inner_text().lower()
    studio.load(pages.read("volume-3d"))
    studio.node("pool").get_by_role("button", name="one slice").click()
    slider = studio.node("pool").get_by_role("slider").first
    slider.focus()
    slider.press("ArrowRight")
    assert "1/5" in studio.node("pool").inner_text()
    assert "0/11" in studio.node("grad").inner_text()


def test_a_tensor_of_ones_has_one_colour_whatever_it_feeds(studio: StudioPage) -> None:
    ones = {"shape": "1,2,2,1", "fill": "ones"}
    blocks = {"a": ("Tensor", ones), "b": ("Tensor", ones), "c": ("Tensor", ones), "shape": ("Shape", {})}
    blocks |= {"pool": ("AvgPool", {}), "grad": ("AvgPoolGrad", {})}
    wires = {"pool.value": "a.tensor", "grad.grad": "b.tensor", "grad.orig_input_shape": "shape.shape"}
    graph = page(blocks, wires)
    studio.load(graph | {"blocks": spread(graph["blocks"])})
    legends = {name: studio.node(name).locator(".legend") for name in ("a", "b", "c", "grad")}
    assert [legends[name].inner_text() for name in "abc"] == ["all 1"] * 3
    assert len({legends[name].locator("rect").get_attribute("fill") for name in "abc"}) == 1
    # A gradient is shown about 0 though all of it is 1/4.
    assert legends["grad"].get_attribute("aria-label") == "colours about 0: blue below, orange above, -0.25 to 0.25"
