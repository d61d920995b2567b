"""`make kill-groups`: hurts a group on the cluster again and again, and prints what became of it as a table.

The cluster, the charts and the service are brought up when they are not there, and stay. `--there` takes the service
that is there, whoever made it.
"""

import argparse
import json
import sys
import time
from statistics import median

from group_kills import BACK_S, Group, hurt, order, renew
from windlass_testbed import cluster, deploy, machine
from windlass_testbed.paths import paths

RENEW_AFTER = 4  # restarts in place; the kubelet waits 10, 20, 40, 80 s … before the next ones
FIRST_START_S = 1200.0
SERVICE = {
    "model": {"id": "demo", "source": {"pvc": {"claimName": "models", "path": "demo"}}},
    "deployment": {"mode": "Distributed", "nodes": 2, "group": "Native", "drainSeconds": 5, "maxRestarts": 1000},
    "resources": {"gpus": 2, "cpu": "300m", "memory": "2Gi"},
    "license": {"required": False},
}


def main(words: list[str]) -> int:
    """Kill and watch; 1 when the group did not come back as one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namespace", default="group-kills")
    parser.add_argument("--service", default="duo")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--there", action="store_true")
    asked = parser.parse_args(words)
    group = Group(paths(), asked.namespace, asked.service)
    if not asked.there:
        bring_up(group)
    print(f"serves after {group.wait(FIRST_START_S):.0f} s; seed {asked.seed}", flush=True)
    print("| kill | back after s | members apart s | restarts of head, follower | two incarnations |", flush=True)
    print("| --- | --- | --- | --- | --- |", flush=True)
    return kill(group, asked.kills, asked.seed)


def bring_up(group: Group) -> None:
    """The cluster with both charts, and the service in a namespace of its own."""
    machine.ensure_packages()
    deployed = deploy.bring_up(group.paths)
    deploy.install_charts(group.paths, deployed)
    deploy.make_model(group.paths)
    names = {"name": group.namespace}
    bodies = (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": names},
        {
            "apiVersion": "serving.windlass.dev/v1alpha1",
            "kind": "LLMService",
            "metadata": {"name": group.service, "namespace": group.namespace},
            "spec": SERVICE,
        },
    )
    for body in bodies:
        cluster.kubectl(group.paths, "apply", "-f", "-", stdin=json.dumps(body))
        deploy.models_volume(group.paths, group.namespace)


def kill(group: Group, kills: int, seed: int) -> int:
    """The table's rows; the exit code."""
    began, bad, backs_s = time.monotonic(), 0, []
    for one in order(kills, seed):
        try:
            found = hurt(group, one)
        except TimeoutError as error:
            print(f"| {one.name} | not within {BACK_S:.0f}: {error} | | | |", flush=True)
            return 1
        bad += not found.good
        backs_s.append(found.back_s)
        restarts, twins = ", ".join(map(str, found.restarts)), ", ".join(found.twins) or "none"
        print(f"| {found.kill} | {found.back_s:.0f} | {found.apart_s:.1f} | {restarts} | {twins} |", flush=True)
        if any(member.restarts >= RENEW_AFTER for member in group.members()):
            renew(group)
    spread = f"back after {min(backs_s):.0f} to {max(backs_s):.0f} s, half of them within {median(backs_s):.0f} s"
    print(f"\n{kills} kills in {time.monotonic() - began:.0f} s, {spread}; {bad} not as they should be", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
