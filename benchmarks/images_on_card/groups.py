"""One replica as two members on this machine's two cards, as the operator renders it for two nodes of one card each.

    python3 benchmarks/images_on_card/groups.py --work /tmp/card --image server.env.json --out rows.json

`run.py planned` made the model. Argv and environment are those of the rendered StatefulSet; what a pod has of its own
here is a card, an address, ports, and shared memory. A row starts both members, asks a chat, kills the follower, waits
until the head has ended, starts both again, asks again, and kills the head. Ends with 1 when a row did not do what it
must. Needs root, for the members' mounts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import servers
from licensing import license_server
from rows import LICENSED, QWEN, TOKENS, Row
from run import ROOT, card, is_good
from windlass_api.crd.v1alpha1 import LLMService, LLMServiceSpec
from windlass_api.plan.args import container_command
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Plan
from windlass_operator.manifests.group import GroupShape, group_objects
from windlass_operator.manifests.pod import PodShape
from windlass_sizing.files.checkpoint import inspect

HOST = "127.0.0.1"  # where this script asks
ADDRESSES = ("127.0.0.2", "127.0.0.3")  # Ray takes 127.0.0.1 for the address that a network would see
MEMBERS = 2
LOST_S = 60  # seconds in which a member ends after the other was killed (docs/reference/groups.md)
LOST_CODE = 100  # and the index of the member that was lost
# As two pods have it. Ranks that share /dev/shm take each other for ranks of one process's cards, and vLLM's custom
# all-reduce then looks for the other card among its own. Ray's drivers find their node's address in /tmp/ray.
OWN_MOUNTS = 'mkdir -p /tmp/ray && mount -t tmpfs shm /dev/shm && mount -t tmpfs ray /tmp/ray && exec "$@"'
AS_A_POD = ("unshare", "--mount", "--propagation", "private", "sh", "-c", OWN_MOUNTS, "member")
ROWS = (("Native", 2, 1), ("Native", 1, 2), ("Ray", 2, 1), ("Ray", 1, 2))
"""What joins the members, tensor parallelism, stages of the pipeline."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The server container of the StatefulSet's pods, and the plan behind it."""

    argv: tuple[str, ...]
    env: dict[str, str]
    plan: Plan


def rendered(model: Path, engine: str, tp: int, pp: int, share_percent: int) -> Rendered:
    """What the operator makes of an LLMService on two nodes with a card of this machine each."""
    name, memory_mib, _ = card()
    facts = inspect(model.parent, model.name).facts
    spec = LLMServiceSpec.model_validate(
        {
            "model": {"id": "model", "source": {"pvc": {"claimName": "models"}}},
            "resources": {"gpus": MEMBERS},
            "engine": {
                "tensorParallelSize": tp,
                "pipelineParallelSize": pp,
                "gpuMemoryUtilizationPercent": share_percent,
            },
            "deployment": {"mode": "Distributed", "nodes": MEMBERS, "group": engine},
        }
    )
    nodes = tuple(NodeGpus(f"node-{one}", name.replace(" ", "-"), memory_mib / 1024, 1, 1) for one in range(MEMBERS))
    plan = decide(spec, facts, Inventory(nodes)) if facts else None
    if not isinstance(plan, Plan) or plan.group is None:
        raise RuntimeError(f"no plan for two nodes: {plan}")
    command, args = container_command(spec, plan)
    pod = PodShape(
        image="windlass/server", command=command, args=args, cpu=plan.cpu, memory=plan.memory, shm=plan.shm, gpus=1,
        weights_gib=plan.weights_gib,
    )  # fmt: skip
    meta = {"name": "model", "namespace": "card", "uid": "card"}
    service = LLMService.model_validate({"metadata": meta, "spec": spec.model_dump(by_alias=True, exclude_unset=True)})
    replica = group_objects(service, GroupShape(pod, plan.nodes, plan.group), 1)[-1]
    container = replica["spec"]["template"]["spec"]["containers"][0]
    env = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    env.pop("WINDLASS_LICENSE_TOKEN_FILE", None)  # no cluster mounts a token here
    return Rendered((*container["command"], *container["args"]), env, plan)


def start(row: Row, made: Rendered, index: int, wanted: argparse.Namespace, address: str) -> servers.Server:
    """Member `index` with a card, ports and a lease of its own; the head's name is this machine's address."""
    own = {
        "WINDLASS_GROUP_HEAD": ADDRESSES[0],
        "WINDLASS_GROUP_INDEX": str(index),
        "WINDLASS_FACTS_PORT": str(servers.FACTS_PORT + index),
        "WINDLASS_LICENSE_REQUIRED": "true",
        "WINDLASS_LS_ADDR": address,
        "WINDLASS_POD_UID": f"member-{index}",
        "VLLM_HOST_IP": ADDRESSES[index],
        "CUDA_VISIBLE_DEVICES": str(index),
    }
    member = Row(f"{row.name} member {index}", "", QWEN, row.asks, made.env | own)
    return servers.start(member, 0, wanted.work, wanted.variables, made.argv, AS_A_POD)


