"""Where our plug-ins enter the engine, read from sources alone: what of it an engine has, lacks or has changed.

`points` finds in our own modules every name that is imported from vLLM, and every method of its classes that a class of
ours replaces. `signatures` looks these up in an engine's files without importing them, so that no GPU, no torch and no
start is needed. `compare` holds them to the record of the release that we are built for. Pure: text in, values out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

ENGINE = "vllm"
CLASS, NAME = "class", "name"
"""What a place is where it has no parameters: a class, or a constant, module or name bound otherwise."""

REGISTRIES = {
    "tools": ("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
    "reasoning": ("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),
}
"""The engine's tables of parsers: module and name."""

Read = Callable[[str], str | None]
"""A module's name → its source; None when there is no such module."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One integration point and what became of it; `problem` is empty where it is as recorded."""

    place: str
    used_by: str
    problem: str = ""
    is_gone: bool = False


def points(sources: Mapping[str, str]) -> dict[str, str]:
    """Every place of the engine that our modules use → the first module that uses it."""
    found: dict[str, str] = {}
    for module in sorted(sources):
        tree = ast.parse(sources[module])
        names = dict(_imports(tree))
        for place in (*names.values(), *_replaced(tree, names)):
            found.setdefault(place, module)
    return found


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_engine(node.module or "") and not node.level:
            yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.asname or one.name, one.name) for one in node.names if _is_engine(one.name))


def _is_engine(module: str) -> bool:
    return module.partition(".")[0] == ENGINE


def _replaced(tree: ast.AST, names: Mapping[str, str]) -> Iterator[str]:
    """Methods of our classes whose base is a class of the engine; the look-up says which of them it has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = [names[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in names]
            methods = [part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            yield from (f"{base}:{method}" for base in bases for method in methods)


def signatures(places: Mapping[str, str], read: Read) -> dict[str, str]:
    """What an engine has at these places: parameters, `class` or `name`; a place that it lacks is left out."""
    engine = _Engine(read)
    found = {place: engine.look(place) for place in places}
    return {place: shape for place, shape in found.items() if shape is not None}


def registered(read: Read) -> dict[str, list[str]]:
    """The names of an engine's parsers of tool calls and of reasoning; empty where it has no such table."""
    return {kind: sorted(_keys(read(module) or "", name)) for kind, (module, name) in REGISTRIES.items()}


def _keys(source: str, name: str) -> Iterator[str]:
    """The keys of a module's table."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and name in _bound(node) and isinstance(node.value, ast.Dict):
            values = (key.value for key in node.value.keys if isinstance(key, ast.Constant))
            yield from (value for value in values if isinstance(value, str))


def compare(record: Mapping[str, str], found: Mapping[str, str], users: Mapping[str, str]) -> tuple[Verdict, ...]:
    """What became of every recorded place."""
    return tuple(_verdict(place, shape, found.get(place), users.get(place, "")) for place, shape in record.items())


def _verdict(place: str, shape: str, now: str | None, user: str) -> Verdict:
    if now is None:
        return Verdict(place, user, "is not there", is_gone=True)
    return Verdict(place, user, "" if now == shape else f"was {shape}, is {now}")


class _Engine:
    """Modules of an engine as trees, read when they are asked for."""

    def __init__(self, read: Read) -> None:
        self._read = cache(read)
        self._tree = cache(self._parsed)

    def _parsed(self, module: str) -> ast.Module | None:
        text = self._read(module)
        return None if text is None else ast.parse(text)

    def look(self, place: str) -> str | None:
        """The shape of a place; `module.Class:method` is looked for in the class and in its bases."""
        owner, _, method = place.partition(":")
        module, _, name = owner.rpartition(".")
        if not method and self._tree(owner):
            return NAME
        found = self._defined(module, name)
        if found is None or not method:
            return None if found is None else _shape(found[1])
        return self._method(*found, method)

    def _defined(self, module: str, name: str) -> tuple[str, ast.AST] | None:
        """Where a name of a module is defined, imports followed."""
        tree = self._tree(module)
        for node in _bindings(tree) if tree else ():
            if isinstance(node, ast.ImportFrom):
                if found := self._imported(module, node, name):
                    return found
            elif name in _bound(node):
                return module, node
        return None

    def _imported(self, module: str, node: ast.ImportFrom, name: str) -> tuple[str, ast.AST] | None:
        """What an import binds to a name; a name from outside of the engine is the import itself."""
        there = _absolute(module, node, self._read(f"{module}.__init__") is not None)
        known = {one.asname or one.name: one.name for one in node.names}
        if name not in known and "*" not in known:
            return None
        found = self._defined(there, known.get(name, name)) if _is_engine(there) else None
        return found or ((module, node) if name in known else None)

    def _method(self, module: str, owner: ast.AST, method: str) -> str | None:
        if not isinstance(owner, ast.ClassDef):
            return None
        for part in owner.body:
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name == method:
                return _shape(part)
        for base in owner.bases:
            name = base.value if isinstance(base, ast.Subscript) else base
            found = self._defined(module, name.id) if isinstance(name, ast.Name) else None
            if found and (shape := self._method(*found, method)):
                return shape
        return None


def _bindings(tree: ast.Module) -> Iterator[ast.AST]:
    """Statements that bind names of the module, those under `if` and `try` included."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.If | ast.Try | ast.With):
            waiting[:0] = [
                part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt | ast.excepthandler)
            ]
        elif isinstance(node, ast.ExceptHandler):
            waiting[:0] = node.body
        else:
            yield node


def _bound(node: ast.AST) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    if isinstance(node, ast.Import):
        return {one.asname or one.name for one in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _absolute(module: str, node: ast.ImportFrom, is_package: bool) -> str:
    """The module that an import names, its leading dots resolved."""
    parts = module.split(".")
    above = parts[: len(parts) - node.level + is_package] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def _shape(node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        given = node.args
        names = [one.arg for one in (*given.posonlyargs, *given.args)]
        names += [f"*{given.vararg.arg}"] if given.vararg else (["*"] if given.kwonlyargs else [])
        names += [one.arg for one in given.kwonlyargs] + ([f"**{given.kwarg.arg}"] if given.kwarg else [])
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"({', '.join(names)}){returns}"
    return CLASS if isinstance(node, ast.ClassDef) else NAME
