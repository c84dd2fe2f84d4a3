"""A window table as a picture: SVG text without any dependency, small whatever the size of the table.

Everything is a panel of square cells. Cells of one colour are one path, so a heat-map costs as many elements as it has
colours, not as it has cells; windows are four paths, told apart where they overlap by colour and inset.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import _core
from .arrays import KINDS, as_array
from .errors import bad_type, value_error
from .window_table import WindowTable

__all__ = ["draw"]

MOST_CELLS = {1: 40, 2: 20, 3: 12}  # shown along an axis, by the number of axes
MOST_BARS = 24  # shown of an axis's windows
MOST_LANES = 8  # rows of bars where windows overlap
MOST_PLANES = 4  # depths of a 3-D array
MOST_NUMBERS = 40  # cells of a panel beyond which they are coloured only
LEVELS = 12  # colours on each side of a scale
COLOURS = ("#1b4f9c", "#b3501b", "#1d7a46", "#7b3294")
HEAT = ((255, 255, 255), (188, 190, 194), (84, 88, 94))  # grey, so that the coloured outlines stand out
DIVERGING = (  # the studio's: blue below 0, orange above
    (29, 79, 149), (79, 134, 201), (169, 200, 234), (246, 245, 241), (243, 193, 150), (221, 133, 67), (181, 90, 23),
)  # fmt: skip

Numbers = npt.NDArray[np.float64]


def draw(w: WindowTable, x: npt.ArrayLike | None = None, grad: npt.ArrayLike | None = None) -> str:
    """A picture of the windows, and on request of what is pooled and of a gradient, as SVG text.

    Every axis's windows are bars over its cells; two axes make the grid of their product, with each window outlined;
    a third is drawn beside it, and of a 3-D array a few planes. A large table is abbreviated to its beginning.

    Parameters
    ----------
    w : WindowTable
        The windows.
    x : array_like, optional
        What is pooled: of the table's input size (axes of length 1 do not count); of a 3-D table also one plane.
        Drawn as a heat-map, NaN hatched.
    grad : array_like, optional
        A gradient, of the table's input size or output size. Its colours diverge from 0: orange above, blue below.

    Returns
    -------
    str
        One ``<svg>`` element, of a few hundred elements at most.

    Raises
    ------
    ValueError
        If ``x`` or ``grad`` has another size.
    TypeError
        If ``w`` is not a WindowTable, or an array is not of real numbers.

    Examples
    --------
    >>> import numpy as np, poolgrad as pg
    >>> w = pg.sliding((4, 4), window=2)
    >>> picture = pg.draw(w, x=np.arange(16.0).reshape(4, 4), grad=np.ones((2, 2)))
    >>> picture.startswith("<svg ") and picture.endswith("</svg>")
    True
    """
    if not isinstance(w, WindowTable):
        raise bad_type("draw", "w", w, "is not a WindowTable; make one, e.g. poolgrad.sliding((4, 4), window=2)")
    planes = {}
    if x is not None:
        planes["x"] = _planes(w, "x", x, (w.input_size,))
    if grad is not None:
        planes["grad"] = _planes(w, "grad", grad, (w.input_size, w.output_size))

    most = MOST_CELLS[len(w.axes)]
    shown = tuple(min(size, most) for size in w.input_size)
    cell = (
        max(12, min(30, 520 // max(1, shown[-1]))) if len(shown) == 1 else max(10, min(30, 260 // max(1, *shown[-2:])))
    )
    row = [_panel("windows of axis 0", w.axes[:1], shown[:1], 14, bars=True)] if len(shown) == 3 else []
    if "x" in planes:
        row += _heat_panels("x", planes["x"], w, cell, bars=True)
    else:
        row.append(_panel("windows", w.axes[-2:], shown[-2:], cell, bars=True))
    rows = [row]
    if "grad" in planes:
        panels = _heat_panels("grad", planes["grad"], w, cell, bars=False)
        rows = [row + panels] if len(shown) == 2 else [row, panels]
    return _sheet(w, shown, rows)


# ---- what is shown --------------------------------------------------------------------------------------------


class _Planes(NamedTuple):
    """The beginning of an array: ``values[plane, row, column]``; ``of_input`` says which side's size it has."""

    values: Numbers
    of_input: bool
    deep: bool


class _Panel(NamedTuple):
    title: str
    width: float
    height: float
    body: list[str]


