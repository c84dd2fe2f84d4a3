"""Pages to start from: the gallery, and a page file named on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from . import catalogue, limits
from .graph import GraphError, read_graph

#: Teaching order; the first is what a visitor sees first. A graph is listed once all its ops are in the op table.
GALLERY = (
    "average-gradient-3d",
    "same-edge-counts",
    "overlap-adds-up",
    "max-ties-and-nan",
    "volume-3d",
    "fractional-graham",
    "fractional-by-hand",
    "second-order",
    "bfloat16-against-float32",
    "channels-first",
)


class PageError(ValueError):
    """A page file that cannot be opened; says why."""


@dataclass(frozen=True)
class Page:
    name: str | None
    graph: Mapping[str, Any]
    origin: str


def read(name: str) -> dict[str, Any]:
    """One gallery graph by its id, listed or not."""
    text = resources.files(__package__).joinpath("gallery", f"{name}.json").read_text(encoding="utf-8")
    graph: dict[str, Any] = json.loads(text)
    return graph


@cache
def gallery() -> list[dict[str, Any]]:
    graphs = [(name, read(name)) for name in GALLERY]
    return [
        {"id": name, "title": graph["title"], "summary": graph["summary"], "graph": graph}
        for name, graph in graphs
        if all(block["op"] in catalogue.blocks() for block in graph["blocks"])
    ]


def first_page(path: str | Path | None) -> Page:
    """The page to open: the file at ``path``, or the gallery's first graph."""
    if path is None:
        return Page(None, gallery()[0]["graph"], "gallery")
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PageError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > limits.GRAPH_BYTES:
        raise PageError(f"{path} has {len(data)} bytes; the limit of a page is {limits.GRAPH_BYTES}")
    try:
        graph = json.loads(data)
        read_graph(graph)
        # What the server could not send: NaN or half a surrogate pair somewhere under 'ui'.
        json.dumps(graph, ensure_ascii=False, allow_nan=False).encode()
    except GraphError as error:
        raise PageError(f"{path} is not a page of the studio: {error}") from None
    except (ValueError, RecursionError) as error:
        raise PageError(f"{path} is not JSON: {str(error)[:200]}") from None
    return Page(path.name, graph, "file")
