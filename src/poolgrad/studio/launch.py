"""Start the server: find a port, print and open the address, stop cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import re
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from . import StudioError, pages
from .runner import Runner
from .security import Guard, Ticket
from .server import TYPES, Studio, application

DEFAULT_PORT = 7677
#: How many ports after the default one are tried.
_NEXT_PORTS = 50
#: A browser that was not running may take a while to come up.
_TICKET_SECONDS = 120.0
_TAKEN = (errno.EADDRINUSE, errno.EACCES)


def bundle() -> Mapping[str, bytes]:
    """The page's files by name, read once: nothing on disk is looked up by a request's path."""
    folder = Path(os.environ.get("POOLGRAD_STUDIO_WEB") or Path(__file__).with_name("web"))
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    named = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]*\.({'|'.join(TYPES)})")
    found = {file.name: file.read_bytes() for file in files if file.is_file() and named.fullmatch(file.name)}
    if "index.html" not in found:
        raise StudioError(
            "this build of poolgrad has no studio page: it was built without Node.js or without access to the npm "
            "registry. Install from a wheel that has it, or build again with both; the library itself is complete"
        )
    return found


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket; the default port, else the next free one, or exactly ``port`` where one is given."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = [port] if port is not None else range(DEFAULT_PORT, DEFAULT_PORT + _NEXT_PORTS)
    for number in wanted:
        opened = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":  # Elsewhere it would let two servers share a port.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, number))
            opened.listen(128)
        except OSError as error:
            opened.close()
            if port is not None or error.errno not in _TAKEN:
                raise StudioError(f"cannot listen on {host} port {number}: {error.strerror}") from None
        except OverflowError:
            opened.close()
            raise StudioError(f"port {number} is not between 0 and 65535") from None
        else:
            return opened
    raise StudioError(f"no free port from {wanted[0]} to {wanted[-1]}; give one with --port")


def configuration(app: ASGIApp) -> uvicorn.Config:
    # h11 is strict: it refuses a request with two Host headers or two lengths before the guard sees it.
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )


class _Server(uvicorn.Server):
    """Prints the address once it answers, and ends a running kernel at the first Ctrl-C."""

    def __init__(self, config: uvicorn.Config, runner: Runner, address: str, opened: str | None) -> None:
        super().__init__(config)
        self._runner, self._address, self._opened = runner, address, opened

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(f"poolgrad studio: {self._address}\nStop it with Ctrl-C.", flush=True)
        threading.Thread(target=self._runner.warm, daemon=True).start()
        if self._opened is not None:
            threading.Thread(target=webbrowser.open, args=(self._opened,), daemon=True).start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._runner.close()
        # Answers under way have a second to end, then they are cut off: that is meant, and no error to print.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        super().handle_exit(sig, frame)


def serve(page: str | Path | None, host: str, port: int | None, open_browser: bool, allow_host: Sequence[str]) -> None:
    files, first = bundle(), _first(page)
    listening = listen(host, port)
    number = listening.getsockname()[1]
    if port is None and number != DEFAULT_PORT:
        print(f"Port {DEFAULT_PORT} is taken; using {number}. Drafts of another port are not seen here.")
    if not _is_loopback(host):
        print(
            f"Warning: --host {host} lets other machines connect. Whoever has the address below can run graphs "
            "here; the connection is not encrypted. Under another name than this one they need --allow-host NAME:PORT.",
            file=sys.stderr,
        )
    token = secrets.token_urlsafe(32)
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    runner = Runner()
    # Other users of this machine can read the command line of the browser that is opened, so the token is not in it.
    ticket = Ticket(_TICKET_SECONDS) if open_browser and _has_display() else None
    app = application(Studio(runner, first, files), Guard.of(token, host, number, allow_host, ticket))
    address = f"http://{shown}:{number}/#"
    opened = None if ticket is None else f"{address}ticket={ticket.code}"
    server = _Server(configuration(app), runner, f"{address}token={token}", opened)
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        try:
            server.run(sockets=[listening])
        finally:
            runner.close()
            listening.close()
    print("poolgrad studio: stopped.")


def _first(page: str | Path | None) -> pages.Page:
    try:
        return pages.first_page(page)
    except pages.PageError as error:
        raise StudioError(str(error)) from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _has_display() -> bool:
    """Without a display, `webbrowser` would start a text browser in the terminal that shows our own address."""
    if sys.platform.startswith("linux"):
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True
