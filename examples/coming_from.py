"""Pairs of calls: a framework's on the left, poolgrad's on the right.

docs/coming-from.md is made from this list, and the tests run every pair. Here, the pairs of the frameworks that are
installed are run and compared: python examples/coming_from.py
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import poolgrad as pg
from poolgrad import presets, raw_ops


@dataclass(frozen=True)
class Pair:
    framework: str
    theirs: str
    ours: str
    exact: bool = False  # a max or an index: equal, not only close


def tensorflow(theirs: str, ours: str, exact: bool = False) -> Pair:
    return Pair("tensorflow", theirs, ours, exact)


def torch(theirs: str, ours: str, exact: bool = False) -> Pair:
    return Pair("torch", theirs, ours, exact)


def jax(theirs: str, ours: str, exact: bool = False) -> Pair:
    return Pair("jax", theirs, ours, exact)


def onnx(theirs: str, ours: str, exact: bool = False) -> Pair:
    return Pair("onnx", theirs, ours, exact)


TITLES = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX", "onnx": "ONNX"}
SIZES = "ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding='SAME'"
WINDOW = "window=3, stride=2, padding='SAME'"
DRAWN = "pooling_ratio=[1, 1.4, 1.7, 1], deterministic=True, seed=3, seed2=5"

PAIRS = [
    tensorflow("tf.nn.avg_pool2d(x, 3, 2, 'SAME')", f"pg.avg_pool(x, {WINDOW}, data_format='NHWC')"),
    tensorflow("tf.nn.max_pool2d(x, 3, 2, 'SAME')", f"pg.max_pool(x, {WINDOW}, data_format='NHWC')", exact=True),
    tensorflow("tf.nn.avg_pool3d(v, 2, 2, 'VALID')", "pg.avg_pool(v, window=2, data_format='NDHWC')"),
    tensorflow(
        "tf.nn.avg_pool1d(x[:, 0], 3, 1, 'SAME')", "pg.avg_pool(x[:, 0], window=3, stride=1, padding='SAME', axes=1)"
    ),
    tensorflow(
        "tf.nn.max_pool2d(x, 2, 2, [[0, 0], [1, 0], [0, 1], [0, 0]])",
        "pg.max_pool(x, window=2, padding=[(1, 0), (0, 1)], data_format='NHWC')",
        exact=True,
    ),
    tensorflow(
        "tf.nn.max_pool_with_argmax(x, 3, 2, 'SAME').argmax",
        "pg.winners_to_indices(winners, w, data_format='NHWC')",
        exact=True,
    ),
    tensorflow(
        f"tf.raw_ops.AvgPoolGrad(orig_input_shape=[2, 7, 9, 3], grad=g, {SIZES})",
        f"raw_ops.AvgPoolGrad(orig_input_shape=[2, 7, 9, 3], grad=g, {SIZES})",
    ),
    tensorflow(
        f"tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, {SIZES})",
        f"raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, {SIZES})",
    ),
    tensorflow(
        f"tf.raw_ops.FractionalMaxPool(value=x, {DRAWN}).output",
        f"raw_ops.FractionalMaxPool(value=x, {DRAWN}).output",
        exact=True,
    ),
    tensorflow(
        "tf.reduce_mean(x, axis=[1, 2], keepdims=True)",
        "pg.avg_pool(x, presets.global_pool((7, 9)), data_format='NHWC')",
    ),
    torch("F.avg_pool2d(t, 3, 2, 1)", "pg.avg_pool(c, wt, data_format='NCHW')"),
    torch(
        "F.avg_pool2d(t, 3, 2, 1, ceil_mode=True, count_include_pad=False)",
        "pg.avg_pool(c, presets.torch((7, 9), 3, 2, 1, ceil_mode=True, count_include_pad=False), data_format='NCHW')",
    ),
    torch("F.avg_pool2d(t, 2, divisor_override=3)", "pg.avg_pool(c, window=2, divisor=3, data_format='NCHW')"),
    torch("F.max_pool2d(t, 3, 2, 1)", "pg.max_pool(c, wt, data_format='NCHW')", exact=True),
    torch(
        "F.max_pool2d(t, 3, 2, 1, return_indices=True)[1]",
        "pg.winners_to_indices(winners_t, wt, 'torch', data_format='NCHW')",
        exact=True,
    ),
    torch("torch.autograd.grad(F.avg_pool2d(t, 3, 2, 1), t, gt)[0]", "pg.avg_pool_grad(gc, wt, data_format='NCHW')"),
    torch(
        "torch.autograd.grad(F.max_pool2d(t, 3, 2, 1), t, gt)[0]",
        "pg.max_pool_grad(gc, wt, winners_t, data_format='NCHW')",
    ),
    torch("F.adaptive_avg_pool2d(t, (3, 4))", "pg.avg_pool(c, pg.adaptive((7, 9), (3, 4)), data_format='NCHW')"),
    torch("F.adaptive_max_pool1d(t[0], 4)", "pg.max_pool(c[0], pg.adaptive(9, 4), axes=2)", exact=True),
    torch("F.lp_pool2d(t.abs(), 1, 2)", "pg.sum_pool(abs(c), window=2, data_format='NCHW')"),
    jax(
        "lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), 'SAME')",
        f"pg.max_pool(x, {WINDOW}, data_format='NHWC')",
        exact=True,
    ),
    jax(
        "lax.reduce_window(x, jnp.inf, lax.min, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')",
        "pg.min_pool(x, window=2, data_format='NHWC')",
        exact=True,
    ),
    jax(
        "lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), 'VALID') / 9",
        "pg.avg_pool(x, window=3, stride=2, data_format='NHWC')",
    ),
    jax(
        "lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0))) / 9",
        "pg.avg_pool(x, presets.jax((7, 9), 3, 2, [(1, 1), (1, 1)]), data_format='NHWC')",
    ),
    jax(
        "jax.grad(lambda a: (g * lax.reduce_window(a, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), 'SAME')).sum())(x)",
        "pg.sum_pool_grad(g, input_size=(7, 9), window=2, padding='SAME', data_format='NHWC')",
    ),
    onnx(
        "AveragePool(c, kernel_shape=[3, 3], strides=[2, 2], auto_pad='SAME_UPPER')",
        "pg.avg_pool(c, presets.onnx((7, 9), [3, 3], [2, 2], 'SAME_UPPER'), data_format='NCHW')",
    ),
    onnx(
        "AveragePool(c, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)",
        "pg.avg_pool(c, presets.onnx((7, 9), [3, 3], [2, 2], pads=[1, 1, 1, 1], count_include_pad=1), "
        "data_format='NCHW')",
    ),
    onnx(
        "MaxPool(c, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)",
        "pg.max_pool(c, presets.onnx((7, 9), [2, 2], [2, 2], ceil_mode=1), data_format='NCHW')",
        exact=True,
    ),
    onnx("GlobalAveragePool(c)", "pg.avg_pool(c, presets.global_pool((7, 9)), data_format='NCHW')"),
]


# ---- running them ---------------------------------------------------------------------------------------------


def arrays() -> dict[str, Any]:
    """What the calls are about: x, y, g channels last, c, gc channels first, v a volume; tables and winners."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 7, 9, 3), dtype="float32")
    c = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    w, wt = pg.sliding((7, 9), window=3, stride=2, padding="SAME"), presets.torch((7, 9), 3, 2, 1)
    y, winners = pg.max_pool(x, w, data_format="NHWC", return_winners=True)
    return {
        "w": w,
        "winners": winners,
        "wt": wt,
        "winners_t": pg.max_pool(c, wt, data_format="NCHW", return_winners=True)[1],
        "x": x,
        "y": y,
        "g": rng.standard_normal(y.shape, dtype="float32"),
        "c": c,
        "gc": rng.standard_normal((2, 3, 4, 5), dtype="float32"),
        "v": rng.standard_normal((2, 5, 7, 6, 3), dtype="float32"),
    }


