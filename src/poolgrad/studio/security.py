"""Who may ask: exact Host list, own Origin, token in a header; headers that confine the page."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: The one request that needs no token: it brings a ticket instead.
TICKET_PATH = "/api/ticket"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Refusal(Exception):
    """An answer that is no: HTTP status, a code for the page, words for a person, and the number and limit."""

    def __init__(self, status: int, code: str, message: str, got: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.got, self.limit = status, code, got, limit


def refusal_response(refusal: Refusal, extra: dict[str, Any] | None = None) -> JSONResponse:
    error = {"code": refusal.code, "message": str(refusal), "got": refusal.got, "limit": refusal.limit}
    # The body may be unread, so the connection is not fit for another request.
    headers = {"Cache-Control": "no-store"} | ({"Connection": "close"} if refusal.status in (411, 413) else {})
    return JSONResponse({"error": error, **(extra or {})}, refusal.status, headers=headers)


class Ticket:
    """A code that is exchanged once, soon, for a token: others can read a browser's command line, which has only this.

    The browser always presents it. If somebody was faster, it is the second one, and the token given is taken back.
    """

    def __init__(self, seconds: float) -> None:
        self.code = secrets.token_urlsafe(32)
        self._deadline = time.monotonic() + seconds
        self._token: str | None = None
        self._spent = False
        self._lock = threading.Lock()

    def exchange(self, code: str) -> str:
        with self._lock:
            late = time.monotonic() > self._deadline
            if late or not hmac.compare_digest(code.encode(errors="replace"), self.code.encode()):
                raise Refusal(401, "ticket", "this is no address that the studio has just opened")
            if self._spent:
                self._token = None
                raise Refusal(401, "ticket", "this address was used before; open the one that the terminal printed")
            self._spent, self._token = True, secrets.token_urlsafe(32)
            return self._token

    def opens(self, token: str) -> bool:
        given = self._token
        return given is not None and hmac.compare_digest(token.encode(), given.encode())


@dataclass(frozen=True)
class Guard:
    """Hosts are exact ``name:port`` texts: a foreign name that resolves to this machine is refused (DNS rebinding)."""

    token: str
    hosts: frozenset[str]
    origins: frozenset[str] = field(default_factory=frozenset)
    ticket: Ticket | None = None

    @classmethod
    def of(
        cls, token: str, host: str, port: int, allow_host: Iterable[str] = (), ticket: Ticket | None = None
    ) -> Guard:
        names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host}
        own = {f"{name}:{port}" for name in names} | ({*names} if port == 80 else set())
        allowed = {name.lower() for name in allow_host}
        # A tunnel may end in https; on this machine the page is plain http.
        origins = {f"http://{name}" for name in own | allowed} | {f"https://{name}" for name in allowed}
        return cls(token, frozenset(own | allowed), frozenset(origins), ticket)

    def check(self, path: str, headers: Headers) -> None:
        """Raise `Refusal` unless the request is from this page or from someone who has the token."""
        host = headers.get("host", "").lower()
        if host not in self.hosts:
            raise Refusal(421, "host", "this Host is not on the list; a tunnel needs --allow-host NAME[:PORT]")
        if not path.startswith("/api/"):
            return
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self.origins:
            raise Refusal(403, "origin", "requests from other pages are refused")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise Refusal(403, "origin", "requests from other sites are refused")
        token = headers.get("x-poolgrad-token", "")
        known = hmac.compare_digest(token.encode(), self.token.encode())
        if path != TICKET_PATH and not known and not (self.ticket is not None and self.ticket.opens(token)):
            raise Refusal(401, "token", "open the address that the terminal printed; it carries the token")

    def around(self, app: ASGIApp) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return

            async def send_confined(message: Message) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message).update(HEADERS)
                await send(message)

            try:
                self.check(scope["path"], Headers(scope=scope))
            except Refusal as refusal:
                await refusal_response(refusal)(scope, receive, send_confined)
            else:
                await app(scope, receive, send_confined)

        return guarded
