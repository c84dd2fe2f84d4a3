"""Problems live on pins, say what was expected and got, and a fix leads to a right graph."""

from __future__ import annotations

from typing import Any

import pytest
from page_graphs import JSON, average_gradient, page, patched

from poolgrad.studio import limits
from poolgrad.studio.check import check
from poolgrad.studio.graph import GraphError, read_graph


def problems(graph: JSON) -> list[JSON]:
    return [problem.as_json() for problem in check(read_graph(graph), {}).problems]


def only(graph: JSON) -> JSON:
    found = problems(graph)
    assert len(found) == 1, found
    return found[0]


def mended(graph: JSON) -> JSON:
    """Press every fix button until none is left."""
    for _ in range(5):
        fixes = [problem["fix"] for problem in problems(graph) if problem["fix"]]
        if not fixes:
            return graph
        graph = patched(graph, fixes[0]["patch"])
    raise AssertionError("the fixes never end")


def test_a_right_graph_has_no_problems() -> None:
    assert problems(average_gradient()) == []


@pytest.mark.parametrize(
    "typed", [{"data_format": "data_format_ = NHWC;"}, {"data_format": "NHWC"}, {"attrs": "data_format_ = NHWC;"}]
)
def test_the_wrong_graph_of_the_documents_is_mended_by_its_buttons(typed: dict[str, str], run: Any) -> None:
    graph = average_gradient(
        shape={"values": "2,1,1,1,2"},
        g={"shape": "2,2,2,2,2"},
        grad={"ksize": "1,4,3,2,1", "strides": "1,4,3,2,1", "padding": "SAME", **typed},
    )
    layout, shape = problems(graph)
    assert (layout["node"], layout["pin"], layout["code"]) == ("grad", "data_format", "property")
    assert layout["message"] == "AvgPool3DGrad: data_format='NHWC' is for 4-D tensors; use 'NDHWC' or 'NCDHW'"
    assert layout["fix"]["label"] == "Set data_format to NDHWC"
    assert (shape["node"], shape["pin"], shape["code"]) == ("grad", "grad", "shape")
    assert (shape["expected"], shape["got"]) == ("(2, 1, 1, 1, 2)", "(2, 2, 2, 2, 2)")
    assert shape["fix"]["label"] == "Set grad's shape to 2,1,1,1,2"
    right = mended(graph)
    answer = run(right)
    assert answer["problems"] == []
    assert answer["blocks"]["grad"]["outputs"]["output"]["shape"] == [2, 1, 1, 1, 2]


def test_unwired_pins_wait_and_say_so() -> None:
    graph = average_gradient()
    graph["wires"] = []
    found = problems(graph)
    assert [(p["pin"], p["code"]) for p in found] == [("orig_input_shape", "unwired"), ("grad", "unwired")]


def test_a_tensor_on_a_shape_pin_is_wired_through_its_shape() -> None:
    graph = average_gradient()
    graph["blocks"].append({"id": "x", "op": "Tensor", "x": 0, "y": 0, "properties": {"shape": "1,8,6,4,1"}})
    graph["wires"][0] = {"from": ["x", "tensor"], "to": ["grad", "orig_input_shape"]}
    found = only(graph)
    assert (found["pin"], found["code"], found["expected"], found["got"]) == (
        "orig_input_shape",
        "kind",
        "shape",
        "tensor",
    )
    assert problems(mended(graph)) == []


def test_a_sequence_on_a_tensor_pin_is_refused() -> None:
    graph = average_gradient()
    graph["wires"][1] = {"from": ["shape", "shape"], "to": ["grad", "grad"]}
    found = only(graph)
    assert (found["pin"], found["code"], found["fix"]) == ("grad", "kind", None)


def test_dtype_mismatch_has_a_fix() -> None:
    graph = average_gradient(g={"dtype": "int32"})
    found = only(graph)
    assert (found["pin"], found["code"], found["got"]) == ("grad", "dtype", "int32")
    assert found["fix"]["label"] == "Set grad's dtype to float32"
    assert problems(mended(graph)) == []


def test_a_cycle_is_named_and_the_rest_still_runs() -> None:
    blocks = {
        "a": ("AvgPool", {}),
        "b": ("AvgPool", {}),
        "x": ("Tensor", {}),
        "c": ("AvgPool", {}),
        "after": ("Viewer", {}),
    }
    graph = page(
        blocks, {"a.value": "b.output", "b.value": "a.output", "c.value": "x.tensor", "after.tensor": "a.output"}
    )
    checked = check(read_graph(graph), {})
    assert sorted((p.node, p.code) for p in checked.problems) == [("a", "cycle"), ("b", "cycle")]
    assert {name: item.status for name, item in checked.blocks.items()} == {
        "a": "problem",
        "b": "problem",
        "x": "ok",
        "c": "ok",
        "after": "waiting",
    }


