"""Which changes of status are worth an Event."""

from __future__ import annotations

import pytest
from windlass_operator.status.notes import Note, notes


def a_status(**reasons):
    rows = {
        "Ready": ("Running", "1 of 1 replicas answer"),
        "Licensed": ("LicenseGranted", "granted until 2027"),
        **reasons,
    }
    return {"conditions": [{"type": k, "status": "True", "reason": r, "message": m} for k, (r, m) in rows.items()]}


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({}, {}, []),
        ({}, {"Licensed": ("LicenseExpiring", "ends in 9 days")}, ["ends in 9 days"]),
        ({"Licensed": ("LicenseExpiring", "ends in 9 days")}, {"Licensed": ("LicenseExpiring", "ends in 9 days")}, []),
        (
            {"Licensed": ("LicenseExpiring", "ends in 9 days")},
            {"Licensed": ("LicenseExpiring", "ends in 8 days")},
            ["ends in 8 days"],
        ),
        ({"Licensed": ("LicenseExpiring", "ends in 9 days")}, {}, []),
        ({}, {"Licensed": ("LicenseExpired", "it ended")}, ["it ended"]),
        ({}, {"Licensed": ("Unlicensed", "GPU-1"), "Ready": ("Unlicensed", "GPU-1")}, ["GPU-1"]),
    ],
)
def test_events_of_the_license(before, after, told):
    """New words of a warning are one Event, also where Ready says the same; a day's countdown is one."""
    assert [note.message for note in notes(a_status(**before), a_status(**after))] == told


def test_a_field_with_a_newer_form_warns_once():
    """And again only when other fields are meant."""
    keys, cache = (("OlderForm", f"{name}; write the form") for name in ("spec.expose.apiKeysSecret", "spec.cache.pvc"))
    plain, older, other = a_status(), a_status(OlderFields=keys), a_status(OlderFields=cache)
    assert notes(plain, older) == [Note(*keys)]
    assert (notes(older, older), notes(older, plain)) == ([], [])
    assert notes(older, other) == [Note(*cache)]


FOUND = ("ModelFound", "Qwen2, in PVC models")
PLANNED = ("Planned", "1 × L20")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param({}, {"Ready": ("Inspecting", "a Job reads")}, [], id="Inspecting is a condition alone"),
        pytest.param(
            {"Ready": ("Inspecting", "a Job reads")},
            {"ModelReady": FOUND, "Planned": PLANNED, "Ready": ("Starting", "0 of 1")},
            [Note("Planned", "ModelFound: Qwen2, in PVC models; 1 × L20; Starting: 0 of 1")],
            id="one step is one Event",
        ),
        pytest.param(
            {"Ready": ("Inspecting", "a Job reads")},
            {"ModelReady": FOUND, "Planned": PLANNED, "Ready": ("InsufficientGpus", "none is free")},
            [
                Note("Planned", "ModelFound: Qwen2, in PVC models; 1 × L20"),
                Note("InsufficientGpus", "none is free"),
            ],
            id="a warning is an Event of its own",
        ),
        pytest.param(
            {"ModelReady": FOUND, "Planned": PLANNED},
            {"ModelReady": FOUND, "Planned": ("Planned", "2 × L20")},
            [Note("Planned", "2 × L20")],
            id="a new plan for the same model",
        ),
        pytest.param(
            {"Ready": ("Inspecting", "a Job reads")},
            {"Ready": ("PathNotFound", "nope is not there")},
            [Note("PathNotFound", "nope is not there")],
            id="the outcome of a failed inspection",
        ),
    ],
)
def test_events_of_a_service_s_life(before, after, told):
    assert told == notes(a_status(**before), a_status(**after))


def test_an_event_of_the_license_is_a_warning():
    made = notes(a_status(), a_status(Licensed=("LicenseExpiring", "ends in 9 days")))
    assert made == [Note("LicenseExpiring", "ends in 9 days")]
