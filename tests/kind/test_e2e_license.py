"""Licenses on a real cluster: refused and told, healed by an upload, held to the limit, kept over a restart."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from windlass_testbed import cluster, licensing
from windlass_testbed.errors import BedError

SERVICE, OTHER = "first", "other"
OTHER_GPUS = "GPU 0: NVIDIA L20 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
FACTS = (
    "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8502/windlass/facts', timeout=60).read().decode())"
)
METRICS = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:10080/metrics', timeout=60).read().decode())"
LICENSE_POD = ("-l", "app.kubernetes.io/name=windlass-license-server")


@pytest.fixture(scope="module")
def gpus(bed):
    return cluster.gpu_list(bed.paths)


@pytest.fixture(scope="module")
def service(bed, namespace, gpus):
    """A service that is applied while the license in force names other GPUs."""
    bed.license(OTHER_GPUS)
    bed.apply(namespace, SERVICE)
    return SERVICE


def server_pods(bed, namespace, service):
    words = ["-l", f"app.kubernetes.io/component=server,serving.windlass.dev/service={service}"]
    return [pod for pod in bed.items(namespace, "pods", *words) if "deletionTimestamp" not in pod["metadata"]]


def lives(bed, namespace, service):
    """Which pods, and how often each was started again."""
    pods = server_pods(bed, namespace, service)
    return {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods}


def facts(bed, namespace, pod):
    return json.loads(bed.kubectl("-n", namespace, "exec", pod, "--", "python3", "-c", FACTS))


def states(bed, namespace, service):
    """What each pod says of its license; nothing yet while one has only begun."""
    try:
        return [facts(bed, namespace, pod)["license"]["state"] for pod in lives(bed, namespace, service)]
    except (BedError, KeyError):
        return []


def license_pod(bed):
    """The license server that is ready, None while there is none."""
    living = [
        pod
        for pod in bed.items(bed.licenses.namespace, "pods", *LICENSE_POD)
        if "deletionTimestamp" not in pod["metadata"]
        and any(row["type"] == "Ready" and row["status"] == "True" for row in pod["status"].get("conditions", []))
    ]
    return living[0]["metadata"]["name"] if living else None


def lease_answers(bed):
    """How often the license server that runs now has answered what."""
    words = ("exec", license_pod(bed), "--", "python3", "-c", METRICS)
    lines = bed.kubectl("-n", bed.licenses.namespace, *words).splitlines()
    counts = {"granted": 0.0, "renewed": 0.0, "refused": 0.0}
    for line in lines:
        if line.startswith("windlass_license_lease_requests_total{"):
            counts[line.split('state="')[1].partition('"')[0]] += float(line.split()[-1])
    return counts


def told_after_s(bed, namespace, service):
    """From the start of the service's last container to the Licensed condition that tells of its refusal."""
    states = [pod["status"]["containerStatuses"][0]["state"] for pod in server_pods(bed, namespace, service)]
    started = max(datetime.fromisoformat(state["running"]["startedAt"]) for state in states)
    told = bed.condition(namespace, service, "Licensed")["lastTransitionTime"]
    return (datetime.fromisoformat(told) - started).total_seconds()


def test_without_a_license_the_status_says_why(bed, namespace, service, gpus):
    ready = bed.reason(namespace, service, "Unlicensed")
    licensed = bed.condition(namespace, service, "Licensed")
    assert (licensed["status"], licensed["reason"]) == ("False", "Unlicensed")
    assert "not in the license in force" in ready["message"]
    assert [line for line in gpus.splitlines() if line.split("UUID: ")[1].rstrip(")") in ready["message"]]
    print(f"told {told_after_s(bed, namespace, service):.0f} s after the container's start")


def test_meanwhile_no_engine_runs(bed, namespace, service):
    (pod,) = lives(bed, namespace, service)
    found = facts(bed, namespace, pod)
    assert (found["phase"], found["license"]["state"]) == ("license", "refused")
    (uuid,) = found["license"]["gpus"]
    assert f"{uuid} is not in the license in force" in bed.kubectl("-n", namespace, "logs", pod)


