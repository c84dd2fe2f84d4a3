"""The studio in a real browser: large tensors, runs that fail, and two hundred blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from browser_page import MARKS, StudioPage, served
from page_graphs import page, spread

from poolgrad.studio import pages

pytestmark = MARKS


def test_a_tensor_of_four_mi_elements_shows(studio: StudioPage) -> None:
    studio.load(page({"x": ("Tensor", {"shape": "1,64,256,256,1", "fill": "counting"})}, {}))
    assert studio.status().startswith("ran in")
    studio.heat("x").locator("img").wait_for()
    slider = studio.node("x").get_by_role("slider").first
    slider.focus()
    slider.press("End")
    assert "63/63" in studio.node("x").inner_text()


def test_too_large_a_run_says_the_number_and_the_limit(studio: StudioPage) -> None:
    huge = {f"x{n}": ("Tensor", {"shape": "1,2048,2048,1", "dtype": "float64"}) for n in range(9)}
    graph = page(huge, {})
    studio.load(graph | {"blocks": spread(graph["blocks"])})
    text = studio.tab.locator("body").inner_text()
    assert "288.0 MiB" in text
    assert "256.0 MiB" in text


def test_a_killed_worker_is_told_at_its_block_and_nothing_is_lost(browser: Any) -> None:
    odd = str(Path(__file__).with_name("odd_worker.py"))
    before = "import sys; from poolgrad.studio import runner\n"
    before += f"runner.Runner.__init__.__defaults__ = ((sys.executable, {odd!r}, 'kill'), 10.0)"
    with served(before=before) as address:
        opened = StudioPage(browser, address).open()
        opened.load(pages.read("same-edge-counts"))
        assert opened.status().split("\n") == ["1 problem", "Run again"]
        assert "killed" in opened.node("grad").inner_text()
        assert len(opened.graph()["blocks"]) == 3
        opened.load(pages.read("max-ties-and-nan"))
        assert opened.status().startswith("ran in")
        opened.close()


def test_a_run_ends_when_its_page_is_loaded_again(browser: Any, tmp_path: Path) -> None:
    odd, told = str(Path(__file__).with_name("odd_worker.py")), tmp_path / "told"
    before = f"""
import sys; from poolgrad.studio import runner
runner.Runner.__init__.__defaults__ = ((sys.executable, {odd!r}, 'sleep'), 6.0)
stop = runner.Runner.stop
runner.Runner.stop = lambda self, tab='': (open({str(told)!r}, 'a').write(str(stop(self, tab))), True)[1]
"""
    with served(before=before) as address:
        opened = StudioPage(browser, address).open()
        opened.menu("Paste graph from text")
        opened.tab.get_by_role("textbox", name="Graph as text").fill(json.dumps(pages.read("same-edge-counts")))
        opened.tab.get_by_role("button", name="Open this text").click()
        opened.tab.wait_for_timeout(1000)
        opened.tab.reload()
        opened.tab.wait_for_timeout(500)
        assert told.read_text() == "True"
        opened.close()


def two_hundred() -> Any:
    """A hundred tensors, each wired to an average."""
    blocks = [
        {"id": f"t{n}", "op": "AvgPool" if n % 2 else "Tensor", "x": 300 * (n % 20), "y": 420 * (n // 20)}
        | {"properties": {} if n % 2 else {"fill": "counting"}}
        for n in range(200)
    ]
    wires = [{"from": [f"t{n - 1}", "tensor"], "to": [f"t{n}", "value"]} for n in range(1, 200, 2)]
    return {"version": 1, "title": "many", "summary": "", "blocks": blocks, "wires": wires}


def test_two_hundred_blocks_are_dragged_without_a_long_task(
    studio: StudioPage, browser: Any, record_property: Any
) -> None:
    """No task of the page's main thread takes more than 100 ms of processor time while blocks are dragged.

    A machine that shares its processors counts time that others took as the page's own: a drag that took too long is
    made again, there and back, and the best counts. Wall time, in which a busy machine stops tasks, is only told.
    """

    def drags(*places: tuple[int, int] | None) -> list[tuple[float, float]]:
        tasks = [drag(studio, browser, 1, places[0])]
        while min(own for own, _ in tasks) > 100 and len(tasks) < 9:
            tasks += [drag(studio, browser, -1, places[1]), drag(studio, browser, 1, places[0])]
        return tasks

    studio.load(two_hundred())
    studio.tab.wait_for_timeout(2000)
    found = {"one block": drags(None, None)}
    studio.tab.locator(".react-flow__pane").click(position={"x": 4, "y": 4})
    studio.tab.keyboard.press("Control+a")
    studio.tab.wait_for_timeout(300)
    found["all blocks"] = drags(None, None)
    found["all blocks, held at the edge"] = drags((960, 300), (300, 300))
    for name, tasks in found.items():
        each = ", ".join(f"{wall:.0f} ({own:.0f})" for own, wall in tasks)
        print(f"dragging {name}, of 200: longest task in ms of wall time (of processor time): {each}")
        record_property(f"longest task in ms, {name}", min(wall for _, wall in tasks))
    best = [min(own for own, _ in tasks) for tasks in found.values()]
    assert min(best) > 0  # something was measured
    assert max(best) <= 100
    moved = [block["x"] - 300 * (n % 20) for n, block in enumerate(studio.graph()["blocks"]) if n != 45]
    assert len(set(moved)) == 1
    assert moved[0] > 0


def drag(studio: StudioPage, browser: Any, direction: int, hold: tuple[int, int] | None = None) -> tuple[float, float]:
    """Drag a block through forty steps; the most processor time and the most wall time of one task, in milliseconds.

    ``hold`` is a place on the screen where it is held for a second before it is let go.
    """
    header = studio.node("t45").locator("header")
    box = header.bounding_box()
    mouse = studio.tab.mouse
    browser.start_tracing(page=studio.tab, categories=["disabled-by-default-devtools.timeline"])
    mouse.move(box["x"] + 8, box["y"] + box["height"] / 2)
    mouse.down()
    for step in range(1, 41):
        mouse.move(box["x"] + 8 + direction * 4 * step, box["y"] + direction * 3 * step)
    if hold is not None:
        mouse.move(*hold, steps=10)
        studio.tab.wait_for_timeout(1000)
    mouse.up()
    studio.tab.wait_for_timeout(500)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    assert abs(header.bounding_box()["x"] - box["x"]) > 100
    named = [e for e in events if e["name"] == "thread_name"]
    main = {(e["pid"], e["tid"]) for e in named if e["args"]["name"] == "CrRendererMain"}
    # A task that is under way when the tracing begins or ends has no processor time.
    tasks = [e for e in events if e["name"] == "RunTask" and "tdur" in e and (e["pid"], e["tid"]) in main]
    return max(task["tdur"] for task in tasks) / 1e3, max(task["dur"] for task in tasks) / 1e3
