"""One row per raw op: arguments, dtypes, formats, help, its gradient's row.

`raw_ops`, the command line, the documentation and the studio are made from this table; adding an op is adding a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["Argument", "Op", "OPS", "REQUIRED"]


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()
PINS = ("tensor", "shape", "sequence", "indices")

FLOATS = ("float16", "bfloat16", "float32", "float64")
FRACTIONAL = (*FLOATS, "int32", "int64")
EVERY = (*FLOATS, "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FORMATS = {2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


@dataclass(frozen=True)
class Argument:
    """One argument of an op, spelled as TensorFlow spells it.

    ``kind`` is "tensor", "shape", "sequence" or "indices" (pins: what one wires), or "sizes", "ratios", "paddings",
    "choice", "flag", "integer" (attributes: what one types). ``side`` says whether a tensor has the shape of
    the pooling's "input" or of its "output".
    """

    name: str
    kind: str
    help: str
    default: object = REQUIRED
    choices: tuple[str, ...] = ()
    side: str = ""

    @property
    def is_pin(self) -> bool:
        return self.kind in PINS


@dataclass(frozen=True)
class Op:
    """One raw op. ``windows`` says how its table is made, ``compute`` which kernel family runs on it."""

    name: str
    windows: str  # "sliding" (ksize, strides), "sequences" (given), "ratios" (sequences drawn here)
    compute: str  # a key of raw_ops.COMPUTE
    arguments: tuple[Argument, ...]
    dtypes: tuple[str, ...]
    spatial: int
    summary: str
    formula: str
    example: str
    outputs: tuple[str, ...] = ("output",)
    result: str = "output"  # the side whose shape the first output has
    format_is_extra: bool = False  # data_format is ours (keyword-only), not TensorFlow's
    depthwise: bool = False  # may pool channels instead of space, as TensorFlow's MaxPool does
    gradient: str | None = None
    wiring: Mapping[str, str] = field(default_factory=dict)

    @property
    def formats(self) -> tuple[str, ...]:
        return FORMATS[self.spatial]

    def __reduce__(self) -> tuple[Callable[[str], Op], tuple[str]]:
        return _row, (self.name,)  # there is one of each

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """Names of the arguments that carry data."""
        return tuple(self.named("tensor", "indices"))

    @cached_property
    def lists(self) -> tuple[str, ...]:
        """Names of the arguments that are integers in a row."""
        return tuple(self.named("shape", "sequence", "sizes", "paddings"))

    @cached_property
    def words(self) -> tuple[tuple[str, type], ...]:
        """Names of the other arguments and the type each is expected to have."""
        kinds = {"choice": str, "flag": bool, "integer": int}
        found = [(argument.name, kinds[argument.kind]) for argument in self.arguments if argument.kind in kinds]
        return (*found, ("data_format", str)) if self.format_is_extra else tuple(found)

    def argument(self, name: str) -> Argument:
        return next(argument for argument in self.arguments if argument.name == name)

    def named(self, *kinds: str) -> list[str]:
        """Names of the arguments of these kinds, in order."""
        return [argument.name for argument in self.arguments if argument.kind in kinds]


# ---- arguments that many rows share ---------------------------------------------------------------------------


def _input(name: str, help: str = "The array to pool.") -> Argument:
    return Argument(name, "tensor", help, side="input")


def _output(name: str, help: str) -> Argument:
    return Argument(name, "tensor", help, side="output")


def _shape(name: str) -> Argument:
    return Argument(name, "shape", "Shape of the array that was pooled: non-negative integers.")


_ORIG_INPUT = _input("orig_input", "The array that was pooled.")
_ORIG_OUTPUT = _output("orig_output", "What pooling it gave; its shape is checked, the winners are found anew.")
_GRAD = _output("grad", "Gradient of the pooled result.")
_GRAD_OF_GRAD = _input("grad", "Gradient of the first gradient's result: an array of the input's shape.")
_ARGMAX = Argument("argmax", "indices", "Flat index of each maximum, as MaxPoolWithArgmax gives it.", side="output")
_SIZES = (
    Argument(
        "ksize",
        "sizes",
        "Window size of every axis of the array, e.g. 1,2,2,1 (3-D: 1,2,2,2,1); 1 on batch and channels.",
    ),
    Argument(
        "strides", "sizes", "Step of the windows on every axis, e.g. 1,2,2,1 (3-D: 1,2,2,2,1); 1 on batch and channels."
    ),
)
_PADDING = Argument(
    "padding",
    "choice",
    "SAME pads so that every input is covered (padding never counts in an average), VALID not at all.",
    choices=("SAME", "VALID"),
)
_EXPLICIT = (
    Argument(
        "padding", "choice", "SAME, VALID, or EXPLICIT with explicit_paddings.", choices=("SAME", "VALID", "EXPLICIT")
    ),
    Argument(
        "explicit_paddings", "paddings", "Before and after on every axis, for padding='EXPLICIT' only.", default=()
    ),
)
_INDEX = Argument(
    "include_batch_in_index", "flag", "Whether argmax counts from the start of the whole batch.", default=False
)
_OVERLAPPING = Argument("overlapping", "flag", "Whether a cell includes the first element of the next.", default=False)
_SEQUENCES = (
    Argument("row_pooling_sequence", "sequence", "Where the cells of rows begin, and the end: outputs + 1 integers."),
    Argument(
        "col_pooling_sequence", "sequence", "Where the cells of columns begin, and the end: outputs + 1 integers."
    ),
)
_DRAWING = (
    Argument("pooling_ratio", "ratios", "Input over output size of every axis, e.g. 1.0,1.44,1.73,1.0; at least 1."),
    Argument("pseudo_random", "flag", "Draw steps pseudo-randomly rather than as a random permutation.", default=False),
    _OVERLAPPING,
    Argument("deterministic", "flag", "Draw from seed and seed2: the same sequences as TensorFlow's.", default=False),
    Argument("seed", "integer", "First seed; 0 unless deterministic.", default=0),
    Argument("seed2", "integer", "Second seed; 0 unless deterministic.", default=0),
)


def _format(spatial: int) -> Argument:
    return Argument(
        "data_format", "choice", "Order of the axes.", default=FORMATS[spatial][0], choices=FORMATS[spatial]
    )


# ---- the table ------------------------------------------------------------------------------------------------


# Rows of a table: one argument a line would make four pages of it.
# fmt: off
def _averages() -> Iterator[Op]:
    for spatial, suffix, value in ((2, "", "value"), (3, "3D", "input")):
        twos, fours = ", ".join("2" * spatial), ", ".join("4" * spatial)
        shape, half, call = f"[1, {fours}, 1]", f"(1, {twos}, 1)", f"[1, {twos}, 1], [1, {twos}, 1], 'VALID'"
        layout, forward, backward = _format(spatial), f"AvgPool{suffix}", f"AvgPool{suffix}Grad"
        yield Op(
            forward, "sliding", "avg", (_input(value), *_SIZES, _PADDING, layout), FLOATS, spatial,
            f"Average of each {spatial}-D window.",
            "output[o] = sum of input over window(o) / number of its elements inside the input",
            f">>> raw_ops.{forward}(np.ones({shape}, 'float32'), {call}).shape\n{half}",
            gradient=backward, wiring={"orig_input_shape": f"shape of {value}", "grad": "grad"},
        )
        yield Op(
            backward, "sliding", "avg_grad", (_shape("orig_input_shape"), _GRAD, *_SIZES, _PADDING, layout), FLOATS,
            spatial, f"Gradient of AvgPool{suffix}: each grad divided evenly over its window.",
            "output[i] = sum over the windows o that hold i of grad[o] / number of elements of window(o)",
            f">>> dx = raw_ops.{backward}({shape}, np.ones({half}, 'float32'), {call})\n"
            f">>> float(dx.max())\n{0.5**spatial}",
            result="input", gradient=forward, wiring={value: "grad"},
        )


_FIRST_WINS = "the first maximum of window(o) in row-major order; NaN wins"


def _maxima() -> Iterator[Op]:
    for spatial, suffix, version, padding in (
        (2, "", "", _EXPLICIT), (2, "", "V2", (_PADDING,)), (3, "3D", "", (_PADDING,)),
    ):
        forward, backward, second = (f"MaxPool{suffix}{step}{version}" for step in ("", "Grad", "GradGrad"))
        layout, twos, fours = _format(spatial), ", ".join("2" * spatial), ", ".join("4" * spatial)
        call = f"[1, {twos}, 1], [1, {twos}, 1], 'VALID'"
        counting = f"x = np.arange({4**spatial}, dtype='float32').reshape([1, {fours}, 1])"
        pooled = f">>> {counting}\n>>> y = raw_ops.{forward}(x, {call})\n"
        originals = {"orig_input": "orig_input", "orig_output": "orig_output", "grad": "grad"}
        yield Op(
            forward, "sliding", "max", (_input("input"), *_SIZES, *padding, layout), EVERY, spatial,
            f"Maximum of each {spatial}-D window.", "output[o] = max of input over window(o); NaN propagates",
            f"{pooled}>>> float(y.max())\n{float(4**spatial - 1)}", depthwise=spatial == 2,
            gradient=backward, wiring={"orig_input": "input", "orig_output": "output", "grad": "grad"},
        )
        yield Op(
            backward, "sliding", "max_grad", (_ORIG_INPUT, _ORIG_OUTPUT, _GRAD, *_SIZES, *padding, layout), EVERY,
            spatial, f"Gradient of {forward}: each grad added to the element that won its window.",
            f"output[i] = sum of grad[o] over the windows o that i won: {_FIRST_WINS}",
            f"{pooled}>>> float(raw_ops.{backward}(x, y, np.ones_like(y), {call}).sum())\n{float(2**spatial)}",
            result="input", depthwise=spatial == 2, gradient=second, wiring=originals,
        )
        yield Op(
            second, "sliding", "max_grad_grad",
            (_ORIG_INPUT, _ORIG_OUTPUT, _GRAD_OF_GRAD, *_SIZES, _PADDING, layout), EVERY, spatial,
            f"Second order of {forward}: grad at the element that won each window.",
            f"output[o] = grad at {_FIRST_WINS}",
            f"{pooled}>>> bool((raw_ops.{second}(x, y, x, {call}) == y).all())\nTrue",
            gradient=backward, wiring=originals,
        )


def _maxima_with_argmax() -> Iterator[Op]:
    call = "[1, 2, 2, 1], [1, 2, 2, 1], 'VALID'"
    found = (
        ">>> x = np.arange(16, dtype='float32').reshape([1, 4, 4, 1])\n"
        f">>> y, argmax = raw_ops.MaxPoolWithArgmax(x, {call})\n"
    )
    wiring = {"input": "input", "argmax": "argmax", "grad": "grad"}
    targmax = Argument("Targmax", "choice", "Integer type of argmax.", default="int64", choices=("int32", "int64"))
    yield Op(
        "MaxPoolWithArgmax", "sliding", "argmax", (_input("input"), *_SIZES, _PADDING, targmax, _INDEX), EVERY, 2,
        "Maximum of each window and its flat index.", f"argmax[o] = (h * W + w) * C + c of {_FIRST_WINS}",
        f"{found}>>> argmax.ravel().tolist()\n[5, 7, 13, 15]",
        outputs=("output", "argmax"), format_is_extra=True, gradient="MaxPoolGradWithArgmax", wiring=wiring,
    )
    original = _input("input", "The array that was pooled.")
    first, second = "MaxPoolGradWithArgmax", "MaxPoolGradGradWithArgmax"
    yield Op(
        first, "sliding", "argmax_grad", (original, _GRAD, _ARGMAX, *_SIZES, _PADDING, _INDEX), EVERY, 2,
        "Gradient of MaxPoolWithArgmax from its indices.",
        "output[i] = sum of grad[o] over the outputs o whose argmax is i",
        f"{found}>>> raw_ops.{first}(x, y, argmax, {call}).shape\n(1, 4, 4, 1)",
        result="input", format_is_extra=True, gradient=second, wiring=wiring,
    )
    yield Op(
        second, "sliding", "argmax_grad_grad", (original, _GRAD_OF_GRAD, _ARGMAX, *_SIZES, _PADDING, _INDEX), EVERY, 2,
        "Second order of MaxPoolWithArgmax from its indices.", "output[o] = grad at argmax[o]",
        f"{found}>>> raw_ops.{second}(x, x, argmax, {call}).shape\n(1, 2, 2, 1)",
        format_is_extra=True, gradient=first, wiring=wiring,
    )


def _fractional() -> Iterator[Op]:
    drawn = ("output", "row_pooling_sequence", "col_pooling_sequence")
    x = ">>> x = np.arange(20, dtype='float32').reshape([1, 4, 5, 1])\n"
    draw = "[1.0, 2.0, 1.5, 1.0], deterministic=True, seed=1, seed2=2"
    for forward, compute, word, wiring in (
        ("FractionalAvgPool", "avg", "Average", {"orig_input_tensor_shape": "shape of value"}),
        ("FractionalMaxPool", "max", "Maximum", {"orig_input": "value", "orig_output": "output"}),
    ):
        yield Op(
            forward, "ratios", compute, (_input("value"), *_DRAWING), FRACTIONAL, 2,
            f"{word} of each cell of fractional pooling, whose rows and columns are drawn.",
            f"output[r, c] = {word.lower()} of value over rows row[r]:row[r+1] and columns col[c]:col[c+1], "
            "each one longer if overlapping",
            f"{x}>>> y, rows, columns = raw_ops.{forward}(x, {draw})\n"
            ">>> y.shape, rows.tolist()\n((1, 2, 3, 1), [0, 2, 4])",
            outputs=drawn, format_is_extra=True, gradient=f"{forward}Grad",
            wiring=wiring | {"out_backprop": "grad"} | {name: name for name in drawn[1:]},
        )
    backprop = _output("out_backprop", "Gradient of the pooled result.")
    yield Op(
        "FractionalAvgPoolGrad", "sequences", "avg_grad",
        (_shape("orig_input_tensor_shape"), backprop, *_SEQUENCES, _OVERLAPPING), FRACTIONAL, 2,
        "Gradient of FractionalAvgPool: each grad divided evenly over its cell.",
        "output[i] = sum over the cells o that hold i of out_backprop[o] / number of elements of cell(o)",
        ">>> g = np.array([3.0, 6.0], 'float32').reshape([1, 1, 2, 1])\n"
        ">>> raw_ops.FractionalAvgPoolGrad([1, 1, 5, 1], g, [0, 1], [0, 2, 4], overlapping=True).ravel().tolist()\n"
        "[1.0, 1.0, 3.0, 2.0, 2.0]",
        result="input", format_is_extra=True,
    )
    checked = _output("orig_output", "What pooling it gave: must equal the maximum of every cell.")
    yield Op(
        "FractionalMaxPoolGrad", "sequences", "max_grad_checked",
        (_ORIG_INPUT, checked, backprop, *_SEQUENCES, _OVERLAPPING), FRACTIONAL, 2,
        "Gradient of FractionalMaxPool: each grad added to the element that won its cell.",
        f"output[i] = sum of out_backprop[o] over the cells o that i won: {_FIRST_WINS.replace('window', 'cell')}",
        ">>> x = np.array([20, 5, 16, 3, 7], 'float32').reshape([1, 1, 5, 1])\n"
        ">>> y = np.array([20, 16], 'float32').reshape([1, 1, 2, 1])\n"
        ">>> raw_ops.FractionalMaxPoolGrad(x, y, y, [0, 1], [0, 2, 4], overlapping=True).ravel().tolist()\n"
        "[20.0, 0.0, 16.0, 0.0, 0.0]",
        result="input", format_is_extra=True,
    )
# fmt: on


_FAMILIES = (_averages(), _maxima(), _maxima_with_argmax(), _fractional())
OPS: Mapping[str, Op] = {row.name: row for family in _FAMILIES for row in family}


def _row(name: str) -> Op:
    return OPS[name]