@pytest.mark.parametrize(
    ("changes", "pin", "code", "words"),
    [
        ({"grad": {"ksize": "1,2,x,2,1"}}, "ksize", "property", "whole numbers"),
        ({"grad": {"padding": "same"}}, "padding", "property", "SAME"),
        ({"grad": {"ksize": "1,2,2,1"}}, "ksize", "property", "5"),
        ({"grad": {"kszie": "1,2,2,2,1"}}, "kszie", "unknown_property", "no property 'kszie'"),
        ({"grad": {"attrs": "data_fromat_ = NDHWC;"}}, "attrs", "unknown_property", "no attribute 'data_fromat'"),
        ({"grad": {"attrs": "NDHWC"}}, "attrs", "property", "name_ = value"),
        ({"g": {"fill": "sevens"}}, "fill", "property", "ones"),
        ({"g": {"dtype": "complex64"}}, "dtype", "property", "float32"),
        ({"g": {"shape": "1,2,-2,2,1"}}, "shape", "property", "negative"),
        ({"g": {"fill": "values", "values": "1,2,3"}}, "values", "property", "8 numbers"),
        (
            {"g": {"fill": "values", "values": "1,2,3,4,5,6,7,1.5", "dtype": "int8"}},
            "values",
            "property",
            "whole numbers",
        ),
        ({"g": {"fill": "values", "values": "1,2,3,4,5,6,7,128", "dtype": "int8"}}, "values", "property", "127"),
        ({"g": {"fill": "one-hot", "position": "0,2,0,0,0"}}, "position", "property", "inside"),
        ({"g": {"fill": "random", "seed": "-1"}}, "seed", "property", "from 0"),
        ({"g": {"fill": "file", "file": "unheard-of"}}, "file", "file_missing", "choose it again"),
        ({"shape": {"values": "1,8,6,4,99999999999999999999"}}, "values", "property", "2**63"),
    ],
)
def test_every_property_says_what_is_wrong(changes: JSON, pin: str, code: str, words: str) -> None:
    found = only(average_gradient(**changes))
    assert (found["pin"], found["code"]) == (pin, code)
    assert words in found["message"]


def test_choices_in_another_case_are_mended() -> None:
    assert problems(mended(average_gradient(grad={"padding": "same"}))) == []


@pytest.mark.parametrize("typed", [{"seed": "7"}, {"seed": "0", "attrs": "seed2_ = 7; overlapping_ = true;"}])
def test_a_seed_without_deterministic_is_mended(typed: dict[str, str], run: Any) -> None:
    properties = {"deterministic": "false", "seed2": "0", **typed}
    graph = page({"x": ("Tensor", {}), "pool": ("FractionalMaxPool", properties)}, {"pool.value": "x.tensor"})
    problem = only(graph)
    assert (problem["node"], problem["pin"], problem["code"]) == ("pool", "seed", "property")
    assert problem["fix"]["label"] == "Set seed and seed2 to 0"
    right = mended(graph)
    assert run(right)["problems"] == []
    kept = right["blocks"][1]["properties"].get("attrs", "")
    assert kept == ("overlapping_ = true;" if "attrs" in typed else "")


def test_limits_are_problems_with_the_number_and_the_limit() -> None:
    found = only(page({"x": ("Tensor", {"shape": "1,4097,1024,1"})}, {}))
    assert found["code"] == "elements"
    assert "4,195,328 elements; the limit is 4,194,304" in found["message"]
    assert only(page({"x": ("Tensor", {"shape": "1,1,1,1,1,1,1"})}, {}))["code"] == "rank"
    huge = {f"x{n}": ("Tensor", {"shape": "1,2048,2048,1", "dtype": "float64"}) for n in range(9)}
    found = only(page(huge, {}))
    assert found["code"] == "run_too_large"
    assert "288.0 MiB" in found["message"]
    assert "256.0 MiB" in found["message"]
    many = page({f"x{n}": ("Shape", {}) for n in range(limits.BLOCKS + 1)}, {})
    assert "257 blocks; the limit is 256" in only(many)["message"]


def test_a_result_over_the_limit_is_refused_by_its_plan() -> None:
    graph = average_gradient(
        shape={"values": "1,4096,4096,4,1"}, grad={"strides": "1,4096,4096,4,1"}, g={"shape": "1,1,1,1,1"}
    )
    found = only(graph)
    assert (found["node"], found["code"]) == ("grad", "elements")


