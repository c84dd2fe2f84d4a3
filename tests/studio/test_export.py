"""Exported scripts run: with poolgrad the same bits as the studio shows, with tf.raw_ops the same values."""

from __future__ import annotations

import ast
import contextlib
import io
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from page_graphs import JSON, average_gradient, page

from poolgrad.studio import export, pages
from poolgrad.studio.graph import read_graph
from poolgrad.studio.runner import Runner


def executed(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(source, "exported.py", "exec"), names)
    results: dict[str, Any] = names["results"]
    return results


def shown(runner: Runner, graph: JSON, key: str) -> Any:
    """The tensor behind a key of ``results``: a block's name as the page shows it, and its output if it has several."""
    read = read_graph(graph)
    answer = runner.run(read)
    assert answer is not None
    for node in read.nodes.values():
        for output, found in answer["blocks"][node.id]["outputs"].items():
            name = export.shown_name(read, node)
            if key in (name, f"{name}.{output}") and "id" in found:
                return runner.tensors[found["id"]]
    raise AssertionError(key)


@pytest.mark.parametrize("name", pages.GALLERY)
def test_poolgrad_script_gives_the_same_bits(name: str, runner: Runner) -> None:
    graph = pages.read(name)
    results = executed(export.python_source(read_graph(graph), "poolgrad", {}))
    assert results
    for key, value in results.items():
        expected = shown(runner, graph, key)
        assert value.dtype == expected.dtype
        assert value.shape == expected.shape
        assert value.tobytes() == expected.tobytes()


@pytest.mark.framework
@pytest.mark.parametrize("name", pages.GALLERY)
def test_tensorflow_script_gives_the_same_values(name: str, runner: Runner) -> None:
    pytest.importorskip("tensorflow")
    graph = pages.read(name)
    source = export.python_source(read_graph(graph), "tensorflow", {})
    if name == "max-ties-and-nan":
        source = source.replace('float("nan")', "8.0")
        block = next(block for block in graph["blocks"] if block["id"] == "x")
        block["properties"]["values"] = block["properties"]["values"].replace("nan", "8")
    if "# TensorFlow refuses" in source:
        with pytest.raises(Exception, match="Pooling region has more elements"):
            executed(source)
        return
    try:
        results = executed(source)
    except Exception:
        # Without oneDNN TensorFlow refuses NCHW on a CPU, and the script says so.
        if "with oneDNN only" in source:
            return
        raise
    read = read_graph(graph)
    shifted = {export.shown_name(read, node) for node in read.nodes.values() if node.op == "AvgPool3D"}
    for key, value in results.items():
        expected = shown(runner, graph, key)
        assert np.asarray(value).dtype == expected.dtype
        if "shifts the windows" in source and key in shifted:
            continue
        # A difference of bfloat16 results is as coarse as they are.
        coarse = expected.dtype == ml_dtypes.bfloat16 or (key == "Difference" and "bfloat16" in source)
        tolerance = 2.0**-6 if coarse else 1e-5
        np.testing.assert_allclose(
            np.asarray(value).astype("float64"), expected.astype("float64"), rtol=tolerance, atol=tolerance
        )


def test_every_kind_of_source_and_awkward_names(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels are anyone's text; files, typed numbers, one-hot and integers come out as they are shown."""
    monkeypatch.chdir(tmp_path)
    array = np.arange(16, dtype="float32").reshape(1, 4, 4, 1).astype(ml_dtypes.bfloat16)
    np.save("it's.npy", array.view(np.uint16))
    runner.files.put("f1", array)
    fills = {
        "file": {"fill": "file", "file": "f1", "file_name": "it's.npy"},
        "values": {"fill": "values", "shape": "1,2,2,1", "values": "nan, -inf, 1e-3, -0.0"},
        "one": {"fill": "one-hot", "shape": "1,4,4,1", "dtype": "float64"},
        "whole": {"fill": "random", "shape": "1,4,4,1", "dtype": "uint8"},
        "wide": {"fill": "values", "shape": "1,1,2,1", "dtype": "int64", "values": "9223372036854775807,-3"},
    }
    blocks: dict[str, tuple[str, dict[str, str]]] = {name: ("Tensor", fill) for name, fill in fills.items()}
    blocks.update({f"p_{name}": ("MaxPool", {}) for name in fills})
    graph = page(blocks, {f"p_{name}.input": f"{name}.tensor" for name in fills})
    for block, label in zip(graph["blocks"], ["class", "np", 'quote "" # \n x', "2 x", "", "é", "name"], strict=False):
        block["label"] = label
    graph["title"] = '"""\nimport os  # '
    source = export.python_source(read_graph(graph), "poolgrad", runner.files)
    imported = {node.names[0].name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import)}
    assert imported == {"numpy", "ml_dtypes"}
    for key, value in executed(source).items():
        expected = shown(runner, graph, key)
        assert value.dtype == expected.dtype
        assert value.tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", export.TARGETS)
