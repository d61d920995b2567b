"""A replica over two nodes: a pod on each, one answer, and one restart of both when either is killed."""

import json
import random
import sys
from pathlib import Path

import openai
import pytest
from windlass_testbed.forward import forward

sys.path.insert(0, str(Path(__file__).parent))

from group_kills import Group, Kill, hurt, kill_container
from strangers import Asker, listener

NAME = "duo"
JOIN = "Join one or more path segments intelligently."


@pytest.fixture(scope="module")
def group(bed, namespace):
    """TP 2 over two pods, by vLLM's own multi-node: it refuses Ray on CPUs."""
    bed.apply(
        namespace,
        NAME,
        resources={"gpus": 2, "cpu": "300m", "memory": "2Gi"},
        deployment={"mode": "Distributed", "nodes": 2, "group": "Native", "drainSeconds": 5},
        license={"required": False},
    )
    found = Group(bed.paths, namespace, NAME)
    bed.ready(namespace, NAME)
    found.wait()
    return found


def test_each_member_has_a_node_and_its_gpus(bed, namespace, group):
    plan = bed.get(namespace, "llm", NAME)["status"]["plan"]
    assert (plan["gpus"], plan["tp"], plan["nodes"], plan["group"]) == (2, 2, 2, "Native")
    members = group.members()
    assert [member.name for member in members] == [f"{NAME}-0-0", f"{NAME}-0-1"]
    assert len({member.node for member in members}) == 2
    for pod in group.pods():
        assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_the_service_answers_a_chat_through_its_head(bed, namespace, group):
    """Only the head is an endpoint: a follower has no API."""
    slices = bed.items(namespace, "endpointslices", "-l", f"kubernetes.io/service-name={NAME}")
    targets = [row["targetRef"]["name"] for one in slices for row in one.get("endpoints") or ()]
    assert targets == [f"{NAME}-0-0"]
    with forward(bed.paths, namespace, f"svc/{NAME}", 8501) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=120)
        question = [{"role": "user", "content": "What does os.path.join do?"}]
        said = client.chat.completions.create(model="demo", messages=question, max_tokens=80, temperature=0)
        client.close()
    assert said.choices[0].message.content.startswith(JOIN)


def test_a_stranger_reaches_only_the_declared_ports_of_the_real_engine(bed, namespace, group):
    """Whatever vLLM listens on: the ports come from each member's own list."""
    image = bed.images["license-server"]
    bed.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(listener("stranger", image, [7000])))
    bed.kubectl("-n", namespace, "wait", "pod", "stranger", "--for=condition=Ready", "--timeout=600s")
    stranger = Asker(bed.paths, namespace, "stranger")
    head, follower = (Asker(bed.paths, namespace, member.name) for member in group.members())
    assert {8501, 8502} < head.listening()
    assert {8502} < follower.listening()
    for member in (head, follower):
        ports = member.listening()
        said = stranger.says(member.address, ports)
        assert {port: "open" if port in {8501, 8502} else "silent" for port in ports} == said
    bed.kubectl("-n", namespace, "delete", "pod", "stranger", "--wait=false")


def test_a_killed_member_takes_all_with_it_once_and_all_come_back(group):
    """Head or follower, by chance: each container restarts once, in place, and no earlier self lives on beside it."""
    before = [member.uid for member in group.members()]
    found = hurt(group, Kill("one", random.randrange(group.size), kill_container))  # noqa: S311 - a choice, no secret
    assert found.restarts == (1, 1)
    assert found.twins == ()
    assert [member.uid for member in group.members()] == before
