"""The studio: a page on which pooling ops are wired as blocks and their gradients are seen.

Needs the extra ``poolgrad[studio]`` (Starlette and uvicorn). Start it with ``poolgrad studio``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["StudioError", "serve"]


class StudioError(RuntimeError):
    """The studio cannot start; the text says what is missing and what to do."""


def serve(
    page: str | Path | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    open_browser: bool = True,
    allow_host: Sequence[str] = (),
) -> None:
    """Serve the page until Ctrl-C.

    Parameters
    ----------
    page : path, optional
        A page saved from the studio, to open instead of the first gallery graph.
    host : str
        Address to listen on; anything but a loopback address prints a warning.
    port : int, optional
        Exactly this port; without it 7677, or the next free one with a notice.
    open_browser : bool
        Whether to open the address in a browser; it is printed in any case.
    allow_host : sequence of str
        Further ``Host`` names to answer to, for a tunnel: ``name`` or ``name:port``.

    Raises
    ------
    StudioError
        If the extra, the page's files or the port are not there, or ``page`` cannot be read.
    """
    try:
        from . import launch
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise StudioError(
            f"the studio needs {error.name}, which is not installed: "
            "pip install 'poolgrad[studio]', or in a clone pip install '.[studio]'"
        ) from None
    launch.serve(page, host, port, open_browser, allow_host)
