"""The studio in a real browser: what a visitor sees first, on screens of every size and for everyone."""

from __future__ import annotations

import time
from typing import Any

import pytest
from browser_page import MARKS, StudioPage
from page_graphs import average_gradient, spread
from page_scripts import FIRST_LOOK

from poolgrad.studio import pages

pytestmark = MARKS


def test_the_first_page_shows_heat_maps_within_two_seconds(browser: Any, address: str) -> None:
    times = []
    for _ in range(3):
        opened = StudioPage(browser, address)
        start = time.monotonic()
        opened.tab.goto(opened.address)
        opened.tab.wait_for_selector(".react-flow__node[data-id='grad'] .heat-cells img")
        times.append(time.monotonic() - start)
        assert "AvgPool3D and its gradient" in opened.tab.locator("header.toolbar").inner_text()
        assert opened.status().startswith("ran in")
        opened.close()
    assert min(times) < 2, times


def test_the_token_leaves_the_address_bar_and_survives_a_reload(studio: StudioPage) -> None:
    assert "token" not in studio.tab.url
    studio.tab.reload()
    assert studio.status().startswith("ran in")


def test_without_the_token_the_page_says_what_to_do(browser: Any, address: str) -> None:
    opened = StudioPage(browser, address.split("#")[0])
    opened.tab.goto(opened.address)
    opened.tab.get_by_text("address").first.wait_for()
    assert "terminal" in opened.tab.locator("body").inner_text()
    opened.complaints = [text for text in opened.complaints if "401" not in text]
    opened.close()


@pytest.mark.parametrize("number", range(len(pages.GALLERY)))
def test_every_gallery_graph_opens_and_runs(studio: StudioPage, number: int) -> None:
    graph = pages.gallery()[number]
    studio.tab.get_by_role("button", name="Gallery").click()
    studio.tab.get_by_role("dialog").get_by_role("button", name=graph["title"]).click()
    assert studio.status().startswith("ran in")
    for block in graph["graph"]["blocks"]:
        if block["op"] not in ("Shape", "Sequence", "ShapeOf"):
            studio.heat(block["id"]).locator("img").wait_for()


@pytest.mark.parametrize("number", range(len(pages.GALLERY)))
def test_the_first_look_is_readable_and_no_wire_runs_behind_a_block(studio: StudioPage, number: int) -> None:
    """Labels of about 11 pixels at least (10.3 on the widest pages), nothing cut off or overlapping, all in sight."""
    studio.tab.get_by_role("button", name="Gallery").click()
    studio.tab.get_by_role("dialog").get_by_role("button", name=pages.gallery()[number]["title"]).click()
    studio.ran()
    studio.tab.wait_for_timeout(300)
    found = studio.tab.evaluate(FIRST_LOOK)
    print(f"{pages.GALLERY[number]}: smallest label {found['smallest']:.1f} px")
    assert found["bad"] == []
    assert found["smallest"] > (10.3 if pages.GALLERY[number] != "average-gradient-3d" else 11)


def test_390_pixels_step_through_a_graph(browser: Any, address: str) -> None:
    opened = StudioPage(browser, address, 390, 780).open()
    tab = opened.tab
    assert tab.get_by_role("navigation", name="Steps").inner_text().split("\n")[1] == "1 of 5"
    for _ in range(4):
        tab.get_by_role("button", name="Next", exact=True).click()
    assert "5 of 5" in tab.get_by_role("navigation", name="Steps").inner_text()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.violations() == []
    title = tab.locator(".reader h2").inner_text()
    tab.get_by_role("button", name="Gallery").click()
    tab.locator(".gallery button").nth(2).click()
    opened.ran()
    assert tab.locator(".reader h2").inner_text() != title
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.get_by_role("button", name="Undo").click()
    assert tab.locator(".reader h2").inner_text() == title
    opened.close()


def test_touch_taps_where_a_mouse_points(browser: Any, address: str) -> None:
    for touch, words in ((False, "Point at a cell"), (True, "Tap a cell")):
        opened = StudioPage(browser, address, 390, 780, touch=touch).open()
        assert opened.cell_text().startswith(words)
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_main_states(browser: Any, address: str, scheme: str) -> None:
    opened = StudioPage(browser, address, scheme=scheme).open()
    tab = opened.tab
    found = {"start": opened.violations()}
    opened.select("grad")
    found["inspector"] = opened.violations()
    opened.heat("grad").click(position={"x": 3, "y": 3})
    found["pinned"] = opened.violations()
    for button in ("Gallery", "Help and keys"):
        tab.get_by_role("button", name=button).click()
        found[button] = opened.violations()
        tab.keyboard.press("Escape")
    tab.get_by_role("button", name="Add block").first.click()
    found["palette"] = opened.violations()
    tab.keyboard.press("Escape")
    opened.menu("Export Python (poolgrad)")
    found["python"] = opened.violations()
    tab.keyboard.press("Escape")
    opened.load(
        average_gradient(g={"shape": "1,9,2,2,1"})
        | {"blocks": spread(average_gradient(g={"shape": "1,9,2,2,1"})["blocks"])}
    )
    found["problem"] = opened.violations()
    assert {state: list_ for state, list_ in found.items() if list_} == {}
    opened.close()
