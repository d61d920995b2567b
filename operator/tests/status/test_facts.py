"""What pods say of themselves, parsed with suspicion."""

from __future__ import annotations

import pytest
from windlass_operator.status import facts

NOW = "2026-01-01T00:00:00Z"
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


def test_a_failure_is_reported_with_the_phase():
    """Until the pod has ended its facts are where the sentence stands."""
    failed = {"version": 1, "phase": "failed", "failure": {"reason": "FirstChatFailed", "message": "HTTP 500: no"}}
    assert facts.parse("qwen-0", failed).doing() == "pod qwen-0 has failed: HTTP 500: no"


@pytest.mark.parametrize("data", [None, [], "x", {}, {"version": 2}], ids=repr)
def test_what_is_not_ours_is_nothing(data):
    assert facts.parse("p", data) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"phases": "x"}, {"phases": [1, {"phase": 3, "seconds": 1}, {"phase": "a", "seconds": "b"}]}, {"phase": 7},
        {"license": "x"}, {"license": {"state": 1}}, {"phases": [{"phase": "a", "seconds": 1}] * 50},
        {"failure": 3}, {"failure": {"message": 1}},
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
def test_the_worst_license_is_reported(words, status, reason):
    verdict = facts.license_verdict(states(*words), NOW)
    assert (verdict.status, verdict.reason) == (status, reason)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("NoLicense", "LicenseMissing"),
        ("Unlicensed", "Unlicensed"),
        ("LimitReached", "LicenseLimitReached"),
        ("Expired", "LicenseExpired"),
        ("Whatever", "Unlicensed"),
        ("", "Unlicensed"),
    ],
)
def test_a_refusal_is_reported_in_the_server_s_words(said, reason):
    """Our word for it in front, the server's sentence as it came."""
    license_ = {"state": "refused", "message": "GPU-1 is not in it; upload one that names it", "reason": said}
    one = facts.parse("p", {"version": 1, "license": license_})
    verdict = facts.license_verdict([one], NOW)
    assert (verdict.status, verdict.reason, verdict.message) == ("False", reason, license_["message"])


def granted_until(expires, gpus=("GPU-1",)):
    license_ = {"state": "granted", "message": "GPU-1 renewed for a/b", "expires": expires, "gpus": list(gpus)}
    return facts.parse("p", {"version": 1, "license": license_})


@pytest.mark.parametrize(
    ("expires", "reason", "words"),
    [
        ("2026-03-01T00:00:00+00:00", "LicenseGranted", "granted until 2026-03-01T00:00:00+00:00"),
        (
            "2026-01-31T00:00:00Z",
            "LicenseExpiring",
            "the license ends in 30 days, at 2026-01-31T00:00:00+00:00",
        ),
        ("2026-01-20T07:00:00+08:00", "LicenseExpiring", "the license ends in 18 days, at 2026-01-20"),
        ("2026-01-02T12:00:00Z", "LicenseExpiring", "ends in 1 day, at"),
        ("2026-01-01T12:00:00Z", "LicenseExpiring", "ends within a day, at"),
        ("2026-01-20T00:00:00", "LicenseGranted", "GPU-1 renewed for a/b"),
        ("soon", "LicenseGranted", "GPU-1 renewed for a/b"),
        (None, "LicenseGranted", "GPU-1 renewed for a/b"),
    ],
)
def test_an_end_within_thirty_days_is_reported(expires, reason, words):
    """Still licensed; a time without a zone, or none, is no end that could be counted down to."""
    verdict = facts.license_verdict([granted_until(expires)], NOW)
    assert (verdict.status, verdict.reason) == ("True", reason)
    assert words in verdict.message
    assert ("upload a new license" in verdict.message) == (reason == "LicenseExpiring")


def test_of_several_pods_the_first_end_counts():
    """Whichever of the pods answer, the words are the same while their license is."""
    early, late = granted_until("2026-01-10T00:00:00Z"), granted_until("2026-01-20T00:00:00Z")
    assert "ends in 9 days, at 2026-01-10" in facts.license_verdict([late, early], NOW).message
    other = granted_until("2026-01-10T00:00:00Z", ["GPU-2"])
    assert facts.license_verdict([early], NOW) == facts.license_verdict([other], NOW)


def test_the_words_change_once_a_day():
    """So the status is written, and an Event made, once a day."""
    one = [granted_until("2026-01-20T10:30:00Z")]
    hours = [f"2026-01-{day:02}T{hour:02}:00:00Z" for day in (3, 4, 5) for hour in range(24)]
    assert len({facts.license_verdict(one, hour).message for hour in hours}) == 4


def test_no_facts_say_nothing_of_the_license():
    assert facts.license_verdict([], NOW) is None
    assert facts.startup([]) is None


def counted(asked, gpu, host):
    told = {"promptTokens": asked, "gpuTokens": gpu, "hostTokens": host}
    return facts.parse("p", {"version": 1, "prefixCache": told})


def test_hits_of_all_pods_are_one_share():
    """By tokens, so that a pod with few prompts counts little; the three shares are the whole."""
    shares = facts.prefix_cache([counted(900, 300, 150), counted(100, 35, 0), counted(0, 0, 0)])
    assert shares == {"gpuPercent": 34, "hostPercent": 15, "computedPercent": 51}
    assert facts.prefix_cache([counted(1000, 995, 5)]) == {"gpuPercent": 100, "hostPercent": 0, "computedPercent": 0}
    assert facts.prefix_cache([counted(0, 0, 0)]) is None
    assert facts.prefix_cache([]) is None


@pytest.mark.parametrize(
    "told",
    [
        7, {}, {"promptTokens": 5}, {"promptTokens": 5, "gpuTokens": 4, "hostTokens": 2},
        {"promptTokens": 5, "gpuTokens": -1, "hostTokens": 2}, {"promptTokens": True, "gpuTokens": 0, "hostTokens": 0},
        {"promptTokens": 2**60, "gpuTokens": 0, "hostTokens": 0},
        {"promptTokens": 5.0, "gpuTokens": 0, "hostTokens": 1},
    ],
    ids=repr,
)  # fmt: skip
def test_hits_that_cannot_be_are_none(told):
    """A pod may run any image."""
    assert facts.prefix_cache([facts.parse("p", {"version": 1, "prefixCache": told})]) is None
