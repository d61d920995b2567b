"""The cluster over the store: what is read where, what a write leaves behind, and whose objects are never taken."""

from __future__ import annotations

import pytest
from windlass_operator.cluster.claims import Claims
from windlass_operator.cluster.kinds import Deployments, Events, Jobs, Services
from windlass_operator.cluster.store import Store
from windlass_operator.cluster.stored import StoredCluster
from windlass_operator.errors import UserError

OWNER = {"kind": "LLMService", "name": "qwen", "uid": "u-1", "controller": True}


def an_object(kind="Service", version=1, owners=(OWNER,), name="qwen"):
    meta = {"name": name, "namespace": "team-a", "resourceVersion": str(version), "ownerReferences": list(owners)}
    return {"kind": kind, "metadata": meta}


class Api:
    """The API server behind it; `asked` names every request."""

    def __init__(self):
        self.live, self.asked, self.version = {}, [], 100

    async def get(self, kind, namespace, name):
        word = kind._api_info.resource.kind
        self.asked.append(f"get {word}/{name}")
        return self.live.get((word, name))

    async def find(self, kind, namespace, labels=None, fields=None):
        self.asked.append(f"find {kind._api_info.resource.kind}")
        return []

    async def apply(self, manifest):
        self.asked.append(f"apply {manifest['kind']}")
        self.version += 1
        return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self.version)}}

    async def apply_status(self, manifest):
        return await self.apply(manifest)


@pytest.fixture
def bed():
    api, store, told = Api(), Store(["LLMService", "Deployment", "Service", "Job"]), []
    return api, store, told, StoredCluster(api, store, Claims(), lambda *words: told.append(words[:2]))


async def test_watched_kinds_are_read_from_memory(bed):
    api, store, _, cluster = bed
    store.shelves["Service"].put(an_object())
    assert (await cluster.get(Services, "team-a", "qwen"))["metadata"]["name"] == "qwen"
    assert await cluster.get(Services, "team-a", "other") is None
    assert len(await cluster.find(Services, "team-a")) == 1
    assert await cluster.find(Jobs, "*") == []
    assert api.asked == []


async def test_other_kinds_and_field_selectors_go_to_the_api_server(bed):
    api, _, _, cluster = bed
    await cluster.get(Events, "team-a", "e")
    await cluster.find(Events, "team-a", fields={"type": "Warning"})
    await cluster.find(Jobs, "team-a", fields={"metadata.name": "x"})
    assert api.asked == ["get Event/e", "find Event", "find Job"]


async def test_a_deployment_that_lost_its_label_is_still_seen(bed):
    """It carries the plan in force; its absence is asked for once, and again when one was there since."""
    api, store, _, cluster = bed
    assert await cluster.get(Deployments, "team-a", "qwen") is None
    assert await cluster.get(Deployments, "team-a", "qwen") is None
    assert api.asked == ["get Deployment/qwen"]
    await cluster.apply(an_object("Deployment"))
    store.shelves["Deployment"].drop(an_object("Deployment", 200))
    api.live["Deployment", "qwen"] = an_object("Deployment", 199)
    assert await cluster.get(Deployments, "team-a", "qwen") is not None


async def test_a_write_is_read_at_once_and_told(bed):
    _, store, told, cluster = bed
    await cluster.apply(an_object())
    assert (await cluster.get(Services, "team-a", "qwen"))["metadata"]["resourceVersion"] == "101"
    assert told == [("Service", ("team-a", "qwen"))]
    assert store.shelves["Service"].put(an_object(version=101)) is None


async def test_our_status_is_no_news_to_us(bed):
    _, store, told, cluster = bed
    await cluster.apply_status(an_object("LLMService"))
    assert store.shelves["LLMService"].put(an_object("LLMService", 101)) is None
    assert told == []


async def test_what_is_new_to_us_is_looked_for_before_it_is_made(bed):
    """Someone's object without our label is in no watch of ours; it must not be taken over."""
    api, _, _, cluster = bed
    api.live["Service", "qwen"] = an_object(owners=())
    with pytest.raises(UserError, match='Service "qwen" exists already in team-a, owned by nobody'):
        await cluster.apply(an_object())
    assert api.asked == ["get Service/qwen"]


async def test_ours_without_its_label_is_applied(bed):
    api, _, _, cluster = bed
    api.live["Service", "qwen"] = an_object()
    await cluster.apply(an_object())
    await cluster.apply(an_object())
    assert api.asked == ["get Service/qwen", "apply Service", "apply Service"]
