"""Pods that are no members try the ports of a group and of the license server: only what is promised answers.

Members of this group are scripts that listen where Ray and the engines do, in pods as the operator makes them;
test_e2e_group and test_e2e_ray_group try the ports of real engines.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from windlass_api.crd.v1alpha1 import LLMService
from windlass_operator.manifests.group import GroupShape, group_objects, headless_name
from windlass_operator.manifests.pod import PodShape
from windlass_testbed import cluster, node_image

sys.path.insert(0, str(Path(__file__).parent))

from strangers import Asker, listener, serving

NAME = "trio"
DECLARED = {"facts": 8502, "API": 8501}
TRUSTED = {
    "meeting of the group": 8503,
    "vLLM's multi-node master": 29501,
    "Ray's GCS": 6379,
    "Ray's dashboard": 8265,
    "Ray's dashboard agent": 52365,
    "Ray Client": 10001,
    "first of Ray's workers": 10002,
    "last of Ray's workers": 19999,
    "a port that the kernel chose": 43210,
}
PORTS = (*DECLARED.values(), *TRUSTED.values())
PROMISED = {port: "open" if port in DECLARED.values() else "silent" for port in PORTS}
LICENSE_PORTS = (10080, 10081, 22, 65000)
OWN = 7000  # where a stranger listens
READY_S = 600


@dataclass(frozen=True)
class Scene:
    """The members of a group and the strangers around it."""

    head: Asker
    follower: Asker
    near: Asker
    """Of the members' namespace, without their labels."""
    far: Asker
    """Of another namespace, with the members' labels."""

    @property
    def members(self) -> tuple[Asker, Asker]:
        return self.head, self.follower


def group(namespace: str, image: str) -> list[dict]:
    """What the operator makes of a group of two, with a listening script in the engine's place."""
    spec = {
        "model": {"id": NAME, "source": {"pvc": {"claimName": "models", "path": "demo"}}},
        "license": {"required": False},
        "deployment": {"drainSeconds": 0},
    }
    owner = LLMService.model_validate({"metadata": {"name": NAME, "namespace": namespace}, "spec": spec})
    python, *words = serving(PORTS)
    shape = PodShape(image=image, command=(python,), args=tuple(words), cpu="20m", memory="64Mi", shm="16Mi")
    made = [dict(row) for row in group_objects(owner, GroupShape(shape, 2, "Ray"), 1)]
    for row in made:
        del row["metadata"]["ownerReferences"]  # there is no LLMService behind them
    return made


