"""Programs behind the API server's proxy: their answers say nothing of the user's rights or session.

A program can send what the API server sends, so that a 401 or a 403 alone shows nothing. The API server says in a
review of its own whether the user may reach the program; only its answer becomes a missing right.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from windlass_api.objects.reading import Object
from windlass_base.kube.errors import ForbiddenError
from windlass_base.kube.rest import Api, Proxied
from windlass_base.untrusted_json import parsed
from windlass_client import paths
from windlass_client.rights import Right, is_allowed

VERBS = {"GET": "get", "POST": "create"}
REFUSAL_MAX = 64 << 10  # bytes of a refusal that are read
SHOWN_MAX = 600  # characters of a refusal that are shown
NO_ANSWER = (502, 503, 504)  # of the API server where nothing answers behind its proxy


@dataclass(frozen=True, slots=True)
class Program:
    """A program as the proxy's paths name it: `resource` is pods or services, `port` may be a name."""

    namespace: str
    resource: str
    name: str
    port: str
    what: str
    """How sentences name it."""
    https: bool = False

    @property
    def place(self) -> str:
        """The name as paths and roles have it."""
        return f"{'https:' if self.https else ''}{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a program; `silence_s` is how long it may say nothing."""

    method: str
    path: str
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    silence_s: float | None = None


@asynccontextmanager
async def asked(api: Api, program: Program, ask: Ask) -> AsyncIterator[Proxied]:
    """The program's answer, whatever its status; ForbiddenError where a review says that the user may not reach it."""
    where = paths.core(program.namespace, program.resource, program.place, "proxy") + ask.path
    headers = {**ask.headers, "Accept-Encoding": "identity"}
    call = api.proxied(ask.method, where, program.what, content=ask.content, headers=headers, silence_s=ask.silence_s)
    async with call as answer:
        if answer.status in (401, 403):
            await _check_right(api, VERBS[ask.method], program)
        yield answer


async def _check_right(api: Api, verb: str, program: Program) -> None:
    """ForbiddenError without the right; UnauthorizedError, by the review itself, when the token has ended."""
    right = Right(verb, program.resource, "proxy", name=program.place)
    if not await is_allowed(api, right, program.namespace):
        raise ForbiddenError(
            f"{program.what}: you lack the right {verb} on {program.resource}/proxy in namespace {program.namespace}"
        )


def sentence(status: int, text: bytes | None) -> str:
    """The message in an error of OpenAI's or of the API server's shape, else the beginning of the text."""
    document: Object = found if isinstance(found := parsed(text or b""), dict) else {}
    error = document.get("error")
    message = error.get("message") if isinstance(error, Mapping) else document.get("message") or document.get("detail")
    shown = message if isinstance(message, str) else (text or b"").decode("utf-8", "replace")
    return " ".join(shown.split())[:SHOWN_MAX] or f"HTTP {status}"


def is_status(text: bytes | None) -> bool:
    """Whether the text has the API server's form of a refusal."""
    document = parsed(text or b"")
    return isinstance(document, dict) and bool(document.get("kind") == "Status")
