"""Every replaced function of another package has a row, and docs/reference/replaced-functions.md is printed from them.

WINDLASS_GOLDEN=write rewrites the page.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from windlass.replaced import REPLACED

ROOT = Path(__file__).parents[2]
SOURCES = ("lib/base/src", "server/src", "server/lookahead/src", "server/deepspeed/src")
PAGE = ROOT / "docs" / "reference" / "replaced-functions.md"
HEAD = """\
# Replaced functions

<!-- Printed from server/src/windlass/replaced.py: WINDLASS_GOLDEN=write pytest server/tests/test_replaced.py -->

The server runs vLLM's own package: no file of it, of starlette or of another package is changed. In a running process
our plug-ins and the guard replace the names below. Each is there because the package has no hook for it. All else
enters by hooks: `--middleware`, `--worker-cls`, `--scheduler-cls`, `--logits-processors`, `--load-format` and vLLM's
entry points for plug-ins and quantization. vLLM has no flag for the protocol of its HTTP server
([vllm-project/vllm#57203](https://github.com/vllm-project/vllm/issues/57203)); the guard sets it in that server's
configuration before it listens.

A test walks our sources and fails on a replacement without a row. It sees assignments to names of other packages, not
what a worker class of ours sets on the engine's objects that it is given. `windlass doctor --engine` says whether an
installed engine still has the names of vLLM ([releases](engines.md)).

| replaced | by | reason | ends with |
| --- | --- | --- | --- |
"""


class Names:
    """Names of a module that stand for objects of other packages."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))
        self._texts = dict(self._constants())
        self._known: dict[str, set[str]] = {}
        before = -1
        while before != (before := sum(map(len, self._known.values()))):  # until an alias of an alias is known
            for node in self._nodes:
                for name, values in self._bound(node):
                    self._known.setdefault(name, set()).update(values)

    def replaced(self) -> Iterator[str]:
        """Whole names of other packages that are assigned to."""
        for node in self._nodes:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
                yield from (f"{owner}.{self._text(node.args[1])}" for owner in self._of(node.args[0]))
            for target in targets:
                if isinstance(target, ast.Attribute | ast.Subscript):
                    yield from self._of(target)

    def _constants(self) -> Iterator[tuple[str, str]]:
        for node in self._nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                yield ast.unparse(node.targets[0]), str(node.value.value)
        for node in self._nodes:
            if isinstance(node, ast.arguments):
                pairs = zip(reversed(node.args), reversed(node.defaults), strict=False)
                yield from ((one.arg, ast.unparse(default).strip("'")) for one, default in pairs)

    def _text(self, node: ast.expr) -> str:
        text = str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)
        while text in self._texts and self._texts[text] != text:
            text = self._texts[text]
        return text

    def _bound(self, node: ast.AST) -> Iterator[tuple[str, set[str]]]:
        if isinstance(node, ast.Import):
            for one in node.names:
                whole = one.name if one.asname else one.name.partition(".")[0]
                yield one.asname or whole, {whole}
        elif isinstance(node, ast.ImportFrom):
            yield from ((one.asname or one.name, {f"{node.module}.{one.name}"}) for one in node.names)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, self._of(node.value)
        elif isinstance(node, ast.NamedExpr):
            yield node.target.id, self._of(node.value)
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            yield node.target.id, self._of(node.iter)

    def _of(self, node: ast.expr) -> set[str]:
        if isinstance(node, ast.Name):
            return self._known.get(node.id, set())
        if isinstance(node, ast.Attribute):
            return {f"{owner}.{node.attr}" for owner in self._of(node.value)}
        if isinstance(node, ast.Subscript):
            return {f"{owner}[{self._text(node.slice)}]" for owner in self._of(node.value)}
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return {name for one in node.elts for name in self._of(one)}
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            return {f"{owner}.{self._text(node.args[1])}" for owner in self._of(node.args[0])}
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("sys.modules.get", "importlib.import_module"):
            return {self._text(node.args[0])}
        return set()


def found() -> Iterator[tuple[str, str]]:
    """Each replaced name and our module, but for our own packages and the standard library."""
    for source in SOURCES:
        for path in (ROOT / source).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT / source).with_suffix("").parts)
            for name in Names(ast.parse(path.read_text())).replaced():
                package = name.partition(".")[0]
                if package not in sys.stdlib_module_names and not package.startswith("windlass"):
                    yield name, module


def page() -> str:
    """The reference page."""
    return HEAD + "".join(f"| `{one.name}` | `{one.module}` | {one.reason} | {one.ends} |\n" for one in REPLACED)


def test_each_replacement_has_a_row() -> None:
    """And no row is left of one that went."""
    assert sorted({(one.name, one.module) for one in REPLACED}) == sorted(set(found()))
    assert len({one.name for one in REPLACED}) == len(REPLACED)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import a.b\na.b.c = 1", {"a.b.c"}),
        ("import a.b as x\nx.c = 1", {"a.b.c"}),
        ("from a import b\nb.C.d = b.C.e = 1", {"a.b.C.d", "a.b.C.e"}),
        ("from a import b\nc = b.C\nd = c\nd.e += 1", {"a.b.C.e"}),
        ("from a import b\nb.T['x'] = 1", {"a.b.T[x]"}),
        ("from a import b\nsetattr(b, 'c', 1)", {"a.b.c"}),
        ("from a import b, c\nfor one in (b, c):\n one.d = 1", {"a.b.d", "a.c.d"}),
        ("import sys\nN = 'a.b'\nif one := sys.modules.get(N):\n one.c = 1", {"a.b.c"}),
        ("import importlib\ndef f(n='a'):\n m = getattr(importlib.import_module(n), 'b')\n m.c = 1", {"a.b.c"}),
        ("def f(one):\n one.c = 1\n x = y = 2", set()),
    ],
)
def test_ways_to_replace(source: str, names: set[str]) -> None:
    """The walk sees aliases, loops, look-ups by name and `setattr`."""
    assert names == {name for name in Names(ast.parse(source)).replaced() if not name.startswith("sys.")}


def test_page_is_current() -> None:
    """The page says what the rows say."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
