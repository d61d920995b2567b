"""What others wrote is read with suspicion: no message, annotation or answer ends a run of the operator."""

from __future__ import annotations

import json

import msgspec
import pytest
from windlass_api.objects.reading import seconds_between
from windlass_base.untrusted_json import parsed
from windlass_operator.records.base import Record, parse
from windlass_operator.records.workloads import Job
from windlass_operator.status import crashes, download, facts, hold, inspection
from windlass_operator.status.jobs import instant

DEEP = "[" * 100_000
NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "text", ["", "{", "NaN}", DEEP, "\ufeff{}", b"\xff\xfe\x00"], ids=["none", "cut", "nan", "deep", "bom", "bytes"]
)
def test_what_is_no_json_is_nothing(text):
    assert parsed(text) is None


@pytest.mark.parametrize("text", [r'"\ud800"', r'{"\udcff": ["\udc00"]}'])
def test_half_a_surrogate_pair_can_be_written(text):
    """A file name of no encoding comes like this out of the inspect Job."""
    assert "?" in msgspec.json.encode(parsed(text)).decode()


def test_a_whole_pair_stays():
    assert parsed(json.dumps("\U0001f600")) == "\U0001f600"


@pytest.mark.parametrize("text", ["", "None", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "2026-13-45T99:99:99Z"])
def test_a_time_without_its_zone_is_none(text):
    assert instant(text) == ""
    assert seconds_between(instant(NOW), NOW) == 0


def test_a_deep_message_is_a_failed_job():
    assert inspection.parse(DEEP, NOW).reason == "InspectFailed"
    assert download.parse(DEEP, NOW).reason == "DownloadFailed"
    assert not crashes.last_words(DEEP).said


@pytest.mark.parametrize("module", [inspection, download], ids=["inspection", "download"])
@pytest.mark.parametrize("time", ["", "yesterday", "9999-01-01T00:00:00Z"])
def test_a_time_that_somebody_wrote_over_does_not_stop_the_next_try(module, time):
    """The wait is counted from the condition's own time, so that it ends."""
    kept = {module.RESULT_ANNOTATION: "x", module.FINISHED_ANNOTATION: time}
    found = module.read(parse(Job, {"metadata": {"name": "j", "annotations": kept}}), [], [])
    assert module.retry_in_s(found, "", NOW) == 60.0
    assert module.retry_in_s(found, NOW, "2026-01-01T00:00:40Z") == 20.0
    assert module.retry_in_s(found, NOW, "2026-01-01T00:01:00Z") == 0.0


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e308, 10**400, -1, True, "1"])
def test_a_phase_of_impossible_length_is_left_out(seconds):
    """A figure of 300 digits would not fit into the status."""
    one = facts.parse("p", {"version": 1, "phases": [{"phase": "a", "seconds": seconds}, {"phase": "b", "seconds": 2}]})
    assert one.phases == (("b", 2.0),)


@pytest.mark.parametrize("size", [float("nan"), 1e308, 10**400, True, -1, 0])
def test_an_impossible_size_is_none(size):
    assert facts.parse("p", {"version": 1, "engine": {"weightsGiB": size}}).weights_gib == ""


@pytest.mark.parametrize(
    "wrong", [{"count": "3"}, {"count": -1}, {"exit_code": 2**40}, {"message": 5}, {"since": None}, {"count": True}]
)
def test_a_hold_of_wrong_kinds_is_none(wrong):
    right = {"reason": "EngineFailed", "message": "m", "since": NOW, "digest": "d"}
    keeper = {"metadata": {"annotations": {hold.HELD_ANNOTATION: json.dumps({**right, **wrong})}}}
    assert hold.remembered(parse(Record, keeper)) is None