def facts_of(index: int) -> dict[str, object]:
    """What a member's facts port says; empty when it does not answer."""
    with contextlib.suppress(httpx.HTTPError, ValueError):
        found: dict[str, object] = httpx.get(
            f"http://{HOST}:{servers.FACTS_PORT + index}/windlass/facts", timeout=5
        ).json()
        return found
    return {}


def asked(members: list[servers.Server], wanted: argparse.Namespace) -> dict[str, object]:
    """Seconds until the head answers, its answers, and what each member says of its license."""
    ready_s = servers.wait(members[0], min(members[0].begun + wanted.start_s, wanted.deadline))
    if ready_s is None:
        return {"failed": [member.log_end for member in members]}
    found = {"ready_s": ready_s, **servers.ask(members[0])}
    licensed = [bool(facts_of(index).get("license", {}).get("gpus")) for index in range(MEMBERS)]
    found["asks"]["leases"] = {"ok": all(licensed), "members": licensed}
    return found


def family(server: servers.Server) -> list[int]:
    """A member's process and everything that it started."""
    return [server.process.pid, *servers.descendants(server.process.pid)]


def kill(pids: list[int]) -> None:
    """End these processes; some may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def lost(members: list[servers.Server], killed: int) -> dict[str, object]:
    """Kill a member with all its processes; the other one's exit code and the seconds until it ended."""
    other = members[1 - killed].process
    kill(family(members[killed]))
    began = time.monotonic()
    with contextlib.suppress(subprocess.TimeoutExpired):
        other.wait(LOST_S)
    code = other.poll()
    return {"ok": code == LOST_CODE + killed, "code": code, "seconds": round(time.monotonic() - began, 1)}


def pair(row: Row, made: Rendered, wanted: argparse.Namespace, address: str, killed: int) -> dict[str, object]:
    """Start both members, ask, and kill one of them; nothing of them is left."""
    members = [start(row, made, index, wanted, address) for index in range(MEMBERS)]
    everyone: list[int] = []
    try:
        found = asked(members, wanted)
        everyone = [pid for member in members for pid in family(member)]
        if "failed" not in found:
            found["asks"]["lost head" if killed == 0 else "lost follower"] = lost(members, killed)
        return found
    finally:
        for member in members:
            servers.end(member)
        kill(everyone)  # Ray's processes outlive a supervisor that was killed


def main() -> int:
    """Run the rows in turn, as many as the time allows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder with the model that `run.py planned` made")
    parser.add_argument("--image", type=Path, required=True, help="the image's variables as JSON")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit-s", type=float, default=540)
    parser.add_argument("--start-s", type=float, default=240, help="seconds that a start may take")
    parser.add_argument("--reserve-s", type=float, default=90, help="seconds that a start is not begun without")
    parser.add_argument("--only", nargs="*", default=[], help="rows by number, from 0")
    parser.add_argument("--share-percent", type=int, default=90, help="of each card's memory, where others are on it")
    wanted = parser.parse_args()
    wanted.deadline = time.monotonic() + wanted.limit_s
    wanted.variables = servers.load_image(wanted.image)
    rows: list[dict[str, object]] = []
    with license_server(wanted.work, ROOT) as address:
        for number, (engine, tp, pp) in enumerate(ROWS):
            if (
                wanted.only and str(number) not in wanted.only
            ) or time.monotonic() + wanted.reserve_s > wanted.deadline:
                continue
            made = rendered(wanted.work / "models" / QWEN, engine, tp, pp, wanted.share_percent)
            rows += in_turn(f"{engine}, TP {tp}, PP {pp}", made, wanted, address)
            wanted.out.write_text(json.dumps({"card": f"2 x {card()[0]}", "rows": rows}, indent=1) + "\n")
    return 0 if rows and all(map(is_good, rows)) else 1


def in_turn(title: str, made: Rendered, wanted: argparse.Namespace, address: str) -> list[dict[str, object]]:
    """The row, and its restart after the follower was killed."""
    row = Row(title, "", QWEN, (TOKENS, LICENSED))
    plan = made.plan
    figures = {
        "weights": plan.weights_gib / MEMBERS,
        "share": (plan.card_gib or 0) * plan.gpu_memory_utilization_percent / 100,
    }
    found = []
    for name, killed in ((title, 1), (f"{title}, started again", 0)):
        if found and (time.monotonic() + wanted.reserve_s > wanted.deadline or not is_good(found[-1])):
            break
        one = pair(row, made, wanted, address, killed)
        found.append(
            {"row": name, "plan": plan.summary()[:300], "planned_gib": figures, "command": " ".join(made.argv), **one}
        )
        print(
            f"{name}: {'ok' if is_good(found[-1]) else json.dumps(found[-1])[:3000]} {one.get('ready_s')} s", flush=True
        )
    return found


if __name__ == "__main__":
    raise SystemExit(main())
