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


def test_an_event_of_the_license_is_a_warning():
    made = notes(a_status(), a_status(Licensed=("LicenseExpiring", "ends in 9 days")))
    assert made == [Note("LicenseExpiring", "ends in 9 days")]
