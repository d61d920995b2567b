"""Bounds of what peers and tenants cause: of every listening socket, of every loop, of every number that is read."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from windlass_operator import records
from windlass_operator.records.base import Part

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (*ROOT.glob("*/src/**/*.py"), *ROOT.glob("operator/download/src/**/*.py"))
CALLS = ("create_server", "start_server", "HTTPServer", "BoundedServer", "TCPSite", "uvicorn.Server", ".listen")
LISTENS = re.compile("|".join(rf"{re.escape(call)}\(" for call in CALLS))
LISTENERS = {
    "base/src/windlass_base/bounded_server.py": "64 connections, the oldest goes",
    "base/src/windlass_base/front/beside.py": "the front: connections, peers, deadlines",
    "console/src/windlass_console/serve.py": "the front",
    "deepspeed_server/src/windlass_deepspeed/workers.py": "a socket of the processes of one pod, one connection",
    "license_server/src/windlass_license/http/listening.py": "serve.py's sockets",
    "license_server/src/windlass_license/serve.py": "the front",
    "operator/download/src/windlass_download/facts.py": "BoundedServer",
    "server/src/windlass/group/head.py": "MOST_STRANGERS, and the members of the group",
    "server/src/windlass/limits/replicas.py": "MOST_STRANGERS, and replicas that know a key",
    "server/src/windlass/supervisor/board.py": "BoundedServer",
}
"""Files that open a listening socket, and what bounds who connects. `api/connections.py` bounds the engine's own."""
LOOPS = {
    "manifests/group.py": "spec.replicas of the CRD, at most 1000",
    "runtime/queue.py": "a constant",
    "status/replicas.py": "StatefulSet.members, at most NODES_MAX",
}
"""Files of the operator that count up to a number, and who bounds it."""


def test_every_listening_socket_is_bounded():
    found = {str(path.relative_to(ROOT)) for path in SOURCES if LISTENS.search(path.read_text())}
    assert found == set(LISTENERS)


def counts_up(tree: ast.AST) -> bool:
    """Whether a `range` ends at something else than a constant."""
    calls = (one for one in ast.walk(tree) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name))
    return any(one.func.id == "range" and not all(isinstance(arg, ast.Constant) for arg in one.args) for one in calls)  # type: ignore[attr-defined]


def test_no_loop_ends_at_a_number_of_an_object():
    place = ROOT / "operator/src/windlass_operator"
    found = {str(path.relative_to(place)) for path in place.glob("**/*.py") if counts_up(ast.parse(path.read_text()))}
    assert found == set(LOOPS)


for module in pkgutil.iter_modules(records.__path__):
    import_module(f"{records.__name__}.{module.name}")  # which makes its classes known


def parts(shape: type[Part] = Part) -> Iterator[type[Part]]:
    for one in shape.__subclasses__():
        yield one
        yield from parts(one)


@pytest.mark.parametrize("part", sorted(set(parts()), key=str), ids=lambda part: part.__qualname__)
def test_every_integer_of_a_record_has_bounds(part):
    info = msgspec.inspect.type_info(part)
    assert isinstance(info, msgspec.inspect.StructType)
    numbers = [row for row in info.fields if isinstance(row.type, msgspec.inspect.IntType)]
    assert [row.name for row in numbers if row.type.ge is None or row.type.le is None] == []
