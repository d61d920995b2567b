"""The service that a command names. Where there is none, the error names those that the namespace has."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from windlass_api.objects.reading import name_of
from windlass_base.kube.errors import ClientError, NotFoundError
from windlass_client import paths, watching
from windlass_client.values import LLMService, service_of

from windlass_kubectl.paint import CELL_MAX
from windlass_kubectl.session import Session

NAMES_MAX = 5


async def named_service(session: Session, name: str) -> LLMService:
    """The service; NotFoundError with the names that come closest."""
    return service_of(await raw_service(session, name))


async def raw_service(session: Session, name: str) -> dict[str, Any]:
    """The service as the API server sends it; NotFoundError with the names that come closest."""
    try:
        return await session.client.raw(name)
    except NotFoundError as error:
        names = await _names(session)
        if names is None:
            raise
        raise NotFoundError(f"{error}; {next_step(name, names, session.namespace)}") from error


def not_ready(service: LLMService) -> str:
    """Why it does not answer yet, and what to wait for; empty for one that should."""
    ready, name = service.condition("Ready"), service.metadata.name
    if ready is None or ready.status == "True" or service.status.ready_replicas:
        return ""
    return (
        f"{name} does not answer now: {ready.reason}: {ready.message}; once that is over: "
        f"kubectl wait --for=condition=Ready llm/{name} --timeout=30m"
    )


async def _names(session: Session) -> list[str] | None:
    """Of all services of the namespace; None where they cannot be listed."""
    services = watching.Collection(paths.services(session.namespace), f"llmservices in {session.namespace}")
    try:
        found = await watching.listing(session.client.api, services)
    except ClientError:
        return None
    return [name_of(row)[:CELL_MAX] for row in found.rows]


def next_step(wanted: str, names: Sequence[str], namespace: str) -> str:
    """The services of the namespace, the closest name first, or how to find those of other namespaces."""
    if not names:
        return f"namespace {namespace} has no service; kubectl windlass status -A lists those of all namespaces"
    nearest = sorted(names, key=lambda name: (-SequenceMatcher(None, wanted, name).ratio(), name))[:NAMES_MAX]
    rest = len(names) - len(nearest)
    return f"namespace {namespace} has {', '.join(nearest)}{f' and {rest} more' if rest else ''}"
