"""The presets against the libraries they are named after, over random geometries, forward and gradient."""

from __future__ import annotations

import importlib
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import poolgrad as pg
from poolgrad import presets

# Frameworks warn about themselves while they are imported; that is not ours to mend.
pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("ignore")]

Array = np.ndarray[Any, Any]


def peer(name: str) -> Any:
    """The module, or a skip (a failure with POOLGRAD_REQUIRE_FRAMEWORKS=1)."""
    if os.environ.get("POOLGRAD_REQUIRE_FRAMEWORKS") == "1":
        return importlib.import_module(name)
    return pytest.importorskip(name)


def rounds(name: str, seed: int, seconds: float, most: int, least: int) -> Iterator[random.Random]:
    """A generator for each geometry, until the budget or ``most`` is reached; fewer than ``least`` fail."""
    end = time.monotonic() + seconds
    done = 0
    while done < most and time.monotonic() < end:
        yield random.Random(f"{seed} {name} {done}")
        done += 1
    print(f"\n{name}: {done} geometries, POOLGRAD_SEED={seed}")
    assert done >= least, f"only {done} geometries in {seconds} s"


def geometry(source: random.Random) -> tuple[list[int], list[int], list[int]]:
    """Sizes, windows and strides of one to three axes, also windows beyond the input and strides beyond the window."""
    rank = source.choice([1, 2, 2, 3])
    size = [source.randint(1, (0, 24, 12, 7)[rank]) for _ in range(rank)]
    return size, [source.randint(1, 6) for _ in range(rank)], [source.randint(1, 5) for _ in range(rank)]


def distinct(source: random.Random, shape: tuple[int, ...]) -> Array:
    """Different integers, so that a maximum has one winner and sums are exact."""
    return np.random.default_rng(source.getrandbits(32)).permutation(int(np.prod(shape))).reshape(shape) - 50.0


def last(rank: int) -> tuple[int, ...]:
    return tuple(range(2, 2 + rank))


def pooled(
    x: Array, w: pg.WindowTable, maximum: object, axes: tuple[int, ...]
) -> tuple[Array, Callable[[Array], Array]]:
    """Our result, and our gradient as a function of that of the result."""
    if not maximum:
        return pg.avg_pool(x, w, axes=axes), lambda grad: pg.avg_pool_grad(grad, w, axes=axes)
    y, winners = pg.max_pool(x, w, axes=axes, return_winners=True)
    return y, lambda grad: pg.max_pool_grad(grad, w, winners, axes=axes)


def check(ours: Array, theirs: Any, call: str, tolerance: float = 1e-12) -> None:
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape, f"shape {ours.shape}, theirs {theirs.shape}: {call}"
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=100 * tolerance, err_msg=call)


# ---- torch ------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch() -> Iterator[Any]:
    """torch on one thread: its pool costs more than these small calls."""
    module = peer("torch")
    threads = module.get_num_threads()
    module.set_num_threads(1)
    yield module
    module.set_num_threads(threads)