def _planes(w: WindowTable, name: str, given: npt.ArrayLike, sizes: tuple[tuple[int, ...], ...]) -> _Planes:
    array = as_array("draw", name, given)
    if array.dtype not in KINDS and array.dtype.kind not in "biuf":
        raise bad_type("draw", name, array.dtype.name, "cannot be drawn; give real numbers")
    for size in sizes:
        for wanted in (size, size[-2:]):
            if array.shape == wanted or (array.ndim > len(wanted) and _squeezed(array.shape) == _squeezed(wanted)):
                # Cut before converting: the array may be a memory-mapped volume.
                most = MOST_CELLS[len(w.axes)]
                cut = array.reshape(wanted)[tuple(slice(most) for _ in wanted)]
                deep = len(wanted) == 3
                cut = cut[:MOST_PLANES] if deep else cut.reshape((1,) * (3 - cut.ndim) + cut.shape)
                return _Planes(cut.astype(np.float64), size is sizes[0], deep)
    wanted_text = " or ".join(map(str, dict.fromkeys(sizes)))
    raise value_error(
        "draw",
        name,
        f" has shape {array.shape}; this WindowTable takes {wanted_text}",
        expected=wanted_text,
        got=array.shape,
    )


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


# ---- panels ---------------------------------------------------------------------------------------------------


