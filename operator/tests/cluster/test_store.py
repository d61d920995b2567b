"""The store: the newest version wins, gaps in a watch leave no ghosts, labels and owners find what concerns whom."""

from __future__ import annotations

from windlass_api.names import SERVICE_LABEL
from windlass_operator.cluster.store import DOWNLOAD_LABEL, TOO_WIDE, Shelf, Store


def an_object(name="qwen", version=1, kind="Deployment", labels=None, owners=(), **rest):
    meta = {"name": name, "namespace": "team-a", "resourceVersion": str(version), "labels": labels or {}}
    if owners:
        meta["ownerReferences"] = [{"kind": "LLMService", "name": owner, "uid": owner} for owner in owners]
    return {"kind": kind, "metadata": meta, **rest}


PLACE = ("team-a", "qwen")


def version_on(shelf):
    found = shelf.get(PLACE)
    return int(found["metadata"]["resourceVersion"]) if found else None


def test_a_newer_version_is_news_and_the_same_is_not():
    shelf = Shelf()
    assert shelf.put(an_object(version=5))
    assert shelf.put(an_object(version=5)) is None
    assert shelf.put(an_object(version=4)) is None
    assert shelf.put(an_object(version=6))
    assert version_on(shelf) == 6


def test_our_own_write_is_read_before_the_watch_tells_it():
    """And when the watch does tell it, that is no news."""
    shelf = Shelf()
    shelf.put(an_object(version=5))
    assert shelf.answer(an_object(version=9))
    assert version_on(shelf) == 9
    assert shelf.put(an_object(version=9)) is None


def test_an_old_event_does_not_undo_our_write():
    shelf = Shelf()
    shelf.answer(an_object(version=9))
    assert shelf.put(an_object(version=7)) is None
    assert shelf.drop(an_object(version=8)) is None
    assert version_on(shelf) == 9


def test_an_answer_that_comes_after_the_deletion_raises_no_ghost():
    """The stream told of the object's end while our write of it was under way: that is newer than the answer."""
    shelf = Shelf()
    shelf.put(an_object(version=5))
    with shelf.writing(PLACE):
        assert shelf.drop(an_object(version=8))
        assert shelf.answer(an_object(version=7)) is None
    assert version_on(shelf) is None


def test_an_answer_that_comes_after_a_list_without_the_object_raises_no_ghost():
    """Made by us, deleted by another and passed over by a list, all before the answer came."""
    shelf = Shelf()
    with shelf.writing(PLACE):
        shelf.keep(set(), 20)
        assert shelf.answer(an_object(version=15)) is None
        assert shelf.answer(an_object(version=21))
    assert version_on(shelf) == 21


def test_an_end_before_our_write_began_hinders_no_answer():
    shelf = Shelf()
    shelf.put(an_object(version=5))
    shelf.drop(an_object(version=8))
    with shelf.writing(PLACE):
        assert shelf.answer(an_object(version=9))


def test_a_list_drops_what_it_does_not_name():
    """What was deleted while the stream was down is gone with the next list; what we wrote since then stays."""
    shelf = Shelf()
    shelf.put(an_object("gone", version=3))
    shelf.put(an_object("kept", version=4))
    shelf.answer(an_object("new", version=30))
    assert [place for place, _ in shelf.keep({("team-a", "kept")}, 20)] == [("team-a", "gone")]
    assert {place[1] for place in shelf.rows} == {"kept", "new"}


def test_each_namespace_s_list_drops_its_own_alone():
    shelf = Shelf()
    shelf.put(an_object("one", version=3))
    shelf.keep(set(), 20, "team-b")
    assert {place[1] for place in shelf.rows} == {"one"}
    shelf.keep(set(), 20, "team-a")
    assert shelf.rows == {}


def test_a_reader_s_changes_stay_its_own():
    shelf = Shelf()
    shelf.put(an_object(spec={"replicas": 1}))
    shelf.get(PLACE)["spec"]["replicas"] = 5
    assert shelf.get(PLACE)["spec"]["replicas"] == 1


def test_what_nobody_reads_is_not_kept():
    shelf = Shelf()
    item = an_object()
    item["metadata"]["managedFields"] = [{"manager": "windlass"}]
    item["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}
    shelf.put(item)
    found = shelf.get(PLACE)["metadata"]
    assert "managedFields" not in found
    assert found["annotations"] == {"a": "b"}
    assert "managedFields" in item["metadata"]


def test_a_number_beyond_64_bits_leaves_a_stub():
    """The API server writes 1e20 of an untyped field in digits."""
    shelf = Shelf()
    shelf.put(an_object(kind="LLMService", spec={"podTemplate": {"x": 10**20}}, status={"a": 1}))
    found = shelf.get(PLACE)
    assert (found["windlass.dev/unread"], found["status"], "spec" in found) == (TOO_WIDE, {"a": 1}, False)
    shelf.put(an_object(version=2, kind="LLMService", spec={"x": 2**64 - 1, "y": -(2**63)}))
    assert shelf.get(PLACE)["spec"] == {"x": 2**64 - 1, "y": -(2**63)}


def test_objects_are_found_by_label_and_namespace():
    shelf = Shelf()
    for name, service, part in (("a", "qwen", "server"), ("b", "qwen", "inspect"), ("c", "other", "server")):
        shelf.put(an_object(name, labels={SERVICE_LABEL: service, "part": part}))
    names = lambda rows: [row["metadata"]["name"] for row in rows]  # noqa: E731
    assert names(shelf.find("team-a", {SERVICE_LABEL: "qwen"})) == ["a", "b"]
    assert names(shelf.find("team-a", {SERVICE_LABEL: "qwen", "part": "server"})) == ["a"]
    assert names(shelf.find("team-a", {"part": "server"})) == ["a", "c"]
    assert names(shelf.find("team-b", {SERVICE_LABEL: "qwen"})) == []
    assert names(shelf.find(None, {})) == ["a", "b", "c"]


def test_a_changed_label_is_found_anew_only():
    shelf = Shelf()
    shelf.put(an_object(labels={SERVICE_LABEL: "old"}))
    shelf.put(an_object(version=2, labels={SERVICE_LABEL: "new"}))
    assert shelf.find("team-a", {SERVICE_LABEL: "old"}) == []
    assert len(shelf.find("team-a", {SERVICE_LABEL: "new"})) == 1


def test_an_object_concerns_its_label_and_its_owners():
    store = Store(["Deployment", "Job", "Pod"])
    row = store.shelves["Deployment"].put(an_object(labels={SERVICE_LABEL: "qwen"}, owners=("qwen", "other")))
    assert store.service_names("Deployment", "team-a", row) == {"qwen", "other"}


def test_a_download_s_pod_concerns_all_that_own_its_job():
    store = Store(["Job", "Pod"])
    mark = {DOWNLOAD_LABEL: "hub-1"}
    job = store.shelves["Job"].put(an_object("hub-1", kind="Job", labels=mark, owners=("one", "two")))
    pod = store.shelves["Pod"].put(an_object("hub-1-x", kind="Pod", labels=mark))
    assert store.service_names("Job", "team-a", job) == {"one", "two"}
    assert store.service_names("Pod", "team-a", pod) == {"one", "two"}
    assert store.service_names("Pod", "team-b", pod) == set()
