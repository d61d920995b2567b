"""The series of each service, and the waits that are counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from windlass_operator.runtime import metrics
from windlass_operator.runtime.census import Census

PLACE = ("census-a", "qwen")


def an_item(reason: str, status: str = "False", generation: int = 1) -> dict[str, object]:
    rows = [
        {"type": "Ready", "status": status, "reason": reason},
        {"type": "Progressing", "status": "False", "reason": "Settled"},
    ]
    meta = {"uid": "u", "generation": generation, "creationTimestamp": "1970-01-01T00:00:05Z"}
    return {"metadata": meta, "status": {"observedGeneration": generation, "conditions": rows}}


@pytest.fixture
def census() -> Iterator[Census]:
    now = iter(range(10, 1000, 10))
    made = Census(lambda: True, lambda: float(next(now)))
    yield made
    for place in list(made.tracked):
        made.forget(place)


def series() -> dict[tuple[str, ...], float]:
    """The gauge's samples of this module's namespaces, by the values of their labels."""
    (family,) = metrics.LLMSERVICE_READY.collect()
    found = {(row.labels["namespace"], row.labels["name"], row.labels["reason"]): row.value for row in family.samples}
    return {labels: value for labels, value in found.items() if labels[0].startswith("census-")}


def counted(wait: str) -> tuple[float, float]:
    """How many waits of a kind were counted, and their sum."""
    (family,) = metrics.LLMSERVICE_WAIT_SECONDS.collect()
    mine = {row.name: row.value for row in family.samples if row.labels["wait"] == wait and "le" not in row.labels}
    return mine["windlass_llmservice_wait_seconds_count"], mine["windlass_llmservice_wait_seconds_sum"]


def test_a_service_has_one_series_at_a_time_and_none_once_it_is_gone(census):
    """A reason that passed leaves no series, so there are never more than services."""
    for reason, status in (("Starting", "False"), ("Running", "True"), ("PartlyReady", "True")):
        census.see(PLACE, an_item(reason, status))
        assert series() == {(*PLACE, reason): float(status == "True")}
    census.see(("census-b", "qwen"), an_item("NotEnoughGpus"))
    assert len(series()) == 2
    census.forget(PLACE)
    assert series() == {("census-b", "qwen", "NotEnoughGpus"): 0.0}
    census.forget(PLACE)


def test_ready_that_changes_under_the_same_reason_is_seen(census):
    census.see(PLACE, an_item("Running", "True"))
    census.see(PLACE, an_item("Running", "False"))
    assert series() == {(*PLACE, "Running"): 0.0}


def test_the_replica_at_work_counts_waits_and_a_stand_by_does_not(census):
    """Both see all of it; a stand-by that takes over in the midst of a wait counts it."""
    before = counted("created")
    census.see(PLACE, an_item("Starting"))
    census.see(PLACE, an_item("Running", "True"))
    assert counted("created") == (before[0] + 1, before[1] + 15.0)
    stands_by = Census(lambda: False, lambda: 50.0)
    stands_by.see(("census-c", "x"), an_item("Starting"))
    stands_by.see(("census-c", "x"), an_item("Running", "True"))
    stands_by.forget(("census-c", "x"))
    assert counted("created") == (before[0] + 1, before[1] + 15.0)


def test_every_wait_is_exported_before_the_first_one_is_over():
    assert {row.labels["wait"] for row in next(iter(metrics.LLMSERVICE_WAIT_SECONDS.collect())).samples} == {
        "created",
        "edited",
        "gpus",
        "license",
    }