def test_a_part_of_a_file_is_the_same_part_in_the_script(
    target: str, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = np.arange(2 * 9 * 8, dtype="float32").reshape(2, 9, 8, 1).astype(ml_dtypes.bfloat16)
    np.save("lr=0.1.npy", whole.view(np.uint16))
    runner.files.put("part", whole[1:2, 2:6, 3:7])
    file = {"fill": "file", "file": "part", "file_name": "lr=0.1.npy", "crop": "1:2,2:6,3:7,0:1"}
    graph = page({"x": ("Tensor", file), "p": ("MaxPool", {})}, {"p.input": "x.tensor"})
    source = export.python_source(read_graph(graph), target, runner.files)
    assert "np.load('lr=0.1.npy').view(ml_dtypes.bfloat16)[1:2, 2:6, 3:7, 0:1]\n" in source
    assert "# A part of the file" in source
    if target == "poolgrad":
        assert executed(source)["MaxPool"].tobytes() == shown(runner, graph, "MaxPool").tobytes()


def test_a_part_of_another_shape_than_the_file_is_refused(runner: Runner) -> None:
    runner.files.put("part", np.zeros((1, 4, 4, 1), "float32"))
    for crop in ("0:1,0:4,0:4", "0:1,0:4,0:5,0:1", "1:0,0:4,0:4,0:1"):
        file = {"fill": "file", "file": "part", "file_name": "x.npy", "crop": crop}
        with pytest.raises(export.ExportError) as caught:
            export.python_source(read_graph(page({"x": ("Tensor", file)}, {})), "poolgrad", runner.files)
        (problem,) = caught.value.problems
        assert (problem.pin, problem.code) == ("crop", "property")
        assert "a slice of shape (1, 4, 4, 1)" in problem.message


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "uint64"])
def test_large_whole_numbers(dtype: str, runner: Runner) -> None:
    values = "18446744073709551615, 9223372036854775808, 9007199254740993, 7"
    if dtype != "uint64":
        values = values.replace("9007199254740993", "100000000000000000000000000000000000000")
    blocks = {"x": ("Tensor", {"fill": "values", "dtype": dtype, "shape": "4", "values": values})}
    graph = page(blocks, {})
    (value,) = executed(export.python_source(read_graph(graph), "poolgrad", {})).values()
    expected = shown(runner, graph, "Tensor")
    assert value.dtype == expected.dtype
    assert value.tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", export.TARGETS)
def test_the_shape_of_a_shape(target: str) -> None:
    blocks = {name: (name, {"values": "1,4,4,1"}) for name in ("Shape", "Sequence")}
    graph = page(
        {**blocks, "a": ("ShapeOf", {}), "b": ("ShapeOf", {}), "c": ("ShapeOf", {})},
        {"a.tensor": "Shape.shape", "b.tensor": "Sequence.sequence", "c.tensor": "a.shape"},
    )
    source = export.python_source(read_graph(graph), target, {}).replace("import tensorflow as tf", "")
    assert executed(source) == {"ShapeOf 2": [4], "ShapeOf 3": [1]}


def test_differences_and_shapes_follow(runner: Runner) -> None:
    graph = pages.read("bfloat16-against-float32")
    source = export.python_source(read_graph(graph), "poolgrad", {})
    assert 'difference = avg_pool.astype("float64") - avg_pool_2.astype("float64")' in source


def test_a_graph_with_problems_is_not_exported() -> None:
    with pytest.raises(export.ExportError) as caught:
        export.python_source(read_graph(average_gradient(g={"shape": "1,9,2,2,1"})), "poolgrad", {})
    assert [problem.code for problem in caught.value.problems] == ["shape"]


def comments(op: str, properties: dict[str, str], shape: str, **source: str) -> list[str]:
    pin = {"AvgPool": "value", "FractionalAvgPool": "value", "FractionalMaxPool": "value"}.get(op, "input")
    graph = page({"x": ("Tensor", {"shape": shape, **source}), "p": (op, properties)}, {f"p.{pin}": "x.tensor"})
    text = export.python_source(read_graph(graph), "tensorflow", {})
    return [line for line in text.splitlines() if line.startswith("# ")]


STEP = {"ksize": "1,1,2,2", "strides": "1,1,2,2", "data_format": "NCHW"}
GAPS = {"ksize": "1,1,1,1,1", "strides": "1,4,1,1,1", "padding": "SAME"}


