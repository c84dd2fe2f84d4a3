"""The picture of a graph: everything that the page shows, at its true size, in the middle of the sheet."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from browser_page import MARKS, StudioPage, downloaded
from page_graphs import average_gradient

pytestmark = MARKS
SVG = "{http://www.w3.org/2000/svg}"

#: Blocks and heat-maps of the page as [id, x, y, width, height], in units of the canvas.
ON_THE_PAGE = """(selector) => {
    const frame = document.querySelector('.canvas').getBoundingClientRect();
    const m = new DOMMatrix(getComputedStyle(document.querySelector('.react-flow__viewport')).transform);
    return [...document.querySelectorAll('.react-flow__node')].flatMap((node) => {
        const b = (selector ? node.querySelector(selector) : node)?.getBoundingClientRect();
        return b ? [[node.dataset.id, (b.x - frame.x - m.e) / m.a, (b.y - frame.y - m.f) / m.a,
                     b.width / m.a, b.height / m.a]] : [];
    });
}"""


def graph_with_viewer() -> Any:
    graph = average_gradient()
    graph["blocks"].append({"id": "view", "op": "Viewer", "properties": {}, "label": "dx <large>"})
    graph["wires"].append({"from": ["grad", "output"], "to": ["view", "tensor"]})
    # Far from the corner of the canvas, so that a picture that begins there would be off its middle.
    places = {"shape": (900, -700), "g": (900, -560), "grad": (1240, -700), "view": (1560, -650)}
    for block in graph["blocks"]:
        block["x"], block["y"] = places[block["id"]]
    return graph


def numbers(element: ET.Element, *names: str) -> list[float]:
    return [float(element.attrib[name]) for name in names]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_shows_the_whole_graph_as_it_is(browser: Any, address: str, scheme: str) -> None:
    studio = StudioPage(browser, address, scheme=scheme).open()
    studio.load(graph_with_viewer())
    _, data = downloaded(studio, lambda: studio.menu("Picture as SVG"))
    root = ET.fromstring(data)
    blocks = {e.attrib["data-block"]: e for e in root.iter() if "data-block" in e.attrib}
    for name, *place in studio.tab.evaluate(ON_THE_PAGE, None):
        assert numbers(blocks.pop(name), "x", "y", "width", "height") == pytest.approx(place, abs=0.1), name
    assert not blocks
    seen = [numbers(e, "x", "y", "width", "height") for e in root.iter() if "data-block" in e.attrib]
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    margins = [min(b[0] for b in seen) - left, min(b[1] for b in seen) - top]
    margins += [left + width - max(b[0] + b[2] for b in seen), top + height - max(b[1] + b[3] for b in seen)]
    assert margins == pytest.approx([40] * 4, abs=0.1)
    # 8 x 6 x 4 cells of the gradient and of its Viewer, 2 x 2 x 2 of the gradient that comes in.
    assert sum("data-cell" in e.attrib for e in root.iter()) == 2 * 192 + 8
    assert sum("data-wire" in e.attrib for e in root.iter()) == 3
    assert sum("data-pin" in e.attrib for e in root.iter()) == 7
    texts = [e.text for e in root.iter(f"{SVG}text")]
    for words in ("AvgPool3DGrad", "dx <large>", "orig_input_shape", "1,4,3,2,1", "float32", "all 1", "D 7"):
        assert words in texts, words
    assert texts.count(".125") + texts.count("0.125") >= 64
    paper = root.find(f"{SVG}rect")
    assert paper is not None
    assert paper.attrib["fill"] == {"light": "#f4f5f7", "dark": "#13161b"}[scheme]
    studio.close()


def test_the_heat_maps_of_the_picture_lie_where_those_of_the_page_do(studio: StudioPage) -> None:
    studio.load(graph_with_viewer())
    _, data = downloaded(studio, lambda: studio.menu("Picture as SVG"))
    root = ET.fromstring(data)
    found = [e for e in root.iter(f"{SVG}g") if "transform" in e.attrib]
    places = [tuple(map(float, e.attrib["transform"][10:-1].split())) for e in found]
    expected = [(x, y) for _, x, y, *_ in studio.tab.evaluate(ON_THE_PAGE, ".heat-cells")]
    assert len(places) == 3
    for place, where in zip(sorted(places), sorted(expected), strict=True):
        assert place == pytest.approx(where, abs=0.1)


def test_a_picture_from_afar_has_its_small_text_and_a_pinned_cell_its_marks(studio: StudioPage) -> None:
    graph = graph_with_viewer()
    graph["blocks"][0]["x"] = -4000
    studio.load(graph)
    assert studio.tab.locator(".canvas-far").count() == 1
    studio.heat("view").click(position={"x": 3, "y": 20})
    _, data = downloaded(studio, lambda: studio.menu("Picture as SVG"))
    assert studio.tab.locator(".canvas-far").count() == 1
    root = ET.fromstring(data)
    assert "orig_input_shape" in [e.text for e in root.iter(f"{SVG}text")]
    assert all(e.attrib["href"].startswith("data:image/png") for e in root.iter(f"{SVG}image"))
    assert len(list(root.iter(f"{SVG}image"))) >= 2
    name, png = downloaded(studio, lambda: studio.menu("Picture as PNG"))
    assert (name, png[:4]) == ("test.png", b"\x89PNG")
