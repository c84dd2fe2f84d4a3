"""The command line: every op on files, one clear line for every mistake, the demo on one screen."""

import io
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import ml_dtypes
import numpy as np
import pytest

from poolgrad import __version__, raw_ops
from poolgrad.cli import main
from poolgrad.cli.picture import Screen
from poolgrad.cli.run import example
from poolgrad.op_table import OPS, REQUIRED

AVERAGE = "run AvgPoolGrad --orig-input-shape 1,4,4,1 --grad grad.npy --ksize 1,2,2,1 --strides 1,2,2,1 --padding SAME"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    np.save("grad.npy", np.arange(4, dtype="float32").reshape(1, 2, 2, 1))
    return tmp_path


def run(line, capsys):
    code = main(shlex.split(line))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def mistake(line, capsys):
    """The one line a mistake prints."""
    before = set(os.listdir())
    code, out, error = run(line, capsys)
    assert code == 2, (out, error)
    assert out == ""
    assert error.count("\n") == 1, error
    assert "Traceback" not in error
    assert set(os.listdir()) == before, "no file, not even a part of one"
    return error


# ---- run ------------------------------------------------------------------------------------------------------


def test_the_readme_line(capsys):
    code, out, _ = run(f"{AVERAGE} -o dx.npy", capsys)
    assert code == 0
    assert out == "output: float32 (1, 4, 4, 1)\nwrote dx.npy\n"
    expected = raw_ops.AvgPoolGrad([1, 4, 4, 1], np.load("grad.npy"), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    np.testing.assert_array_equal(np.load("dx.npy"), expected)


@pytest.mark.parametrize("name", OPS)
def test_the_example_of_every_op_runs_and_equals_the_op(name, capsys):
    op = OPS[name]
    assert max(map(len, example(op).splitlines())) <= 80
    lines = example(op).replace("\\\n", " ").splitlines()
    for line in lines[:-1]:
        program, flag, code = shlex.split(line)
        assert (program, flag) == ("python", "-c")
        exec(code)
    words = shlex.split(lines[-1])
    assert words[0] == "poolgrad"
    assert main(words[1:]) == 0, capsys.readouterr().err

    given = dict(zip(words[3:-2:2], words[4:-2:2], strict=True))
    values = {}
    for option, text in given.items():
        argument = op.argument(option.removeprefix("--").replace("-", "_"))
        if text.endswith(".npy"):
            values[argument.name] = np.load(text)
        elif argument.kind == "choice":
            values[argument.name] = text
        else:
            values[argument.name] = [float(n) if "." in n else int(n) for n in text.split(",")]
    if op.windows == "ratios":  # drawn anew each time: only what does not depend on the draw
        values |= {"deterministic": True, "seed": 1, "seed2": 2}
        assert main([*words[1:], "--deterministic", "--seed", "1", "--seed2", "2"]) == 0
    expected = getattr(raw_ops, name)(**values)
    if len(op.outputs) == 1:
        np.testing.assert_array_equal(np.load("result.npy"), expected)
    else:
        with np.load("result.npz") as result:
            assert tuple(result.files) == op.outputs
            for output in op.outputs:
                np.testing.assert_array_equal(result[output], getattr(expected, output))


@pytest.mark.parametrize("name", OPS)
def test_the_help_of_every_op_teaches_every_argument(name, capsys):
    code, out, _ = run(f"run {name} --help", capsys)
    assert code == 0
    flat = " ".join(out.split())
    for argument in OPS[name].arguments:
        assert f"--{argument.name.replace('_', '-')} " in flat
        assert argument.help.removesuffix(".") in flat
        for choice in argument.choices:
            assert choice in flat
    assert OPS[name].summary in out
    assert f"poolgrad run {name}" in out


def test_run_help_lists_every_op(capsys):
    code, out, _ = run("run --help", capsys)
    assert code == 0
    assert all(re.search(rf"^ +{name}\b", out, re.MULTILINE) for name in OPS)


def test_arguments_may_be_spelled_as_in_the_op(capsys):
    run(f"{AVERAGE} -o a.npy", capsys)
    line = AVERAGE.replace("--orig-input-shape 1,4,4,1", "--orig_input_shape=[1,4,4,1]")
    code, _, _ = run(f"{line} -o b.npy", capsys)
    assert code == 0
    np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))


