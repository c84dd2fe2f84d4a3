"""A runner, a server on a port of its own and a plain HTTP client, shared by the studio's tests."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the studio's extra is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the studio's extra is not installed")

from browser_page import ARGUMENTS, CHROMIUM, StudioPage, served

from poolgrad.studio import launch, pages
from poolgrad.studio.graph import read_graph
from poolgrad.studio.runner import Runner
from poolgrad.studio.security import Guard
from poolgrad.studio.server import Studio, application

TOKEN = "token-of-the-tests"


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


@dataclass
class Client:
    """Sends exactly what it is told: ``None`` leaves a header out that it would send otherwise."""

    port: int

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str | None) -> Answer:
        usual = {"Host": f"127.0.0.1:{self.port}", "X-Poolgrad-Token": TOKEN}
        if body is not None:
            usual["Content-Length"] = str(len(body))
        usual.update({name.replace("_", "-"): value for name, value in headers.items()})  # type: ignore[misc]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in usual.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            with connection.getresponse() as response:
                return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.send("GET", path, **headers)

    def post(self, path: str, value: object, **headers: str | None) -> Answer:
        headers = {"Content_Type": "application/json", **headers}
        return self.send("POST", path, json.dumps(value).encode(), **headers)

    def upload(self, data: bytes, name: str = "x.npy", **headers: str | None) -> Answer:
        headers = {"Content_Type": "application/octet-stream", **headers}
        return self.send("POST", f"/api/upload?name={name}", data, **headers)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    made = Runner()
    yield made
    made.close()


@pytest.fixture
def run(runner: Runner) -> Any:
    """Run a page's JSON and get the answer's JSON."""
    return lambda graph: runner.run(read_graph(graph))


@pytest.fixture(scope="module")
def client(runner: Runner) -> Iterator[Client]:
    bundle = {"index.html": b"<!doctype html><title>page</title>", "app.js": b"", "app.css": b""}
    listening = launch.listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    guard = Guard.of(TOKEN, "127.0.0.1", port, ["tunnel.example"])
    app = application(Studio(runner, pages.first_page(None), bundle), guard)
    server = uvicorn.Server(launch.configuration(app))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Client(port)
    server.should_exit = True
    thread.join()
    listening.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with served() as found:
        yield found


@pytest.fixture
def studio(browser: Any, address: str) -> Iterator[StudioPage]:
    opened = StudioPage(browser, address).open()
    yield opened
    opened.close()
