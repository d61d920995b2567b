"""The cluster over the store: what is read where, what a write leaves behind, and whose objects are never taken."""

from __future__ import annotations

import pytest
from windlass_api.objects.claims import Claims
from windlass_operator.cluster.kinds import Events, Jobs, Services
from windlass_operator.cluster.store import Store
from windlass_operator.cluster.stored import StoredCluster
from windlass_operator.errors import Retry, UserError

OWNER = {"kind": "LLMService", "name": "qwen", "uid": "u-1", "controller": True}


def an_object(kind="Service", version=1, owners=(OWNER,), name="qwen"):
    meta = {"name": name, "namespace": "team-a", "resourceVersion": str(version), "ownerReferences": list(owners)}
    return {"kind": kind, "metadata": meta}


class Api:
    """The API server behind it; `asked` names every request."""

    def __init__(self):
        self.live, self.asked, self.version = {}, [], 100

    async def get(self, kind, namespace, name):
        word = kind.kind
        self.asked.append(f"get {word}/{name}")
        return self.live.get((word, name))

    async def find(self, kind, namespace, labels=None, fields=None):
        self.asked.append(f"find {kind.kind}")
        return []

    async def apply(self, manifest):
        self.asked.append(f"apply {manifest['kind']}")
        return self._made(manifest)

    async def create(self, manifest):
        self.asked.append(f"create {manifest['kind']}")
        there = (manifest["kind"], manifest["metadata"]["name"]) in self.live
        return None if there else self._made(manifest)

    async def overwrite(self, manifest):
        self.asked.append(f"overwrite {manifest['kind']} {sorted(manifest['metadata'])}")
        live = self.live[manifest["kind"], manifest["metadata"]["name"]]
        return self._made({**live, "metadata": {**live["metadata"], **manifest["metadata"]}})

    async def apply_status(self, manifest):
        return self._made(manifest)

    def _made(self, manifest):
        self.version += 1
        made = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self.version)}}
        self.live[manifest["kind"], manifest["metadata"]["name"]] = made
        return made


@pytest.fixture
def bed():
    api, store = Api(), Store(["LLMService", "Deployment", "Service", "Job", "Node"])
    return api, store, StoredCluster(api, store, Claims())


async def test_watched_kinds_are_read_from_memory(bed):
    api, store, cluster = bed
    store.shelves["Service"].put(an_object())
    assert (await cluster.get(Services, "team-a", "qwen"))["metadata"]["name"] == "qwen"
    assert await cluster.get(Services, "team-a", "other") is None
    assert len(await cluster.find(Services, "team-a")) == 1
    assert await cluster.find(Jobs, "*") == []
    assert api.asked == []


async def test_nodes_are_read_again_only_when_one_has_changed(bed):
    _, store, cluster = bed
    shelf = store.shelves["Node"]
    status = {"allocatable": {"nvidia.com/gpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}
    shelf.put(a_node := {"metadata": {"name": "n1", "resourceVersion": "1"}, "status": status})
    first = await cluster.gpu_nodes()
    assert [(node.node, node.free) for node in first] == [("n1", 4)]
    assert await cluster.gpu_nodes() is first
    eight = {**status, "allocatable": {"nvidia.com/gpu": "8"}}
    shelf.put({**a_node, "metadata": {"name": "n1", "resourceVersion": "2"}, "status": eight})
    assert [node.free for node in await cluster.gpu_nodes()] == [8]
    shelf.drop({"metadata": {"name": "n1", "resourceVersion": "3"}})
    assert await cluster.gpu_nodes() == ()


async def test_other_kinds_and_field_selectors_go_to_the_api_server(bed):
    api, _, cluster = bed
    await cluster.get(Events, "team-a", "e")
    await cluster.find(Events, "team-a", fields={"type": "Warning"})
    await cluster.find(Jobs, "team-a", fields={"metadata.name": "x"})
    assert api.asked == ["get Event/e", "find Event", "find Job"]


async def test_what_is_new_is_made_without_asking(bed):
    """The API server itself refuses where there is one, so absence costs no request."""
    api, _, cluster = bed
    await cluster.create(an_object())
    assert api.asked == ["create Service"]


async def test_ours_without_its_label_gets_it_back_and_is_looked_at_anew(bed):
    """It may carry the plan in force: nothing else is decided before it is read."""
    api, store, cluster = bed
    api.live["Service", "qwen"] = an_object()
    with pytest.raises(Retry, match="Service qwen was not seen by its labels"):
        await cluster.create({**an_object(), "apiVersion": "v1", "spec": {"type": "ClusterIP"}})
    assert api.asked == ["create Service", "get Service/qwen", "overwrite Service ['name', 'namespace']"]
    assert store.shelves["Service"].get(("team-a", "qwen")) == api.live["Service", "qwen"]
    assert "spec" not in api.live["Service", "qwen"]


async def test_what_was_there_for_a_moment_is_applied(bed):
    api, _, cluster = bed
    api.live["Service", "qwen"] = None
    assert await cluster.create(an_object()) is not None
    assert api.asked == ["create Service", "get Service/qwen", "apply Service"]


async def test_an_event_that_is_there_is_left_as_it_is(bed):
    api, _, cluster = bed
    api.live["Event", "qwen"] = an_object("Event")
    assert await cluster.create(an_object("Event")) is None
    assert api.asked == ["create Event"]


async def test_a_write_is_read_at_once_and_its_echo_is_no_news(bed):
    _, store, cluster = bed
    await cluster.create(an_object())
    assert (await cluster.get(Services, "team-a", "qwen"))["metadata"]["resourceVersion"] == "101"
    assert store.shelves["Service"].put(an_object(version=101)) is None
    await cluster.apply(an_object())
    assert (await cluster.get(Services, "team-a", "qwen"))["metadata"]["resourceVersion"] == "102"


async def test_our_status_is_no_news_to_us(bed):
    _, store, cluster = bed
    await cluster.apply_status(an_object("LLMService"))
    assert store.shelves["LLMService"].put(an_object("LLMService", 101)) is None


async def test_what_is_someone_else_s_is_not_taken(bed):
    """Someone's object without our label is in no watch of ours."""
    api, _, cluster = bed
    api.live["Service", "qwen"] = an_object(owners=())
    with pytest.raises(UserError, match='Service "qwen" exists already in team-a, owned by nobody'):
        await cluster.create(an_object())
    assert api.asked == ["create Service", "get Service/qwen"]
