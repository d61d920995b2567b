"""The order of the guard's steps: a request that is wrong in all ways is mended step by step."""

import json
from pathlib import Path

from windlass.front.settings import ApiSettings

LARGE = 128 * 1024
KEYS = {"keys": [{"name": "spent", "key": "sk-spent-1", "requestsPerMinute": 1}, {"name": "new", "key": "sk-new-1"}]}
WRONG = {
    "url": "/v1/chat%2Fcompletions", "method": "GET", "content": b"x" * LARGE * 2,
    "headers": {"host": "elsewhere", "authorization": "Bearer sk-wrong"},
}  # fmt: skip
STEPS = (
    ("path", 400, "encoded slash", {"url": "/v1/chat/completions"}),
    ("host", 421, "names no host", {"headers": {"host": "api", "authorization": "Bearer sk-wrong"}}),
    ("key", 401, "not known", {"headers": {"host": "api", "authorization": "Bearer sk-spent-1"}}),
    ("route", 405, "does not take GET", {"method": "POST"}),
    ("limits", 429, "its limit is 1", {"headers": {"host": "api", "authorization": "Bearer sk-new-1"}}),
    ("size", 413, "larger than", {"content": b"x" * LARGE}),
    ("place", 503, "shutting down", {}),
    ("body", 400, "not JSON", {"content": b'{"messages": []}'}),
)
"""Step, status and words of its refusal, and the change that satisfies it."""


async def test_the_first_step_that_fails_ends_a_request(api, tmp_path: Path) -> None:
    """Each step is cheaper than the next; the engine sees nothing until all are satisfied."""
    (tmp_path / "keys.json").write_text(json.dumps(KEYS))
    settings = ApiSettings(
        served_names=("demo",), allowed_hosts=("api",), keys_file=str(tmp_path / "keys.json"), max_body_bytes=LARGE
    )
    server = api(settings=settings)
    spent = {"authorization": "Bearer sk-spent-1"}
    assert (await server.chat(headers=spent)).status_code == 200
    server.engine.paths.clear()
    request = dict(WRONG)
    for step, status, words, mended in STEPS:
        server.guard.state.gate.is_stopping = step == "place"
        answer = await server.client.request(**request)
        assert (step, answer.status_code) == (step, status)
        assert words in answer.json()["error"]["message"]
        assert server.engine.paths == []
        request |= mended
    assert (await server.client.request(**request)).status_code == 200
    assert server.guard.state.refused == {400: 2, 421: 1, 401: 1, 405: 1, 429: 1, 413: 1, 503: 1}
