"""The studio's security table, each row a test, against a real server."""

from __future__ import annotations

import io
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_graphs import average_gradient, page

from poolgrad.studio import limits
from poolgrad.studio.security import Guard, Refusal, Ticket

RUN = {"graph": average_gradient()}
ENDPOINTS = [
    "/api/catalogue",
    "/api/gallery",
    "/api/page",
    "/api/tensor/abc",
    "/api/run",
    "/api/stop",
    "/api/export",
    "/api/upload",
]


def npy(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


# ---- token, Host, Origin --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("token", [None, "", "wrong", "token-of-the-test", "token-of-the-tests2", "t\u00f6ken"])
def test_no_endpoint_answers_without_the_token(client: Any, path: str, token: str | None) -> None:
    for method in ("GET", "POST"):
        answer = client.send(method, path, X_Poolgrad_Token=token)
        assert (answer.status, answer.code) == (401, "token")


def test_the_token_does_not_count_in_the_address(client: Any) -> None:
    answer = client.get("/api/page?token=token-of-the-tests", X_Poolgrad_Token=None)
    assert answer.status == 401


def test_a_ticket_is_exchanged_once_and_a_second_use_takes_the_token_back() -> None:
    ticket = Ticket(60)
    with pytest.raises(Refusal, match="no address"):
        ticket.exchange(ticket.code + "x")
    token = ticket.exchange(ticket.code)
    assert token != ticket.code
    assert ticket.opens(token)
    assert not ticket.opens(ticket.code)
    with pytest.raises(Refusal, match="used before"):
        ticket.exchange(ticket.code)
    assert not ticket.opens(token)


def test_a_late_ticket_is_refused_and_takes_nothing_back() -> None:
    ticket = Ticket(0.05)
    token = ticket.exchange(ticket.code)
    time.sleep(0.1)
    with pytest.raises(Refusal, match="no address"):
        ticket.exchange(ticket.code)
    assert ticket.opens(token)


@pytest.mark.parametrize("code", ["", "x", None, "\ud800"])
def test_a_server_that_opened_no_browser_takes_no_ticket(client: Any, code: str | None) -> None:
    answer = client.post("/api/ticket", {"ticket": code}, X_Poolgrad_Token=None)
    assert (answer.status, answer.code) == (401, "ticket")
    foreign = client.post("/api/ticket", {"ticket": code}, X_Poolgrad_Token=None, Origin="http://evil.example")
    assert (foreign.status, foreign.code) == (403, "origin")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "{port}", ""]
)
@pytest.mark.parametrize("path", ["/", "/app.js", "/api/page"])
def test_foreign_hosts_are_refused_even_for_the_page_itself(client: Any, host: str, path: str) -> None:
    answer = client.get(path, Host=host.format(port=client.port))
    assert (answer.status, answer.code) == (421, "host")


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}", "tunnel.example"]
)
def test_own_and_allowed_hosts_are_answered(client: Any, host: str) -> None:
    assert client.get("/api/page", Host=host.format(port=client.port)).status == 200


@pytest.mark.parametrize("hosts", [0, 2])
def test_no_host_or_two_never_reach_the_page(client: Any, hosts: int) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
        own = f"Host: 127.0.0.1:{client.port}\r\n" * hosts
        connection.sendall(f"GET / HTTP/1.1\r\n{own}Connection: close\r\n\r\n".encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1",
        "http://127.0.0.1:{port}.evil.example",
    ],
)
def test_foreign_and_null_origins_are_refused_with_the_right_token(client: Any, origin: str) -> None:
    answer = client.post("/api/run", RUN, Origin=origin.format(port=client.port))
    assert (answer.status, answer.code) == (403, "origin")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_are_refused_by_fetch_metadata(client: Any, site: str) -> None:
    answer = client.get("/api/page", Sec_Fetch_Site=site)
    assert (answer.status, answer.code) == (403, "origin")


@pytest.mark.parametrize("origin", ["http://127.0.0.1:{port}", "http://localhost:{port}", "https://tunnel.example"])
def test_own_origins_are_answered(client: Any, origin: str) -> None:
    answer = client.post("/api/run", RUN, Origin=origin.format(port=client.port), Sec_Fetch_Site="same-origin")
    assert answer.status == 200


