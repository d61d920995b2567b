"""`make attack-operator`: what 300 LLMServices take to run, alone and beside 50 poisoned ones of another namespace.

A real API server, controllers and scheduler; kwok stands in for the kubelets. Turns alone and beside the poison take
turns; medians are compared. The poisoned ones are edited all the while. Prints JSON and exits 1 when a bound is missed.
PYTHONPATH names the code under attack, for a run against an older commit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(REPOSITORY / "operator" / "bench" / "scale"), str(Path(__file__).parent)]

import httpx2  # noqa: E402 - the paths above come first
import kubelets  # noqa: E402
import poison  # noqa: E402
import yaml  # noqa: E402
from bed import ALL_CONTROLLERS, Bed, control_plane, operator, process, running_bed  # noqa: E402
from load import GROUP, Cluster, each, make_nodes  # noqa: E402
from measure import Process  # noqa: E402
from windlass_testbed.attacks import record, record_at_most  # noqa: E402

GOOD, BAD = "good", "bad"
RATIO_MAX = 1.10
MEASURES = {"running_s": "time until all are Running", "edited_s": "time until all edits are followed"}
RSS_MIB_MAX = 512.0  # the chart's limit of the operator's container
LOOK_S = 0.25
HEALTH_S, HEALTH_ANSWER_S = 0.5, 5.0  # the chart's time-out of the probe: the healthy services alone are load, too
FIRST_SERVICES = 30  # of the first turn, which is not counted
EDIT_PAUSE_S = 0.5  # between two edits of poisoned services
PATIENCE_S = 300.0


@dataclass
class Watcher:
    """Looks at the operator all the while: how late /healthz answers, and how much memory its processes take."""

    alive: Process
    port: int
    late_s: float = 0.0
    unanswered: int = 0
    rss_mib: float = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        async with httpx2.AsyncClient(trust_env=False, timeout=HEALTH_ANSWER_S) as http:
            while True:
                begun = time.monotonic()
                try:
                    (await http.get(f"http://127.0.0.1:{self.port}/healthz")).raise_for_status()
                    self.late_s = max(self.late_s, time.monotonic() - begun)
                except httpx2.HTTPError:
                    self.unanswered += 1
                self.rss_mib = max(self.rss_mib, tree_rss_mib(self.alive.running.pid))
                await asyncio.sleep(HEALTH_S)


def tree_rss_mib(pid: int) -> float:
    """Private and shared memory of a process and its children, shared pages counted once for all (PSS)."""
    kib = 0
    for one in (pid, *children(pid)):
        with suppress(OSError, StopIteration):
            rows = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            kib += int(next(row for row in rows if row.startswith("Pss:")).split()[1])
    return kib / 1024


def children(pid: int) -> list[int]:
    """The processes that this one started."""
    with suppress(OSError):
        return [int(one) for task in Path(f"/proc/{pid}/task").glob("*/children") for one in task.read_text().split()]
    return []


@dataclass
class Attack:
    """One run."""

    bed: Bed
    cluster: Cluster
    services: int
    poisoned: int
    edits: bool = True
    refused: dict[str, int] = field(default_factory=dict)

    async def until(self, what: str, **wanted: object) -> float:
        """Seconds until every healthy service's status has these fields."""
        begun = time.monotonic()
        while True:
            rows = await self.cluster.items(f"{GROUP}/namespaces/{GOOD}/llmservices")
            statuses = [row.get("status") or {} for row in rows]
            done = sum(all(status.get(name) == one for name, one in wanted.items()) for status in statuses)
            if done >= self.services:
                return time.monotonic() - begun
            if time.monotonic() - begun > PATIENCE_S:
                raise TimeoutError(f"{what}: {done} of {self.services} after {PATIENCE_S:.0f} s")
            await asyncio.sleep(LOOK_S)

    async def turn(self, beside: bool) -> dict[str, float]:
        """Create, edit and delete the healthy services once."""
        editing = asyncio.create_task(self._edit_poisoned()) if beside else None
        try:
            begun = time.monotonic()
            create = asyncio.create_task(each(self._create, range(self.services)))
            await create
            await self.until("running", ready="1/1")
            running_s = time.monotonic() - begun
            if not self.edits:
                return {"running_s": running_s}
            begun = time.monotonic()
            await each(self._scale, range(self.services))
            await self.until("edited", ready="2/2")
            return {"running_s": running_s, "edited_s": time.monotonic() - begun}
        finally:
            if editing:
                editing.cancel()
            await self._clear()

    async def poison(self) -> None:
        """Create what the API server takes of the poison; what it refuses is as good as held."""
        for body in poison.poisoned(self.poisoned):
            head, path = {"Content-Type": "application/json"}, f"{GROUP}/namespaces/{BAD}/llmservices"
            answer = await self.cluster.http.post(path, content=poison.written(body), headers=head)
            if answer.is_error:
                kind = body["metadata"]["name"].partition("-")[0]
                self.refused[kind] = self.refused.get(kind, 0) + 1

    async def reasons(self) -> dict[str, int]:
        """What the poisoned services' own statuses say, by kind of poison."""
        from windlass_operator.cluster import decode  # the poison is too deep for Python's own parser

        raw = (await self.cluster.http.get(f"{GROUP}/namespaces/{BAD}/llmservices")).raise_for_status().content
        found: dict[str, int] = {}
        for row in (decode.manifest(bytes(one)) for one in decode.page(raw).items):
            conditions = (row.get("status") or {}).get("conditions") or []
            reason = next((one["reason"] for one in conditions if one["type"] == "Progressing"), "none")
            word = f"{row['metadata']['name'].partition('-')[0]}: {reason}"
            found[word] = found.get(word, 0) + 1
        return dict(sorted(found.items()))

    async def clear_poison(self) -> None:
        """Nothing poisoned is left."""
        await self._delete_all(BAD)

    async def _create(self, number: int) -> None:
        await self.cluster.post(f"{GROUP}/namespaces/{GOOD}/llmservices", poison.service(f"qwen-{number}"))

    async def _scale(self, number: int) -> None:
        await self.cluster.patch(f"{GROUP}/namespaces/{GOOD}/llmservices/qwen-{number}", {"spec": {"replicas": 2}})

    async def _edit_poisoned(self) -> None:
        names = [one["metadata"]["name"] for one in poison.poisoned(self.poisoned)]
        for number in range(10**6):
            path = f"{GROUP}/namespaces/{BAD}/llmservices/{names[number % len(names)]}"
            with suppress(httpx2.HTTPError):
                await self.cluster.patch(path, {"metadata": {"annotations": {"edit": str(number)}}})
            await asyncio.sleep(EDIT_PAUSE_S)

    async def _clear(self) -> None:
        await self._delete_all(GOOD)

    async def _delete_all(self, namespace: str) -> None:
        await self.cluster.http.delete(f"{GROUP}/namespaces/{namespace}/llmservices")
        begun = time.monotonic()
        while any([await self.cluster.count(path) for path in left_behind(namespace)]):
            if time.monotonic() - begun > PATIENCE_S:
                raise TimeoutError(f"namespace {namespace} is not empty after {PATIENCE_S:.0f} s")
            await asyncio.sleep(LOOK_S)


