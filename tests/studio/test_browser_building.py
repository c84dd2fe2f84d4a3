"""The studio in a real browser: building a graph, by mouse and by keyboard alone."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from browser_page import MARKS, StudioPage
from page_graphs import average_gradient, page, spread
from page_scripts import PLACES

from poolgrad import raw_ops
from poolgrad.studio import catalogue

pytestmark = MARKS


def check_the_example(studio: StudioPage) -> None:
    """The graph on the page is the documents' example, and the page shows the library's own result."""
    studio.ran()
    grad = studio.block("AvgPool3DGrad")
    viewer = studio.block("Viewer")["id"]
    assert studio.status().startswith("ran in")
    assert "(1, 8, 6, 4, 1) float32" in studio.node(viewer).inner_text()
    expected = raw_ops.AvgPool3DGrad(
        [1, 8, 6, 4, 1], np.ones((1, 2, 2, 2, 1), "float32"), [1, 2, 2, 2, 1], [1, 4, 3, 2, 1], "SAME"
    )
    assert expected[0, 0, 0, 0, 0] == 0.125
    assert grad["properties"]["padding"] == "SAME"


def test_a_graph_from_nothing_by_mouse(studio: StudioPage) -> None:
    tab = studio.tab
    studio.empty()
    places = {"Shape": (60, 110), "Tensor": (60, 330), "AvgPool3DGrad": (370, 110), "Viewer": (680, 110)}
    for name, place in places.items():
        tab.mouse.dblclick(*place)
        tab.get_by_role("combobox", name="Name of the block").fill(name)
        tab.get_by_role("option", name=re.compile(rf"^{name}\b")).first.click()
    ids = {name: studio.block(name)["id"] for name in places}
    studio.select(ids["Shape"])
    studio.field("values").fill("1,8,6,4,1")
    studio.select(ids["Tensor"])
    studio.field("shape").first.fill("1,2,2,2,1")
    studio.select(ids["AvgPool3DGrad"])
    studio.field("ksize").fill("1,2,2,2,1")
    studio.field("strides").fill("1,4,3,2,1")
    studio.field("padding").select_option("SAME")
    studio.wire((ids["Shape"], "shape"), (ids["AvgPool3DGrad"], "orig_input_shape"))
    studio.wire((ids["Tensor"], "tensor"), (ids["AvgPool3DGrad"], "grad"))
    studio.wire((ids["AvgPool3DGrad"], "output"), (ids["Viewer"], "tensor"))
    check_the_example(studio)
    viewer, canvas = (place.bounding_box() for place in (studio.node(ids["Viewer"]), tab.locator(".canvas")))
    assert viewer["width"] > 300
    assert viewer["x"] + viewer["width"] <= canvas["x"] + canvas["width"]
    studio.hover_cell(ids["Viewer"], 0.02, 0.06)
    assert "= 0.125" in studio.cell_text()


def test_a_graph_from_nothing_by_keyboard_alone(studio: StudioPage) -> None:
    keyboard = studio.tab.keyboard

    def add(name: str) -> None:
        keyboard.press("Escape")
        keyboard.press("/")
        keyboard.type(name)
        keyboard.press("Enter")
        studio.tab.wait_for_timeout(150)

    def put(label: str, text: str) -> None:
        studio.tab_to(label)
        keyboard.press("Control+A")
        keyboard.type(text)

    studio.tab_to("File")
    keyboard.press("Enter")
    keyboard.press("Enter")
    studio.tab_to("Start an empty page")
    keyboard.press("Enter")
    add("Shape")
    keyboard.press("e")
    keyboard.press("Control+A")
    keyboard.type("1,8,6,4,1")
    add("Tensor")
    keyboard.press("e")
    put("shape", "1,2,2,2,1")
    add("AvgPool3DGrad")
    keyboard.press("e")
    keyboard.press("Control+A")
    keyboard.type("1,2,2,2,1")
    put("strides", "1,4,3,2,1")
    studio.tab_to("orig_input_shape")
    keyboard.press("ArrowDown")
    studio.tab_to("grad")
    keyboard.press("ArrowDown")
    add("Viewer")
    keyboard.press("e")
    graph = studio.graph()
    if not any(wire["to"][1] == "tensor" for wire in graph["wires"]):
        # The field has the focus now; choose the gradient's output among what could feed it.
        for _ in range(3):
            keyboard.press("ArrowDown")
            source = next(wire["from"][1] for wire in studio.graph()["wires"] if wire["to"][1] == "tensor")
            if source == "output":
                break
    check_the_example(studio)
    viewer = studio.block("Viewer")["id"]
    for _ in range(60):
        keyboard.press("Tab")
        if studio.tab.evaluate("document.activeElement.closest('.react-flow__node')?.dataset.id") == viewer and (
            studio.tab.evaluate("document.activeElement.classList.contains('heat-cells')")
        ):
            break
    keyboard.press("Enter")
    assert "= 0.125" in studio.cell_text()
    keyboard.press("ArrowRight")
    assert "[0, 0, 0, 1, 0]" in studio.cell_text()


def test_a_wire_dropped_on_the_canvas_offers_what_fits(studio: StudioPage) -> None:
    studio.load(page({"s": ("Sequence", {})}, {}))
    box = studio.node("s").locator(".react-flow__handle").bounding_box()
    mouse = studio.tab.mouse
    mouse.move(box["x"] + 5, box["y"] + 5)
    mouse.down()
    mouse.move(700, 500, steps=5)
    mouse.up()
    names = studio.tab.get_by_role("option").locator(".offer-name").all_inner_texts()
    assert "FractionalAvgPoolGrad" in names
    assert "AvgPool" not in names
    studio.tab.get_by_role("option", name="FractionalAvgPoolGrad").click()
    assert studio.graph()["wires"][0]["to"][1] == "row_pooling_sequence"


def test_a_shape_dropped_from_a_volumes_pin_has_its_rank(studio: StudioPage) -> None:
    studio.load(page({"grad": ("AvgPool3DGrad", {})}, {}))
    tab = studio.tab
    for pin, name, prop in (("orig_input_shape", "Shape", "values"), ("grad", "Tensor", "shape")):
        box = studio.node("grad").locator(f".react-flow__handle[data-handleid='{pin}']").bounding_box()
        tab.mouse.move(box["x"] + 5, box["y"] + 5)
        tab.mouse.down()
        tab.mouse.move(box["x"] - 150, box["y"] + (100 if name == "Tensor" else -150), steps=5)
        tab.mouse.up()
        tab.get_by_role("option", name=re.compile(rf"^{name}\b")).first.click()
        assert studio.block(name)["properties"][prop] == "1,4,4,4,1"
    apart_and_in_sight(studio)


def apart_and_in_sight(studio: StudioPage) -> None:
    """No block lies on another, and the selected one is in sight."""
    assert studio.tab.evaluate(PLACES) == [[], True]


def test_new_blocks_come_into_sight_beside_each_other_on_a_small_canvas(browser: Any, address: str) -> None:
    studio = StudioPage(browser, address, 900, 560).open()
    studio.empty()
    for name in ("Shape", "Tensor", "AvgPoolGrad", "MaxPool", "Viewer"):
        studio.tab.keyboard.press("Escape")
        studio.tab.keyboard.press("/")
        studio.tab.keyboard.type(name)
        studio.tab.keyboard.press("Enter")
        studio.ran()
        apart_and_in_sight(studio)
    studio.close()


def test_an_impossible_wire_is_refused_with_the_reason(studio: StudioPage) -> None:
    studio.load(average_gradient() | {"wires": []} | {"blocks": spread(average_gradient()["blocks"])})
    studio.wire(("shape", "shape"), ("grad", "grad"))
    assert studio.tab.locator(".refusal").inner_text() != ""
    assert studio.graph()["wires"] == []


def test_the_wrong_graph_of_the_documents_is_mended_by_its_buttons(studio: StudioPage) -> None:
    wrong = average_gradient(
        shape={"values": "2,1,1,1,2"},
        g={"shape": "2,2,2,2,2"},
        grad={"ksize": "1,4,3,2,1", "strides": "1,4,3,2,1", "attrs": "data_format_ = NHWC;"},
    )
    studio.load(wrong | {"blocks": spread(wrong["blocks"])})
    assert studio.status() == "2 problems"
    text = studio.node("grad").inner_text()
    assert "(2, 1, 1, 1, 2)" in text
    assert "(2, 2, 2, 2, 2)" in text
    studio.node("grad").get_by_role("button", name="Set data_format to NDHWC").click()
    assert studio.status() == "1 problem"
    studio.node("grad").get_by_role("button", name="Set grad's shape to 2,1,1,1,2").click()
    assert studio.status().startswith("ran in")
    assert "(2, 1, 1, 1, 2) float32" in studio.node("grad").inner_text()


FORWARD = [
    b.name for b in catalogue.blocks().values() if b.gradient and len(b.pins) == 1 and b.pins[0].kind == "tensor"
]


@pytest.mark.parametrize("op", FORWARD)
def test_add_its_gradient(studio: StudioPage, op: str) -> None:
    block = catalogue.blocks()[op]
    shape = ",".join(["1", *["6"] * block.spatial, "2"])
    blocks = {"x": ("Tensor", {"shape": shape, "fill": "random"}), "pool": (op, {})}
    graph = page(blocks, {f"pool.{block.pins[0].name}": "x.tensor"})
    studio.load(graph | {"blocks": spread(graph["blocks"])})
    studio.select("pool")
    studio.tab.get_by_role("button", name="Add its gradient").click()
    assert studio.status().startswith("ran in")
    assert block.gradient is not None
    gradient = studio.block(block.gradient.op)
    expected = "(" + ", ".join(shape.split(",")) + ") float32"
    assert expected in studio.node(gradient["id"]).inner_text()


def test_a_block_deleted_while_it_is_dragged_leaves_the_canvas_free(studio: StudioPage) -> None:
    graph = page({"a": ("Tensor", {}), "b": ("Tensor", {})}, {})
    studio.load(graph | {"blocks": spread(graph["blocks"])})
    studio.select("a")
    mouse = studio.tab.mouse
    box = studio.node("a").locator("header").bounding_box()
    mouse.move(box["x"] + 8, box["y"] + 8)
    mouse.down()
    mouse.move(box["x"] + 40, box["y"] + 30, steps=5)
    assert studio.tab.locator(".canvas-dragging").count() == 1
    studio.tab.keyboard.press("Delete")
    mouse.move(box["x"] + 60, box["y"] + 50, steps=3)
    mouse.up()
    assert studio.tab.locator(".canvas-dragging").count() == 0
    assert [block["id"] for block in studio.graph()["blocks"]] == ["b"]
    box = studio.node("b").locator("header").bounding_box()
    mouse.move(box["x"] + 8, box["y"] + 8)
    mouse.down()
    mouse.move(box["x"] + 88, box["y"] + 58, steps=5)
    mouse.up()
    assert studio.block("Tensor")["x"] > 320