def test_no_answer_invites_other_origins(client: Any) -> None:
    for answer in (
        client.get("/"),
        client.get("/api/page"),
        client.send("OPTIONS", "/api/run", Origin="http://evil.example"),
    ):
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_a_host_given_to_listen_on_is_on_the_list() -> None:
    assert "192.168.1.5:7000" in Guard.of("t", "192.168.1.5", 7000).hosts
    assert "[fe80::1]:7000" in Guard.of("t", "fe80::1", 7000).hosts
    assert Guard.of("t", "127.0.0.1", 7000, ["a.example:8443"]).origins >= {"https://a.example:8443"}


# ---- content type, sizes, methods -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/run", "/api/stop", "/api/export"])
@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"]
)
def test_json_endpoints_take_json_only(client: Any, path: str, kind: str | None) -> None:
    answer = client.post(path, {**RUN, "target": "poolgrad"}, Content_Type=kind)
    assert (answer.status, answer.code) == (415, "content_type")


def test_upload_takes_octets_only(client: Any) -> None:
    answer = client.upload(npy(np.ones(3)), Content_Type="text/plain")
    assert (answer.status, answer.code) == (415, "content_type")


@pytest.mark.parametrize(
    ("path", "kind", "limit"),
    [
        ("/api/run", "application/json", limits.GRAPH_BYTES),
        ("/api/upload", "application/octet-stream", limits.UPLOAD_BYTES),
    ],
)
def test_a_body_is_refused_by_its_announced_length_before_it_is_sent(
    client: Any, path: str, kind: str, limit: int
) -> None:
    answer = client.send("POST", path, None, Content_Type=kind, Content_Length=str(limit + 1))
    assert (answer.status, answer.code) == (413, "size")
    assert (answer.json["error"]["got"], answer.json["error"]["limit"]) == (limit + 1, limit)


def test_a_body_without_length_is_refused(client: Any) -> None:
    # The head alone: the server answers before any of the body is there.
    answer = client.send("POST", "/api/run", Content_Type="application/json", Transfer_Encoding="chunked")
    assert (answer.status, answer.code) == (411, "length")


@pytest.mark.parametrize(
    ("path", "kind"), [("/api/run", "application/json"), ("/api/upload", "application/octet-stream")]
)
def test_a_length_does_not_cover_for_a_body_in_chunks(client: Any, path: str, kind: str) -> None:
    chunk = b"2\r\n{}\r\n0\r\n\r\n"
    answer = client.send("POST", path, chunk, Content_Type=kind, Content_Length="2", Transfer_Encoding="chunked")
    assert (answer.status, answer.code) == (411, "length")


@pytest.mark.parametrize("place", ["property", "name", "pin", "title"])
def test_half_a_surrogate_pair_is_a_clear_refusal(client: Any, place: str) -> None:
    graph = average_gradient()
    if place == "property":
        graph["blocks"][0]["properties"]["values"] = "\ud800"
    elif place == "name":
        graph["blocks"][0]["properties"]["\ud800"] = "1"
    elif place == "pin":
        graph["wires"][0]["to"][1] = "\ud800"
    else:
        graph["title"] = "\ud800"
    for path in ("/api/run", "/api/export"):
        answer = client.post(path, {"graph": graph, "target": "poolgrad"})
        assert (answer.status, answer.code) == (400, "graph")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"graph": ' + b"9" * 5000 + b"}"])
def test_broken_json_is_a_clear_refusal(client: Any, body: bytes) -> None:
    answer = client.send("POST", "/api/run", body, Content_Type="application/json")
    assert answer.status == 400
    assert answer.code in ("json", "graph")


