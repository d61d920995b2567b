"""What a service waits for, from one version of it to the next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from windlass_operator.status.waits import CREATED, EDITED, GPUS, LICENSE, Standing, first

NEW = Standing("u", 1, 100.0, "New", False, False, False, False, False)
RUNS = replace(NEW, reason="Running", ready=True, settled=True, current=True)


def lengths(*versions: tuple[float, Standing]) -> list[dict[str, float]]:
    """The waits that end with each version after the first."""
    tracked, found = first(versions[0][1], versions[0][0]), []
    for at_s, standing in versions[1:]:
        tracked, ended = tracked.next(standing, at_s)
        found.append(ended)
    return found


def an_item(**conditions: tuple[str, str]) -> dict[str, object]:
    rows = [{"type": type_, "status": status, "reason": reason} for type_, (status, reason) in conditions.items()]
    meta = {"uid": "u", "generation": 2, "creationTimestamp": "1970-01-01T00:01:40Z"}
    return {"metadata": meta, "status": {"observedGeneration": 2, "conditions": rows}}


def test_a_resource_is_read_once_into_a_standing():
    runs = an_item(Ready=("True", "Running"), Progressing=("False", "Settled"), Licensed=("True", "Licensed"))
    assert Standing.of(runs) == replace(RUNS, generation=2)
    waits = an_item(Ready=("False", "LicenseMissing"), Progressing=("False", "NotEnoughGpus"), Licensed=("False", "x"))
    expected = replace(NEW, generation=2, reason="LicenseMissing", current=True, gpus=True, license=True)
    assert Standing.of(waits) == expected
    assert Standing.of({"metadata": {}}) == replace(NEW, uid="", generation=0, created_s=0.0)


def test_the_first_ready_counts_from_the_creation_also_after_a_restart_of_the_operator():
    starts = replace(NEW, reason="Starting", current=True)
    assert lengths((160.0, starts), (170.0, starts), (190.0, RUNS)) == [{}, {CREATED: 90.0}]


def test_a_new_service_is_there_with_its_first_answer():
    """The other replicas may still be on their way."""
    partly = replace(RUNS, reason="PartlyReady", settled=False)
    assert lengths((100.0, NEW), (130.0, partly), (150.0, RUNS)) == [{CREATED: 30.0}, {}]


def test_an_edit_is_over_when_no_old_pod_is_left():
    edited = replace(RUNS, generation=2, current=False)
    rolls = replace(edited, current=True, settled=False)
    assert lengths((0.0, RUNS), (10.0, edited), (11.0, rolls), (40.0, replace(rolls, settled=True))) == [
        {},
        {},
        {EDITED: 30.0},
    ]


def test_an_edit_that_the_last_operator_did_not_answer_counts_from_when_it_is_seen():
    edited = replace(RUNS, generation=2, current=False)
    assert lengths((10.0, edited), (15.0, replace(edited, current=True))) == [{EDITED: 5.0}]


def test_a_newer_edit_begins_anew_and_ends_the_wait_of_the_creation():
    edited = replace(NEW, generation=2)
    again = replace(NEW, generation=3)
    ready = replace(RUNS, generation=3)
    assert lengths((100.0, NEW), (110.0, edited), (120.0, again), (150.0, ready)) == [{}, {}, {EDITED: 30.0}]


@pytest.mark.parametrize("wait", [GPUS, LICENSE])
def test_a_wait_for_gpus_or_a_license_is_as_long_as_its_condition_says(wait):
    held = replace(NEW, current=True, **{wait: True})
    free = replace(NEW, current=True)
    assert lengths((100.0, free), (110.0, held), (120.0, held), (130.0, free), (140.0, free)) == [
        {},
        {},
        {wait: 20.0},
        {},
    ]


@pytest.mark.parametrize("wait", [GPUS, LICENSE])
def test_a_wait_whose_begin_nobody_saw_has_no_length(wait):
    held = replace(RUNS, **{wait: True})
    assert lengths((100.0, held), (130.0, RUNS)) == [{}]


def test_a_service_that_is_made_anew_under_its_name_begins_anew():
    anew = replace(NEW, uid="v", created_s=200.0)
    ready = replace(RUNS, uid="v", created_s=200.0)
    assert lengths((100.0, NEW), (201.0, anew), (230.0, ready)) == [{}, {CREATED: 30.0}]


def test_a_clock_that_lags_behind_the_api_server_gives_no_negative_wait():
    assert lengths((99.0, NEW), (99.5, RUNS)) == [{CREATED: 0.0}]
