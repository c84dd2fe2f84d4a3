"""Starting and stopping the studio as a person does: address, port, notices, Ctrl-C, what is missing."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from page_graphs import average_gradient, page
from processes import gone

from poolgrad.studio import StudioError, launch, serve

BUNDLE = {"index.html": "<!doctype html><title>studio</title>", "app.js": "", "secret.py": "", ".hidden.js": ""}


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "web"
    folder.mkdir()
    for name, text in BUNDLE.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("POOLGRAD_STUDIO_WEB", str(folder))
    return folder


@contextmanager
def started(call: str, before: str = "") -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    # A signal that is ignored, as SIGHUP is below nohup, stays so in a child.
    program = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    program += f"{before}\nfrom poolgrad.studio import serve\nserve({call})"
    command = [sys.executable, "-u", "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    while "Ctrl-C" not in (lines[-1] if lines else ""):
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        lines.append(line)
    try:
        yield process, lines
    finally:
        process.kill()
        process.communicate()


def address(lines: list[str]) -> re.Match[str]:
    found = re.search(r"http://([^:/]+):(\d+)/#token=([A-Za-z0-9_-]{43})$", "".join(lines), re.MULTILINE)
    assert found
    return found


def children(process_id: int) -> list[str]:
    threads = Path(f"/proc/{process_id}/task").glob("*/children")
    return [child for thread in threads for child in thread.read_text().split()]


def ask(lines: list[str], path: str, body: object = None) -> Any:
    found = address(lines)
    data = None if body is None else json.dumps(body).encode()
    headers = {"X-Poolgrad-Token": found.group(3), "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{found.group(2)}{path}", data, headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def test_it_opens_a_page_file_and_stops_cleanly_on_ctrl_c(web: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(average_gradient()), encoding="utf-8")
    with started(f"{str(path)!r}, port=0, open_browser=False") as (process, lines):
        assert ask(lines, "/api/page")["name"] == "mine.json"
        assert ask(lines, "/api/run", {"graph": average_gradient()})["problems"] == []
        started_by_it = children(process.pid)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=10)
    assert process.returncode == 0
    assert output.endswith("poolgrad studio: stopped.\n")
    assert errors == ""
    assert len(started_by_it) == 1
    for child in started_by_it:
        assert not Path(f"/proc/{child}").exists()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_of_a_long_run_when_the_server_ends(web: Path, end: signal.Signals) -> None:
    odd = str(Path(__file__).with_name("odd_worker.py"))
    before = "import sys; from poolgrad.studio import runner\n"
    before += f"runner.Runner.__init__.__defaults__ = ((sys.executable, {odd!r}, 'sleep'), 60.0)"
    with started("port=0, open_browser=False", before) as (process, lines):
        found = address(lines)
        sizes = {"ksize": "1,2,2,1", "strides": "1,2,2,1"}
        slow = {f"slow{n}": ("AvgPoolGrad", sizes) for n in range(5)}
        wires = {f"slow{n}.grad": "g.tensor" for n in range(5)}
        wires |= {f"slow{n}.orig_input_shape": "shape.shape" for n in range(5)}
        inputs = {"g": ("Tensor", {"shape": "1,2,2,1"}), "shape": ("Shape", {"values": "1,4,4,1"})}
        body = json.dumps({"graph": page({**inputs, **slow}, wires)}).encode()
        with socket.create_connection(("127.0.0.1", int(found.group(2)))) as connection:
            head = (
                f"POST /api/run HTTP/1.1\r\nHost: 127.0.0.1:{found.group(2)}\r\nX-Poolgrad-Token: {found.group(3)}\r\n"
            )
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            time.sleep(1.5)
            (worker,) = children(process.pid)
            process.send_signal(end)
            start = time.monotonic()
            process.wait(timeout=10)
            assert gone(int(worker), 5)
            seconds = time.monotonic() - start
    assert seconds < 2.5
    assert process.returncode == (0 if end == signal.SIGINT else -end)


def test_ctrl_c_does_not_wait_for_a_csv_that_is_being_written(web: Path) -> None:
    with started("port=0, open_browser=False") as (process, lines):
        found = address(lines)
        sizes = {"shape": "1,1024,1024,1", "dtype": "float64", "fill": "random"}
        answer = ask(lines, "/api/run", {"graph": page({"x": ("Tensor", sizes)}, {})})
        tensor = answer["blocks"]["x"]["outputs"]["tensor"]["id"]
        with socket.create_connection(("127.0.0.1", int(found.group(2)))) as connection:
            head = f"GET /api/tensor/{tensor}.csv HTTP/1.1\r\nHost: 127.0.0.1:{found.group(2)}\r\n"
            connection.sendall(f"{head}X-Poolgrad-Token: {found.group(3)}\r\n\r\n".encode())
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            start = time.monotonic()
            output, errors = process.communicate(timeout=20)
    # One second is what an answer under way is given to end.
    assert time.monotonic() - start < 2
    assert process.returncode == 0
    assert output.endswith("poolgrad studio: stopped.\n")
    assert errors == ""


def test_the_default_port_and_the_next_free_one(web: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with launch.listen("127.0.0.1", 0) as taken:
        number = taken.getsockname()[1]
        monkeypatch.setattr(launch, "DEFAULT_PORT", number)
        with launch.listen("127.0.0.1", None) as other:
            assert number < other.getsockname()[1] < number + 50
        with pytest.raises(StudioError, match=f"cannot listen on 127.0.0.1 port {number}"):
            launch.listen("127.0.0.1", number)
    with pytest.raises(StudioError, match="between 0 and 65535"):
        launch.listen("127.0.0.1", 70000)


def test_a_taken_default_port_gives_a_notice(web: Path) -> None:
    with started("open_browser=False") as (_, first):
        default = address(first).group(2)
        assert default == str(
            launch.DEFAULT_PORT
        ) or f"Port {launch.DEFAULT_PORT} is taken; using {default}" in "".join(first)
        with started("open_browser=False") as (_, second):
            assert f"Port {launch.DEFAULT_PORT} is taken; using {address(second).group(2)}" in "".join(second)


def test_another_host_gives_a_warning(web: Path) -> None:
    with started("host='0.0.0.0', port=0, open_browser=False") as (process, lines):
        assert address(lines).group(1) == "127.0.0.1"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert errors.startswith("Warning: --host 0.0.0.0 lets other machines connect")


def test_the_token_is_not_on_the_browsers_command_line(web: Path, tmp_path: Path) -> None:
    seen = tmp_path / "opened"
    before = f"import webbrowser; webbrowser.open = lambda url: open({str(seen)!r}, 'w').write(url)\n"
    before += "from poolgrad.studio import launch; launch._has_display = lambda: True"
    with started("port=0", before) as (_, lines):
        found = address(lines)
        for _ in range(50):
            if seen.exists() and seen.read_text():
                break
            time.sleep(0.05)
        opened = re.fullmatch(rf"http://127.0.0.1:{found.group(2)}/#ticket=([A-Za-z0-9_-]{{43}})", seen.read_text())
        assert opened
        url = f"http://127.0.0.1:{found.group(2)}/api/"
        plain = {"Content-Type": "application/json"}
        body = json.dumps({"ticket": opened.group(1)}).encode()
        with urllib.request.urlopen(urllib.request.Request(url + "ticket", body, plain), timeout=20) as answer:
            token = json.load(answer)["token"]
        assert token != found.group(3)
        page_request = urllib.request.Request(url + "page", headers={"X-Poolgrad-Token": token})
        with urllib.request.urlopen(page_request, timeout=20) as answer:
            assert json.load(answer)["from"] == "gallery"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(urllib.request.Request(url + "ticket", body, plain), timeout=20)


def test_the_bundle_is_only_what_a_page_needs(web: Path) -> None:
    assert sorted(launch.bundle()) == ["app.js", "index.html"]


def test_without_the_page_it_says_so(web: Path) -> None:
    (web / "index.html").unlink()
    with pytest.raises(StudioError, match="has no studio page"):
        serve(open_browser=False)


def test_a_page_that_cannot_be_read(web: Path) -> None:
    with pytest.raises(StudioError, match="cannot read"):
        serve("none.json", open_browser=False)


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_the_extra_it_says_how_to_get_it(missing: str) -> None:
    program = f"""
import sys
sys.modules[{missing!r}] = None
from poolgrad.studio import StudioError, serve
try:
    serve(open_browser=False)
except StudioError as error:
    print(error)
"""
    environment = {**os.environ, "POOLGRAD_STUDIO_WEB": "/nowhere"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert "pip install 'poolgrad[studio]'" in done.stdout
    assert missing in done.stdout
