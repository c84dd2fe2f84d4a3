"""An array as a picture of a few lines in a terminal: colour if there is a terminal that takes it, else shades."""

from __future__ import annotations

import os
from typing import TextIO

from ..arrays import Array

__all__ = ["Screen"]

SHADES = " ░▒▓█"
ASCII = " .:+#"
ABOVE = (255, 223, 215, 208, 166)  # of the 256-colour palette: from white to orange, as `draw` has it
BELOW = (255, 153, 111, 69, 27)  # and to blue


class Screen:
    """What ``stream`` can show: colour, block characters, or ASCII."""

    def __init__(self, stream: TextIO) -> None:
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
        self.colour = stream.isatty() and not plain
        try:
            SHADES.encode(stream.encoding or "ascii")
            self.shades = SHADES
        except (UnicodeEncodeError, LookupError):
            self.shades = ASCII

    def picture(self, values: Array) -> list[str]:
        """One line a row, two characters a cell; magnitude as shade, the sign by colour (without it: ``-`` first)."""
        largest = float(abs(values).max()) or 1.0
        return ["".join(self._cell(float(value) / largest) for value in row) for row in values]

    def _cell(self, part: float) -> str:
        level = round(abs(part) * (len(self.shades) - 1))
        if self.colour:
            return f"\x1b[48;5;{(ABOVE if part >= 0 else BELOW)[level]}m  \x1b[0m"
        shade = self.shades[level]
        return f"-{shade}" if part < 0 and level else shade * 2