def test_limits_of_blocks_elements_and_wires(client: Any) -> None:
    many = page({f"x{n}": ("Shape", {}) for n in range(limits.BLOCKS + 1)}, {})
    assert [p["code"] for p in client.post("/api/run", {"graph": many}).json["problems"]] == ["blocks"]
    big = page({"x": ("Tensor", {"shape": "9999999999,9999999999"})}, {})
    assert [p["code"] for p in client.post("/api/run", {"graph": big}).json["problems"]] == ["elements"]
    wires = {f"v.p{n}": "x.tensor" for n in range(limits.WIRES + 1)}
    wired = page({"x": ("Tensor", {}), "v": ("Viewer", {})}, wires)
    answer = client.post("/api/run", {"graph": wired})
    assert (answer.status, answer.code) == (400, "graph")


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/"), ("PUT", "/api/run"), ("GET", "/api/run"), ("DELETE", "/api/tensor/x")]
)
def test_other_methods_are_refused(client: Any, method: str, path: str) -> None:
    answer = client.send(method, path)
    assert (answer.status, answer.code) == (405, "method")


# ---- files ----------------------------------------------------------------------------------------------------


def test_pickled_npy_is_never_loaded(client: Any, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "exploded",)

    answer = client.upload(npy(np.array([Bomb()], object), allow_pickle=True))
    assert (answer.status, answer.code) == (400, "npy")
    assert "pickled" in answer.json["error"]["message"]
    assert not (tmp_path / "exploded").exists()


def header_of(text: str) -> bytes:
    padded = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"", 400, "not a .npy"),
        (b"PK\x03\x04" + b"0" * 100, 400, "not a .npy"),
        (b"\x93NUMPY\x03\x00", 400, "not a .npy"),
        (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"), 413, "elements"),
        (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"), 400, "does not match"),
        (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 0), }"), 400, "does not match"),
        (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1), }") + b"0000", 413, "axes"),
        (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os'), }"), 400, "not a .npy"),
        (npy(np.ones(2, "complex64")), 400, "complex64"),
        (npy(np.zeros(2, [("a", "f4")])), 400, "dtype"),
        (npy(np.array(["text"])), 400, "dtype"),
        (npy(np.zeros(2, "V2")), 400, "bfloat16"),
        (header_of("{'descr': '|S0', 'fortran_order': False, 'shape': (3,), }"), 400, "dtype"),
        (header_of("{'descr': '|V0', 'fortran_order': False, 'shape': (0,), }"), 400, "dtype"),
        (header_of("{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1,), }") + b"0" * 8, 400, "dtype"),
        (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3,"), 400, "not a .npy"),
        (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1L,), }") + b"0000", 400, "save it again"),
        (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (True, True), }") + b"0000", 400, "not a .npy"),
        (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1" + "0" * 20 + "), }"), 400, "not a .npy"),
        (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1" + "0" * 18 + "), }"), 400, "empty"),
        (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 999999, 999999, 9999999), }"), 400, "empty"),
        (header_of("{'descr': '\\ud800', 'fortran_order': False, 'shape': (1,), }"), 400, "not a .npy"),
        (header_of("{'descr': [('a', '|V0')], 'fortran_order': False, 'shape': (1,), }"), 400, "dtype"),
    ],
)
def test_files_that_are_not_plain_numbers(client: Any, data: bytes, status: int, words: str) -> None:
    answer = client.upload(data)
    assert answer.status == status
    assert words in answer.json["error"]["message"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "..%2F..%2Fx.npy", "a%5Cb.npy", "a%00b", "x" * 300])
def test_path_like_names_are_refused(client: Any, name: str) -> None:
    answer = client.upload(npy(np.ones(2)), name=name)
    assert (answer.status, answer.code) == (400, "query")


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py", "/%2e%2e/server.py", "/..%2fserver.py", "//etc/passwd", "/etc/passwd", "/web/index.html",
        "/index.html/", "/server.py", "/api/tensor/..%2f..%2fx", "/api/file?path=/etc/passwd", "/api/", "/.git/config",
        "/index.html%00.js",
    ],
)  # fmt: skip
def test_there_is_no_way_to_the_file_system(client: Any, path: str) -> None:
    answer = client.get(path)
    assert answer.status == 404
    assert answer.code in ("path", "tensor")


# ---- what the page may do -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/page", "/nothing", "/api/nothing"])
def test_every_answer_confines_the_page(client: Any, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers


def test_refusals_confine_the_page_too(client: Any) -> None:
    assert "content-security-policy" in client.get("/", Host="evil.example").headers
    assert client.get("/api/page").headers["cache-control"] == "no-store"
