"""The objects of replicas over several nodes, as golden files, and what has to hold of all of them.

WINDLASS_GOLDEN=write rewrites the golden files.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from windlass_operator.manifests.group import NAME_MAX, GroupShape, group_objects, headless_name, replica_name
from windlass_operator.manifests.service import service

from .test_golden import ON_GPUS, ServiceBuilder, a_service

GOLDEN = Path(__file__).parents[1] / "golden" / "groups"
ARGS = ("run", "--model", "/data/model", "--tensor-parallel-size", "4")
BY_RAY = GroupShape(replace(ON_GPUS, args=ARGS), 2, "Ray")
STAGES = replace(ON_GPUS, args=("run", "--model", "/data/model", *"--tensor-parallel-size 2".split(), *"-pp 3".split()))
NATIVE = GroupShape(STAGES, 3, "Native")
TERMS = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
OWN_TEMPLATE = {
    "spec": {
        "containers": [
            {"name": "server", "readinessProbe": {"periodSeconds": 30}},
            {"name": "watcher", "image": "watcher:1", "ports": [{"containerPort": 9400, "protocol": "UDP"}]},
        ],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}},
    }
}


def objects(builder: ServiceBuilder, shape: GroupShape) -> tuple[dict, ...]:
    wanted = builder.build()
    return (service(wanted, heads_only=True), *group_objects(wanted, shape, wanted.spec.replicas))


CASES = {
    "group-ray": lambda: objects(a_service(), BY_RAY),
    "group-native": lambda: objects(
        a_service().with_spec(replicas=2, license={"required": False}, deployment={"drainSeconds": 5}), NATIVE
    ),
    "group-own-template": lambda: objects(a_service().with_spec(podTemplate=OWN_TEMPLATE), BY_RAY),
    "group-open": lambda: objects(a_service(), replace(BY_RAY, closed=False)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_group_is_as_reviewed(name):
    """What is rendered is what the golden file says, byte for byte."""
    text = yaml.safe_dump_all(CASES[name](), sort_keys=False, width=120)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        path.write_text(text)
    assert path.read_text() == text


def test_every_golden_file_has_its_case():
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == sorted(CASES)


def sets(found: tuple[dict, ...]) -> list[dict]:
    return [one for one in found if one["kind"] == "StatefulSet"]


def variables(one: dict) -> dict[str, str]:
    return {row["name"]: row.get("value") for row in one["spec"]["template"]["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize("name", CASES)
def test_every_object_is_owned_and_labelled(name):
    for one in CASES[name]():
        owner = one["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("LLMService", "uid-1", True)
        assert one["metadata"]["labels"]["serving.windlass.dev/service"] == "qwen"


@pytest.mark.parametrize("name", CASES)
def test_every_pod_meets_the_restricted_standard(name):
    for one in sets(CASES[name]()):
        pod = one["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


def test_each_replica_has_its_own_head_and_its_own_pods():
    """No selector finds another replica's pods, and heads are found by the name that the Service gives."""
    found = CASES["group-native"]()
    two = sets(found)
    assert [one["metadata"]["name"] for one in two] == ["qwen-0", "qwen-1"]
    heads = [variables(one)["WINDLASS_GROUP_HEAD"] for one in two]
    assert heads == ["qwen-0-0.qwen-group.team-a.svc", "qwen-1-0.qwen-group.team-a.svc"]
    for one in two:
        wanted = one["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= one["spec"]["template"]["metadata"]["labels"].items()
        assert one["spec"]["serviceName"] == headless_name("qwen")
    assert two[0]["spec"]["selector"] != two[1]["spec"]["selector"]


def test_members_lie_on_different_nodes():
    pod = sets(CASES["group-ray"]())[0]["spec"]["template"]["spec"]
    term = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"]["serving.windlass.dev/replica"] == "0"


def test_only_heads_are_called():
    """A follower has no API; all members are probed where they tell whether they serve."""
    front, headless, _, one = CASES["group-ray"]()
    assert front["spec"]["selector"]["apps.kubernetes.io/pod-index"] == "0"
    assert "apps.kubernetes.io/pod-index" not in headless["spec"]["selector"]
    container = one["spec"]["template"]["spec"]["containers"][0]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/windlass/ready", "port": "facts"}


def policies(found: tuple[dict, ...]) -> list[dict]:
    return [one for one in found if one["kind"] == "NetworkPolicy"]


def test_members_alone_reach_the_ports_that_trust_everyone():
    """All of a member's ports for the members of its own replica; the API and the facts for everyone."""
    found = CASES["group-native"]()
    for policy, one in zip(policies(found), sets(found), strict=True):
        assert policy["metadata"]["name"] == one["metadata"]["name"]
        everyone, members = policy["spec"]["ingress"]
        assert everyone == {"ports": [{"port": 8501, "protocol": "TCP"}, {"port": 8502, "protocol": "TCP"}]}
        assert members == {"from": [{"podSelector": one["spec"]["selector"]}]}
        assert policy["spec"]["podSelector"] == one["spec"]["selector"]
        assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_a_port_that_the_users_template_names_stays_open():
    """A side container is there to be reached."""
    (policy,) = policies(CASES["group-own-template"]())
    assert {"port": 9400, "protocol": "UDP"} in policy["spec"]["ingress"][0]["ports"]


def test_an_installation_may_do_without_policies():
    """The pods are the same."""
    assert policies(CASES["group-open"]()) == []
    assert sets(CASES["group-open"]()) == sets(CASES["group-ray"]())


def test_a_change_of_the_pods_is_another_revision():
    """Members of two revisions never serve together; the number of replicas is no change of the pods."""
    revision = lambda found, n=0: variables(sets(found)[n])["WINDLASS_GROUP_REVISION"]  # noqa: E731
    one = objects(a_service(), BY_RAY)
    assert revision(one) == revision(objects(a_service().with_spec(replicas=3), BY_RAY))
    assert revision(one) != revision(objects(a_service().with_spec(args=["--seed", "1"]), replace(BY_RAY, size=3)))
    assert revision(one) != revision(objects(a_service().with_spec(env=[{"name": "A", "value": "1"}]), BY_RAY))


def test_the_users_own_template_comes_last():
    """It is laid over what a group changes; what it does not speak of stays."""
    pod = sets(CASES["group-own-template"]())[0]["spec"]["template"]["spec"]
    assert pod["containers"][0]["readinessProbe"]["periodSeconds"] == 30
    assert pod["containers"][0]["readinessProbe"]["httpGet"]["port"] == "facts"
    assert set(pod["affinity"]) == {"nodeAffinity", "podAntiAffinity"}


@pytest.mark.parametrize("name", ["q", "a" * 50, "a" * 39 + "-" + "b" * 10])
def test_names_stay_short_enough_and_apart(name):
    """A pod's label is its StatefulSet's name and a hash, in 63 characters."""
    names = [replica_name(name, replica) for replica in range(1000)]
    assert max(map(len, names)) <= NAME_MAX
    assert len(set(names)) == 1000
    assert replica_name("a" * 50, 100) != replica_name("a" * 49 + "b", 100)
    assert all("--" not in one for one in names)
