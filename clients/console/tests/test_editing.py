"""An edit is saved over writes of the status, and never over another edit."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from windlass_base.kube.errors import ConflictError, InvalidError
from windlass_client.values import service_of
from windlass_console.cluster import editing


class Stored:
    """A client of one service; the operator writes its status between each of the first reads and the patch."""

    def __init__(self, status_writes: int = 0, spec_writes: int = 0) -> None:
        self.status_writes, self.spec_writes = status_writes, spec_writes
        self.document = a_service()
        self.changes: list[dict[str, Any]] = []

    async def raw(self, *_: str) -> dict[str, Any]:
        read = copy.deepcopy(self.document)
        self.document["metadata"]["resourceVersion"] += "1" if self.status_writes > 0 else ""
        self.status_writes -= 1
        return read

    async def patch(self, *given: Any, resource_version: str, dry_run: bool) -> Any:
        if resource_version != self.document["metadata"]["resourceVersion"]:
            self.document["metadata"]["generation"] += self.spec_writes
            raise ConflictError("the object has been modified")
        self.changes.append(given[1])
        return service_of(self.document)


def a_service(**spec: object) -> dict[str, Any]:
    model = {"id": "m", "source": {"pvc": {"claimName": "c"}}}
    metadata = {"name": "qwen", "namespace": "a", "uid": "u", "generation": 3, "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"model": model, **spec}}


async def save(client: Stored, loaded: dict[str, Any], wanted: dict[str, Any]) -> None:
    await editing.save(client, "a", "qwen", loaded, wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("writes", [0, 1, editing.ATTEMPTS - 1])
async def test_a_status_write_is_no_conflict(writes):
    """What the user changed is patched on the version that is there now."""
    client = Stored(status_writes=writes)
    await save(client, a_service(), a_service(replicas=2))
    assert client.changes == [{"spec": {"replicas": 2}}]


@pytest.mark.parametrize(("status_writes", "spec_writes"), [(editing.ATTEMPTS, 0), (1, 1)], ids=["no end", "the spec"])
async def test_what_stays_a_conflict(status_writes, spec_writes):
    client = Stored(status_writes, spec_writes)
    with pytest.raises(ConflictError):
        await save(client, a_service(), a_service(replicas=2))
    assert client.changes == []


@pytest.mark.parametrize("wrong", [{"generation": 2}, {"uid": "another"}])
async def test_another_spec_or_another_object_is_a_conflict(wrong):
    loaded = a_service()
    loaded["metadata"] |= wrong
    with pytest.raises(ConflictError, match="since you opened the form"):
        await save(Stored(), loaded, a_service(replicas=2))


@pytest.mark.parametrize("wrong", [{"generation": None}, {"generation": 0}])
async def test_an_edit_names_what_it_was_loaded_from(wrong):
    loaded = a_service()
    loaded["metadata"] |= wrong
    with pytest.raises(InvalidError):
        await save(Stored(), loaded, a_service())


async def test_annotations_of_others_stay():
    """Compared with what was loaded, as the generation says nothing of annotations."""
    client, loaded, wanted = Stored(), a_service(), a_service()
    client.document["metadata"]["annotations"] = {"note": "theirs", "old": "x"}
    loaded["metadata"]["annotations"] = {"old": "x"}
    wanted["metadata"]["annotations"] = {"own": "mine"}
    await save(client, loaded, wanted)
    assert client.changes == [{"spec": {}, "metadata": {"annotations": {"old": None, "own": "mine"}}}]
