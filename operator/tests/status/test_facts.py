"""What pods say of themselves, parsed with suspicion."""

from __future__ import annotations

import pytest
from windlass_operator.status import facts

WHOLE = {
    "version": 1,
    "service": "qwen",
    "phase": "engine",
    "phases": [{"phase": "license", "seconds": 1.24}, {"phase": "prefetch", "seconds": 20}],
    "license": {"required": True, "state": "granted", "message": "granted", "gpus": ["GPU-1"], "expires": None},
}


def test_facts_are_read():
    one = facts.parse("qwen-0", WHOLE)
    assert (one.phase, one.license_state) == ("engine", "granted")
    assert facts.startup([one]) == [{"phase": "license", "seconds": "1.2"}, {"phase": "prefetch", "seconds": "20.0"}]
    assert one.doing() == "pod qwen-0 loads the engine"


@pytest.mark.parametrize("data", [None, [], "x", {}, {"version": 2}], ids=repr)
def test_what_is_not_ours_is_nothing(data):
    assert facts.parse("p", data) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"phases": "x"}, {"phases": [1, {"phase": 3, "seconds": 1}, {"phase": "a", "seconds": "b"}]}, {"phase": 7},
        {"license": "x"}, {"license": {"state": 1}}, {"phases": [{"phase": "a", "seconds": 1}] * 50},
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_parts_are_left_out(wrong):
    """Each phase once: it is the key of the list in the status."""
    one = facts.parse("p", {"version": 1, **wrong})
    assert one is not None
    assert len({phase for phase, _ in one.phases}) == len(one.phases) <= 16


def states(*words):
    return [
        facts.PodFacts(f"p{i}", "engine", license_state=word, license_message=f"m {word}")
        for i, word in enumerate(words)
    ]


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (["granted", "granted"], "True", "LicenseGranted"),
        (["granted", "refused"], "False", "Unlicensed"),
        (["waiting", "unreachable"], "False", "LicenseServerUnreachable"),
        (["granted", "expired"], "False", "LicenseExpired"),
        (["granted", "waiting"], "Unknown", "LicensePending"),
        (["notRequired"], "True", "LicenseNotRequired"),
    ],
)
def test_the_worst_license_is_told(words, status, reason):
    verdict = facts.license_verdict(states(*words))
    assert (verdict.status, verdict.reason) == (status, reason)


def test_no_facts_say_nothing_of_the_license():
    assert facts.license_verdict([]) is None
    assert facts.startup([]) is None