def test_shapes_and_sequences_come_from_files_too(capsys):
    np.save("shape.npy", np.array([1, 4, 4, 1]))
    np.save("rows.npy", np.array([0, 2, 4]))
    line = (
        "run FractionalAvgPoolGrad --orig-input-tensor-shape shape.npy --out-backprop grad.npy "
        "--row-pooling-sequence rows.npy --col-pooling-sequence 0,1,4 --overlapping -o dx.npy"
    )
    assert run(line, capsys)[0] == 0
    expected = raw_ops.FractionalAvgPoolGrad([1, 4, 4, 1], np.load("grad.npy"), [0, 2, 4], [0, 1, 4], overlapping=True)
    np.testing.assert_array_equal(np.load("dx.npy"), expected)


def test_results_of_one_op_go_into_its_gradient(capsys):
    x = np.random.default_rng(0).permutation(np.arange(16.0)).reshape(1, 4, 4, 1)
    np.save("x.npy", x)
    drawn = "run FractionalMaxPool --value x.npy --pooling-ratio 1,1.5,1.5,1 --deterministic true --seed 3 -o y.npz"
    assert run(drawn, capsys)[0] == 0
    line = (
        "run FractionalMaxPoolGrad --orig-input x.npy --orig-output y.npz:output --out-backprop y.npz:output "
        "--row-pooling-sequence y.npz:row_pooling_sequence --col-pooling-sequence y.npz:col_pooling_sequence -o dx.npy"
    )
    code, _, error = run(line, capsys)
    assert code == 0, error
    y = np.load("y.npz")["output"]
    assert np.load("dx.npy").sum() == y.sum()


def test_without_output_the_result_is_printed(capsys):
    code, out, _ = run(AVERAGE, capsys)
    assert code == 0
    assert "0.75" in out
    assert os.listdir() == ["grad.npy"]


def test_channels_first_everywhere(capsys):
    np.save("first.npy", np.arange(4, dtype="float32").reshape(1, 1, 2, 2))
    line = (
        "run FractionalAvgPoolGrad --orig-input-tensor-shape 1,1,4,4 --out-backprop first.npy --data-format NCHW "
        "--row-pooling-sequence 0,2,4 --col-pooling-sequence 0,2,4 -o dx.npy"
    )
    assert run(line, capsys)[0] == 0
    assert np.load("dx.npy").shape == (1, 1, 4, 4)


