"""The guard's table against the routes of the engine's real application, and the attacks in front of it."""

import json

import pytest
from windlass.api import routes
from windlass.api.routes import Access

from ...attack.guard import attacks
from ...attack.guard.attacks import CHAT, Target
from ..conftest import KEYS

MOUNTS = {"/metrics": "/metrics", "/static": "/static/{file}"}
"""Folders of the engine, and the paths of them that have a row."""
OF_OTHER_TASKS = ("/v1/embeddings", "/score", "/classify")


@pytest.fixture(scope="module")
def listed(engine):
    return engine.result("/repo/tests/engine/api/list_routes.py")


@pytest.fixture(scope="module")
def found(listed):
    return dict(listed["routes"])


@pytest.fixture(scope="module")
def server(keyed):
    return Target(keyed, KEYS[0])


def test_every_route_of_the_engine_has_a_row(found):
    """A new route, or a new method of an old one, fails here until somebody has said who may use it."""
    missing = [path for path in found if MOUNTS.get(path, path) not in routes.TABLE and path not in routes.SOCKETS]
    assert missing == []
    for path, methods in found.items():
        known = set(routes.TABLE[MOUNTS.get(path, path)].by_method) if path not in routes.SOCKETS else set()
        assert set(methods) - {"mount", "websocket"} <= known, path


def test_pieces_of_a_stream_go_past_the_engines_middleware(listed):
    """A new layer ends that, until somebody has read it and put it into `shortcut.HEADER_ONLY_MIDDLEWARE`."""
    assert listed["isShort"]


def test_the_engine_had_its_options_on(found):
    """Else the walk shows nothing: development, reinforcement learning, adapters and tolerance have their routes."""
    assert {"/sleep", "/update_weights", "/v1/load_lora_adapter", "/fault_tolerance/apply", "/adapters"} <= found.keys()
    closed = [path for path, rows in routes.TABLE.items() if rows.is_closed]
    assert [path for path in closed if path not in found] == []


def test_what_the_engine_has_not_is_not_there(server):
    """A path without a row, with a right key."""
    assert server.ask("GET", "/v9/new").status == 404
    assert all(row.access is Access.KEY for path in OF_OTHER_TASKS for row in routes.TABLE[path].by_method.values())


def test_a_newline_behind_a_path_reaches_nothing(server):
    figures = attacks.newline_paths(server)
    assert figures["scale_elastic_ep%0a"] == 400
    assert "control character" in figures["chat%0a with temperature 3"]


def test_control_routes_are_closed_to_keys(server):
    assert set(attacks.control_routes(server).values()) == {403}


def test_numbers_without_a_float_are_refused(server):
    assert list(attacks.hostile_numbers(server).values()) == [[400]] * 4


def test_bodies_that_cost_a_parser_most_leave_health(server):
    figures = attacks.body_bombs(server, names=("empty objects", "distinct keys", "nested"))
    assert {status for one in figures.values() for status in one["statuses"]} == {413}
    assert {one["health_failed"] for one in figures.values()} == {0}
    print(f"the longest /health took {max(one['health_longest_s'] for one in figures.values()):.2f} s")


def test_the_largest_lists_that_pass_leave_health(server):
    """As many wrong messages as a body may have, on each route that validates them one by one."""
    for path, name in ((CHAT, "messages"), ("/v1/messages", "messages"), ("/v1/responses", "input")):
        body = json.dumps({name: [{"role": "user"}] * 2_048, "max_tokens": 2}).encode()
        with attacks.watching(server) as watch:
            assert server.ask("POST", path, body).status == 400
        assert watch.failed == 0
        print(f"{path}: the longest /health took {watch.longest_s:.2f} s")


WRONG_ITEMS = {
    "message": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": 1}] * 8},
    "call": {"type": "function_call", "name": 1, "arguments": 1, "call_id": 1},
    "output": {"type": "function_call_output", "call_id": 1, "output": 1},
    "computer": {"type": "computer_call", "id": "a", "action": {"type": "x"}},
}
"""Of the Responses API, with the right names and wrong values."""


@pytest.mark.parametrize("item", WRONG_ITEMS.values(), ids=WRONG_ITEMS)
def test_the_first_wrong_item_ends_a_request(server, item):
    """The guard's own words show that vLLM was not asked: it validates them all against every shape, for seconds."""
    with attacks.watching(server) as watch:
        answer = server.ask("POST", "/v1/responses", json.dumps({"input": [item] * 2_048}).encode())
    assert (answer.status, "item 0 of input has no type of the Responses API" in answer.text) == (400, True)
    assert watch.failed == 0
    print(f"the longest /health took {watch.longest_s:.2f} s")


def test_content_parts_are_fetched_from_nowhere(server):
    """The address stands under `url` alone there."""
    parts = [{"type": "image_url", "url": "http://169.254.169.254/latest/meta-data"}]
    answer = server.ask(
        "POST", "/inference/v1/generate", json.dumps({"token_ids": [1], "content_parts": parts}).encode()
    )
    assert (answer.status, "169.254.169.254" in answer.text) == (400, True)


def test_half_heads_end(server):
    """The engine's own server has the time limits."""
    assert attacks.half_heads(server, 50) == {"opened": 50, "still_open": 0}
