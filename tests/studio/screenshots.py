"""Pictures of the studio's main states, for a person to look at: ``python tests/studio/screenshots.py OUT_DIR``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser_page import ARGUMENTS, CHROMIUM, StudioPage, downloaded, served
from page_graphs import average_gradient
from playwright.sync_api import sync_playwright

from poolgrad.studio import pages


def wrong_graph() -> Any:
    graph = average_gradient(
        shape={"values": "2,1,1,1,2"},
        g={"shape": "2,2,2,2,2"},
        grad={"ksize": "1,4,3,2,1", "strides": "1,4,3,2,1", "attrs": "data_format_ = NHWC;"},
    )
    places = {"shape": (0, 0), "g": (0, 140), "grad": (380, 0)}
    blocks = [{**block, "x": places[block["id"]][0], "y": places[block["id"]][1]} for block in graph["blocks"]]
    return graph | {"blocks": blocks}


def click_cell(studio: StudioPage, block: str, across: float = 0.3, down: float = 0.3) -> None:
    studio.hover_cell(block, across, down)
    box = studio.heat(block).bounding_box()
    studio.tab.mouse.click(box["x"] + across * box["width"], box["y"] + down * box["height"])


def pinned(name: str, block: str, across: float = 0.3, down: float = 0.3) -> Callable[[StudioPage], None]:
    def act(studio: StudioPage) -> None:
        studio.load(pages.read(name))
        click_cell(studio, block, across, down)

    return act


def opened(name: str) -> Callable[[StudioPage], None]:
    def act(studio: StudioPage) -> None:
        gallery(studio)
        studio.tab.get_by_role("dialog").get_by_role("button", name=pages.read(name)["title"]).click()
        studio.ran()

    return act


def inspector(studio: StudioPage) -> None:
    studio.select("grad")


def gallery(studio: StudioPage) -> None:
    studio.tab.get_by_role("button", name="Gallery").click()


def palette(studio: StudioPage) -> None:
    studio.tab.keyboard.press("/")
    studio.tab.keyboard.type("max")


def problem(studio: StudioPage) -> None:
    studio.load(wrong_graph())


def gradient_added(studio: StudioPage) -> None:
    studio.load(pages.read("fractional-graham"))
    studio.select("pool")
    studio.tab.keyboard.press("g")
    studio.ran()


def export(studio: StudioPage) -> None:
    studio.menu("Export Python (poolgrad)")


def helped(studio: StudioPage) -> None:
    studio.tab.get_by_role("button", name="Help and keys").click()


def empty(studio: StudioPage) -> None:
    studio.empty()


WIDE: dict[str, Callable[[StudioPage], None]] = {
    "start": lambda studio: None,
    "pinned-3d": lambda studio: click_cell(studio, "grad", 0.1, 0.12),
    "inspector": inspector,
    "gallery": gallery,
    "palette": palette,
    "problem": problem,
    "empty": empty,
    "help": helped,
    "export": export,
    "gradient-added": gradient_added,
    **{f"look-{name}": opened(name) for name in pages.GALLERY},
    "graph-same-edge-counts": pinned("same-edge-counts", "grad", 0.45, 0.45),
    "graph-overlap-adds-up": pinned("overlap-adds-up", "together", 0.36, 0.36),
    "graph-max-ties-and-nan": pinned("max-ties-and-nan", "pool", 0.7, 0.7),
    "graph-volume-3d": pinned("volume-3d", "pool", 0.4, 0.4),
    "graph-fractional-graham": pinned("fractional-graham", "pool", 0.5, 0.5),
    "graph-fractional-by-hand": pinned("fractional-by-hand", "average", 0.5, 0.5),
    "graph-second-order": pinned("second-order", "second", 0.5, 0.5),
    "graph-bfloat16-against-float32": pinned("bfloat16-against-float32", "pool16", 0.5, 0.5),
    "graph-channels-first": pinned("channels-first", "grad", 0.5, 0.5),
}
TABLET: dict[str, Callable[[StudioPage], None]] = {
    "start": lambda studio: None,
    "inspector": inspector,
    "problem": problem,
    **{f"look-{name}": opened(name) for name in pages.GALLERY},
}
NARROW: dict[str, Callable[[StudioPage], None]] = {
    "start": lambda studio: None,
    "step": lambda studio: (
        [studio.tab.get_by_role("button", name="Next", exact=True).click() for _ in range(4)] and None
    ),
    "gallery": gallery,
    **{f"look-{name}": opened(name) for name in pages.GALLERY},
}


SCREENS = ((1280, 800, WIDE), (1024, 768, TABLET), (768, 1024, TABLET), (390, 844, NARROW))


def save_pictures(studio: StudioPage, folder: Path, scheme: str) -> None:
    """What "Picture as PNG" gives: the whole graph."""
    for name in ("average-gradient-3d", "max-ties-and-nan", "volume-3d"):
        graph = pages.read(name)
        last = graph["blocks"][-1]
        graph["blocks"].append({"id": "view", "op": "Viewer", "x": last["x"] + 310, "y": last["y"], "properties": {}})
        graph["wires"].append({"from": [last["id"], "output"], "to": ["view", "tensor"]})
        studio.load(graph)
        _, data = downloaded(studio, lambda: studio.menu("Picture as PNG"))
        (folder / f"picture-{name}-{scheme}.png").write_bytes(data)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with served() as address, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for scheme in ("light", "dark"):
            studio = StudioPage(browser, address, scheme=scheme).open()
            save_pictures(studio, folder, scheme)
            studio.close()
            for width, height, states in SCREENS:
                for name, act in states.items():
                    studio = StudioPage(browser, address, width, height, scheme).open()
                    act(studio)
                    studio.tab.wait_for_timeout(300)
                    studio.tab.screenshot(path=folder / f"{name}-{width}-{scheme}.png")
                    studio.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