@pytest.mark.parametrize("stored", ["void", "uint16"])
def test_bfloat16_round_trip(stored, capsys):
    grad = np.array([1.0, 2.0, 3.0, 1e30], ml_dtypes.bfloat16).reshape(1, 2, 2, 1)
    np.save("grad.npy", grad if stored == "void" else grad.view(np.uint16))
    code, out, error = run(f"{AVERAGE} --dtype bfloat16 -o dx.npy", capsys)
    assert code == 0, error
    told = re.search(r"read it back with (.*)", out).group(1)
    result = eval(told, {"numpy": np, "ml_dtypes": ml_dtypes})
    assert result.dtype == ml_dtypes.bfloat16
    expected = raw_ops.AvgPoolGrad([1, 4, 4, 1], grad, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    assert result.tobytes() == expected.tobytes()
    again = AVERAGE.replace("AvgPoolGrad --orig-input-shape 1,4,4,1 --grad grad.npy", "AvgPool --value dx.npy")
    assert run(f"{again} --dtype bfloat16 -o y.npy", capsys)[0] == 0
    np.testing.assert_array_equal(np.load("y.npy").view(ml_dtypes.bfloat16) * 4, grad)


def test_bfloat16_in_an_npz(capsys):
    np.save("x.npy", np.arange(16.0).reshape(1, 4, 4, 1))
    line = "run MaxPoolWithArgmax --input x.npy --ksize 1,2,2,1 --strides 1,2,2,1 --padding VALID --dtype bfloat16"
    _, out, _ = run(f"{line} -o y.npz", capsys)
    result = eval(re.search(r"read it back with (.*)", out).group(1), {"numpy": np, "ml_dtypes": ml_dtypes})
    assert result.ravel().astype(float).tolist() == [5, 7, 13, 15]


def test_dtype_converts(capsys):
    assert run(f"{AVERAGE} --dtype float64 -o dx.npy", capsys)[0] == 0
    assert np.load("dx.npy").dtype == np.float64


def test_an_output_may_replace_its_own_input(capsys):
    line = "run AvgPool --value x.npy --ksize 1,1,1,1 --strides 1,1,1,1 --padding VALID -o x.npy"
    x = np.arange(4.0).reshape(1, 2, 2, 1)
    np.save("x.npy", x)
    assert run(line, capsys)[0] == 0
    np.testing.assert_array_equal(np.load("x.npy"), x)


def test_the_result_has_ordinary_permissions(capsys):
    run(f"{AVERAGE} -o dx.npy", capsys)
    assert os.stat("dx.npy").st_mode == os.stat("grad.npy").st_mode


def test_workers_and_fortran_order_and_empty_arrays(capsys):
    np.save("x.npy", np.asfortranarray(np.arange(48.0).reshape(1, 4, 4, 3)))
    line = "run AvgPool --value x.npy --ksize 1,2,2,1 --strides 1,2,2,1 --padding VALID --workers 2 -o y.npy"
    assert run(line, capsys)[0] == 0
    expected = raw_ops.AvgPool(np.load("x.npy"), [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    np.testing.assert_array_equal(np.load("y.npy"), expected)
    np.save("x.npy", np.ones((0, 4, 4, 3)))
    assert run(line, capsys)[0] == 0
    assert np.load("y.npy").shape == (0, 2, 2, 3)


# ---- mistakes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("AvgPoolGrad", "AvgPolGrad"), ["'AvgPolGrad' is not an op; did you mean AvgPoolGrad"]),
        (("AvgPoolGrad", "Softmax"), ["'Softmax' is not an op; poolgrad run --help lists them"]),
        ((" --padding SAME", ""), ["--padding", "required", "poolgrad run AvgPoolGrad --help"]),
        (("SAME", "same"), ["AvgPoolGrad", "padding", "'same'", "'SAME'", "'VALID'"]),
        (("--ksize 1,2,2,1", "--ksize 1,2.0,2,1"), ["--ksize", "'2.0'", "not an integer"]),
        (("--ksize 1,2,2,1", "--ksize 1,2,2"), ["AvgPoolGrad", "ksize", "[1, 2, 2]"]),
        (("--ksize 1,2,2,1", "--ksize -1,2,2,1"), ["AvgPoolGrad", "ksize", "-1"]),
        (("1,4,4,1", "1,9,4,1"), ["AvgPoolGrad: grad has shape (1, 2, 2, 1)", "(1, 5, 2, 1)"]),
        (("1,4,4,1", "1,-4,4,1"), ["AvgPoolGrad", "orig_input_shape", "-4"]),
        (("1,4,4,1", "1,99999999999999999999,4,1"), ["AvgPoolGrad", "orig_input_shape"]),
        (("grad.npy", "nothing.npy"), ["--grad nothing.npy", "no such file"]),
        (("grad.npy", "."), ["--grad .", "cannot be read"]),
        (("grad.npy", "text.npy"), ["--grad text.npy", "not an array"]),
        (("grad.npy", "empty.npy"), ["--grad empty.npy", "not an array"]),
        (("grad.npy", "pickled.npy"), ["--grad pickled.npy", "not an array"]),
        (("grad.npy", "lying.npy"), ["--grad lying.npy", "not an array"]),
        (("grad.npy", "several.npz"), ["several.npz", "say which array", "several.npz:a"]),
        (("grad.npy", "none.npz"), ["--grad none.npz", "this file has none"]),
        (("grad.npy", "junk.npz:a"), ["--grad junk.npz:a", "not an array"]),
        (("1,4,4,1", "grad.npy"), ["orig_input_shape=array(", "not a one-dimensional array of integers"]),
        (("grad.npy", "several.npz:c"), ["several.npz:c", "say which array", "several.npz:a"]),
        (("grad.npy", "void.npy"), ["--grad void.npy", "--dtype bfloat16"]),
        (("grad.npy", "grad.npy --dtype int32"), ["--dtype", "int32"]),
        (("grad.npy", "integers.npy"), ["AvgPoolGrad", "grad", "int64", "float32"]),
        (("SAME", "SAME -o dx.npz"), ["dx.npz", "one output", "dx.npy"]),
        (("SAME", "SAME -o nowhere/dx.npy"), ["nowhere/dx.npy", "no folder"]),
        (("SAME", "SAME -o folder.npy"), ["folder.npy", "not a regular file"]),
        (("SAME", "SAME --data-format NCDHW"), ["AvgPoolGrad", "data_format='NCDHW' is for 5-D", "'NHWC'"]),
        (("SAME", "SAME --workers 0"), ["workers", "0"]),
        (("SAME", "SAME --unknown 3"), ["--unknown"]),
        (("SAME", "SAME --overlapping"), ["--overlapping"]),
    ],
)
def test_a_mistake_is_one_clear_line(change, words, capsys):
    with open("text.npy", "w") as file:
        file.write("these are words")
    open("empty.npy", "w").close()
    np.save("pickled.npy", np.array([{}], object), allow_pickle=True)
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1000000, 1000000, 1000000), }"
    with open("lying.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n")
    with open("junk.npz", "wb") as file:
        file.write(b"PK\x03\x04junk")
    np.savez("none.npz")
    np.savez("several.npz", a=np.ones(2), b=np.ones(2))
    np.save("void.npy", np.ones((1, 2, 2, 1), ml_dtypes.bfloat16))
    np.save("integers.npy", np.ones((1, 2, 2, 1), "int64"))
    os.mkdir("folder.npy")
    assert change[0] in AVERAGE
    error = mistake(AVERAGE.replace(*change, 1), capsys)
    for word in words:
        assert word in error, error