def _heat_panels(name: str, planes: _Planes, w: WindowTable, cell: int, *, bars: bool) -> list[_Panel]:
    finite = planes.values[np.isfinite(planes.values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if name == "grad":
        high = max(abs(low), abs(high))
        low = -high
    panels = []
    for depth, plane in enumerate(planes.values):
        title = f"{name}[{depth}]" if planes.deep else name
        heat = _heat(plane, cell, low, high, DIVERGING if name == "grad" else HEAT)
        axes = w.axes[-2:] if planes.of_input else ()
        size = plane.shape[-len(w.axes[-2:]) :]
        panels.append(_panel(title, axes, size, cell, bars=bars and depth == 0, heat=heat))
    return panels


def _panel(
    title: str,
    axes: tuple[_core.Axis, ...],
    size: tuple[int, ...],
    cell: int,
    *,
    bars: bool,
    heat: list[str] | None = None,
) -> _Panel:
    """Cells of ``size`` (rows and columns, or columns), outlined windows of ``axes``, and bars at their edge."""
    rows, columns = (1, *size)[-2:]
    body = [_grid(rows, columns, cell), *(heat or [])]
    left = top = 0.0
    windows = [_shown_windows(axis, count) for axis, count in zip(axes, size, strict=False)]
    if len(windows) == 1:
        windows.insert(0, [(0, 1, 1)])
    if windows and (len(axes) == 2 or heat):
        body += _outlines(windows[0], windows[1], rows, columns, cell)
    if bars and windows:
        column_bars, top = _bars(windows[1], columns, cell, across=True)
        row_bars, left = _bars(windows[0], rows, cell, across=False) if len(axes) == 2 else ([], 0.0)
        body = [
            f'<g transform="translate({left:g} {top:g})">{"".join(body)}</g>',
            f'<g transform="translate({left:g} 0)">{"".join(column_bars)}</g>',
            f'<g transform="translate(0 {top:g})">{"".join(row_bars)}</g>',
        ]
    return _Panel(title, left + max(1, columns) * cell, top + max(1, rows) * cell, body)


def _shown_windows(axis: _core.Axis, count: int) -> list[tuple[int, int, int]]:
    """(start, stop, divisor) of the windows that begin within the first ``count`` inputs."""
    last = axis.cover(count - 1)[1] if count else 0
    return [tuple(row) for row in axis.windows(0, min(last, MOST_BARS)).tolist()]


def _grid(rows: int, columns: int, cell: int) -> str:
    across = "".join(f"M0 {row * cell}h{columns * cell}" for row in range(rows + 1))
    down = "".join(f"M{column * cell} 0v{rows * cell}" for column in range(columns + 1))
    return f'<path d="{across}{down}" fill="none" stroke="#b8bcc2" stroke-width="0.6"/>'


def _outlines(
    rows: list[tuple[int, int, int]], columns: list[tuple[int, int, int]], height: int, width: int, cell: int
) -> list[str]:
    paths = []
    for kind, colour in enumerate(COLOURS):
        inset = 1.5 + kind % 2 + kind // 2
        steps = []
        for top, bottom, _ in rows[kind // 2 :: 2]:
            for left, right, _ in columns[kind % 2 :: 2]:
                wide = (min(right, width) - left) * cell - 2 * inset
                high = (min(bottom, height) - top) * cell - 2 * inset
                steps.append(f"M{left * cell + inset:g} {top * cell + inset:g}h{wide:g}v{high:g}h{-wide:g}z")
        if steps:
            paths.append(f'<path d="{"".join(steps)}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
    return paths


def _bars(windows: list[tuple[int, int, int]], size: int, cell: int, *, across: bool) -> tuple[list[str], float]:
    """One bar for each window, in as many lanes as overlap takes, and the depth of all lanes in pixels."""
    ends: list[int] = []
    bars = []
    for i, (start, stop, divisor) in enumerate(windows):
        free = next((lane for lane, end in enumerate(ends) if end <= start), None)
        if free is None and len(ends) < MOST_LANES:
            free = len(ends)
            ends.append(0)
        lane = i % MOST_LANES if free is None else free
        ends[lane] = stop
        long = (min(stop, size) - start) * cell - 2
        place = (start * cell + 1, lane * 8, long, 6)
        x, y, width, height = place if across else (place[1], place[0], place[3], place[2])
        shape = f'x="{x}" y="{y}" width="{width}" height="{height}" rx="2"'
        colour = COLOURS[i % 2] if across else COLOURS[2 * (i % 2)]
        label = _escape(f"window {i}: {start}:{stop}, divisor {divisor}")
        bars.append(f'<rect {shape} fill="{colour}"><title>{label}</title></rect>')
    return bars, 8.0 * len(ends) + 3


def _heat(values: Numbers, cell: int, low: float, high: float, scale: tuple[tuple[int, int, int], ...]) -> list[str]:
    """Coloured cells, one path a colour; NaN hatched; the numbers themselves where they fit."""
    squares: dict[int, list[str]] = {}
    hatch = []
    texts = []
    for (row, column), value in np.ndenumerate(values):
        corner = f"M{column * cell} {row * cell}"
        if math.isnan(value):
            half = cell // 2
            hatch.append(f"{corner}l{cell} {cell}m{-half} {-cell}l{half} {half}m{-cell} 0l{half} {half}")
            continue
        level = _level(value, low, high)
        squares.setdefault(level, []).append(f"{corner}h{cell}v{cell}h{-cell}z")
        if values.size <= MOST_NUMBERS and cell >= 24:
            ink = "#fff" if _luminance(_colour(level, scale)) < 140 else "#1a1a1a"
            texts.append(_text((column + 0.5) * cell, (row + 0.5) * cell + 3, _short(value), 8, ink, "middle"))
    paths = []
    for level, steps in sorted(squares.items()):
        red, green, blue = _colour(level, scale)
        paths.append(f'<path d="{"".join(steps)}" fill="#{red:02x}{green:02x}{blue:02x}"/>')
    if hatch:
        paths.append(f'<path d="{"".join(hatch)}" fill="none" stroke="#555" stroke-width="1"><title>NaN</title></path>')
    return paths + texts


def _level(value: float, low: float, high: float) -> int:
    """0 to 2 * LEVELS; halves first, because high - low of the largest floats overflows."""
    if math.isinf(value):
        return 2 * LEVELS if value > 0 else 0
    if not high / 2 > low / 2:
        return LEVELS
    place = (min(max(value, low), high) / 2 - low / 2) / (high / 2 - low / 2)
    return round(place * 2 * LEVELS)


def _colour(level: int, scale: tuple[tuple[int, int, int], ...]) -> tuple[int, int, int]:
    place = level / (2 * LEVELS) * (len(scale) - 1)
    k = min(int(place), len(scale) - 2)
    red, green, blue = (round(a + (b - a) * (place - k)) for a, b in zip(scale[k], scale[k + 1], strict=True))
    return red, green, blue


def _luminance(colour: tuple[int, int, int]) -> float:
    return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]


def _short(value: float) -> str:
    texts = [f"{value:.{digits}g}" for digits in (3, 2, 1)]
    return next((text for text in texts if len(text) <= 5), texts[-1])


# ---- the sheet ------------------------------------------------------------------------------------------------


def _escape(words: str) -> str:
    """What `html.escape` does, whose import would cost more than this module."""
    for character, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        words = words.replace(character, f"&{name};")
    return words


def _text(x: float, y: float, words: str, size: int, colour: str = "#33373d", anchor: str = "start") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{_escape(words)}</text>'
    )


def _sheet(w: WindowTable, shown: tuple[int, ...], rows: list[list[_Panel]]) -> str:
    caption = [f"{w.input_size} \N{RIGHTWARDS ARROW} {w.output_size}"]
    for axis, (size, count) in enumerate(zip(w.input_size, shown, strict=True)):
        windows, all_windows = len(_shown_windows(w.axes[axis], count)), w.output_size[axis]
        if count < size or windows < all_windows:
            caption.append(f"axis {axis}: first {count} of {size} inputs, {windows} of {all_windows} windows")
    body: list[str] = []
    width, deep = 6.0 * max(map(len, caption)) + 24, 0.0
    for row in rows:
        place = 12.0
        for panel in row:
            body.append(_text(place, deep + 20, panel.title, 11))
            body.append(f'<g transform="translate({place:g} {deep + 28:g})">{"".join(panel.body)}</g>')
            place += max(panel.width, 7.0 * len(panel.title)) + 18
        width = max(width, place - 6)
        deep += 28 + max((panel.height for panel in row), default=0)
    body += [_text(12, deep + 18 + 14 * line, words, 10) for line, words in enumerate(caption)]
    height = deep + 26 + 14 * (len(caption) - 1)
    label = _escape(f"Windows of {w.input_size} to {w.output_size}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{label}" font-family="system-ui, sans-serif">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(body)}</svg>'
    )
