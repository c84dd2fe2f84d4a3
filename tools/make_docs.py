"""Write the reference pages of the ops, from the op table, and check the pages that are written by hand.

python tools/make_docs.py FOLDER      one page an op and index.md into FOLDER
python tools/make_docs.py --update    write docs/coming-from.md from its pairs of calls

Examples are run. Exit code 1 if docs/coming-from.md is not current, a link leads nowhere, or a test that
docs/differences.md names does not exist.
"""

from __future__ import annotations

import argparse
import doctest
import inspect
import re
import sys
from pathlib import Path

import numpy as np

import poolgrad as pg
from poolgrad import raw_ops
from poolgrad.cli.run import example as command_line
from poolgrad.op_table import OPS, REQUIRED, Op

ROOT = Path(__file__).resolve().parent.parent
PAIRS_PAGE = ROOT / "docs" / "coming-from.md"
sys.path.insert(0, str(ROOT / "examples"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="where the pages go")
    parser.add_argument("--update", action="store_true", help="write docs/coming-from.md instead of comparing it")
    options = parser.parse_args()
    import coming_from

    page = coming_from.page()
    problems = [*dead_links(), *missing_tests()]
    if options.update:
        PAIRS_PAGE.write_text(page)
    elif not PAIRS_PAGE.exists() or PAIRS_PAGE.read_text() != page:
        problems.append("docs/coming-from.md is not current: run python tools/make_docs.py --update")
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        for op in OPS.values():
            (options.folder / f"{op.name}.svg").write_text(picture(op))
            (options.folder / f"{op.name}.md").write_text(op_page(op))
        (options.folder / "index.md").write_text(index())
        print(f"{len(OPS)} ops: {options.folder}/index.md")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def dead_links() -> list[str]:
    problems = []
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        problems += [
            f"{page.relative_to(ROOT)}: {link} does not exist" for link in links if not (page.parent / link).exists()
        ]
    return problems


def missing_tests() -> list[str]:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "differences.md").read_text()))
    written = set(re.findall(r"def (test_\w+)", (ROOT / "tests" / "test_differences.py").read_text()))
    return [f"docs/differences.md: tests/test_differences.py has no {name}" for name in sorted(named - written)]


def index() -> str:
    rows = "".join(f"| [{op.name}]({op.name}.md) | {op.summary} | {gradient_link(op)} |\n" for op in OPS.values())
    return f"# The raw ops\n\n| op | | its gradient |\n|---|---|---|\n{rows}"


def op_page(op: Op) -> str:
    run_example(op)
    rows = "".join(
        f"| `{argument.name}` | {kind(argument.kind, argument.choices)} | {default(argument.default)} "
        f"| {argument.help} |\n"
        for argument in op.arguments
    )
    if op.format_is_extra:
        formats = kind("choice", op.formats)
        rows += (
            f"| `data_format` | {formats} | `{op.formats[0]!r}` | Order of the axes; keyword only, poolgrad's own. |\n"
        )
    outputs = ", ".join(f"`{name}`" for name in op.outputs)
    return f"""# {op.name}

{op.summary}

```
{op.name}{inspect.signature(getattr(raw_ops, op.name))}
```

    {op.formula}

dtypes: {", ".join(op.dtypes)}. Returns {outputs}{" as a named tuple" if len(op.outputs) > 1 else ""}.

| argument | kind | default | |
|---|---|---|---|
{rows}
![{title(op)}]({op.name}.svg)

{title(op)}.

## Example

```python
>>> import numpy as np
>>> from poolgrad import raw_ops
{op.example}
```

From the command line:

```sh
{inspect.cleandoc(command_line(op))}
```
{wiring(op)}"""


def kind(name: str, choices: tuple[str, ...]) -> str:
    if name == "choice":
        return " or ".join(f"`{choice!r}`" for choice in choices)
    words = {"tensor": "array", "indices": "int array", "sizes": "ints", "shape": "ints", "sequence": "ints"}
    return words.get(name, {"ratios": "floats", "paddings": "ints", "flag": "bool", "integer": "int"}.get(name, name))


def default(value: object) -> str:
    return "" if value is REQUIRED else f"`{value!r}`"


def gradient_link(op: Op) -> str:
    return "" if op.gradient is None else f"[{op.gradient}]({op.gradient}.md)"


def wiring(op: Op) -> str:
    if op.gradient is None:
        return ""
    rows = "".join(f"| `{name}` | {source} |\n" for name, source in op.wiring.items())
    return f"""
## Gradient

{gradient_link(op)}, with the same attributes and

| its argument | is |
|---|---|
{rows}"""


def title(op: Op) -> str:
    sliding = "Windows of 3 with step 2, padding SAME"
    cells = "Cells of the sequences 0 2 3 6 and 0 2 4 5 7, overlapping"
    what = "an input and its gradient for ones" if op.result == "input" else "on an input"
    return f"{sliding if op.windows == 'sliding' else cells}, {what}"


def picture(op: Op) -> str:
    if op.windows == "sliding":
        w = pg.sliding((6, 7) if op.spatial == 2 else (4, 4, 4), window=3, stride=2, padding="SAME")
    else:
        w = pg.fractional((6, 7), [[0, 2, 3, 6], [0, 2, 4, 5, 7]], overlapping=True)
    axes = tuple(range(len(w.axes)))
    x = np.sin(np.arange(np.prod(w.input_size)) * 1.7).reshape(w.input_size)
    pooled, winners = pg.max_pool(x, w, axes=axes, return_winners=True)
    if op.result == "output":
        return pg.draw(w, x=x)
    ones = np.ones_like(pooled)
    average = op.compute == "avg_grad"
    grad = pg.avg_pool_grad(ones, w, axes=axes) if average else pg.max_pool_grad(ones, w, winners, axes=axes)
    return pg.draw(w, x=x, grad=grad)


def run_example(op: Op) -> None:
    text = f">>> import numpy as np\n>>> from poolgrad import raw_ops\n{op.example}\n"
    test = doctest.DocTestParser().get_doctest(text, {}, op.name, None, 0)
    if doctest.DocTestRunner().run(test).failed:
        raise SystemExit(f"the example of {op.name} fails")


if __name__ == "__main__":
    sys.exit(main())