def left_behind(namespace: str) -> tuple[str, ...]:
    """The collections that are empty before the next turn begins."""
    return (
        f"{GROUP}/namespaces/{namespace}/llmservices",
        f"/api/v1/namespaces/{namespace}/pods",
        f"/apis/apps/v1/namespaces/{namespace}/deployments",
        f"/apis/batch/v1/namespaces/{namespace}/jobs",
    )


def stages() -> str:
    """As the scale run's; inspections of the namespace of the poison say what stops planning."""
    rows = list(yaml.safe_load_all(kubelets.stages()))
    inspect = next(row for row in rows if row["metadata"]["name"] == "inspect")
    other = json.loads(json.dumps(inspect))
    where = {"key": ".metadata.namespace", "values": [BAD]}
    inspect["spec"]["selector"]["matchExpressions"].append({**where, "operator": "NotIn"})
    other["spec"]["selector"]["matchExpressions"].append({**where, "operator": "In"})
    other["metadata"]["name"] = "inspect-poisoned"
    template = other["spec"]["next"]["statusTemplate"]
    other["spec"]["next"]["statusTemplate"] = template.replace(json.dumps(kubelets.FOUND), json.dumps(poison.found()))
    return yaml.safe_dump_all([*rows, other], sort_keys=False)


async def attack(options: argparse.Namespace, bed: Bed) -> dict[str, Any]:
    """All turns, with one operator from the first to the last."""
    port, health = control_plane.free_ports(2)
    cluster = Cluster.connect(bed.api)
    run = Attack(bed, cluster, options.services, options.poisoned, options.edits)
    figures: dict[str, Any] = {"services": options.services, "poisoned": options.poisoned, "processors": os.cpu_count()}
    for name in (GOOD, BAD):
        await cluster.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await make_nodes(cluster, 2 * options.services)
    command, env = operator(bed, port, health)
    turns: dict[str, list[dict[str, float]]] = {"alone": [], "beside": []}
    with ExitStack() as stack:
        alive = stack.enter_context(process(command, bed.folder / "operator.log", env))
        watcher = Watcher(alive, health)
        try:
            await _ready(port)
            watching = asyncio.create_task(watcher.run())
            run.services = min(FIRST_SERVICES, options.services)
            await run.turn(beside=False)  # reaches a steady state
            run.services = options.services
            for number in range(options.turns):
                turns["alone"].append(await run.turn(beside=False))
                tell(f"turn {number + 1} alone", turns["alone"][-1])
                figures["rss_alone_mib"] = max(figures.get("rss_alone_mib", 0.0), watcher.rss_mib)
                watcher.rss_mib = 0.0
                await run.poison()
                turns["beside"].append(await run.turn(beside=True))
                figures["reasons"] = await run.reasons()
                tell(f"turn {number + 1} beside", turns["beside"][-1])
                figures["rss_beside_mib"] = max(figures.get("rss_beside_mib", 0.0), watcher.rss_mib)
                await run.clear_poison()
            watching.cancel()
        except (TimeoutError, httpx2.HTTPError) as error:
            figures["failed"] = f"{type(error).__name__}: {error}"
        figures |= {"operator_alive": alive.alive(), "healthz_late_s": watcher.late_s, "unanswered": watcher.unanswered}
        figures["rss_beside_mib"] = max(figures.get("rss_beside_mib", 0.0), watcher.rss_mib)
    await cluster.http.aclose()
    return figures | {"refused_by_the_api_server": run.refused, "turns": turns} | compared(turns)