def test_several_outputs_need_an_npz(capsys):
    np.save("x.npy", np.ones((1, 4, 4, 1)))
    line = "run MaxPoolWithArgmax --input x.npy --ksize 1,2,2,1 --strides 1,2,2,1 --padding VALID -o y.npy"
    error = mistake(line, capsys)
    assert "2 outputs" in error
    assert "y.npz" in error


def test_flags_take_true_or_false(capsys):
    line = "run FractionalAvgPool --value grad.npy --pooling-ratio 1,1,1,1 --deterministic maybe"
    assert "neither true nor false" in mistake(line, capsys)
    assert "'x' in '1,x,1,1' is not a number" in mistake(line.replace("1,1,1,1", "1,x,1,1"), capsys)
    line = "run FractionalAvgPool --value grad.npy --pooling-ratio 1,1,1,1 --deterministic --seed 1.5"
    assert "'1.5' is not an integer" in mistake(line, capsys)


def test_an_error_found_while_computing_leaves_the_old_file(capsys):
    np.save("x.npy", np.arange(16.0).reshape(1, 4, 4, 1))
    np.save("wrong.npy", np.zeros((1, 2, 2, 1)))
    np.save("dx.npy", np.array([42]))
    line = (
        "run FractionalMaxPoolGrad --orig-input x.npy --orig-output wrong.npy --out-backprop wrong.npy "
        "--row-pooling-sequence 0,2,4 --col-pooling-sequence 0,2,4 -o dx.npy"
    )
    assert "orig_output[0, 0, 0, 0] is not the maximum of its cell" in mistake(line, capsys)
    assert np.load("dx.npy").tolist() == [42]


def test_a_full_disk_leaves_nothing(capsys, monkeypatch):
    def full(file, array, allow_pickle):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert "No space left on device" in mistake(f"{AVERAGE} -o dx.npy", capsys)


SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts in the background
signal.signal(signal.SIGTERM, signal.SIG_DFL)
import numpy as np
from poolgrad.cli import main
def save(file, array, allow_pickle):
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
np.save = save
sys.exit(main(sys.argv[1:]))
"""


# Where files have names from the start, nobody can take them away after SIGKILL.
STOPS = [
    (number, code, nameless)
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130))
    for nameless in (True, False)
]


@pytest.mark.parametrize(("number", "code", "nameless"), [*STOPS, (signal.SIGKILL, -9, True)])
def test_a_stopped_run_leaves_nothing(number, code, nameless):
    before = os.listdir()
    program = SLOW if nameless else "import os; del os.O_TMPFILE" + SLOW
    command = [sys.executable, "-c", program, *shlex.split(AVERAGE), "-o", "dx.npy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        assert len(os.listdir()) == len(before) + (not nameless), "the part that must go"
        process.send_signal(number)
        assert process.wait(30) == code
    assert os.listdir() == before


def test_a_wrong_dtype_is_said_in_words_of_files(capsys):
    for name, dtype in (
        ("whole", "int64"),
        ("double", "float64"),
        ("yes", "bool"),
        ("short", "int16"),
        ("bits", "uint16"),
    ):
        np.save(f"{name}.npy", np.ones((1, 2, 2, 1), dtype))
    np.save("x.npy", np.ones((1, 4, 4, 1), "float32"))
    error = mistake(AVERAGE.replace("grad.npy", "whole.npy"), capsys)
    assert "--grad whole.npy: holds int64; it must be float16, bfloat16, float32, float64" in error
    assert "--dtype float32 converts every input" in error
    assert run(AVERAGE.replace("grad.npy", "whole.npy") + " --dtype float32 -o dx.npy", capsys)[0] == 0
    assert "--dtype bfloat16 if these are its bits, else" in mistake(AVERAGE.replace("grad.npy", "bits.npy"), capsys)
    with open("text.npy", "w") as file:
        file.write("no array")
    assert "is not an array saved by numpy.save (it begins otherwise)" in mistake(
        AVERAGE.replace("grad.npy", "text.npy"), capsys
    )
    assert "--grad yes.npy: holds bool" in (error := mistake(AVERAGE.replace("grad.npy", "yes.npy"), capsys))
    assert "save it as float32" in error
    sizes = "--ksize 1,2,2,1 --strides 1,2,2,1 --padding VALID"
    error = mistake(f"run MaxPoolGrad --orig-input x.npy --orig-output double.npy --grad double.npy {sizes}", capsys)
    assert "--orig-output double.npy: holds float64; another input holds float32: --dtype float32" in error
    error = mistake(f"run MaxPoolGradWithArgmax --input x.npy --grad grad.npy --argmax short.npy {sizes}", capsys)
    assert "--argmax short.npy: holds int16; it must be int64, int32: save it as int64" in error


def test_no_command_shows_the_help(capsys):
    code, out, _ = run("", capsys)
    assert code == 0
    for command in ("demo", "info", "run", "studio", "bench"):
        assert re.search(rf"^ +{command} ", out, re.MULTILINE)
    assert "invalid choice" in mistake("walk", capsys)


# ---- info, studio, bench --------------------------------------------------------------------------------------


def test_info(capsys):
    code, out, _ = run("info", capsys)
    assert code == 0
    assert re.search(rf"^poolgrad +{re.escape(__version__)}$", out, re.MULTILINE)
    assert re.search(r"^dispatch +(avx2|baseline) ", out, re.MULTILINE)
    assert re.search(r"^workers +\d+ of \d+ CPUs", out, re.MULTILINE)
    assert "bfloat16" in out
    assert max(map(len, out.splitlines())) <= 80


def test_version(capsys):
    assert run("--version", capsys) == (0, f"poolgrad {__version__}\n", "")


def test_the_studio_gets_what_was_typed(monkeypatch, capsys):
    import poolgrad.studio

    calls = []
    monkeypatch.setattr(poolgrad.studio, "serve", lambda *arguments: calls.append(arguments))
    assert main(["studio"]) == 0
    assert main(shlex.split("studio page.json --host ::1 --port 9000 --no-browser --allow-host a --allow-host b")) == 0
    assert calls == [(None, "127.0.0.1", None, True, []), ("page.json", "::1", 9000, False, ["a", "b"])]

    def refuse(*arguments):
        raise poolgrad.studio.StudioError("port 9000 is taken")

    monkeypatch.setattr(poolgrad.studio, "serve", refuse)
    assert mistake("studio --port 9000", capsys) == "poolgrad: port 9000 is taken\n"


@pytest.mark.parametrize(("command", "module"), [("studio", "poolgrad.studio"), ("bench", "poolgrad.bench")])
@pytest.mark.parametrize("missing", ["itself", "a requirement"])
def test_a_missing_part_is_said_plainly(command, module, missing, monkeypatch, capsys):
    name = module if missing == "itself" else "starlette"

    def absent(wanted):
        assert wanted == module
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("poolgrad.cli.extras.importlib.import_module", absent)
    error = mistake(command, capsys)
    assert name in error
    assert ("pip install" in error) == (missing != "itself")


def test_bench_gets_its_own_arguments(monkeypatch):
    class Bench:
        @staticmethod
        def main(words):
            seen.append(words)

    seen = []
    monkeypatch.setattr("poolgrad.cli.extras.importlib.import_module", lambda name: Bench)
    assert main(["bench", "--update-readme", "README.md"]) == 0
    assert seen == [["--update-readme", "README.md"]]


# ---- demo -----------------------------------------------------------------------------------------------------

GRADIENTS = [name for name in OPS if "Grad" in name]


def test_demo_is_one_screen(capsys):
    code, out, _ = run("demo", capsys)
    lines = out.splitlines()
    assert code == 0, out
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for name in GRADIENTS:
        assert re.search(rf"^{name} +\d+e[-+]\d+ ok", out, re.MULTILINE), name
    assert len(re.findall(r"copy limit", out)) == 1
    assert re.search(r"AvgPoolGrad \d+\.\d+ ms, MaxPoolGrad \d+\.\d+ ms\n\(copy limit here \d+\.\d+ ms", out)
    assert "poolgrad-demo.svg, in this folder" in out
    assert "\x1b" not in out
    assert "poolgrad run --help" in lines[-1]
    ElementTree.parse("poolgrad-demo.svg")
    assert sorted(os.listdir()) == ["grad.npy", "poolgrad-demo.svg"]


def test_demo_finds_a_wrong_gradient(monkeypatch, capsys):
    real = raw_ops.AvgPool3DGrad
    monkeypatch.setattr(raw_ops, "AvgPool3DGrad", lambda **arguments: real(**arguments) * 1.001)
    code, out, _ = run("demo", capsys)
    assert code == 1
    assert re.findall(r"^(\w+) .* WRONG", out, re.MULTILINE) == ["AvgPool3DGrad"]


def test_demo_writes_where_it_is_told(capsys):
    assert run("demo -o other.svg", capsys)[0] == 0
    assert os.path.exists("other.svg")
    assert run("demo --svg third.svg", capsys)[0] == 0
    assert os.path.exists("third.svg")
    code, out, _ = run("demo --no-svg", capsys)
    assert code == 0
    assert "picture" not in out
    assert sorted(os.listdir()) == ["grad.npy", "other.svg", "third.svg"]
    assert "not allowed with" in mistake("demo --no-svg --svg third.svg", capsys)
    assert "name a .svg file" in mistake("demo -o other.png", capsys)
    assert "no folder" in mistake("demo -o nowhere/other.svg", capsys)


def in_a_terminal(variables):
    """What ``python -m poolgrad demo`` prints into a pseudo-terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "poolgrad", "demo"]
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | variables
    with subprocess.Popen(command, stdout=theirs, env=environment) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # Linux says EIO when the other side is closed
                break
            if not piece:
                break
            text += piece
    os.close(ours)
    assert process.returncode == 0
    return text.decode()


