"""Write the reference pages of the ops, from the op table, and check the pages that are written by hand.

python tools/make_docs.py FOLDER      one page and one picture an op, and index.md, into FOLDER
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
from typing import Any

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
            (options.folder / f"{op.name}.md").write_text(op_page(op))
            (options.folder / f"{op.name}.svg").write_text(picture(op, *run_example(op)))
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
## Example

```python
>>> import numpy as np
>>> from poolgrad import raw_ops
{op.example}
```

![{title(op)}]({op.name}.svg)

{title(op)}.

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
    return "The windows of this example on what is pooled" + (", and its result" if "Grad" in op.name else "")


def picture(op: Op, given: dict[str, Any], result: Any) -> str:
    """The windows of one call of ``op``, on its data if it has any, and what a gradient gave."""
    plan = raw_ops.plan(op.name, **{name: value for name, value in given.items() if name not in ("out", "workers")})
    x = next((given[argument.name] for argument in op.arguments if argument.side == "input"), None)
    return pg.draw(plan.table, x=x, grad=result if "Grad" in op.name else None)


def run_example(op: Op) -> tuple[dict[str, Any], Any]:
    """Run the example of ``op``; the arguments and the result of its last call of the op."""
    function, calls = getattr(raw_ops, op.name), []

    def recorded(*positional: Any, **named: Any) -> Any:
        result = function(*positional, **named)
        bound = inspect.signature(function).bind(*positional, **named)
        bound.apply_defaults()
        calls.append((bound.arguments, result))
        return result

    text = f">>> import numpy as np\n>>> from poolgrad import raw_ops\n{op.example}\n"
    test = doctest.DocTestParser().get_doctest(text, {}, op.name, None, 0)
    setattr(raw_ops, op.name, recorded)
    try:
        failed = doctest.DocTestRunner().run(test).failed
    finally:
        setattr(raw_ops, op.name, function)
    if failed:
        raise SystemExit(f"the example of {op.name} fails")
    return calls[-1]


if __name__ == "__main__":
    sys.exit(main())
