"""The whole status: Ready is True exactly while a replica answers, and otherwise names the first thing in the way."""

from __future__ import annotations

import pytest
from windlass_api.crd import schema
from windlass_operator.records.routes import expose_of
from windlass_operator.status import conditions as c
from windlass_operator.status import reasons
from windlass_operator.status.facts import PodFacts, parse
from windlass_operator.status.hold import Hold
from windlass_operator.status.inspection import WAITING, Inspection, State
from windlass_operator.status.observe import Seen, Subject, observe, rejected
from windlass_operator.status.requeue import again_in_s

from .as_read import children as as_read

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"
WRONG = c.no("Rejected", "spec.model.id is wrong")
STATUS = schema.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
FOUND = Inspection(State.FOUND, "ModelFound", "Qwen2ForCausalLM, in pvc/models", {})
FAILED = Inspection(State.FAILED, "PathNotFound", "nope is not in PVC models", text="{}")
PLANNED = c.yes("Planned", "1 × L20, TP 1")
REFUSED = c.Verdict("False", "NoGpuNodes", "no node offers nvidia.com/gpu; add one")


def a_subject(replicas=1, previous=None, generation=1, license_required=False, counts_hits=False):
    return Subject("qwen", "team-a", generation, replicas, license_required, previous or {}, counts_hits=counts_hits)


def a_deployment(ready=0, replicas=1, updated=None, generation=1):
    status = {"observedGeneration": 1, "replicas": replicas, "readyReplicas": ready,
              "updatedReplicas": replicas if updated is None else updated}  # fmt: skip
    return {"metadata": {"generation": generation}, "status": status}


def a_pod(state, ready=False):
    rows = [{"name": "server", "image": "i", "state": state}]
    conditions = [{"type": "Ready", "status": str(ready)}]
    meta = {"name": "qwen-0", "uid": "u", "creationTimestamp": THEN}
    return {"metadata": meta, "status": {"phase": "Running", "containerStatuses": rows, "conditions": conditions}}


def serving(ready=1, **more):
    children = as_read(deployment=a_deployment(ready), service={}, pods=(a_pod({"running": {}}, ready > 0),))
    return Seen(children=children, inspection=FOUND, planned=PLANNED, plan={"gpus": 1}, selector="s", **more)


def crashing():
    ended = {"exitCode": 2, "message": '{"reason": "BadFlag", "message": "unknown flag --x"}'}
    children = as_read(deployment=a_deployment(), service={}, pods=(a_pod({"terminated": ended}),))
    return Seen(children=children, inspection=FOUND, planned=PLANNED, plan={"gpus": 1})


def refused_license():
    return serving(
        0, facts=(PodFacts("qwen-0", "license", license_state="refused", license_message="GPU-1 is not in it"),)
    )


def words(status):
    return {row["type"]: (row["status"], row["reason"]) for row in status["conditions"]}


READY = {
    "nothing yet": (Seen(), a_subject(), ("False", "Inspecting")),
    "wrong path": (Seen(inspection=FAILED), a_subject(), ("False", "PathNotFound")),
    "no GPU": (Seen(inspection=FOUND, planned=REFUSED), a_subject(), ("False", "NoGpuNodes")),
    "starting": (serving(0), a_subject(), ("False", "Starting")),
    "starting, license unknown": (serving(0), a_subject(license_required=True), ("False", "Starting")),
    "license refused": (refused_license(), a_subject(license_required=True), ("False", "Unlicensed")),
    "crashing": (crashing(), a_subject(), ("False", "BadFlag")),
    "running": (serving(1), a_subject(), ("True", "Running")),
    "one of two": (serving(1), a_subject(replicas=2), ("True", "PartlyReady")),
    "scaled to zero": (serving(0), a_subject(replicas=0), ("False", "ScaledToZero")),
}


@pytest.mark.parametrize(("seen", "subject", "ready"), READY.values(), ids=READY)
def test_ready_has_one_word(seen, subject, ready):
    status = observe(subject, seen, NOW)
    assert words(status)["Ready"] == ready
    assert list(words(status)) == list(c.ALWAYS)


def test_a_settled_service_says_so_and_needs_no_poll():
    status = observe(a_subject(), serving(1), NOW)
    assert words(status)["Progressing"] == ("False", "Settled")
    assert again_in_s(status["conditions"], NOW) is None
    assert status["ready"] == "1/1"
    assert status["addresses"] == [{"name": "cluster", "url": "http://qwen.team-a.svc:8501/v1"}]
    assert "failure" not in status


def test_an_unchanged_look_is_an_unchanged_status():
    """The same things seen later make the same status: zero writes when nothing changed."""
    first = observe(a_subject(), crashing(), THEN)
    assert observe(a_subject(previous=first), crashing(), NOW) == first


