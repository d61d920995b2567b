"""`make deletes`: service, operator and namespace deleted in 50 random orders; nothing may be left, nothing may hang.

Each round serves three LLMServices of random sorts in a namespace of its own, then deletes the services, ends the
operator (half the time by kill -9) and deletes the namespace, in an order and with pauses drawn by chance. Real API
server, controllers, garbage collector and scheduler; kwok plays the kubelets. Exits 1 when anything is left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from bed import ALL_CONTROLLERS, Bed, control_plane, operator, process, running_bed
from kubelets import facts_port
from load import GROUP, Cluster, make_nodes
from measure import Process
from variety import SORTS, service

PATIENCE_S = 90.0
OWNED = (
    "/apis/apps/v1/{}/deployments",
    "/apis/apps/v1/{}/statefulsets",
    "/apis/apps/v1/{}/replicasets",
    "/apis/batch/v1/{}/jobs",
    "/apis/policy/v1/{}/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/{}/ingresses",
    "/apis/networking.k8s.io/v1/{}/networkpolicies",
    "/api/v1/{}/services",
    "/api/v1/{}/pods",
    GROUP + "/{}/llmservices",
)
SERVED = [name for name in SORTS if name not in ("overlaid", "placed", "waiting")]


@dataclass
class Round:
    """One round: its namespace and services, and what its steps took."""

    number: int
    cluster: Cluster
    chance: random.Random
    namespace: str
    names: list[str]
    log: list[str] = field(default_factory=list)

    async def until(self, look: Callable[[], Awaitable[bool]], what: str) -> float:
        """Seconds until the look is true; TimeoutError tells what never came."""
        begun = time.monotonic()
        while not await look():
            if time.monotonic() - begun > PATIENCE_S:
                raise TimeoutError(f"round {self.number} ({' → '.join(self.log)}): {what} within {PATIENCE_S:.0f} s")
            await asyncio.sleep(0.2)
        return time.monotonic() - begun

    async def planned(self) -> bool:
        """Whether the operator has said something final of each service."""
        rows = await self.cluster.items(f"{GROUP}/namespaces/{self.namespace}/llmservices")
        told = [one for row in rows for one in row.get("status", {}).get("conditions", []) if one["type"] == "Planned"]
        return sum(one["status"] == "True" for one in told) == len(self.names)

    async def left(self) -> list[str]:
        """What of ours there still is in the namespace."""
        found = []
        for path in OWNED:
            rows = await self.cluster.items(path.format(f"namespaces/{self.namespace}"))
            found += [f"{path.rpartition('/')[2]}/{row['metadata']['name']}" for row in rows]
        return found

    async def empty(self) -> bool:
        """Whether nothing is left in the namespace."""
        return not await self.left()

    async def gone(self) -> bool:
        """Whether the namespace itself is gone."""
        answer = await self.cluster.http.get(f"/api/v1/namespaces/{self.namespace}")
        return answer.status_code == httpx2.codes.NOT_FOUND

    async def delete(self, path: str) -> None:
        """Delete one object; it may be gone already."""
        answer = await self.cluster.http.delete(path)
        if answer.status_code not in (httpx2.codes.NOT_FOUND, httpx2.codes.CONFLICT):
            answer.raise_for_status()


async def play(one: Round, alive: Process) -> dict[str, Any]:
    """Serve, then delete in a random order; how long the end took."""
    meta = {"name": one.namespace}
    await one.cluster.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    for name in one.names:
        sort = SORTS[name.rpartition("-")[0]]
        await one.cluster.post(f"{GROUP}/namespaces/{one.namespace}/llmservices", service(name, sort))
    if one.chance.random() < 0.7:  # else it is deleted while it comes up
        await one.until(one.planned, "all planned")
    steps = ["services", "operator", "namespace"]
    one.chance.shuffle(steps)
    for step in steps:
        await asyncio.sleep(one.chance.choice((0.0, 0.3, 1.5)))
        one.log.append(step)
        await _step(one, alive, step)
    seconds = await one.until(one.gone, "the namespace is gone")
    return {"order": " → ".join(one.log), "gone_s": round(seconds, 1), "left": await one.left()}


async def _step(one: Round, alive: Process, step: str) -> None:
    if step == "operator":
        alive.running.send_signal(one.chance.choice((signal.SIGKILL, signal.SIGTERM)))
        return
    if step == "namespace":
        await one.delete(f"/api/v1/namespaces/{one.namespace}")
        return
    for name in one.names:
        await one.delete(f"{GROUP}/namespaces/{one.namespace}/llmservices/{name}")
    if "namespace" not in one.log and one.chance.random() < 0.5:
        await one.until(one.empty, "what the services owned is gone")
        one.log[-1] = "services and all they own"


async def rounds(bed: Bed, count: int, seed: int) -> list[dict[str, Any]]:
    """All rounds, one after another, each with an operator of its own."""
    chance, cluster, found = random.Random(seed), Cluster.connect(bed.api), []  # noqa: S311 - orders, not secrets
    await make_nodes(cluster, 40)
    port, health = control_plane.free_ports(2)
    command, env = operator(bed, port, health)
    env = {**env, "WINDLASS_LEASE_NAME": ""}  # a killed one's lease would be waited out, round by round
    async with facts_port():
        for number in range(count):
            names = [f"{name}-{index}" for index, name in enumerate(chance.sample(SERVED, 3))]
            one = Round(number, cluster, chance, f"deletes-{number}", names)
            with process(command, bed.folder / "operator.log", env) as alive:
                found.append(await play(one, alive))
            print(f"{number + 1:>3}/{count} {found[-1]['order']}: gone in {found[-1]['gone_s']} s", file=sys.stderr)
    await cluster.http.aclose()
    return found


def table(found: list[dict[str, Any]]) -> str:
    """The orders with how often each came and the longest end."""
    lines = []
    for order in sorted({row["order"] for row in found}):
        same = [row["gone_s"] for row in found if row["order"] == order]
        lines.append(f"{order:<58} {len(same):>3} times, gone in {max(same):.1f} s at most")
    left = sum(bool(row["left"]) for row in found)
    return "\n".join([*lines, f"{len(found)} rounds, {left} with something left, none hung"])


def main() -> int:
    """Run, print, judge."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("rounds", nargs="?", type=int, default=50, help="how many orders (default: 50)")
    words.add_argument("--seed", type=int, default=1, help="which orders")
    words.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    words.add_argument("--folder", type=Path, help="keep data and logs here (default: a temporary folder)")
    options = words.parse_args()
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-deletes-")))
        folder.mkdir(parents=True, exist_ok=True)
        bed = stack.enter_context(running_bed(folder, ALL_CONTROLLERS))
        found = asyncio.run(rounds(bed, options.rounds, options.seed))
    print(json.dumps(found, indent=1) if options.output == "json" else table(found))
    return 1 if any(row["left"] for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
