"""Applying: only when our intent or a field of ours in the live object differs."""

from __future__ import annotations

import copy

import pytest
from windlass_operator.cluster.apply import Applier, agrees, project, stamped
from windlass_operator.errors import Retry, UserError

OWNER = {"kind": "LLMService", "name": "qwen", "uid": "u-1", "controller": True}


def wanted(**container):
    container = {"name": "server", "image": "i", "resources": {"requests": {"memory": "4096Mi"}}, **container}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "qwen", "namespace": "team-a", "ownerReferences": [OWNER]},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
    }


class Server:
    """An API server that fills in a default and spells quantities its own way."""

    def __init__(self):
        self.live, self.writes = None, 0

    async def apply(self, manifest):
        self.writes += 1
        self.live = copy.deepcopy(manifest)
        container = self.live["spec"]["template"]["spec"]["containers"][0]
        container["terminationMessagePath"] = "/dev/termination-log"
        container["resources"]["requests"]["memory"] = "4Gi"
        return copy.deepcopy(self.live)

    async def create(self, manifest):
        return None if self.live else await self.apply(manifest)


@pytest.fixture
def server():
    return Server()


async def test_nothing_is_written_twice(server):
    """Defaults and other spellings of the API server are no difference."""
    applier = Applier(server, ())
    assert await applier.apply(wanted(), None)
    for _ in range(3):
        assert not await applier.apply(wanted(), server.live)
    assert server.writes == 1


async def test_a_restarted_operator_learns_the_spelling_with_one_apply(server):
    await Applier(server, ()).apply(wanted(), None)
    again = Applier(server, ())
    await again.apply(wanted(), server.live)
    await again.apply(wanted(), server.live)
    assert server.writes == 2


async def test_a_new_intent_is_written(server):
    """Also one that only takes something away, which no field comparison would see."""
    applier = Applier(server, ())
    await applier.apply(wanted(env=[{"name": "A", "value": "1"}]), None)
    assert await applier.apply(wanted(), server.live)


def edit(path, value):
    def change(live):
        place = live
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


CONTAINERS = ("spec", "template", "spec", "containers")


@pytest.mark.parametrize(
    "change",
    [
        edit(("spec", "replicas"), 5),
        edit((*CONTAINERS, 0, "image"), "theirs"),
        edit((*CONTAINERS, 0, "resources", "requests", "memory"), "1Gi"),
        edit((*CONTAINERS, 0, "name"), "renamed"),
        edit(CONTAINERS, []),
        edit(("metadata", "annotations"), {}),
    ],
    ids=["replicas", "image", "memory", "renamed", "gone", "annotations"],
)
async def test_an_edit_of_ours_is_undone(server, change):
    applier = Applier(server, ())
    await applier.apply(wanted(), None)
    change(server.live)
    assert await applier.apply(wanted(), server.live)


@pytest.mark.parametrize(
    "change",
    [
        edit(("metadata", "labels"), {"theirs": "1"}),
        edit(("spec", "paused"), False),
        lambda live: live["spec"]["template"]["spec"]["containers"].append({"name": "sidecar"}),
    ],
    ids=["label", "other field", "sidecar"],
)
async def test_what_others_add_is_theirs(server, change):
    applier = Applier(server, ())
    await applier.apply(wanted(), None)
    change(server.live)
    assert not await applier.apply(wanted(), server.live)


NODE = [{"name": "model", "hostPath": {"path": "/models/qwen"}}]


@pytest.mark.parametrize(
    ("volumes", "allowed", "path"),
    [
        (NODE, (), "/models/qwen"),
        (NODE, ("/model", "/modelsecrets"), "/models/qwen"),
        ([*NODE, {"name": "x", "hostPath": {"path": "/etc"}}], ("/models",), "/etc"),
        ([{"name": "x", "hostPath": {"path": "/models/../etc"}}], ("/models",), "/models/../etc"),
        ([{"name": "x", "hostPath": {"path": "//models"}}], ("/models",), "//models"),
        ([{"name": "x", "hostPath": {"path": "models"}}], ("/models",), "models"),
        ([{"name": "x", "hostPath": None}], ("/models",), "None"),
    ],
    ids=["none allowed", "beginnings of words", "the second", "up", "two slashes", "relative", "no path"],
)
async def test_pods_mount_no_directory_of_the_nodes_that_is_not_allowed(server, volumes, allowed, path):
    """Neither in an object that is there, nor in one that is made; nothing is written."""
    manifest = wanted()
    manifest["spec"]["template"]["spec"]["volumes"] = volumes
    applier = Applier(server, allowed)
    for write in (applier.apply(manifest, None), applier.apply(manifest, manifest), applier.create(manifest)):
        with pytest.raises(UserError, match=f"would mount {path} of the nodes; ") as told:
            await write
        assert told.value.reason == "NodePathForbidden"
    assert server.writes == 0