def names(framework: str) -> dict[str, Any]:
    """The arrays, and a framework's own names under which its calls are written."""
    here = arrays()
    module: Any = importlib.import_module(framework)
    if framework == "tensorflow":
        # Given NumPy arrays, some of TensorFlow's ops would convert their dtype.
        return {"tf": module, **{name: module.constant(here[name]) for name in "xygv"}}
    if framework == "torch":
        t, gt = module.from_numpy(here["c"]).requires_grad_(), module.from_numpy(here["gc"])
        return {"torch": module, "F": module.nn.functional, "t": t, "gt": gt}
    if framework == "jax":
        return {
            "jax": module,
            "lax": importlib.import_module("jax.lax"),
            "jnp": importlib.import_module("jax.numpy"),
            **here,
        }
    return {**{op: onnx_node(op) for op in ("AveragePool", "MaxPool", "GlobalAveragePool")}, **here}


def onnx_node(op: str) -> Any:
    """A function that runs a model of one node."""
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    def run(x: Any, **attributes: Any) -> Any:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * x.ndim) for name in ("x", "y")]
        graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], op, ends[:1], ends[1:])
        return ReferenceEvaluator(helper.make_model(graph)).run(None, {"x": x})[0]

    return run


def check(pair: Pair) -> None:
    """Run both calls; AssertionError unless they agree."""
    theirs = eval(pair.theirs, names(pair.framework))
    ours = eval(pair.ours, {"pg": pg, "presets": presets, "raw_ops": raw_ops, **arrays()})
    expected = np.asarray(theirs.detach() if pair.framework == "torch" else theirs)
    assert ours.shape == expected.shape, f"{pair.ours}: {ours.shape} and not {expected.shape}"
    tolerance = 0.0 if pair.exact else 1e-5
    np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance, err_msg=pair.ours)