def compared(turns: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Medians of both, and their ratio; pure."""
    found: dict[str, Any] = {}
    for name in MEASURES:
        middle = {kind: median(one[name] for one in rows) for kind, rows in turns.items() if rows and name in rows[0]}
        found[name] = middle
        if len(middle) == 2:
            found[f"{name}_ratio"] = middle["beside"] / middle["alone"]
    return found


def judged(figures: dict[str, Any], measures: Sequence[str]) -> bool:
    """Whether all bounds held; each leaves its row."""
    name = f"{figures['services']} services beside {figures['poisoned']} poisoned"
    late_s, failed = figures["healthz_late_s"], figures["unanswered"]
    ended = figures.get("failed") or ("" if figures["operator_alive"] else "the operator ended")
    answered = f"{late_s:.2f} s at most, {failed} failed"
    held = [
        record(__file__, f"{name}: all turns end", "alive", ended or "alive", held=not ended),
        record(__file__, f"{name}: /healthz", f"every answer ≤ {HEALTH_ANSWER_S:g} s", answered, held=not failed),
        record_at_most(__file__, f"{name}: memory of the operator", RSS_MIB_MAX, figures["rss_beside_mib"], "MiB"),
    ]
    for key in measures:
        ratio = figures.get(f"{key}_ratio", math.inf)
        held.append(record_at_most(__file__, f"{name}: {MEASURES[key]}", RATIO_MAX, ratio, "× alone"))
    return all(held)


async def _ready(port: int) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        for _ in range(int(PATIENCE_S / LOOK_S)):
            with suppress(httpx2.HTTPError):
                if (await http.get(f"http://127.0.0.1:{port}/readyz")).is_success:
                    return
            await asyncio.sleep(LOOK_S)
    raise TimeoutError("the operator is not ready")


def tell(words: str, figures: dict[str, float]) -> None:
    """One line of progress."""
    print(words, {name: round(one, 2) for name, one in figures.items()}, file=sys.stderr, flush=True)


def main() -> int:
    """Run, print, judge."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--services", type=int, default=300)
    words.add_argument("--poisoned", type=int, default=50)
    words.add_argument("--turns", type=int, default=5)
    words.add_argument(
        "--edits", action=argparse.BooleanOptionalAction, default=True, help="edit all healthy ones, too"
    )
    words.add_argument("--folder", type=Path, help="keep data and logs here (default: a temporary folder)")
    options = words.parse_args()

    async def both(bed: Bed) -> dict[str, Any]:
        async with kubelets.facts_port():
            return await attack(options, bed)

    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-attack-")))
        folder.mkdir(parents=True, exist_ok=True)
        text = stages()
        kubelets.stages = lambda: text
        bed = stack.enter_context(running_bed(folder, ALL_CONTROLLERS))
        figures = asyncio.run(both(bed))
    print(json.dumps(figures, indent=1))
    return int(not judged(figures, list(MEASURES)[: 1 + options.edits]))


if __name__ == "__main__":
    sys.exit(main())