@pytest.fixture(scope="module")
def foreign(bed, leaving) -> Iterator[str]:
    """A namespace of somebody else."""
    name = "test-e2e-attack-network-foreign"
    bed.kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=600s")
    bed.kubectl("create", "namespace", name)
    yield name
    leaving.append(name)
    bed.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def scene(bed, namespace, foreign) -> Scene:
    image = bed.images["license-server"]
    made = group(namespace, image)
    labels = next(row for row in made if row["kind"] == "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    bed.kubectl("-n", namespace, "apply", "-f", "-", stdin=yaml.safe_dump_all([*made, listener("near", image, [OWN])]))
    bed.kubectl("-n", foreign, "apply", "-f", "-", stdin=yaml.safe_dump(listener("far", image, [OWN], labels)))
    found = Scene(
        Asker(bed.paths, namespace, f"{NAME}-0-0"),
        Asker(bed.paths, namespace, f"{NAME}-0-1"),
        Asker(bed.paths, namespace, "near"),
        Asker(bed.paths, foreign, "far"),
    )
    for one in (*found.members, found.near, found.far):
        ready(bed, one)
    return found


def ready(bed, one: Asker) -> None:
    """Wait until the kubelet's probes of the pod pass: a policy that stopped them would be seen here."""
    bed.wait(f"pod {one.name}", lambda: one.name in bed.kubectl("-n", one.namespace, "get", "pods", "-o", "name"))
    bed.kubectl("-n", one.namespace, "wait", "pod", one.name, "--for=condition=Ready", f"--timeout={READY_S}s")


def settled(bed, expected, probe) -> None:
    """The ports say what they must as soon as a new pod's labels have reached every node."""
    bed.wait(f"{expected}", lambda: probe() == expected)


@pytest.mark.parametrize("stranger", ["near", "far"])
@pytest.mark.parametrize("member", ["head", "follower"])
def test_a_stranger_reaches_only_the_declared_ports_of_a_member(bed, scene, stranger, member):
    source, target = getattr(scene, stranger), getattr(scene, member)
    assert set(PORTS) <= target.listening()
    settled(bed, PROMISED, lambda: source.says(target.address, PORTS))


def test_members_reach_each_other_by_every_port(bed, scene):
    for source, target in (scene.members, scene.members[::-1]):
        settled(bed, dict.fromkeys(PORTS, "open"), lambda a=source, b=target: a.says(b.address, PORTS))


def test_members_find_each_other_by_name(bed, namespace, scene):
    """DNS and the headless Service go on: a follower reaches its head as the operator names it."""
    name = f"{NAME}-0-0.{headless_name(NAME)}.{namespace}.svc"
    settled(bed, {6379: "open"}, lambda: scene.follower.says(name, [6379]))


def test_a_member_reaches_strangers(scene):
    """The policy is for what comes in alone."""
    assert scene.head.says(scene.near.address, [OWN]) == {OWN: "open"}
    assert scene.head.says(scene.far.address, [OWN]) == {OWN: "open"}


def test_who_copies_the_labels_in_the_members_namespace_is_a_member(bed, namespace, scene):
    """What the policy does not promise: whoever may make pods in a namespace is inside of its groups."""
    labels = bed.get(namespace, "networkpolicy", f"{NAME}-0")["spec"]["podSelector"]["matchLabels"]
    impostor = listener("impostor", bed.images["license-server"], [OWN], labels)
    impostor["spec"]["nodeName"] = cluster.WORKERS[0]  # past the scheduler: members keep each other off their nodes
    bed.kubectl("-n", namespace, "apply", "-f", "-", stdin=yaml.safe_dump(impostor))
    one = Asker(bed.paths, namespace, "impostor")
    ready(bed, one)
    settled(bed, {6379: "open"}, lambda: one.says(scene.head.address, [6379]))
    bed.kubectl("-n", namespace, "delete", "pod", "impostor", "--wait=false")


@pytest.fixture(scope="module")
def license_server(bed) -> Asker:
    words = ("get", "pods", "-l", "app.kubernetes.io/name=windlass-license-server", "-o", "name")
    names = bed.kubectl("-n", bed.licenses.namespace, *words).split()
    return Asker(bed.paths, bed.licenses.namespace, names[0].removeprefix("pod/"))


@pytest.mark.parametrize("stranger", ["near", "far"])
def test_the_license_server_answers_on_its_port_alone(bed, scene, license_server, stranger):
    """A port where nobody listens would be refused, were it not for the policy."""
    expected = {port: "open" if port == LICENSE_PORTS[0] else "silent" for port in LICENSE_PORTS}
    settled(bed, expected, lambda: getattr(scene, stranger).says(license_server.address, LICENSE_PORTS))


def test_the_license_server_reaches_no_pod(bed, scene, license_server):
    assert scene.far.says(scene.near.address, [OWN]) == {OWN: "open"}
    settled(bed, {OWN: "silent"}, lambda: license_server.says(scene.near.address, [OWN]))


def test_every_node_enforces(bed):
    """The agent of the test cluster runs on each; a published node image brings kindnet."""
    name = "kindnet" if node_image.brings_network(bed.paths) else "policyagent"
    status = bed.get("kube-system", "daemonset", name)["status"]
    assert (status["desiredNumberScheduled"], status["numberReady"]) == (3, 3)
