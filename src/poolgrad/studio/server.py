"""The studio's HTTP server: the page, the catalogue, runs, tensors, uploads, exports. No file-system endpoint."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from . import catalogue, export, limits, pages, tensors
from .graph import Graph, GraphError, read_graph
from .runner import Runner
from .security import TICKET_PATH, Guard, Refusal, Ticket, refusal_response

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "map": "application/json",
    "woff2": "font/woff2",
    "png": "image/png",
}


class Studio:
    """The answers of the server; each method is one row of the routes below."""

    def __init__(self, runner: Runner, page: pages.Page, bundle: Mapping[str, bytes]) -> None:
        self.runner, self.page, self.bundle = runner, page, bundle
        # Tells one start of the server from another: the page takes a file of the command line once for each.
        self.start = secrets.token_hex(8)

    async def static(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in self.bundle:
            raise Refusal(404, "path", "there is no such page")
        return Response(
            self.bundle[name], media_type=TYPES[name.rsplit(".", 1)[1]], headers={"Cache-Control": "no-cache"}
        )

    async def catalogue(self, request: Request) -> Response:
        return _json(catalogue.as_json())

    async def gallery(self, request: Request) -> Response:
        return _json({"graphs": pages.gallery()})

    async def first_page(self, request: Request) -> Response:
        page = self.page
        return _json({"name": page.name, "graph": page.graph, "from": page.origin, "start": self.start})

    async def run(self, request: Request) -> Response:
        graph = _graph(await _json_body(request))
        answer = await run_in_threadpool(self.runner.run, graph, _tab(request))
        if answer is None:
            raise Refusal(503, "busy", f"{limits.WAITING_RUNS} runs are waiting already; try again")
        return _json(answer)

    async def stop(self, request: Request) -> Response:
        await _json_body(request)
        return _json({"stopped": self.runner.stop(_tab(request))})

    async def export(self, request: Request) -> Response:
        body = await _json_body(request)
        target = body.get("target")
        if target not in export.TARGETS:
            raise Refusal(400, "query", f"target must be one of {', '.join(export.TARGETS)}")
        graph = _graph(body)
        try:
            source = await run_in_threadpool(export.python_source, graph, target, self.runner.files)
        except export.ExportError as error:
            listed = [problem.as_json() for problem in error.problems]
            return refusal_response(Refusal(422, "problems", str(error)), {"problems": listed})
        return Response(source, media_type="text/plain; charset=utf-8")

    async def tensor(self, request: Request) -> Response:
        name, _, form = request.path_params["name"].partition(".")
        array = self.runner.tensors.get(name)
        if array is None or form not in ("", "npy", "csv"):
            raise Refusal(404, "tensor", "this tensor is no longer held; run the graph again")
        headers = {"X-Poolgrad-Dtype": array.dtype.name, "X-Poolgrad-Shape": ",".join(map(str, array.shape))}
        if form == "csv":
            if array.size > limits.CSV_ELEMENTS:
                raise Refusal(413, "size", "too many elements for CSV; take .npy", array.size, limits.CSV_ELEMENTS)
            return StreamingResponse(tensors.csv_parts(array), media_type="text/csv; charset=utf-8", headers=headers)
        if form == "npy" and array.dtype == tensors.BFLOAT16:
            headers["X-Poolgrad-Note"] = tensors.BFLOAT16_NOTE
        data = tensors.npy_bytes(array) if form == "npy" else tensors.raw_bytes(array)
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def upload(self, request: Request) -> Response:
        _content_type(request, "application/octet-stream")
        name = request.query_params.get("name", "array.npy")
        # The name is only ever shown and written into exported code as text; it never meets a file system here.
        if len(name) > 200 or any(mark in name for mark in "/\\\0\r\n"):
            raise Refusal(400, "query", "name must be a plain file name")
        data = await _body(request, limits.UPLOAD_BYTES)
        dtype = request.headers.get("x-poolgrad-dtype")
        try:
            array = await run_in_threadpool(tensors.read_npy, data, dtype, catalogue.dtypes())
        except tensors.FileError as error:
            status = 400 if error.limit is None else 413
            raise Refusal(status, "npy", str(error), error.got, error.limit) from None
        identity = hashlib.sha256(array.dtype.name.encode() + data).hexdigest()[:32]
        self.runner.files.put(identity, array)
        described = {"file": identity, "name": name, "shape": list(array.shape), "dtype": array.dtype.name}
        return _json({**described, "elements": array.size})


def application(studio: Studio, guard: Guard) -> Callable[..., Awaitable[None]]:
    """The ASGI application: Starlette's routes behind the guard, every refusal as JSON."""

    async def ticket(request: Request) -> Response:
        code = (await _json_body(request)).get("ticket")
        return _json({"token": (guard.ticket or Ticket(0)).exchange(str(code))})

    routes = [
        Route("/", studio.static),
        Route(TICKET_PATH, ticket, methods=["POST"]),
        Route("/api/catalogue", studio.catalogue),
        Route("/api/gallery", studio.gallery),
        Route("/api/page", studio.first_page),
        Route("/api/run", studio.run, methods=["POST"]),
        Route("/api/stop", studio.stop, methods=["POST"]),
        Route("/api/export", studio.export, methods=["POST"]),
        Route("/api/upload", studio.upload, methods=["POST"]),
        Route("/api/tensor/{name}", studio.tensor),
        Route("/{name}", studio.static),
    ]
    handlers = {Refusal: _on_refusal, HTTPException: _on_http, ClientDisconnect: _on_leave, Exception: _on_defect}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return guard.around(app)


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refusal_response(error)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: ("path", "there is no such page"), 405: ("method", "this path does not take that method")}
    code, message = words.get(error.status_code, ("http", error.detail))
    return refusal_response(Refusal(error.status_code, code, message))


async def _on_leave(request: Request, error: Exception) -> Response:
    return refusal_response(Refusal(400, "length", "the connection ended before the body did"))


async def _on_defect(request: Request, error: Exception) -> Response:
    words = "the studio met an error of its own; the terminal it was started in has the details"
    return refusal_response(Refusal(500, "internal", words))


def _tab(request: Request) -> str:
    """Which tab asks, so that its Stop ends its own run and not that of another tab."""
    return request.headers.get("x-poolgrad-tab", "")[:64]


def _json(value: object) -> JSONResponse:
    return JSONResponse(value, headers={"Cache-Control": "no-store"})


def _content_type(request: Request, wanted: str) -> None:
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != wanted:
        raise Refusal(415, "content_type", f"Content-Type must be {wanted}")


async def _body(request: Request, limit: int) -> bytes:
    """The body, refused by its announced length before a byte of it is read."""
    length = request.headers.get("content-length", "")
    # A body in chunks has no length that could be believed, whatever else the head announces.
    if not length.isdecimal() or "transfer-encoding" in request.headers:
        raise Refusal(411, "length", "Content-Length is missing, or the body is sent with a Transfer-Encoding")
    if int(length) > limit:
        raise Refusal(413, "size", f"the body has {length} bytes; the limit is {limit}", int(length), limit)
    return await request.body()


async def _json_body(request: Request) -> dict[str, Any]:
    _content_type(request, "application/json")
    data = await _body(request, limits.GRAPH_BYTES)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "json", f"the body is not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise Refusal(400, "json", "the body must be a JSON object")
    return value


def _graph(body: Mapping[str, Any]) -> Graph:
    try:
        return read_graph(body.get("graph"))
    except GraphError as error:
        raise Refusal(400, "graph", str(error)) from None
