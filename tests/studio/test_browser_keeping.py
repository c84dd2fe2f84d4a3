"""The studio in a real browser: undo, drafts, files, pictures and exports."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from browser_page import MARKS, StudioPage, downloaded, served
from page_graphs import average_gradient, page, spread
from page_scripts import AGE_FILES, KEPT_FILES

from poolgrad.studio import pages

pytestmark = MARKS


def test_undo_redo_copy_paste_and_a_draft_that_survives(studio: StudioPage) -> None:
    keyboard = studio.tab.keyboard
    start = pages.read("average-gradient-3d")
    studio.select("g")
    studio.field("fill").select_option("counting")
    studio.ran()
    assert studio.block("Tensor")["properties"]["fill"] == "counting"
    keyboard.press("Escape")
    keyboard.press("Control+z")
    assert studio.block("Tensor")["properties"]["fill"] == "ones"
    keyboard.press("Control+Shift+z")
    assert studio.block("Tensor")["properties"]["fill"] == "counting"
    studio.select("g")
    keyboard.press("Control+d")
    assert len(studio.graph()["blocks"]) == len(start["blocks"]) + 1
    keyboard.press("Delete")
    assert len(studio.graph()["blocks"]) == len(start["blocks"])
    studio.tab.reload()
    studio.ran()
    assert studio.block("Tensor")["properties"]["fill"] == "counting"


def test_save_and_open_a_page(studio: StudioPage) -> None:
    studio.load(pages.read("second-order"))
    name, data = downloaded(studio, lambda: studio.menu("Save page"))
    assert name == "second-order.json"
    studio.empty()
    with studio.tab.expect_file_chooser() as waiting:
        studio.menu("Open page")
    waiting.value.set_files([{"name": name, "mimeType": "application/json", "buffer": data}])
    assert studio.status().startswith("ran in")
    assert [block["op"] for block in studio.graph()["blocks"]] == [
        b["op"] for b in pages.read("second-order")["blocks"]
    ]


def test_a_page_named_on_the_command_line_wins_over_the_draft(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**average_gradient(), "title": "My own page"}), encoding="utf-8")
    with served(repr(str(path))) as address:
        opened = StudioPage(browser, address).open()
        assert "My own page" in opened.tab.locator("header.toolbar").inner_text()
        opened.close()


def test_export_to_python_runs_and_gives_what_is_shown(studio: StudioPage) -> None:
    studio.load(pages.read("average-gradient-3d"))
    studio.menu("Export Python (poolgrad)")
    source = studio.tab.get_by_role("dialog").locator("pre.code").inner_text()
    names: dict[str, Any] = {}
    exec(compile(source, "exported.py", "exec"), names)
    assert names["results"]["AvgPool3DGrad"].shape == (1, 8, 6, 4, 1)


def test_npy_in_and_out(studio: StudioPage) -> None:
    array = np.arange(16, dtype="float32").reshape(1, 4, 4, 1)
    stream = io.BytesIO()
    np.save(stream, array)
    graph = page({"x": ("Tensor", {"fill": "file"}), "pool": ("AvgPool", {})}, {"pool.value": "x.tensor"})
    studio.load(graph | {"blocks": spread(graph["blocks"])})
    studio.select("x")
    with studio.tab.expect_file_chooser() as waiting:
        studio.tab.get_by_role("button", name="Open a .npy file").click()
    waiting.value.set_files([{"name": "mine.npy", "mimeType": "application/octet-stream", "buffer": stream.getvalue()}])
    studio.tab.wait_for_timeout(400)
    dialog = studio.tab.get_by_role("dialog")
    if dialog.count():
        dialog.get_by_role("button", name="Open").first.click()
    assert studio.status().startswith("ran in")
    studio.select("pool")
    _, data = downloaded(studio, lambda: studio.tab.get_by_role("button", name="Save output as .npy").click())
    assert np.load(io.BytesIO(data)).ravel().tolist() == [2.5, 4.5, 10.5, 12.5]
    _, text = downloaded(studio, lambda: studio.tab.get_by_role("button", name="Save output as CSV").click())
    assert text.decode().splitlines()[1] == "0,0,0,0,2.5"


def test_of_a_file_over_the_limit_a_part_is_opened(studio: StudioPage) -> None:
    array = (np.arange(2100 * 2100) % 1000).astype("float16").reshape(1, 2100, 2100, 1)
    stream = io.BytesIO()
    np.save(stream, array)
    studio.load(page({"x": ("Tensor", {"fill": "file"})}, {}))
    studio.select("x")
    with studio.tab.expect_file_chooser() as waiting:
        studio.tab.get_by_role("button", name="Open a .npy file").click()
    waiting.value.set_files([{"name": "l.npy", "mimeType": "application/octet-stream", "buffer": stream.getvalue()}])
    dialog = studio.tab.get_by_role("dialog")
    assert "4,410,000 elements; a tensor here has at most 4,194,304" in dialog.inner_text()
    for label, value in (("axis 1 from", "7"), ("axis 1 to", "9"), ("axis 2 from", "2090"), ("axis 2 to", "2093")):
        dialog.get_by_label(label).fill(value)
    dialog.get_by_role("button", name="Open this part").click()
    assert studio.status().startswith("ran in")
    _, data = downloaded(studio, lambda: studio.tab.get_by_role("button", name="Save tensor as .npy").click())
    assert np.array_equal(np.load(io.BytesIO(data)), array[:, 7:9, 2090:2093])
    assert studio.block("Tensor")["properties"]["crop"] == "0:1,7:9,2090:2093,0:1"
    assert "l.npy [0:1,7:9,2090:2093,0:1]" in studio.tab.get_by_label("Inspector").inner_text()


def test_a_web_page_that_needs_no_server(studio: StudioPage, browser: Any, tmp_path: Path) -> None:
    _, html = downloaded(studio, lambda: studio.menu("Save as web page"))
    path = tmp_path / "saved.html"
    path.write_bytes(html)
    saved = StudioPage(browser, f"file://{path}")
    saved.tab.goto(saved.address)
    saved.heat("grad").locator("img").wait_for()
    saved.hover_cell("grad", 0.05, 0.1)
    assert "= 0.125" in saved.cell_text()
    assert saved.tab.get_by_role("button", name="Add block").count() == 0
    saved.close()


def test_each_tab_keeps_its_own_draft(studio: StudioPage) -> None:
    first = studio.tab
    studio.load(page({"a": ("Shape", {"values": "1,2"})}, {}) | {"title": "first"})
    studio.graph()
    second = studio.tab = studio.new_tab()
    studio.open()
    assert studio.graph_title() == "first"
    studio.load(page({"b": ("Shape", {"values": "3,4"})}, {}) | {"title": "second"})
    assert studio.graph()["title"] == "second"
    for tab, title in ((first, "first"), (second, "second")):
        studio.tab = tab
        tab.reload()
        studio.ran()
        assert studio.graph_title() == title
    first.get_by_role("button", name="Gallery").click()
    assert first.get_by_role("dialog").locator(".drafts li").all_inner_texts()[0].startswith("second\n1 block,")
    first.get_by_role("dialog").get_by_role("button", name="second", exact=True).click()
    assert first.locator(".toolbar-title").inner_text() == "second"


def test_a_duplicated_tab_takes_a_draft_of_its_own(studio: StudioPage) -> None:
    first = studio.tab
    studio.load(page({"a": ("Shape", {})}, {}) | {"title": "first"})
    studio.graph()
    second = studio.new_tab()
    # What a browser does when it duplicates a tab: the new one has the first one's session storage.
    session = first.evaluate("JSON.stringify(sessionStorage)")
    second.add_init_script(f"if (!sessionStorage.length) Object.assign(sessionStorage, {session})")
    studio.tab = second
    second.goto(studio.address.split("#")[0])
    studio.load(page({"b": ("Shape", {})}, {}) | {"title": "second"})
    assert studio.graph()["title"] == "second"
    studio.tab = first
    assert studio.graph()["title"] == "first"


def test_an_opened_file_leaves_the_browser_with_its_last_draft(studio: StudioPage) -> None:
    stream = io.BytesIO()
    np.save(stream, np.ones((1, 2, 2, 1), "float32"))
    studio.load(page({"x": ("Tensor", {"fill": "file"})}, {}))
    studio.select("x")
    with studio.tab.expect_file_chooser() as waiting:
        studio.tab.get_by_role("button", name="Open a .npy file").click()
    waiting.value.set_files([{"name": "m.npy", "mimeType": "application/octet-stream", "buffer": stream.getvalue()}])
    studio.ran()
    studio.graph()
    studio.tab.evaluate(AGE_FILES)
    studio.tab.reload()
    studio.ran()
    assert studio.tab.evaluate(KEPT_FILES) == 1
    studio.load(page({"s": ("Shape", {})}, {}))
    studio.graph()
    studio.tab.reload()
    studio.ran()
    assert studio.tab.evaluate(KEPT_FILES) == 0
