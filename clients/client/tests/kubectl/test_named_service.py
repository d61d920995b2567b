"""A name that no service has is refused with the names that there are."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime
from types import SimpleNamespace

import httpx2
import pytest
from windlass_base.kube.errors import NotFoundError
from windlass_client import AsyncClient, token_access
from windlass_kubectl.named_service import next_step, raw_service
from windlass_kubectl.parser import parser

STEPS = {
    "the closest first": (["alpha", "demo", "demo-2"], "namespace team has demo, demo-2, alpha"),
    "at most five": (["a", "b", "c", "d", "e", "f", "dmo"], "namespace team has dmo, d, e, a, b and 2 more"),
    "none": ([], "namespace team has no service; kubectl windlass status -A lists those of all namespaces"),
}


@pytest.mark.parametrize(("names", "sentence"), STEPS.values(), ids=STEPS.keys())
def test_the_next_step(names, sentence):
    assert sentence == next_step("demoo", names, "team")


def a_status(code: int, reason: str, message: str) -> httpx2.Response:
    return httpx2.Response(code, json={"kind": "Status", "reason": reason, "message": message})


def a_session(listed: httpx2.Response, options: object = None) -> SimpleNamespace:
    """Of an API server that has not the service, and lists the namespace's so."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        is_list = request.url.path.endswith("/llmservices")
        return listed if is_list else a_status(404, "NotFound", 'llmservices "demoo" not found')

    client = AsyncClient(token_access("https://api", "t", namespace="team"), transport=httpx2.MockTransport(handle))
    return SimpleNamespace(client=client, namespace="team", options=options, is_text=True)


def the_services(*names: str) -> httpx2.Response:
    return httpx2.Response(200, json={"metadata": {}, "items": [{"metadata": {"name": name}} for name in names]})


async def test_the_refusal_keeps_the_api_servers_sentence():
    with pytest.raises(NotFoundError) as refused:
        await raw_service(a_session(the_services("qwen", "demo")), "demoo")
    assert str(refused.value) == 'llmservice team/demoo: llmservices "demoo" not found; namespace team has demo, qwen'


async def test_a_user_without_the_right_to_list_gets_the_refusal_alone():
    with pytest.raises(NotFoundError, match=r'"demoo" not found$'):
        await raw_service(a_session(a_status(403, "Forbidden", "cannot list")), "demoo")


COMMANDS = ("status demoo", "status demoo -w", "plan demoo", "logs demoo", "chat demoo", "bench demoo", "usage demoo")


@pytest.mark.parametrize("typed", [*COMMANDS, "report demoo"])
async def test_every_command_that_takes_a_name_names_the_others(typed):
    options = parser().parse_args(typed.split())
    session = a_session(the_services("demo"), options)
    session.now = lambda: datetime.now(UTC)
    command = importlib.import_module(f"windlass_kubectl.{options.command}")
    with pytest.raises(NotFoundError, match=r"namespace team has demo$"):
        await command.run(session)