def test_torch(seed: int, torch: Any) -> None:
    functional = torch.nn.functional
    seen: Counter[str] = Counter()
    for source in rounds("torch", seed, 45, 6000, 500):
        size, kernel, stride = geometry(source)
        maximum = source.random() < 0.4
        options: dict[str, Any] = {
            "stride": None if source.random() < 0.2 else stride,
            # Every twentieth is more than torch takes.
            "padding": [source.randint(0, k // 2) + (source.random() < 0.05) for k in kernel],
            "ceil_mode": source.random() < 0.5,
        }
        if not maximum:
            options["count_include_pad"] = source.random() < 0.5
            if len(size) > 1 and source.random() < 0.2:
                options["divisor_override"] = source.randint(1, 9)
        call = f"presets.torch({size}, {kernel}, **{options}), maximum={maximum}"
        x = torch.tensor(distinct(source, (2, 2, *size)), requires_grad=True)
        function = getattr(functional, f"{'max' if maximum else 'avg'}_pool{len(size)}d")
        if not maximum and len(size) == 3 and any(k > n for k, n in zip(kernel, size, strict=True)):
            seen["refused by avg_pool3d alone: kernel beyond the unpadded input"] += 1
            with pytest.raises((RuntimeError, ValueError)):
                function(x, kernel, **options)
            continue
        try:
            theirs = function(x, kernel, **options)
        except (RuntimeError, ValueError):
            seen["refused by torch"] += 1
            with pytest.raises(ValueError, match=r"^presets\.torch: (padding|kernel_size)="):
                presets.torch(size, kernel, **options)
            continue
        ours, gradient = pooled(x.detach().numpy(), presets.torch(size, kernel, **options), maximum, last(len(size)))
        check(ours, theirs.detach().numpy(), call)
        grad = distinct(source, ours.shape)
        theirs.backward(torch.tensor(grad))
        check(gradient(grad), x.grad.numpy(), call)
        seen["max" if maximum else "average"] += 1
        steps = options["stride"] or kernel
        seen["ceil_mode adds a window"] += options["ceil_mode"] and ours.shape[2:] != tuple(
            (n + 2 * p - k) // s + 1 for n, p, k, s in zip(size, options["padding"], kernel, steps, strict=True)
        )
        seen["padding counts"] += bool(options.get("count_include_pad")) and any(options["padding"])
        seen["divisor_override"] += "divisor_override" in options
    print(dict(seen))
    assert min(seen.values()) > 0
    assert len(seen) == 7


def test_torch_adaptive(seed: int, torch: Any) -> None:
    functional = torch.nn.functional
    seen: Counter[str] = Counter()
    for source in rounds("torch adaptive", seed, 15, 2000, 200):
        size, wanted, _ = geometry(source)
        maximum = source.random() < 0.5
        # torch's one-dimensional adaptive pooling takes no None.
        target = [None if len(size) > 1 and source.random() < 0.3 else m for m in wanted]
        x = torch.tensor(distinct(source, (2, 2, *size)), requires_grad=True)
        name = f"adaptive_{'max' if maximum else 'avg'}_pool{len(size)}d"
        theirs = getattr(functional, name)(x, target[0] if len(size) == 1 else target)
        w = presets.adaptive(size, target)
        ours, gradient = pooled(x.detach().numpy(), w, maximum, last(len(size)))
        call = f"presets.adaptive({size}, {target}), maximum={maximum}"
        check(ours, theirs.detach().numpy(), call)
        grad = distinct(source, ours.shape)
        theirs.backward(torch.tensor(grad))
        check(gradient(grad), x.grad.numpy(), call)
        seen[name] += 1
        seen["None"] += None in target
    print(dict(seen))
    assert len(seen) == 7
    assert min(seen.values()) > 0


# ---- ONNX -------------------------------------------------------------------------------------------------------


def by_text(x: Array, options: dict[str, Any], maximum: bool) -> Array:
    """AveragePool and MaxPool by the words of their definition, one output after another."""
    size, kernel, stride = x.shape[2:], options["kernel_shape"], options["strides"]
    rank, auto_pad = len(size), options["auto_pad"]
    pads = list(options.get("pads", [0] * 2 * rank))
    outputs = []
    for i in range(rank):
        if auto_pad.startswith("SAME"):
            outputs.append((size[i] - 1) // stride[i] + 1)
            total = (outputs[i] - 1) * stride[i] + kernel[i] - size[i]
            small, large = total // 2, total - total // 2
            pads[i], pads[rank + i] = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
        elif options["ceil_mode"] and auto_pad == "NOTSET":
            count = -(-(size[i] + pads[i] + pads[rank + i] - kernel[i]) // stride[i]) + 1
            outputs.append(len([j for j in range(count) if j * stride[i] < pads[i] + size[i]]))
        else:
            outputs.append((size[i] + pads[i] + pads[rank + i] - kernel[i]) // stride[i] + 1)
    y = np.zeros((*x.shape[:2], *outputs), x.dtype)
    for place in itertools.product(*map(range, outputs)):
        inside, counted = [], 1
        for i, at in enumerate(place):
            start = at * stride[i] - pads[i]
            cells = range(start, min(start + kernel[i], size[i] + pads[rank + i]))
            inside.append([cell for cell in cells if 0 <= cell < size[i]])
            counted *= len(cells) if options.get("count_include_pad") else len(inside[i])
        box = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)].reshape(*x.shape[:2], -1)
        y[(..., *place)] = box.max(axis=-1) if maximum else box.sum(axis=-1) / counted
    return y


def evaluator_departs(size: list[int], options: dict[str, Any], maximum: bool) -> str | None:
    """Which of the reference evaluator's departures from the text this call meets, if any."""
    kernel, stride, auto_pad = options["kernel_shape"], options["strides"], options["auto_pad"]
    rank, pads = len(size), options.get("pads", [0] * 2 * len(size))
    if not maximum:
        if auto_pad != "NOTSET":
            return "average: refuses ceil_mode with auto_pad" if options["ceil_mode"] else None
        outputs = by_text(np.zeros((1, 1, *size)), options, False).shape[2:]
        reach = [(m - 1) * s + k for m, s, k in zip(outputs, stride, kernel, strict=True)]
        if any(reach[i] - size[i] - pads[i] - pads[rank + i] >= 2 for i in range(rank)):
            return "average: windows moved by half of what ceil_mode adds"
        return None
    if max(stride) > 1:
        return "max: SAME_LOWER with strides" if auto_pad == "SAME_LOWER" else None
    if auto_pad.startswith("SAME"):
        return None if rank == 2 else "max: SAME with strides 1 and not two axes"
    # It pads only two axes, takes [begin, begin, end, end] for [begin, end, begin, end], and with ceil_mode pads twice.
    if any(pads) and (rank != 2 or pads[1] != pads[2] or options["ceil_mode"]):
        return "max: pads with strides 1"
    return None


def onnx_call(source: random.Random) -> tuple[list[int], dict[str, Any], bool]:
    """Sizes, attributes and whether it is a MaxPool; small, because the evaluator takes 1 ms a window."""
    size, kernel, stride = geometry(source)
    size = [min(n, 5 if len(size) == 3 else 9) for n in size]
    kernel = [min(k, 5 - len(size) // 2) for k in kernel]
    maximum = source.random() < 0.4
    auto_pad = source.choice(["NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    options: dict[str, Any] = {"kernel_shape": kernel, "auto_pad": auto_pad}
    options["strides"] = [1] * len(size) if source.random() < 0.3 else stride
    options["ceil_mode"] = int(source.random() < (0.5 if auto_pad == "NOTSET" else 0.1))
    if auto_pad == "NOTSET":
        options["pads"] = [source.randint(0, k - 1) for k in kernel * 2]
    if not maximum:
        options["count_include_pad"] = source.randint(0, 1)
    return size, options, maximum


def onnx_special(size: list[int], options: dict[str, Any]) -> str | None:
    """Calls to which the text has no answer, or on which evaluator and runtime have three between them."""
    kernel, stride = options["kernel_shape"], options["strides"]
    if options["auto_pad"].startswith("SAME"):
        negative = any((-(-n // s) - 1) * s + k < n for n, s, k in zip(size, stride, kernel, strict=True))
        return "SAME padding below nothing" if negative else None
    pads = options.get("pads", [0] * 2 * len(size))
    beyond = any(n + pads[i] + pads[len(size) + i] < kernel[i] for i, n in enumerate(size))
    return "window larger than the padded input" if beyond else None


def onnx_model(onnx: Any, op: str, x: Array, options: dict[str, Any]) -> Any:
    value, element = onnx.helper.make_tensor_value_info, onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    node = onnx.helper.make_node(op, ["x"], ["y"], **options)
    graph = onnx.helper.make_graph([node], "pool", [value("x", element, x.shape)], [value("y", element, None)])
    # Versions that every runtime of these years reads; the text of both operators is that of 22.
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)], ir_version=10)


def test_onnx(seed: int) -> None:
    onnx = peer("onnx")
    evaluator = importlib.import_module("onnx.reference").ReferenceEvaluator
    seen: Counter[str] = Counter()
    agree: Counter[str] = Counter()
    for source in rounds("onnx", seed, 50, 6000, 500):
        size, options, maximum = onnx_call(source)
        special = onnx_special(size, options)
        if special:
            seen[special] += 1
            if special.startswith("SAME"):
                with pytest.raises(ValueError, match="less than nothing"):
                    presets.onnx(size, **options)
            continue
        x = distinct(source, (1, 2, *size))
        call = f"presets.onnx({size}, **{options}), maximum={maximum}"
        ours = pooled(x, presets.onnx(size, **options), maximum, last(len(size)))[0]
        check(ours, by_text(x, options, maximum), call)
        model = onnx_model(onnx, "MaxPool" if maximum else "AveragePool", x, options)
        departure = evaluator_departs(size, options, maximum)
        if departure is None:
            check(ours, evaluator(model).run(None, {"x": x})[0], call)
            seen["max" if maximum else "average"] += 1
            seen["ceil_mode"] += options["ceil_mode"]
            seen["ceil_mode and padding counts"] += options["ceil_mode"] and options.get("count_include_pad", 0)
            seen[options["auto_pad"]] += 1
            continue
        seen[departure] += 1
        try:
            theirs = evaluator(model).run(None, {"x": x})[0]
            agree[departure] += theirs.shape == ours.shape and np.allclose(theirs, ours)
        except Exception:
            agree[departure] += 0
    print(dict(seen))
    for name, count in agree.items():
        print(f"  {name}: the evaluator differs from the text in {seen[name] - count} of {seen[name]}")
    assert len(seen) == 15
    assert min(seen.values()) > 0


def test_onnxruntime(seed: int) -> None:
    """The runtime has the text right where the reference evaluator departs from it."""
    onnx, runtime = peer("onnx"), peer("onnxruntime")
    seen: Counter[str] = Counter()
    for source in rounds("onnxruntime", seed, 10, 1500, 200):
        size, options, maximum = onnx_call(source)
        special = onnx_special(size, options)
        if not special and options["auto_pad"] == "VALID" and options["ceil_mode"]:
            special = "the runtime takes VALID with ceil_mode for no padding with ceil_mode"
        if special:
            seen[special] += 1
            continue
        x = distinct(source, (1, 2, *size)).astype(np.float32)
        model = onnx_model(onnx, "MaxPool" if maximum else "AveragePool", x, options)
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        ours = pooled(x, presets.onnx(size, **options), maximum, last(len(size)))[0]
        call = f"presets.onnx({size}, **{options}), maximum={maximum}"
        check(ours, session.run(None, {"x": x})[0], call, 1e-6)
        seen[evaluator_departs(size, options, maximum) or "also right in the evaluator"] += 1
    print(dict(seen))
    assert len([name for name in seen if name.startswith(("average:", "max:"))]) >= 3


def test_onnx_global(seed: int) -> None:
    onnx = peer("onnx")
    evaluator = importlib.import_module("onnx.reference").ReferenceEvaluator
    for source in rounds("onnx global", seed, 5, 300, 50):
        size = geometry(source)[0]
        maximum = len(size) == 2 and source.random() < 0.5  # the evaluator's GlobalMaxPool knows two axes only
        x = distinct(source, (2, 2, *size))
        model = onnx_model(onnx, "GlobalMaxPool" if maximum else "GlobalAveragePool", x, {})
        ours = pooled(x, presets.global_pool(size), maximum, last(len(size)))[0]
        call = f"presets.global_pool({size}), maximum={maximum}"
        check(ours, evaluator(model).run(None, {"x": x})[0], call)


# ---- Keras ------------------------------------------------------------------------------------------------------


def test_keras(seed: int) -> None:
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    tensorflow, keras = peer("tensorflow"), peer("keras")
    assert keras.backend.backend() == "tensorflow"
    seen: Counter[str] = Counter()
    for source in rounds("keras", seed, 40, 2000, 300):
        size, window, stride = geometry(source)
        maximum = source.random() < 0.4
        padding = source.choice(["valid", "same"])
        strides = None if source.random() < 0.3 else stride
        layer = getattr(keras.layers, f"{'Max' if maximum else 'Average'}Pooling{len(size)}D")(
            window[0] if len(size) == 1 else tuple(window),
            strides if strides is None or len(size) > 1 else strides[0],
            padding,
            data_format="channels_last",
            dtype="float32",
        )
        call = f"presets.keras({size}, {window}, {strides}, {padding!r}), maximum={maximum}"
        shape = (2, *size, 2)
        try:
            layer.compute_output_shape(shape)
        except ValueError:
            seen["refused by Keras"] += 1
            with pytest.raises(ValueError, match=r"^presets\.keras: pool_size="):
                presets.keras(size, window, strides, padding)
            continue
        x = tensorflow.constant(distinct(source, shape).astype(np.float32))  # no float64 AvgPool3D there
        w = presets.keras(size, window, strides, padding)
        ours, gradient = pooled(x.numpy(), w, maximum, tuple(range(1, 1 + len(size))))
        grad = distinct(source, ours.shape).astype(np.float32)
        with tensorflow.GradientTape() as tape:
            tape.watch(x)
            theirs = layer(x)
        check(ours, theirs.numpy(), call, 1e-6)
        check(gradient(grad), tape.gradient(theirs, x, tensorflow.constant(grad)).numpy(), call, 1e-6)
        assert w == presets.tensorflow(size, window, strides, padding.upper())
        seen[f"{'max' if maximum else 'average'}, {padding}"] += 1
    print(dict(seen))
    assert len(seen) == 5
    assert min(seen.values()) > 0


# ---- JAX --------------------------------------------------------------------------------------------------------


def test_jax(seed: int) -> None:
    jax = peer("jax")
    lax, jnp = jax.lax, jax.numpy
    jax_float = np.float32  # JAX computes in 32 bits unless told otherwise for the whole process
    seen: Counter[str] = Counter()
    # All twelve kinds come before any comes again: a slow machine compiles few geometries.
    kinds = itertools.cycle(itertools.product(["VALID", "SAME", "SAME_LOWER", "pairs"], [(1, 1), (0, 1), (0, 0)]))
    for source, (kind, (maximum, include)) in zip(rounds("jax", seed, 20, 120, 12), kinds, strict=False):
        size, window, stride = geometry(source)
        pairs = [(source.randint(0, k - 1), source.randint(0, k - 1)) for k in window]
        padding = pairs if kind == "pairs" else kind
        call = f"presets.jax({size}, {window}, {stride}, {padding!r}, {include}), maximum={maximum}"
        x = distinct(source, (2, *size, 2)).astype(jax_float)
        full = [(0, 0), *padding, (0, 0)] if isinstance(padding, list) else padding
        around = ((1, *window, 1), (1, *stride, 1), full)

        # As flax.linen.pool, avg_pool and max_pool do it.
        def pool(x: Any, maximum: int = maximum, around: Any = around, include: int = include) -> Any:
            if maximum:
                return lax.reduce_window(x, -jnp.inf, lax.max, *around)
            total = lax.reduce_window(x, 0.0, lax.add, *around)
            ones = jnp.ones_like(x)
            return total / (np.prod(around[0]) if include else lax.reduce_window(ones, 0.0, lax.add, *around))

        theirs, pull = jax.vjp(pool, jnp.asarray(x))
        w = presets.jax(size, window, stride, padding, include)
        ours, gradient = pooled(x, w, maximum, tuple(range(1, 1 + len(size))))
        check(ours, theirs, call, 1e-5)
        grad = distinct(source, ours.shape).astype(jax_float)
        check(gradient(grad), pull(jnp.asarray(grad))[0], call, 1e-5)
        seen["max" if maximum else f"average, padding {'counts' if include else 'does not count'}"] += 1
        seen[kind] += 1
    print(dict(seen))