async def test_pods_mount_allowed_directories_of_the_nodes(server):
    manifest = wanted()
    manifest["spec"]["template"]["spec"]["volumes"] = [*NODE, {"name": "tmp", "emptyDir": {}}]
    assert await Applier(server, ("/goosefs", "/models")).apply(manifest, None)


async def test_a_pause_is_undone_and_no_pause_is_as_the_api_server_writes_it(server):
    """It leaves `paused: false` out: a new operator, which remembers no spelling, writes nothing."""
    manifest = wanted(resources={"requests": {"memory": "4Gi"}})
    manifest["spec"]["paused"] = False
    await Applier(server, ()).apply(manifest, None)
    del server.live["spec"]["paused"]
    assert not await Applier(server, ()).apply(manifest, server.live)
    server.live["spec"]["paused"] = True
    assert await Applier(server, ()).apply(manifest, server.live)


@pytest.mark.parametrize(
    ("owners", "error"),
    [
        ([], UserError),
        ([{"kind": "Helm", "name": "x", "uid": "u-2"}], UserError),
        ([{"kind": "LLMService", "name": "qwen", "uid": "u-0"}], Retry),
    ],
    ids=["nobody's", "someone's", "of a deleted namesake"],
)
async def test_what_is_not_ours_is_never_taken(server, owners, error):
    live = wanted()
    live["metadata"]["ownerReferences"] = owners
    with pytest.raises(error):
        await Applier(server, ()).apply(wanted(), live)
    assert server.writes == 0


def test_the_stamp_names_the_intent():
    assert stamped(wanted()) == stamped(wanted())
    assert stamped(wanted()) != stamped(wanted(image="other"))


def test_a_projection_has_the_shape_of_the_wish():
    """Rows of a list with a key are found by it; other rows, and other lists, are one value."""
    live = {
        "a": 1,
        "b": {"c": 2, "x": 3},
        "spec": {"volumes": [{"name": "two", "v": 2, "x": 0}, {"name": "one", "v": 1}], "rows": [{"name": "x"}]},
        "l": [1, 2],
    }
    volumes = [{"name": "one", "v": 0}, {"name": "three", "v": 3}]
    wish = {"a": 0, "b": {"c": 0, "d": 0}, "spec": {"volumes": volumes, "rows": [{"name": "y"}]}, "l": [1]}
    assert project(live, wish) == {
        "a": 1,
        "b": {"c": 2, "d": None},
        "spec": {"volumes": [{"name": "one", "v": 1}, {"name": None, "v": None}], "rows": [{"name": "x"}]},
        "l": [1, 2],
    }


PORT = {"containerPort": 9000, "name": "a"}


@pytest.mark.parametrize(
    ("live", "same"),
    [
        ([{**PORT, "protocol": "TCP"}], True),
        ([{**PORT, "protocol": "TCP"}, {**PORT, "name": "b", "protocol": "UDP"}], True),
        ([{**PORT, "protocol": "UDP"}], False),
        ([{**PORT, "name": "b", "protocol": "TCP"}], False),
    ],
    ids=["the default is filled in", "another's of the other protocol", "the other protocol", "renamed"],
)
def test_a_port_is_found_by_number_and_protocol(live, same):
    """As a server-side apply finds it."""
    place = ("containers", "ports")
    assert agrees(live, [PORT], *place) is same
    assert (project(live, [PORT], *place) == [PORT]) is same


def test_rows_that_others_add_to_a_list_of_one_value_are_an_edit():
    """A port that somebody adds to a NetworkPolicy opens it: such a list has no key."""
    policy = {"spec": {"ingress": [{"ports": [{"port": 1, "protocol": "TCP"}]}]}}
    opened = {"spec": {"ingress": [{"ports": [{"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "TCP"}]}]}}
    assert agrees(policy, policy)
    assert not agrees(opened, policy)
