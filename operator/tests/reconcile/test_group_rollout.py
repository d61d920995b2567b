"""Which pods of groups are ended when their template changes."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from windlass_operator.reconcile import group_rollout
from windlass_operator.records.base import parse
from windlass_operator.records.pods import Pod
from windlass_operator.records.workloads import StatefulSet

SIZE = 2


def a_set(replica: int, seen: bool = True) -> dict[str, Any]:
    return {
        "kind": "StatefulSet",
        "metadata": {"name": f"q-{replica}", "uid": f"uid-{replica}", "generation": 2},
        "spec": {"replicas": SIZE},
        "status": {"updateRevision": "new", "observedGeneration": 2 if seen else 1},
    }


def a_pod(replica: int, member: int, revision: str = "new", ready: bool = True, going: bool = False) -> dict[str, Any]:
    owner = {"uid": f"uid-{replica}", "controller": True}
    meta: dict[str, Any] = {"name": f"q-{replica}-{member}", "ownerReferences": [owner]}
    meta["labels"] = {"controller-revision-hash": revision}
    if going:
        meta["deletionTimestamp"] = "2026-11-22T00:00:00Z"
    return {"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}}


def ended(sets: list[dict[str, Any]], pods: list[dict[str, Any]]) -> list[str]:
    records = [parse(Pod, pod) for pod in pods]
    return [pod.name for pod in group_rollout.to_end([parse(StatefulSet, one) for one in sets], records)]


def replica(number: int, **how: Any) -> list[dict[str, Any]]:
    return [a_pod(number, member, **how) for member in range(SIZE)]


def test_nothing_is_ended_while_nothing_changed():
    assert ended([a_set(0)], replica(0)) == []


def test_all_members_of_a_replica_go_at_once():
    assert ended([a_set(0)], replica(0, revision="old")) == ["q-0-0", "q-0-1"]


def test_ready_replicas_are_replaced_one_by_one():
    """The second waits until the first answers again."""
    sets = [a_set(0), a_set(1)]
    both = [*replica(0, revision="old"), *replica(1, revision="old")]
    assert ended(sets, both) == ["q-0-0", "q-0-1"]
    going = [*replica(0, revision="old", going=True), *replica(1, revision="old")]
    assert ended(sets, going) == []
    starting = [*replica(0, ready=False), *replica(1, revision="old")]
    assert ended(sets, starting) == []
    back = [*replica(0), *replica(1, revision="old")]
    assert ended(sets, back) == ["q-1-0", "q-1-1"]


def test_replicas_that_do_not_answer_need_no_turn():
    """A broken template is replaced at once, everywhere."""
    both = [*replica(0, revision="old", ready=False), *replica(1, revision="old", ready=False)]
    assert ended([a_set(0), a_set(1)], both) == ["q-0-0", "q-0-1", "q-1-0", "q-1-1"]


def test_the_rest_of_a_replica_follows():
    """A member that was replaced by chance, as on a drained node, does not stay beside older ones."""
    assert ended([a_set(0)], [a_pod(0, 0, "old"), a_pod(0, 1, ready=False)]) == ["q-0-0"]


def test_a_template_that_was_not_looked_at_yet_is_waited_for():
    """Before that the revision in the status is the old one, and all pods would look right or wrong by chance."""
    assert ended([a_set(0, seen=False)], replica(0, revision="old")) == []


pods = st.builds(
    lambda rows: [a_pod(*row) for row in rows],
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(0, SIZE - 1),
            st.sampled_from(["old", "new"]),
            st.booleans(),
            st.booleans(),
        ),
        unique_by=lambda row: row[:2],
    ),
)


@settings(deadline=None)
@given(pods)
def test_never_a_new_pod_and_never_two_replicas_that_answer(found):
    """Only old pods are ended, all of their replica, and at most one replica that answered."""
    sets = [a_set(number) for number in range(3)]
    names = ended(sets, found)
    gone = [pod for pod in found if pod["metadata"]["name"] in names]
    for pod in gone:
        assert pod["metadata"]["labels"]["controller-revision-hash"] == "old"
        assert "deletionTimestamp" not in pod["metadata"]
    whole = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in gone}
    for uid in whole:
        mine = [pod for pod in found if pod["metadata"]["ownerReferences"][0]["uid"] == uid]
        old = [pod for pod in mine if pod["metadata"]["labels"]["controller-revision-hash"] == "old"]
        assert all(pod in gone or "deletionTimestamp" in pod["metadata"] for pod in old)
    answered = [uid for uid in whole if sum(_up(pod) for pod in found if _of(pod) == uid) == SIZE]
    assert len(answered) <= 1


def _of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["ownerReferences"][0]["uid"])


def _up(pod: dict[str, Any]) -> bool:
    return pod["status"]["conditions"][0]["status"] == "True" and "deletionTimestamp" not in pod["metadata"]
