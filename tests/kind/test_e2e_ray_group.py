"""A real Ray cluster in the pods of a group, as the operator lays them out, and its life as one.

vLLM refuses Ray on CPUs, so the engine is a script that takes a card on each node; docs/adr/0016 says more.
"""

import json
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml
from windlass_api.crd.v1alpha1 import LLMService
from windlass_operator.manifests.group import GroupShape, group_objects
from windlass_operator.manifests.pod import PodShape
from windlass_testbed import cluster
from windlass_testbed.forward import forward

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from group_kills import Group, Kill, hurt, kill_container  # noqa: E402 - beside this file, wherever it is run
from strangers import Asker, listener  # noqa: E402 - the same

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]
NAME, FOLDER, RAY = "rays", "ray", "ray==2.60.0"
START_S = 600


def objects(namespace: str, image: str) -> list[dict]:
    """The group of two by Ray that the operator would make, with the script in the engine's place."""
    spec = {
        "model": {"id": "ray", "source": {"pvc": {"claimName": "models", "path": FOLDER}}},
        "license": {"required": False},
        "deployment": {"drainSeconds": 5},
    }
    owner = LLMService.model_validate({"metadata": {"name": NAME, "namespace": namespace}, "spec": spec})
    pod = PodShape(
        image=image,
        command=("python3",),
        args=("/data/model/ray_member.py",),
        cpu="200m",
        memory="1Gi",
        shm="1Gi",
        gpus=1,
        env=(("PYTHONPATH", "/data/model/site"), ("USER", "ray"), ("RAY_raylet_start_wait_time_s", "300")),
    )
    made = list(group_objects(owner, GroupShape(pod, 2, "Ray"), 1))
    for one in made:
        del one["metadata"]["ownerReferences"]  # there is no LLMService behind them
    return made


@pytest.fixture(scope="module")
def group(bed, namespace):
    """Ray lies on the models' volume: the CPU image has none."""
    folder = cluster.models_folder(bed.paths) / FOLDER
    target = folder / "site"
    if not (target / "ray").exists():
        command = [Path(sys.executable).parent / "uv", "pip", "install", "--quiet", "--target", target, RAY]
        subprocess.run([*command, "--python-version", "3.11"], check=True)
    shutil.copyfile(HERE / "ray_member.py", folder / "ray_member.py")
    subprocess.run(["/bin/chmod", "-R", "a+rX", folder], check=True)
    text = yaml.safe_dump_all(objects(namespace, bed.images["server-cpu"]))
    bed.kubectl("-n", namespace, "apply", "-f", "-", stdin=text)
    found = Group(bed.paths, namespace, NAME)
    found.wait(START_S)
    yield found
    shutil.rmtree(folder)


def asked(bed, namespace: str) -> dict:
    """What the engine on the head found in its Ray cluster."""
    with (
        forward(bed.paths, namespace, f"pod/{NAME}-0-0", 8501) as url,
        urllib.request.urlopen(url, timeout=60) as answer,
    ):
        return json.load(answer)


def test_ray_counts_both_pods_and_places_a_card_on_each(bed, namespace, group):
    assert asked(bed, namespace) == {"nodes": [f"{NAME}-0-0", f"{NAME}-0-1"], "gpus": 2.0, "placed": 2}
    assert len({member.node for member in group.members()}) == 2


def test_a_stranger_reaches_no_port_of_ray(bed, namespace, group):
    """GCS, Ray Client, raylets, workers: whatever the real Ray listens on, from each member's own list."""
    bed.kubectl(
        "-n",
        namespace,
        "apply",
        "-f",
        "-",
        stdin=json.dumps(listener("stranger", bed.images["license-server"], [7000])),
    )
    bed.kubectl("-n", namespace, "wait", "pod", "stranger", "--for=condition=Ready", "--timeout=600s")
    stranger = Asker(bed.paths, namespace, "stranger")
    head, follower = (Asker(bed.paths, namespace, member.name) for member in group.members())
    assert {6379, 8501, 8502} < head.listening()
    for member in (head, follower):
        ports = member.listening()
        said = stranger.says(member.address, ports)
        assert {port: "open" if port in {8501, 8502} else "silent" for port in ports} == said


@pytest.mark.parametrize("index", [0, 1], ids=["head", "follower"])
def test_the_cluster_comes_back_as_one(bed, namespace, group, index):
    """A new Ray cluster of the same two, and nobody of the old one in it."""
    found = hurt(group, Kill("one", index, kill_container))
    assert (found.restarts, found.twins) == ((1, 1), ())
    assert asked(bed, namespace)["nodes"] == [f"{NAME}-0-0", f"{NAME}-0-1"]