def test_a_shape_over_the_limit_or_of_another_rank_is_told_in_the_studios_words() -> None:
    found = only(average_gradient(shape={"values": "1,8000,6000,4000,1"}))
    assert (found["node"], found["pin"], found["code"]) == ("grad", "orig_input_shape", "elements")
    assert found["message"].endswith("would have 192,000,000,000 elements; the limit is 4,194,304")
    found = only(average_gradient(shape={"values": "1,8,6"}))
    assert found["got"] == "[1, 8, 6]"
    assert "orig_input_shape=[1, 8, 6] has 3 entries" in found["message"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version"),
        ({"blocks": None}, "graph.blocks must be a list"),
        ({"wires": [{"from": ["shape", "shape"], "to": ["nobody", "grad"]}]}, "'nobody'"),
        ({"wires": [{"from": ["shape", "shape"], "to": ["grad", "grad"]}] * 2}, "second wire"),
        ({"wires": [{"from": "shape", "to": ["grad", "grad"]}]}, r"\[block, pin\]"),
        ({"blocks": [{"id": "../etc", "op": "Shape"}]}, "letters, digits"),
        ({"blocks": [{"id": "a", "op": "Shape"}] * 2}, "used twice"),
        ({"blocks": [{"id": "a", "op": "Shape", "x": float("nan")}]}, "number"),
        ({"blocks": [{"id": "a", "op": "Shape", "x": 10**400}]}, "number"),
        ({"blocks": [{"id": "a", "op": "Shape", "properties": {"values": [1]}}]}, "must be a text"),
        ({"surprise": 1}, "unknown key 'surprise'"),
    ],
)
def test_what_is_no_graph_at_all(change: JSON, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        read_graph({**average_gradient(), **change})


def test_an_unknown_op_is_a_problem_of_its_block() -> None:
    found = only(page({"a": ("Convolution", {})}, {}))
    assert (found["node"], found["code"]) == ("a", "unknown_op")


def test_a_text_that_is_too_long_is_a_problem_of_its_property() -> None:
    found = only(average_gradient(g={"fill": "values", "values": "1 " * 150_000}))
    assert (found["node"], found["pin"], found["code"]) == ("g", "values", "property")
    assert "at most 200,000 characters" in found["message"]


def test_an_empty_shape_that_no_array_can_have() -> None:
    for shape in ("0,100000000000000000000", "0,4000000,4000000,4000000"):
        found = only(page({"x": ("Tensor", {"shape": shape})}, {}))
        assert (found["pin"], found["code"]) == ("shape", "elements")
        assert "beside its empty axis" in found["message"]


def test_a_choice_is_mended_beside_attributes_that_are_none() -> None:
    found = problems(page({"x": ("Tensor", {"fill": "Ones", "attrs": "NDHWC"})}, {}))
    assert {(problem["pin"], problem["code"]) for problem in found} >= {("fill", "property"), ("attrs", "property")}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"label": {"a": 1}}, "label must be a text"),
        ({"label": "x" * 1001}, "label has 1001 characters; the limit is 1000"),
        ({"label": "\ud800"}, "label has half of a surrogate pair"),
        ({"properties": {"values": "\udfff"}}, "properties.values has half"),
        ({"properties": {"\ud800": ""}}, "a name in graph.blocks.0..properties has half"),
        ({"op": "x" * 101}, "op has 101 characters"),
        ({"ui": []}, "ui must be an object"),
        ({"ui": {"scale": "zz"}}, "ui.scale must be sequential or diverging"),
        ({"ui": {"scale": ["sequential"]}}, "ui.scale must be sequential or diverging"),
        ({"ui": {"slices": 1}}, "ui.slices must be all or one"),
        ({"ui": {"output": {}}}, "ui.output must be a text"),
        ({"ui": {"index": "0"}}, "ui.index must be a list"),
        ({"ui": {"index": [0] * 7}}, "ui.index has 7 entries"),
        ({"ui": {"index": [0, -1]}}, "ui.index.1. must be a whole number"),
        ({"ui": {"index": [True]}}, "ui.index.0. must be a whole number"),
        ({"x": float("nan")}, "x must be a number"),
        ({"y": 1e300}, "y must be a number"),
        ({"y": True}, "y must be a number"),
    ],
)
def test_what_a_block_may_not_say(changes: dict[str, Any], words: str) -> None:
    graph = average_gradient()
    graph["blocks"][0].update(changes)
    with pytest.raises(GraphError, match=words):
        read_graph(graph)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": True}, "version"),
        ({"version": {"deep": []}}, "version is no number"),
        ({"title": "\ud800"}, "title has half"),
        ({"ui": 1}, "graph.ui must be an object"),
        ({"wires": [{"from": ["shape", "\ud800"], "to": ["grad", "grad"]}]}, "from.1. has half"),
        ({"wires": [{"from": ["shape", 1], "to": ["grad", "grad"]}]}, "from.1. must be a text"),
        ({"wires": [{"from": ["shape", "shape"], "to": ["grad", "grad"], "ui": 2}]}, "ui must be an object"),
    ],
)
def test_what_a_graph_may_not_say(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(GraphError, match=words):
        read_graph({**average_gradient(), **changes})


def test_what_the_page_keeps_under_ui_is_allowed() -> None:
    graph = average_gradient()
    graph["ui"] = {"zoom": 2}
    graph["blocks"][0]["ui"] = {"scale": "diverging", "slices": "one", "index": [0, 3], "output": "output", "new": {}}
    read_graph(graph)
