"""What the page asks of the server besides being refused: runs, tensors, files, exports."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from page_graphs import average_gradient, page

from poolgrad.studio import limits, pages
from poolgrad.studio.graph import read_graph


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def shown(client: Any, properties: dict[str, str]) -> Any:
    """The description of a Tensor block's result."""
    answer = client.post("/api/run", {"graph": page({"x": ("Tensor", properties)}, {})}).json
    assert answer["problems"] == []
    return answer["blocks"]["x"]["outputs"]["tensor"]


def test_the_page_and_its_files(client: Any) -> None:
    assert client.get("/", X_Poolgrad_Token=None).headers["content-type"] == "text/html; charset=utf-8"
    assert client.get("/app.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/favicon.ico").status == 404


def test_catalogue_gallery_and_first_page(client: Any) -> None:
    catalogue = client.get("/api/catalogue").json
    assert catalogue["limits"]["elements"] == limits.ELEMENTS
    assert {"Tensor", "Viewer", "AvgPool3DGrad"} <= {block["name"] for block in catalogue["blocks"]}
    graphs = client.get("/api/gallery").json["graphs"]
    assert len(graphs) == 10
    first = client.get("/api/page").json
    assert re.fullmatch("[0-9a-f]{16}", first.pop("start"))
    assert first == {"name": None, "graph": graphs[0]["graph"], "from": "gallery"}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint16", "int64"])
def test_tensors_travel_as_raw_little_endian_bytes(client: Any, dtype: str) -> None:
    told = shown(client, {"shape": "2,3", "fill": "counting", "dtype": dtype})
    answer = client.get(f"/api/tensor/{told['id']}")
    assert answer.headers["x-poolgrad-dtype"] == dtype
    assert answer.headers["x-poolgrad-shape"] == "2,3"
    stored = np.frombuffer(answer.body, np.dtype(dtype).newbyteorder("<"))
    assert stored.astype(float).tolist() == [0, 1, 2, 3, 4, 5]


def test_npy_out_and_in_again(client: Any) -> None:
    told = shown(client, {"shape": "2,3", "fill": "random", "dtype": "bfloat16"})
    answer = client.get(f"/api/tensor/{told['id']}.npy")
    assert "ml_dtypes.bfloat16" in answer.headers["x-poolgrad-note"]
    loaded = np.load(io.BytesIO(answer.body)).view(ml_dtypes.bfloat16)
    sent = client.upload(answer.body, X_Poolgrad_Dtype="bfloat16").json
    assert (sent["shape"], sent["dtype"], sent["elements"], sent["name"]) == ([2, 3], "bfloat16", 6, "x.npy")
    again = shown(client, {"fill": "file", "file": sent["file"], "file_name": "x.npy"})
    assert client.get(f"/api/tensor/{again['id']}").body == loaded.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=">f8").reshape(3, 4),
        np.asfortranarray(np.arange(12, dtype="f4").reshape(3, 4)),
        np.float32(3),
        np.zeros((0, 3), "i8"),
    ],
)
def test_uploads_of_every_order(client: Any, array: Any) -> None:
    sent = client.upload(npy(array))
    assert sent.status == 200
    told = shown(client, {"fill": "file", "file": sent.json["file"]})
    assert told["shape"] == list(np.shape(array))
    body = client.get(f"/api/tensor/{told['id']}").body
    assert body == np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()


def test_the_same_file_has_the_same_id_and_a_dtype_another(client: Any) -> None:
    data = npy(np.ones(4, "uint16"))
    first, again = client.upload(data).json["file"], client.upload(data).json["file"]
    assert first == again
    assert client.upload(data, X_Poolgrad_Dtype="bfloat16").json["file"] != first


def test_an_upload_over_the_element_limit_says_number_and_limit(client: Any) -> None:
    answer = client.upload(npy(np.zeros(limits.ELEMENTS + 1, "int8")))
    assert answer.status == 413
    assert (answer.json["error"]["got"], answer.json["error"]["limit"]) == (limits.ELEMENTS + 1, limits.ELEMENTS)


def test_csv_reads_back_exactly(client: Any) -> None:
    told = shown(client, {"shape": "2,2", "fill": "values", "values": "nan,-inf,0.1,3", "dtype": "float32"})
    text = client.get(f"/api/tensor/{told['id']}.csv").body.decode()
    assert text == "axis0,axis1,value\n0,0,nan\n0,1,-inf\n1,0,0.1\n1,1,3.0\n"
    big = shown(client, {"shape": "1025,1024"})
    answer = client.get(f"/api/tensor/{big['id']}.csv")
    assert (answer.status, answer.json["error"]["limit"]) == (413, limits.CSV_ELEMENTS)


def test_a_run_and_its_export(client: Any) -> None:
    answer = client.post("/api/run", {"graph": average_gradient()})
    assert answer.json["blocks"]["grad"]["status"] == "ok"
    source = client.post("/api/export", {"graph": average_gradient(), "target": "poolgrad"})
    assert source.headers["content-type"].startswith("text/plain")
    assert b"raw_ops.AvgPool3DGrad(" in source.body
    assert client.post("/api/export", {"graph": average_gradient(), "target": "cobol"}).code == "query"
    wrong = client.post("/api/export", {"graph": average_gradient(g={"shape": "1"}), "target": "tensorflow"})
    assert (wrong.status, wrong.code) == (422, "problems")
    assert wrong.json["problems"][0]["node"] == "grad"


def test_answers_are_strict_json_even_with_nan_and_infinities(client: Any) -> None:
    graph = page({"x": ("Tensor", {"shape": "3", "fill": "values", "values": "nan,inf,-inf"})}, {})
    body = client.post("/api/run", {"graph": graph}).body.decode()
    json.loads(body, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def test_stop_without_a_run(client: Any) -> None:
    assert client.post("/api/stop", {}).json == {"stopped": False}


@pytest.mark.parametrize("name", pages.GALLERY)
def test_gallery_graphs_are_pages_that_a_file_can_hold(name: str, tmp_path: Any) -> None:
    path = tmp_path / "page.json"
    path.write_text(json.dumps(pages.read(name)), encoding="utf-8")
    opened = pages.first_page(path)
    assert (opened.name, opened.origin) == ("page.json", "file")
    assert read_graph(opened.graph).title == pages.read(name)["title"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("{}", "version"),
        ("x" * (limits.GRAPH_BYTES + 1), "limit"),
        ('{"version": 1, "blocks": [{"id": "a", "op": "Viewer", "ui": {"scale": "zz"}}], "wires": []}', "ui.scale"),
        ('{"version": 1, "blocks": [{"id": "a", "op": "Viewer", "label": {"a": 1}}], "wires": []}', "label"),
        ('{"version": 1, "blocks": [], "wires": [], "ui": {"zoom": NaN}}', "is not JSON"),
        ('{"version": 1, "blocks": [], "wires": [], "ui": {"zoom": "\\ud800"}}', "is not JSON"),
    ],
)
def test_page_files_that_cannot_be_opened(text: str, words: str, tmp_path: Any) -> None:
    path = tmp_path / "page.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(pages.PageError, match=words):
        pages.first_page(path)
    with pytest.raises(pages.PageError, match="cannot read"):
        pages.first_page(tmp_path / "none.json")