def page() -> str:
    """docs/coming-from.md."""
    parts = [HEAD]
    for framework, title in TITLES.items():
        parts.append(f"\n## {title}\n\n| {title} | poolgrad |\n|---|---|\n")
        parts += [f"| `{pair.theirs}` | `{pair.ours}` |\n" for pair in PAIRS if pair.framework == framework]
        parts.append(f"\n{NOTES[framework]}\n")
    return "".join(parts)


HEAD = """\
# Coming from TensorFlow, PyTorch, JAX or ONNX

The framework's call on the left, poolgrad's on the right. Each pair is run and compared by the tests; this page is
made from [examples/coming_from.py](../examples/coming_from.py).

`x`, `y`, `g` are arrays with channels last (`g` a gradient of the pooled `y`), `c` and `gc` with channels first, `v` a
volume; `t` and `gt` are `c` and `gc` as tensors. `from poolgrad import presets, raw_ops`. A table is made once and
used again:

```
w = pg.sliding((7, 9), window=3, stride=2, padding="SAME")
y, winners = pg.max_pool(x, w, data_format="NHWC", return_winners=True)
wt = presets.torch((7, 9), kernel_size=3, stride=2, padding=1)
yt, winners_t = pg.max_pool(c, wt, data_format="NCHW", return_winners=True)
```
"""
NOTES = {
    "tensorflow": (
        "Every `tf.raw_ops` pooling op has its namesake in `poolgrad.raw_ops`, with the same arguments; see the "
        "[differences](differences.md). `tf.nn` and Keras calls are those of `sliding`, SAME and VALID alike."
    ),
    "torch": (
        "`presets.torch` takes PyTorch's `padding`, `ceil_mode` and `count_include_pad`. Dilation is not supported: a "
        "window here is an interval, which is what makes its gradient a table too. `FractionalMaxPool2d` draws one "
        "table for each sample and channel and is not offered; TensorFlow's, Graham's (`sequences.graham`) and any "
        "given sequence are. Where maxima tie, PyTorch's choice is the first too."
    ),
    "jax": (
        "`lax.reduce_window` has no average of its own; dividing its sum by the window counts the padding, as "
        "`presets.jax` does. In a gradient of a max JAX also gives a tie to the first."
    ),
    "onnx": "`presets.onnx` takes `auto_pad`, `pads`, `ceil_mode`, `count_include_pad`; dilations are refused.",
}


def main() -> int:
    for framework in TITLES:
        pairs = [pair for pair in PAIRS if pair.framework == framework]
        try:
            importlib.import_module(framework)
        except ImportError:
            print(f"{framework}: not installed, {len(pairs)} pairs not run")
            continue
        for pair in pairs:
            check(pair)
        print(f"{framework}: {len(pairs)} pairs agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
