"""docs/reference/quantization.md lists every method from the rows; WINDLASS_GOLDEN=write rewrites the list."""

import os
from pathlib import Path

from windlass_sizing.quantization.engine import ENGINE
from windlass_sizing.quantization.methods import METHODS, Kind, Method

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "quantization.md"
START, END = "pytest lib/sizing/tests/test_methods_page.py -->\n", "<!-- end of methods -->"
HEAD = """\
| name | takes | compute capability | dtype on a GPU | bytes a weight | mixtures of experts |
| --- | --- | --- | --- | --- | --- |
"""
REFUSED_HEAD = """
These names are known and refused:

| name | why | instead |
| --- | --- | --- |
"""


def row(method: Method) -> str:
    """One method as a line."""
    plain = ["plain weights"] if method.on_plain_weights else []
    read = [f"{name} checkpoints" for name in method.formats]
    only = f" of {' and '.join(method.model_types)}" if method.model_types else ""
    size = "as stored" if method.real_bytes is None else f"{method.real_bytes:.4g}"
    capability = ".".join(map(str, method.min_capability))
    return (
        f"| `{method.name}` | {', '.join(plain + read)}{only} | {capability} | {', '.join(sorted(method.dtypes))} "
        f"| {size} | {'yes' if method.experts else 'no'} |\n"
    )


def table() -> str:
    """The rows that may be asked for, then those that are refused."""
    taken = [method for method in METHODS.values() if method.kind is not Kind.REFUSED]
    refused = [method for method in METHODS.values() if method.kind is Kind.REFUSED]
    lines = [f"| `{method.name}` | {method.why} | {method.instead} |\n" for method in refused]
    return "".join((HEAD, *map(row, taken), REFUSED_HEAD, *lines))


def test_the_page_lists_every_method() -> None:
    """The docs say what the rows say, for the release that the rows are from."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    listed, end, after = rest.partition(END)
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(before + START + table() + end + after, encoding="utf-8")
        listed = table()
    assert listed == table()
    assert f"vLLM {ENGINE.release}" in before