@pytest.mark.parametrize(
    ("op", "properties", "shape", "source", "words"),
    [
        ("AvgPool", STEP, "1,4,4,4", {}, "runs NCHW with oneDNN only (TF_ENABLE_ONEDNN_OPTS=1)."),
        ("AvgPool", STEP, "1,4,4,4", {"dtype": "float64"}, "no CPU kernel for NCHW here"),
        ("MaxPoolV2", STEP, "1,4,4,4", {}, "no CPU kernel for NCHW here"),
        ("MaxPoolWithArgmax", STEP, "1,4,4,4", {}, "has no data_format: it reads these NCHW tensors as NHWC"),
        ("AvgPool3D", {}, "1,4,4,4,4", {"dtype": "float64"}, "no CPU kernel for float64"),
        ("AvgPool3D", GAPS, "1,8,1,1,1", {}, "shifts the windows of this call"),
        ("MaxPool3D", GAPS, "1,8,1,1,1", {}, "shifts the windows of this call"),
        ("MaxPool3D", GAPS, "1,6,1,1,1", {}, None),
        ("AvgPool3D", {**GAPS, "padding": "VALID"}, "1,8,1,1,1", {}, None),
        ("MaxPool", {}, "1,2,2,1", {"fill": "values", "values": "1,nan,2,3"}, "There is a NaN among the inputs"),
        ("AvgPool", {}, "1,2,2,1", {"fill": "values", "values": "1,nan,2,3"}, None),
        ("AvgPool", {}, "1,4,4,1", {"dtype": "bfloat16"}, "bfloat16 itself; poolgrad sums in float32"),
        ("AvgPool", {}, "1,4,4,1", {"dtype": "float16"}, "float16 itself; poolgrad sums in float32"),
        ("MaxPool", {}, "1,4,4,1", {"dtype": "float16"}, None),
        (
            "FractionalAvgPool",
            {"deterministic": "false", "seed": "0", "seed2": "0"},
            "1,4,4,1",
            {},
            "draws other sequences",
        ),
        ("MaxPool", {}, "1,4,4,1", {}, None),
    ],
)
def test_comments_where_tensorflow_differs(
    op: str, properties: dict[str, str], shape: str, source: dict[str, str], words: str | None
) -> None:
    found = comments(op, properties, shape, **source)
    assert found == [] if words is None else any(words in line for line in found)


def test_a_nan_is_noted_in_every_block_that_it_reaches() -> None:
    source = export.python_source(read_graph(pages.read("max-ties-and-nan")), "tensorflow", {})
    assert source.count("There is a NaN among the inputs") == 2
    assert "NaN" not in export.python_source(read_graph(pages.read("second-order")), "tensorflow", {})


def test_a_window_that_sticks_out_on_both_sides_is_noted() -> None:
    """n = 4, k = 5, s = 1: TensorFlow's own kernels give 0.75 where a quarter of 10/3 is right."""
    blocks = {
        "s": ("Shape", {"values": "1,4,1,1"}),
        "g": ("Tensor", {"shape": "1,4,1,1"}),
        "p": ("AvgPoolGrad", {"ksize": "1,5,1,1", "strides": "1,1,1,1", "padding": "SAME"}),
    }
    graph = page(blocks, {"p.orig_input_shape": "s.shape", "p.grad": "g.tensor"})
    note = "takes too long windows here"
    assert note in export.python_source(read_graph(graph), "tensorflow", {})
    graph["blocks"][2]["properties"]["ksize"] = "1,3,1,1"
    assert note not in export.python_source(read_graph(graph), "tensorflow", {})


def test_results_are_what_ops_give_and_what_ends_or_is_viewed_under_the_names_of_the_page() -> None:
    blocks = {
        "a": ("Tensor", {}),
        "b": ("Tensor", {}),
        "p": ("MaxPool", {}),
        "q": ("MaxPoolWithArgmax", {}),
        "d": ("Difference", {}),
        "s": ("Shape", {}),
        "v": ("Viewer", {}),
    }
    wires = {"p.input": "a.tensor", "q.input": "b.tensor", "d.a": "p.output", "d.b": "q.output", "v.tensor": "b.tensor"}
    graph = page(blocks, wires)
    graph["blocks"][2]["label"] = graph["blocks"][4]["label"] = "mine"
    for target in export.TARGETS:
        source = export.python_source(read_graph(graph), target, {})
        listed = ast.parse(source[source.index("results = ") :].split("\nfor ")[0]).body[0]
        assert isinstance(listed, ast.Assign)
        assert isinstance(listed.value, ast.Dict)
        keys = {ast.literal_eval(key) for key in listed.value.keys if key is not None}
        assert keys == {"Tensor 2", "mine", "mine 2", "MaxPoolWithArgmax.output", "MaxPoolWithArgmax.argmax", "Shape"}
    assert executed(export.python_source(read_graph(graph), "poolgrad", {}))["Shape"] == [1, 4, 4, 1]


def test_the_page_on_bfloat16_says_how_far_its_cells_differ() -> None:
    graph = pages.read("bfloat16-against-float32")
    results = executed(export.python_source(read_graph(graph), "poolgrad", {}))
    cells = np.abs(results["Difference"] / results["AvgPool 1"].astype("float64"))
    assert "under half a percent of most cells, up to 0.9 % of a few" in graph["summary"]
    assert (cells > 0.005).mean() < 0.2
    assert 0.008 < cells.max() < 0.009
