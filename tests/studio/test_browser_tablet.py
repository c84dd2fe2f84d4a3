"""The studio on a tablet: a canvas of the whole width, blocks that can be read, an inspector beside what is chosen."""

from __future__ import annotations

from typing import Any

import pytest
from browser_page import MARKS, StudioPage
from page_scripts import FIRST_LOOK

from poolgrad.studio import pages

pytestmark = MARKS
SIZES = ((768, 1024), (1024, 768))
#: Four columns of blocks: at a size that can be read, the last one is out of sight on a screen held upright.
WIDE = ("fractional-graham", "fractional-by-hand")


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_every_gallery_graph_can_be_read_on_a_tablet(browser: Any, address: str, width: int, height: int) -> None:
    studio = StudioPage(browser, address, width, height).open()
    for name in pages.GALLERY:
        studio.load(pages.read(name))
        found = studio.tab.evaluate(FIRST_LOOK)
        print(f"{name} at {width}: smallest label {found['smallest']:.1f} px {found['bad']}")
        assert found["smallest"] >= 10, name
        hidden = [text for text in found["bad"] if text.endswith("is out of sight")]
        assert set(found["bad"]) == set(hidden), name
        assert bool(hidden) <= (name in WIDE), (name, hidden)
        more = studio.tab.get_by_role("button", name="not fully in sight: show all")
        assert more.count() == bool(hidden)
        if hidden:
            more.click()
            studio.tab.wait_for_timeout(200)
            assert studio.tab.evaluate(FIRST_LOOK)["bad"] == []
    studio.close()


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_inspector_opens_beside_the_chosen_block(browser: Any, address: str, width: int, height: int) -> None:
    studio = StudioPage(browser, address, width, height).open()
    inspector = studio.tab.get_by_label("Inspector", exact=True).and_(studio.tab.locator("aside"))
    assert inspector.count() == 0
    assert studio.violations() == []
    before = studio.zoom()
    studio.select("grad")
    block, panel = studio.node("grad").bounding_box(), inspector.bounding_box()
    assert block["x"] >= 0
    assert block["x"] + block["width"] <= panel["x"]
    assert studio.zoom() == before
    assert studio.violations() == []
    studio.tab.keyboard.press("Escape")
    assert inspector.count() == 0
    studio.tab.get_by_role("button", name="Inspector").click()
    assert studio.tab.get_by_label("What it shows").input_value().startswith("Windows of 2 x 2 x 2")
    studio.tab.get_by_role("button", name="Inspector").click()
    assert inspector.count() == 0
    studio.close()


def test_dragging_a_block_on_a_tablet_opens_nothing(browser: Any, address: str) -> None:
    studio = StudioPage(browser, address, 768, 1024).open()
    box = studio.node("x").locator("header").bounding_box()
    mouse = studio.tab.mouse
    mouse.move(box["x"] + 20, box["y"] + 8)
    mouse.down()
    mouse.move(box["x"] + 60, box["y"] + 60, steps=5)
    mouse.up()
    assert studio.tab.locator("aside").count() == 0
    assert studio.graph()["blocks"][0]["x"] > 20
    studio.close()


def test_the_gradient_that_was_added_is_in_sight_and_readable(browser: Any, address: str) -> None:
    studio = StudioPage(browser, address, 768, 1024).open()
    studio.load(pages.read("fractional-graham"))
    studio.select("pool")
    studio.tab.keyboard.press("g")
    studio.ran()
    box, panel = (
        studio.tab.locator(".react-flow__node.selected").bounding_box(),
        studio.tab.locator("aside").bounding_box(),
    )
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= panel["x"]
    assert studio.tab.evaluate(FIRST_LOOK)["smallest"] >= 10
    # The keyboard, which stood on the pooling block, is where the new one is.
    assert studio.tab.evaluate("document.activeElement.matches('.react-flow__node.selected')")
    studio.close()
