"""`kubectl windlass status`."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, TypeVar

from windlass_base.kube.errors import ForbiddenError, NotFoundError
from windlass_client import paths
from windlass_client.client import ALL_NAMESPACES
from windlass_client.values import LLMService, WatchEvent, service_of

from windlass_kubectl import service_tree
from windlass_kubectl.errors import WrongOptionError
from windlass_kubectl.harmless import Painted, one_line
from windlass_kubectl.named_service import named_service, raw_service
from windlass_kubectl.paint import CELL_MAX
from windlass_kubectl.parser import OK
from windlass_kubectl.session import Session

T = TypeVar("T")
CLEAR = "\x1b[H\x1b[2J"


def prepare(options: argparse.Namespace) -> None:
    """Before a login: a name stands for itself, as at `kubectl get`."""
    if options.name and options.all_namespaces:
        raise WrongOptionError("a service has its name in one namespace; leave out NAME, or write -n in place of -A")
    if options.name and options.selector:
        raise WrongOptionError("a name needs no selector; leave out NAME, or -l")


async def run(session: Session) -> int:
    """One service as a tree, or all as a table; with -w again at every change."""
    name = session.options.name
    if name and not session.options.watch:
        await _show_one(session, name)
    elif name:
        await _watch_one(session, name)
    elif session.options.watch:
        await _watch_all(session)
    else:
        await _show_all(session)
    return OK.code


async def _show_one(session: Session, name: str) -> None:
    raw = await raw_service(session, name)
    pods = await _if_allowed(session, session.client.pods_at_work(name), "pods")
    events = await _if_allowed(session, session.client.events(name, with_pods=bool(pods)), "events")
    if session.is_text:
        branch = service_tree.tree(service_of(raw), pods, events, session.now(), session.paint)
        session.say(session.paint.tree(branch))
    else:
        raw.get("metadata", {}).pop("managedFields", None)
        session.emit({**raw, "pods": [asdict(one) for one in pods], "events": [asdict(one) for one in events]})


async def _if_allowed(session: Session, rows: Awaitable[list[T]], what: str) -> list[T]:
    """The rows; none where the user may not look, which is said: the service itself is still worth showing."""
    try:
        return await rows
    except ForbiddenError as error:
        session.note(f"{what} are left out: {error}")
        return []


async def _watch_one(session: Session, name: str) -> None:
    await named_service(session, name)  # NotFoundError now rather than a wait without end
    async with aclosing(session.client.watch(name=name)) as changes:
        async for event in changes:
            if event.type == "DELETED":
                raise NotFoundError(f"llmservice {session.namespace}/{name}: it was deleted")
            if session.redraws and session.is_text:
                session.say(Painted(CLEAR))
            await _show_one(session, name)


async def _show_all(session: Session) -> None:
    namespace = ALL_NAMESPACES if session.options.all_namespaces else None
    found = await session.client.list(namespace, label_selector=session.options.selector)
    if not session.is_text:
        session.emit({"apiVersion": "v1", "kind": "List", "items": [_document(one) for one in found]})
    elif found:
        session.say(session.paint.table(_headings(session), [_row(session, one) for one in found]))
    else:
        where = "any namespace" if namespace else f"namespace {session.namespace}"
        session.note(f"no LLMService in {where}")


async def _watch_all(session: Session) -> None:
    """A line for each change, as `kubectl get -w` does it."""
    namespace = ALL_NAMESPACES if session.options.all_namespaces else None
    await _list_at_most_one(session, namespace)
    if session.is_text:
        session.say("  ".join(word.ljust(12) for word in ("EVENT", *_headings(session))).rstrip())
    async with aclosing(session.client.watch(namespace, label_selector=session.options.selector)) as changes:
        async for event in changes:
            _tell(session, event)


async def _list_at_most_one(session: Session, namespace: str | None) -> None:
    """Raise now what a list would: a watch has patience with an API server that does not answer."""
    place = namespace or session.namespace
    what = f"llmservices in {'all namespaces' if namespace else place}"
    params = {"labelSelector": session.options.selector, "limit": 1}
    await session.client.api.call("GET", paths.services(place), what, params=params)


def _tell(session: Session, event: WatchEvent) -> None:
    if session.is_text:
        words = (event.type, *_row(session, event.service))
        session.say("  ".join(one_line(word, CELL_MAX).ljust(12) for word in words).rstrip())
    else:
        session.emit({"type": event.type, "object": _document(event.service)})


def _headings(session: Session) -> tuple[str, ...]:
    return (*(("NAMESPACE",) if session.options.all_namespaces else ()), *service_tree.HEADINGS)


def _row(session: Session, one: LLMService) -> tuple[str, ...]:
    place = (one.metadata.namespace,) if session.options.all_namespaces else ()
    return (*place, *service_tree.row(one, session.now()))


def _document(one: LLMService) -> dict[str, Any]:
    return one.model_dump(mode="json", by_alias=True, exclude_none=True)
