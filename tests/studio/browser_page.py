"""The studio in a real browser: a server of its own, Debian's chromium, and a page that notices every error."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CHROMIUM = os.environ.get("POOLGRAD_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
#: What the tab keeps: the time it was written, and the page as text on the lines below.
DRAFT = "localStorage.getItem('poolgrad-draft-' + sessionStorage.getItem('poolgrad-tab'))"
#: Of every test that needs a browser.
MARKS = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]
AXE = Path(__file__).parents[2] / "studio-web" / "node_modules" / "axe-core" / "axe.min.js"


@contextmanager
def served(call: str = "", before: str = "") -> Iterator[str]:
    """The address of a studio started with ``serve(call)``, after the statements ``before``."""
    program = (
        f"{before}\nfrom poolgrad.studio import serve\nserve({call}{', ' if call else ''}port=0, open_browser=False)"
    )
    process = subprocess.Popen([sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, "the studio did not start"
        yield found.group(0)
    finally:
        process.terminate()
        process.communicate(timeout=20)


class StudioPage:
    """A tab of the studio. ``close`` fails on any console error and on any request off the server's own address."""

    def __init__(
        self,
        browser: Any,
        address: str,
        width: int = 1280,
        height: int = 800,
        scheme: str = "light",
        motion: str = "reduce",
        touch: bool = False,
    ) -> None:
        self.address = address
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            accept_downloads=True,
            reduced_motion=motion,
            has_touch=touch,
            is_mobile=touch,
        )
        self.complaints: list[str] = []
        self.tab = self.new_tab()

    def new_tab(self) -> Any:
        """A tab in the same browser window: it shares what the browser keeps, and is watched like the first."""
        own = urlsplit(self.address).netloc
        tab = self.context.new_page()

        def on_request(request: Any) -> None:
            parts = urlsplit(request.url)
            if parts.scheme not in ("data", "blob") and parts.netloc != own:
                self.complaints.append(f"request off the server: {request.url}")

        def on_console(message: Any) -> None:
            if message.type in ("error", "warning"):
                self.complaints.append(f"console {message.type}: {message.text}")

        tab.on("request", on_request)
        tab.on("console", on_console)
        tab.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        return tab

    def open(self) -> StudioPage:
        self.tab.goto(self.address)
        self.ran()
        return self

    def close(self) -> None:
        self.context.close()
        assert self.complaints == []

    # ---- what is there ----

    def ran(self) -> None:
        """Wait until the page has an answer to its newest graph, and the blocks have settled."""
        self.tab.wait_for_selector("html[data-run='done']")
        self.tab.wait_for_timeout(500)
        self.tab.wait_for_selector("html[data-run='done']")

    def status(self) -> str:
        self.ran()
        return str(self.tab.locator(".run-status").inner_text())

    def graph(self) -> Any:
        """The page's graph, from the draft that this tab keeps."""
        self.tab.wait_for_timeout(450)
        self.tab.wait_for_selector("html:not([data-draft='pending'])")
        return json.loads(self.tab.evaluate(DRAFT).split("\n", 1)[1])

    def graph_title(self) -> str:
        return str(self.tab.locator(".toolbar-title").inner_text())

    def block(self, op: str) -> Any:
        """The newest block of ``op`` in the graph."""
        return [block for block in self.graph()["blocks"] if block["op"] == op][-1]

    def node(self, block: str) -> Any:
        return self.tab.locator(f".react-flow__node[data-id='{block}']")

    def heat(self, block: str) -> Any:
        return self.node(block).locator(".heat-cells").first

    def zoom(self) -> float:
        """How much smaller the canvas is drawn than its blocks are."""
        viewport = self.tab.locator(".react-flow__viewport")
        return float(viewport.evaluate("e => new DOMMatrix(getComputedStyle(e).transform).a"))

    def cell_text(self) -> str:
        return " ".join(self.tab.get_by_role("region", name="Chosen cell").inner_text().split())

    # ---- what a person does ----

    def menu(self, item: str) -> None:
        self.tab.get_by_role("button", name="File").click()
        self.tab.get_by_role("menuitem", name=item).click()

    def empty(self) -> None:
        self.menu("New page")
        self.tab.get_by_role("button", name="Start an empty page").click()

    def load(self, graph: Any) -> None:
        """Put a graph on the page by its text."""
        self.menu("Paste graph from text")
        self.tab.get_by_role("textbox", name="Graph as text").fill(json.dumps(graph))
        self.tab.get_by_role("button", name="Open this text").click()
        self.ran()

    def select(self, block: str) -> None:
        self.node(block).locator("header").click()

    def field(self, name: str) -> Any:
        return self.tab.get_by_label("Inspector").get_by_label(name, exact=True)

    def wire(self, source: tuple[str, str], target: tuple[str, str]) -> None:
        """Draw a wire with the mouse."""
        ends = []
        for block, pin in (source, target):
            box = self.node(block).locator(f".react-flow__handle[data-handleid='{pin}']").bounding_box()
            ends.append((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2))
        mouse = self.tab.mouse
        mouse.move(*ends[0])
        mouse.down()
        mouse.move((ends[0][0] + ends[1][0]) / 2, (ends[0][1] + ends[1][1]) / 2, steps=4)
        mouse.move(*ends[1], steps=4)
        mouse.up()

    def hover_cell(self, block: str, across: float, down: float) -> None:
        """Point into a block's heat-map, at fractions of its width and height."""
        box = self.heat(block).bounding_box()
        self.tab.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
        self.tab.wait_for_timeout(60)

    def tab_to(self, label: str) -> None:
        """Press Tab until the element labelled ``label`` has the focus."""
        names = []
        for _ in range(80):
            self.tab.keyboard.press("Tab")
            name = self.tab.evaluate(
                """() => { const e = document.activeElement; const l = e.labels?.[0]?.innerText ?? '';
                   return (e.getAttribute('aria-label') || l || e.innerText || '').trim().split('\\n')[0]; }"""
            )
            if name == label or name.startswith(label + " "):
                return
            names.append(name)
        raise AssertionError(f"Tab never reached {label!r}: {names}")

    def violations(self) -> list[str]:
        """What axe-core finds wrong with the page as it stands."""
        self.tab.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.tab.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        return [f"{v['id']}: {v['help']}: {[n['target'] for n in v['nodes']][:4]}" for v in found]


def downloaded(studio: StudioPage, act: Any) -> tuple[str, bytes]:
    """The name and the bytes of what the page saves when ``act`` is done."""
    with studio.tab.expect_download() as waiting:
        act()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()
