"""A prefix of the operator's rule never hides a path of the server, and the server answers at both."""

from __future__ import annotations

import pytest
from windlass.api.routes import OURS, ROWS, SOCKETS, route_path
from windlass_api.crd.rules import OWN_SEGMENTS


def first(path: str) -> str:
    return path.split("/")[1]


def test_the_rule_names_every_first_segment_of_the_server() -> None:
    """Of the engine's routes and of ours; `/redoc` and `/static` come from its documentation."""
    found = {first(path) for path in (*(row.path for row in ROWS), *OURS, *SOCKETS)} - {""}
    assert sorted(found) == sorted(OWN_SEGMENTS)


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/", "/chat"])
def test_a_prefix_is_taken_off_and_its_absence_is_no_fault(path: str) -> None:
    """Clients outside come with it, probes and clients inside without it."""
    assert route_path({"path": f"/qwen{path}", "root_path": "/qwen"}) == path
    assert route_path({"path": path, "root_path": "/qwen"}) == path
    assert route_path({"path": f"/qwen2{path}", "root_path": "/qwen"}) == f"/qwen2{path}"


def test_the_prefix_itself_is_the_front_page() -> None:
    """`/qwen/` reaches the guard as `/qwen`."""
    assert route_path({"path": "/qwen", "root_path": "/qwen"}) == "/"