def test_demo_has_colour_in_a_terminal_and_none_with_no_color():
    coloured = in_a_terminal({"TERM": "xterm-256color"})
    assert "\x1b[48;5;" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert max(len(line) for line in plain.splitlines()) <= 80
    assert "\x1b" not in in_a_terminal({"TERM": "xterm-256color", "NO_COLOR": "1"})
    assert "\x1b" not in in_a_terminal({"TERM": "dumb"})


def test_a_picture_falls_back_to_ascii():
    ascii_stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    values = np.array([[0.0, 1.0, -1.0, 0.5]])
    assert Screen(ascii_stream).picture(values) == ["  ##-#::"]
    assert Screen(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")).picture(values) == ["  ██-█▒▒"]
    assert Screen(ascii_stream).picture(np.zeros((1, 2))) == ["    "]


def test_a_closed_pipe_is_no_error():
    command = f"{shlex.quote(sys.executable)} -m poolgrad run --help | head -n 1"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert result.stderr == ""


def test_required_arguments_are_the_tables(capsys):
    for name, op in OPS.items():
        error = mistake(f"run {name}", capsys)
        for argument in op.arguments:
            assert (f"--{argument.name.replace('_', '-')}" in error) == (argument.default is REQUIRED)


def test_the_example_of_main_is_what_happens():
    import doctest

    import poolgrad.cli

    assert doctest.testmod(poolgrad.cli) == (0, 2)