def test_a_change_that_cannot_be_done_leaves_what_serves_ready():
    """The old pods answer, and the message says that the change is not in force and why."""
    children = as_read(deployment=a_deployment(1), service={})
    before = observe(a_subject(), serving(1), THEN)
    status = observe(a_subject(previous=before, generation=2), Seen(children=children, inspection=FAILED), NOW)
    ready = c.find(status["conditions"], "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "Running")
    assert "the change is not in force: nope is not in PVC models" in ready["message"]
    assert words(status)["Progressing"] == ("False", "PathNotFound")
    assert status["plan"] == {"gpus": 1}


def test_a_retried_inspection_does_not_flicker():
    """While the Job runs again, what it found last stays word for word."""
    before = observe(a_subject(), Seen(inspection=FAILED), THEN)
    assert observe(a_subject(previous=before), Seen(inspection=WAITING), NOW) == before


def test_a_new_spec_is_inspected_afresh():
    before = observe(a_subject(), Seen(inspection=FAILED), THEN)
    status = observe(a_subject(previous=before, generation=2), Seen(inspection=WAITING), NOW)
    assert words(status)["ModelReady"] == ("Unknown", "Inspecting")


def test_a_granted_license_is_remembered_while_replicas_answer():
    facts = (PodFacts("qwen-0", "serving", license_state="granted", license_message="granted"),)
    before = observe(a_subject(license_required=True), serving(1, facts=facts), THEN)
    after = observe(a_subject(license_required=True, previous=before), serving(1), NOW)
    assert words(after)["Licensed"] == ("True", "LicenseGranted")


def test_what_the_pod_does_is_reported_without_its_clock():
    """The message names the phase; seconds stand in status.startup only, so that no look is a write by itself."""
    facts = (PodFacts("qwen-0", "engine", (("license", 1.0), ("prefetch", 20.5))),)
    status = observe(a_subject(), serving(0, facts=facts), NOW)
    assert c.find(status["conditions"], "Ready")["message"] == "0 of 1 replicas answer; pod qwen-0 loads the engine"
    assert status["startup"][1] == {"phase": "prefetch", "seconds": "20.5"}


def test_a_rollout_is_progress():
    children = as_read(deployment=a_deployment(1, replicas=2, updated=1), service={})
    status = observe(a_subject(), Seen(children=children, inspection=FOUND, planned=PLANNED), NOW)
    assert words(status)["Progressing"] == ("True", "RollingOut")


BARE = [{"type": type_, "status": status, "lastTransitionTime": THEN, "observedGeneration": 1}
        for type_, status in [*((type_, "True") for type_ in c.TYPES), ("example.com/Audited", "False")]]  # fmt: skip
STORED = {"without words": BARE, "with words of another program": [{**row, "reason": "Splendid"} for row in BARE]}


@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
@pytest.mark.parametrize(
    "status_of",
    [
        lambda subject: observe(subject, serving(1), NOW),
        lambda subject: observe(subject, Seen(), NOW),
        lambda subject: rejected(subject, WRONG, NOW),
    ],
    ids=["serving", "nothing seen", "rejected"],
)
def test_every_write_has_whole_conditions_whatever_is_stored(status_of, stored):
    """Stored ones without reason or message are replaced, so that the API server takes the write."""
    status = status_of(a_subject(previous={"conditions": stored, "readyReplicas": 1}, license_required=True))
    required = STATUS["conditions"]["items"]["required"]
    assert {"Ready", "Progressing"} <= {row["type"] for row in status["conditions"]} <= set(c.TYPES)
    for row in status["conditions"]:
        assert all(isinstance(row[name], str) for name in required)
        assert row["reason"] in reasons.TABLE
        assert row["message"]


@pytest.mark.parametrize(
    ("before", "reason"), [("BadFlag", "BadFlag"), ("Running", "Planning"), ("Starting", "Planning")]
)
def test_a_rejected_resource_without_pods_does_not_start(before, reason):
    """Held after a crash loop it keeps the cause; none of its pods starts while the spec is rejected."""
    held = as_read(deployment=a_deployment(0, replicas=0))
    assert held.deployment.spec.replicas == 0
    row = {"type": "WorkloadReady", "status": "False", "reason": before, "message": "as seen before",
           "lastTransitionTime": THEN, "observedGeneration": 1}  # fmt: skip
    subject = a_subject(previous={"conditions": [row]}, generation=2)
    status = rejected(subject, WRONG, NOW, held)
    assert words(status)["WorkloadReady"][1] == reason


def test_a_rejected_resource_keeps_the_rest_of_its_status():
    before = observe(a_subject(), serving(1), THEN)
    status = rejected(a_subject(previous=before, generation=2), WRONG, NOW)
    assert words(status)["Ready"] == ("True", "PartlyReady")
    assert words(status)["Progressing"] == ("False", "Rejected")
    assert (status["observedGeneration"], status["plan"]) == (2, {"gpus": 1})


@pytest.mark.parametrize(
    ("seen", "subject", "seconds"),
    [
        (Seen(), a_subject(), 15.0),
        (serving(0), a_subject(), 15.0),
        (refused_license(), a_subject(license_required=True), 10.0),
        (crashing(), a_subject(), 30.0),
        (Seen(inspection=FOUND, planned=REFUSED), a_subject(), 30.0),
    ],
    ids=["inspecting", "starting", "license", "crashing", "no plan"],
)
def test_the_interval_follows_what_is_awaited(seen, subject, seconds):
    """Three seconds at first, slower with time: a start that lasts ten minutes is asked every fifteen seconds."""
    status = observe(subject, seen, THEN)
    assert again_in_s(status["conditions"], NOW) == seconds
    assert again_in_s(status["conditions"], THEN) == {15.0: 3.0, 10.0: 5.0}.get(seconds, seconds)


def licensed(expires="2027-01-01T00:00:00Z"):
    data = {"version": 1, "license": {"state": "granted", "message": "granted", "expires": expires, "gpus": ["GPU-1"]}}
    return serving(1, facts=(parse("qwen-0", data),))


def test_a_settled_service_looks_after_its_license_now_and_then():
    """It may end while nothing else happens; the same look again changes nothing."""
    status = observe(a_subject(license_required=True), licensed(), NOW)
    assert again_in_s(status["conditions"], NOW) == 300
    again = observe(a_subject(license_required=True, previous=status), licensed(), "2026-02-01T00:00:00Z")
    assert again["conditions"] == status["conditions"]


def test_a_license_that_no_pod_reported_is_asked_for_again():
    """Its facts may have been lost on the way once; without a replica there is nobody to ask."""
    subject = a_subject(license_required=True)
    assert again_in_s(observe(subject, serving(1), NOW)["conditions"], NOW) == 30
    none = a_subject(replicas=0, license_required=True)
    assert again_in_s(observe(none, serving(0), NOW)["conditions"], NOW) is None


def test_the_last_license_state_stays_while_no_pod_answers():
    """For the same spec and while a pod lives; a new spec or no pod makes it unknown."""
    before = observe(a_subject(license_required=True), refused_license(), THEN)
    silent = serving(0)
    kept = observe(a_subject(license_required=True, previous=before), silent, NOW)
    assert words(kept)["Licensed"] == ("False", "Unlicensed")
    newer = observe(a_subject(license_required=True, previous=before, generation=2), silent, NOW)
    gone = Seen(children=as_read(deployment=a_deployment()), inspection=FOUND, planned=PLANNED)
    nobody = observe(a_subject(license_required=True, previous=before), gone, NOW)
    assert words(newer)["Licensed"] == words(nobody)["Licensed"] == ("Unknown", "LicensePending")


def test_a_serving_pod_that_lost_its_license_is_reported_and_stays_ready():
    lost = PodFacts("qwen-0", "serving", license_state="unreachable", license_message="no license server answers")
    status = observe(a_subject(license_required=True), serving(1, facts=(lost,)), NOW)
    assert words(status)["Ready"] == ("True", "Running")
    assert words(status)["Licensed"] == ("False", "LicenseServerUnreachable")


def test_a_suspended_service_says_so_and_is_no_failure():
    subject = Subject("qwen", "team-a", 1, 2, False, suspended=True)
    status = observe(subject, serving(0), NOW)
    assert words(status)["Ready"] == ("False", "Suspended")
    assert words(status)["Progressing"] == ("False", "Settled")
    assert words(status)["Degraded"] == ("False", "Settled")
    assert status["ready"] == "0/0"


def test_a_way_in_that_is_shut_degrades_and_does_not_unready():
    """/v1/models answers inside the cluster; the message and Degraded say what does not."""
    subject = Subject("qwen", "team-a", 1, 1, False, expose=expose_of({"ingress": {"host": "llm.example.com"}}))
    status = observe(subject, serving(1), NOW)
    assert words(status)["Ready"] == ("True", "Running")
    assert words(status)["RouteReady"] == ("False", "RoutePending")
    assert words(status)["Degraded"] == ("True", "RoutePending")
    assert "inside the cluster only" in c.find(status["conditions"], "Ready")["message"]


def test_a_crash_beside_a_replica_that_answers_degrades():
    ended = {"exitCode": 1, "message": "CUDA out of memory", "reason": "Error"}
    pods = (a_pod({"running": {}}, ready=True), a_pod({"terminated": ended}))
    children = as_read(deployment=a_deployment(1, replicas=2), service={}, pods=pods)
    status = observe(a_subject(replicas=2), Seen(children=children, inspection=FOUND, planned=PLANNED), NOW)
    assert words(status)["Ready"] == ("True", "PartlyReady")
    assert words(status)["Degraded"] == ("True", "GpuOutOfMemory")
    assert "1 of 2 replicas answer" in c.find(status["conditions"], "Degraded")["message"]


def test_what_the_engine_measured_stays_while_its_plan_and_pod_do():
    told = parse("qwen-0", {"version": 1, "engine": {"weightsGiB": 14.25, "kvGiB": 21.5, "kvTokens": 402480}})
    first = observe(a_subject(), serving(1, facts=(told,)), THEN)
    measured = {"weightsGib": "14.25", "kvCacheGib": "21.50", "kvTokens": 402480, "pod": "qwen-0"}
    assert first["plan"]["measured"] == measured
    assert observe(a_subject(previous=first), serving(1), NOW)["plan"]["measured"] == measured
    other = {**first, "plan": {"gpus": 2, "measured": measured}}
    assert "measured" not in observe(a_subject(previous=other), serving(1), NOW)["plan"]


def test_a_held_service_tells_why_and_how_to_go_on():
    hold = Hold(
        "BadFlag", "stopped after 2 restarts: unknown flag --x; change the spec", THEN, "d", 2, "server", 2, "x"
    )
    children = as_read(deployment=a_deployment(0, replicas=0), service={})
    seen = Seen(children=children, inspection=FOUND, planned=PLANNED, held=hold)
    status = observe(a_subject(), seen, NOW)
    assert words(status)["Ready"] == words(status)["Progressing"] == ("False", "BadFlag")
    assert c.find(status["conditions"], "Ready")["message"].startswith("stopped after 2 restarts: ")
    assert (status["failure"]["count"], status["failure"]["exitCode"]) == (2, 2)


def test_a_running_download_is_progress_and_a_failed_one_is_in_the_way():
    busy = Seen(downloading=c.yes("Inspecting", "3 of 14 GiB"))
    assert words(observe(a_subject(), busy, NOW))["Progressing"] == ("True", "Inspecting")
    failed = Seen(downloading=c.no("DiskFull", "no space on pvc/models"))
    assert words(observe(a_subject(), failed, NOW))["Ready"] == ("False", "DiskFull")


def test_fields_with_a_newer_form_are_a_condition_that_goes_with_them():
    """Everything else is as without them."""
    used = serving(older_forms=("spec.cache.pvc: write pvcRef: {name: a}",))
    told = observe(a_subject(), used, NOW)
    row = c.find(told["conditions"], c.OLDER_FIELDS)
    assert (row["status"], row["reason"]) == ("True", "OlderForm")
    assert row["message"].startswith("spec.cache.pvc: write pvcRef: {name: a}")
    after = observe(a_subject(previous=told), serving(), NOW)
    assert c.find(after["conditions"], c.OLDER_FIELDS) is None
    assert [one for one in told["conditions"] if one is not row] == after["conditions"]


def test_hits_are_shown_while_the_field_is_on():
    """They stay while no pod answers, go with the field, and are looked for again while nothing else happens."""
    told = parse("qwen-0", {"version": 1, "prefixCache": {"promptTokens": 100, "gpuTokens": 20, "hostTokens": 30}})
    subject = a_subject(counts_hits=True)
    first = observe(subject, serving(1, facts=(told,)), NOW)
    shares = {"gpuPercent": 20, "hostPercent": 30, "computedPercent": 50}
    assert first["prefixCache"] == shares
    assert observe(a_subject(counts_hits=True, previous=first), serving(1), NOW)["prefixCache"] == shares
    assert "prefixCache" not in observe(a_subject(previous=first), serving(1, facts=(told,)), NOW)
    assert "prefixCache" not in observe(subject, serving(1), NOW)
    assert again_in_s(first["conditions"], NOW, polled=True) == 300


@pytest.mark.parametrize(
    ("gpu", "ready", "shown"),
    [(21, 1, 20), (22, 1, 22), (18, 1, 18), (60, 0, 20)],
    ids=["one point", "two points", "two fewer", "while it starts"],
)
def test_hits_move_by_two_points_of_a_settled_service_alone(gpu, ready, shown):
    """Runs come every few seconds while anything is under way, and each would be a write."""
    before = {"prefixCache": {"gpuPercent": 20, "hostPercent": 30, "computedPercent": 50}}
    counts = {"promptTokens": 100, "gpuTokens": gpu, "hostTokens": 30}
    told = parse("qwen-0", {"version": 1, "prefixCache": counts})
    status = observe(a_subject(counts_hits=True, previous=before), serving(ready, facts=(told,)), NOW)
    assert (c.find(status["conditions"], c.PROGRESSING)["reason"] == "Settled") == bool(ready)
    assert status["prefixCache"]["gpuPercent"] == shown