def test_the_right_license_heals_the_service_without_touching_it(bed, namespace, service, gpus):
    """It allows two GPUs at a time, and ends in ten days."""
    before = bed.get(namespace, "llm", service)["metadata"]["generation"], lives(bed, namespace, service)
    ends = (datetime.now(UTC) + timedelta(days=10)).isoformat(timespec="seconds")
    bed.license(gpus, limit=2, expires=ends)
    bed.ready(namespace, service)
    assert before == (bed.get(namespace, "llm", service)["metadata"]["generation"], lives(bed, namespace, service))
    assert set(before[1].values()) == {0}


def test_the_near_end_of_the_license_is_one_event(bed, namespace, service):
    def told():
        found = bed.items(namespace, "events", "--field-selector=reason=LicenseExpiring")
        return [event for event in found if event["involvedObject"]["name"] == service]

    (event,) = bed.wait("the Event", told)
    licensed = bed.condition(namespace, service, "Licensed")
    assert (event["type"], event["count"], event["message"]) == ("Warning", 1, licensed["message"])
    assert (licensed["status"], licensed["reason"]) == ("True", "LicenseExpiring")
    assert "ends in 9 days" in licensed["message"]


def test_a_third_pod_waits_at_a_limit_of_two(bed, namespace, service):
    bed.kubectl("-n", namespace, "scale", "llm", service, "--replicas=2")
    bed.wait("two granted pods", lambda: states(bed, namespace, service) == ["granted", "granted"])
    bed.apply(namespace, OTHER)
    ready = bed.reason(namespace, OTHER, "LicenseLimitReached")
    assert "allows 2 GPUs at a time" in ready["message"]
    assert "2 are in use by 2 pods" in ready["message"]
    for pod in lives(bed, namespace, service):  # what others hold is a number to everybody else
        assert pod not in ready["message"]
    print(f"told {told_after_s(bed, namespace, OTHER):.0f} s after the container's start")
    (pod,) = lives(bed, namespace, OTHER)
    assert facts(bed, namespace, pod)["phase"] == "license"


def test_a_restart_of_the_license_server_frees_no_seat_and_stops_nobody(bed, namespace, service):
    before = lives(bed, namespace, service)
    bed.kubectl("-n", bed.licenses.namespace, "delete", "pod", license_pod(bed), "--wait=false")
    bed.wait("the new license server", lambda: license_pod(bed))

    def asked_again():
        answers = lease_answers(bed)
        return answers["renewed"] >= 2 and answers["refused"] >= 1 and answers

    assert bed.wait("two renewals by the new license server", asked_again)["granted"] == 0
    assert states(bed, namespace, service) == ["granted", "granted"]
    assert states(bed, namespace, OTHER) == ["refused"]
    assert before == lives(bed, namespace, service)
    assert bed.get(namespace, "llm", service)["status"]["readyReplicas"] >= 1


def test_the_third_starts_when_one_goes(bed, namespace, service):
    """Its engine begins; that a healed service comes to serve is shown above."""
    before = lives(bed, namespace, OTHER)
    bed.kubectl("-n", namespace, "scale", "llm", service, "--replicas=1")
    bed.wait("the third pod's license", lambda: states(bed, namespace, OTHER) == ["granted"])
    bed.wait("the condition", lambda: bed.condition(namespace, OTHER, "Licensed")["status"] == "True")
    (pod,) = before
    bed.wait("its engine", lambda: facts(bed, namespace, pod)["phase"] != "license")
    assert before == lives(bed, namespace, OTHER)
    assert set(before.values()) == {0}


def test_the_chart_tests_itself(bed):
    said = bed.helm("test", licensing.RELEASE, "--namespace", bed.licenses.namespace)
    assert "Phase:          Succeeded" in said
