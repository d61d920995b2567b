"""Replicas over several nodes: all members or none."""

from __future__ import annotations

import pytest
from windlass_api.crd.pods import NODES_MAX
from windlass_operator.status.replicas import count, rolling

from .as_read import children


def a_set(name, size=2, **status):
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"replicas": size}, "status": status}


def a_member(group, index, ready=True, revision="1"):
    labels = {"apps.kubernetes.io/pod-index": str(index), "controller-revision-hash": revision}
    owners = [{"uid": f"uid-{group}", "controller": True}]
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": {"name": f"{group}-{index}", "labels": labels, "ownerReferences": owners},
        "status": {"conditions": conditions},
    }


@pytest.mark.parametrize(
    ("pods", "ready", "waits"),
    [
        ([a_member("q-0", 0), a_member("q-0", 1)], 1, ()),
        ([a_member("q-0", 0), a_member("q-0", 1, False)], 0, ("replica q-0 waits for member q-0-1",)),
        ([a_member("q-0", 1)], 0, ("replica q-0 waits for head q-0-0",)),
        ([], 0, ()),
    ],
    ids=["all", "member away", "head away", "nobody"],
)
def test_a_replica_answers_when_every_member_is_ready(pods, ready, waits):
    found = count(children(stateful_sets=(a_set("q-0"),), pods=tuple(pods)))
    assert (found.total, found.ready, found.waits) == (1, ready, waits)


@pytest.mark.parametrize("size", [20, 2**31 - 1])
def test_a_message_names_a_few_of_many_members(size):
    """Members beyond NODES_MAX are not counted: no plan has them, and the number may be any int32."""
    (words,) = count(children(stateful_sets=(a_set("q-0", size),), pods=(a_member("q-0", 0),))).waits
    members = ", ".join(f"member q-0-{index}" for index in range(1, 9))
    assert words == f"replica q-0 waits for {members}, {min(size, NODES_MAX) - 9} more"


def test_a_held_group_is_no_replica():
    assert count(children(stateful_sets=(a_set("q-0", 0),))).total == 0


def test_both_kinds_count_while_the_one_replaces_the_other():
    one = {"status": {"replicas": 2, "readyReplicas": 1}}
    pods = (a_member("q-0", 0), a_member("q-0", 1))
    assert count(children(deployment=one, stateful_sets=(a_set("q-0"),), pods=pods)).ready == 2


def test_a_group_of_an_older_revision_rolls():
    pods = (a_member("q-0", 0), a_member("q-0", 1, revision="2"))
    assert rolling(children(stateful_sets=(a_set("q-0", updateRevision="2"),), pods=pods))
    assert not rolling(children(stateful_sets=(a_set("q-0", updateRevision="1"),), pods=pods[:1]))
