"""The families of a run as an SVG chart: time over the limit, ours and every peer's, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from .rows import Row, families

COLOURS = {
    "poolgrad": "#1b4f9c", "TF": "#e08214", "TF oneDNN": "#b35806", "torch last": "#c51b7d", "torch first": "#8e0152",
    "JAX": "#4d9221",
}  # fmt: skip
LEFT, RIGHT, TOP, STEP = 230, 30, 64, 34
WIDTH = 860


def chart(run: dict[str, Any], rows: Sequence[Row]) -> str:
    """One ``<svg>`` element; 1 on its axis is a kernel that only reads and writes the bytes of the op."""
    summary = families(rows)
    points = [{"poolgrad": family.of_limit, **family.others} for family in summary]
    largest = max((value for each in points for value in each.values()), default=1.0)
    smallest = min((value for each in points for value in each.values()), default=1.0)
    low, high = min(0, math.floor(math.log10(smallest))), max(1, math.ceil(math.log10(largest)))
    height = TOP + STEP * len(summary) + 40
    scale = (WIDTH - LEFT - RIGHT) / (high - low)

    def x(value: float) -> float:
        return LEFT + (math.log10(value) - low) * scale

    body = [f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>']
    body.append(_text(16, 22, "Time over the memory limit (geometric mean of each family; left is better)", bold=True))
    names = list(dict.fromkeys(name for each in points for name in each))
    for k, name in enumerate(names):
        place = 16 + 130 * k
        body.append(f'<circle cx="{place + 5}" cy="42" r="5" fill="{COLOURS[name]}"/>')
        body.append(_text(place + 16, 46, name))
    bottom = TOP + STEP * len(summary)
    for power in range(low, high + 1):
        at = x(10.0**power)
        colour, weight = ("#555", 2) if power == 0 else ("#ddd", 1)
        body.append(f'<path d="M{at:.1f} {TOP - 4}V{bottom}" stroke="{colour}" stroke-width="{weight}"/>')
        body.append(_text(at, bottom + 16, "limit" if power == 0 else f"{10.0**power:g}x", anchor="middle"))
    for k, (family, each) in enumerate(zip(summary, points, strict=True)):
        y = TOP + STEP * k + STEP / 2
        body.append(_text(LEFT - 12, y + 4, family.name, anchor="end"))
        span = [x(value) for value in each.values()]
        body.append(f'<path d="M{min(span):.1f} {y}H{max(span):.1f}" stroke="#bbb"/>')
        for name in reversed(each):  # ours is drawn last, on top
            body.append(
                f'<circle cx="{x(each[name]):.1f}" cy="{y}" r="{7 if name == "poolgrad" else 5}" '
                f'fill="{COLOURS[name]}"><title>{escape(name)}: {each[name]:.3g}x</title></circle>'
            )
    note = f"{run['cpu']}, {run['workers']} workers, {run['date'][:10]}"
    body.append(_text(16, height - 6, note, size=11))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif">{"".join(body)}</svg>\n'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 13, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'
