"""Saves an edited LLMService: what the user changed, on the version that is stored now.

Every write of the status changes the resource version, so that the form cannot hold to one; the generation changes with
the spec alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass_api.objects.reading import dig
from windlass_base.kube.errors import ConflictError, InvalidError
from windlass_client.client import AsyncClient
from windlass_client.values import LLMService, meta_of

from windlass_console.views.change import edit

ATTEMPTS = 5  # a try loses only to a write between its read and its patch, some milliseconds
Document = Mapping[str, Any]


async def save(
    client: AsyncClient, namespace: str, name: str, loaded: Document, wanted: Document, *, dry_run: bool = False
) -> LLMService:
    """Store what differs between the two; ConflictError where the spec is another one than that loaded."""
    what = f"llmservice {namespace}/{name}"
    if not dig(loaded, "metadata", "generation") or meta_of(wanted, "name") not in ("", name):
        raise InvalidError(f"{what}: the loaded metadata.generation or metadata.name does not fit; load it")
    left = ATTEMPTS
    while True:
        stored = await client.raw(name, namespace)
        _check(what, stored, loaded)
        change = edit({"spec": stored.get("spec"), "metadata": loaded.get("metadata")}, wanted)
        version = meta_of(stored, "resourceVersion")
        try:
            return await client.patch(name, change, namespace, resource_version=version, dry_run=dry_run)
        except ConflictError:
            left -= 1
            if not left:
                raise


def _check(what: str, stored: Document, loaded: Document) -> None:
    """ConflictError unless the stored spec is the loaded one; a name may be another object's meanwhile."""
    now, then = dig(stored, "metadata", "generation"), dig(loaded, "metadata", "generation")
    same = meta_of(loaded, "uid") in ("", meta_of(stored, "uid"))
    if not same or now != then:
        changed = f"generation {then} was loaded, {now} is stored" if same else "it was deleted and made again"
        raise ConflictError(f"{what}: its spec has changed since you opened the form: {changed}; load it again")
