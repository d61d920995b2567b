"""Bounds of what peers and tenants cause: of every listening socket, and of every loop of the operator.

`operator/tests/records/test_bounds.py` holds the numbers that are read of objects.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .tree import Offence, Tree, line_of

CALLS = ("create_server", "start_server", "HTTPServer", "BoundedServer", "TCPSite", "uvicorn.Server", ".listen")
LISTENS = re.compile("|".join(rf"{re.escape(call)}\(" for call in CALLS))
LISTENERS = {
    "lib/base/src/windlass_base/bounded_server.py": "64 connections, the oldest goes",
    "lib/base/src/windlass_base/front/beside.py": "the front: connections, peers, deadlines",
    "clients/console/src/windlass_console/serve.py": "the front",
    "server/deepspeed/src/windlass_deepspeed/workers.py": "a socket of the processes of one pod, one connection",
    "license_server/src/windlass_license/http/listening.py": "serve.py's sockets",
    "license_server/src/windlass_license/serve.py": "the front",
    "operator/download/src/windlass_download/facts.py": "BoundedServer",
    "server/src/windlass/group/head.py": "MOST_STRANGERS, and the members of the group",
    "server/src/windlass/front/limits/replicas.py": "MOST_STRANGERS, and replicas that know a key",
    "server/src/windlass/supervisor/board.py": "BoundedServer",
}
"""Files that open a listening socket, and what bounds who connects. `api/connections.py` bounds the engine's own."""
OPERATOR = "operator/src/windlass_operator"
LOOPS = {
    f"{OPERATOR}/manifests/group.py": "spec.replicas of the CRD, at most 1000",
    f"{OPERATOR}/runtime/queue.py": "a constant",
    f"{OPERATOR}/status/replicas.py": "StatefulSet.members, at most NODES_MAX",
}
"""Files of the operator that count up to a number, and who bounds it."""
HERE = "tools/house/bounds.py"


def listeners(tree: Tree) -> Iterator[Offence]:
    """A file that opens a listening socket is in the table that says what bounds who connects."""
    found = {path: LISTENS.search(tree.text(path)) for path in tree.matching("*/src/*.py") if _is_program(path)}
    for path, opens in found.items():
        if opens and path not in LISTENERS:
            line = line_of(tree.text(path), opens[0])
            yield Offence(path, line, f"opens a listening socket: bound it, and say how in LISTENERS of {HERE}")
    for path in LISTENERS:
        if not found.get(path):
            yield Offence(path, 1, f"opens no listening socket: take it out of LISTENERS of {HERE}")


def loops(tree: Tree) -> Iterator[Offence]:
    """A loop of the operator that ends at a number is in the table that says who bounds the number."""
    found = {path: _counts_up(ast.parse(tree.text(path))) for path in tree.below(OPERATOR, ".py")}
    for path, line in found.items():
        if line and path not in LOOPS:
            yield Offence(path, line, f"counts up to a number: bound it, and say how in LOOPS of {HERE}")
    for path in LOOPS:
        if not found.get(path):
            yield Offence(path, 1, f"counts up to no number: take it out of LOOPS of {HERE}")


def _is_program(path: str) -> bool:
    return not path.startswith(("tools/", "server/lookahead/"))


def _counts_up(tree: ast.AST) -> int:
    """Return the line of a `range` that ends at something else than a constant, or 0."""
    calls = (one for one in ast.walk(tree) if isinstance(one, ast.Call))
    ranges = (one for one in calls if isinstance(one.func, ast.Name) and one.func.id == "range")
    return next((one.lineno for one in ranges if not all(isinstance(arg, ast.Constant) for arg in one.args)), 0)
