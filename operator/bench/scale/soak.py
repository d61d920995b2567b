"""`make soak`: services at rest; the operator must write nothing, and take back every edit of what it owns.

Services of every sort, real etcd, API server, controllers and scheduler; kwok plays the kubelets. What the operator
writes is read from the API server's own audit log. In the middle one field of each of its objects is edited; each edit
must be taken back within five seconds, and nothing else may be written. Exits 1 when either does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bed import ALL_CONTROLLERS, Bed, control_plane, operator, process, running_bed
from kubelets import facts_port
from load import GROUP, Cluster, make_nodes
from variety import RUNNING, SORTS, service

NAMESPACE = "soak"
HEALED_S = 5.0
QUIET_S = 15.0
PATIENCE_S = 240.0
KINDS = {
    "Deployment": "/apis/apps/v1/namespaces/soak/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/soak/statefulsets",
    "Service": "/api/v1/namespaces/soak/services",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/soak/poddisruptionbudgets",
    "Ingress": "/apis/networking.k8s.io/v1/namespaces/soak/ingresses",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/soak/networkpolicies",
}
# What an edit changes in an object of this kind, as paths; one is drawn for each object.
EDITS: dict[str, tuple[tuple[tuple[str, ...], Any], ...]] = {
    "Deployment": (
        (("spec", "replicas"), 5),
        (("spec", "strategy", "rollingUpdate", "maxSurge"), 3),
        (("spec", "template", "spec", "terminationGracePeriodSeconds"), 1),
        (("metadata", "labels", "serving.windlass.dev/service"), "another"),
    ),
    "StatefulSet": ((("spec", "replicas"), 1), (("metadata", "labels", "app.kubernetes.io/part-of"), "x")),
    "Service": ((("spec", "ports", "0", "port"), 9999), (("metadata", "annotations", "serving.windlass.dev/plan"), "")),
    "PodDisruptionBudget": (
        (("spec", "maxUnavailable"), 7),
        (("spec", "unhealthyPodEvictionPolicy"), "IfHealthyBudget"),
    ),
    "NetworkPolicy": ((("spec", "ingress", "1", "from"), []), (("spec", "podSelector", "matchLabels"), {})),
    "Ingress": ((("spec", "ingressClassName"), "other"), (("spec", "rules", "0", "host"), "b.example")),
}


def in_words(row: dict[str, Any]) -> str:
    """One audited request in words."""
    ref = row["objectRef"]
    return f"{row['verb']} {ref['resource']}/{ref.get('name', '')}" + (
        f"/{ref['subresource']}" if ref.get("subresource") else ""
    )


def at(value: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - any JSON value
    """The value at a path; rows of lists by their number."""
    for step in path:
        value = value[int(step)] if isinstance(value, list) else (value or {}).get(step)
    return value


def pointer(path: tuple[str, ...]) -> str:
    """The path as JSON Pointer."""
    return "/" + "/".join(step.replace("~", "~0").replace("/", "~1") for step in path)


def say(words: str) -> None:
    """How far it is."""
    print(f"▸ {words}", file=sys.stderr, flush=True)


async def settled(bed: Bed, cluster: Cluster) -> None:
    """Wait until those that can run do, and nothing has been written for a while."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        rows = await cluster.items(f"{GROUP}/namespaces/{NAMESPACE}/llmservices")
        words = {row["metadata"]["name"]: _reason(row) for row in rows}
        before = len(bed.writes())
        await asyncio.sleep(QUIET_S)
        if all(words.get(name) == "Running" for name in RUNNING) and before == len(bed.writes()):
            return
    raise TimeoutError(f"not at rest within {PATIENCE_S:.0f} s: {words}")


def _reason(row: dict[str, Any]) -> str:
    conditions = row.get("status", {}).get("conditions", [])
    return next((one["reason"] for one in conditions if one["type"] == "Ready"), "none")


async def edit_all(cluster: Cluster, chance: random.Random) -> list[dict[str, Any]]:
    """Edit one field of each object of the operator's and time until it reads as before."""
    found = []
    for kind, path in KINDS.items():
        for item in await cluster.items(path):
            name = item["metadata"]["name"]
            if not item["metadata"].get("ownerReferences") or (kind == "Service" and name.endswith("-group")):
                continue
            # A field that the object has: what others add beside ours stays, as the plan at the Service of the peers.
            place, value = chance.choice([edit for edit in EDITS[kind] if at(item, edit[0]) is not None])
            found.append(await _edit(cluster, f"{path}/{name}", f"{kind}/{name}", (place, at(item, place), value)))
    return found


async def _edit(cluster: Cluster, path: str, what: str, edit: tuple[tuple[str, ...], Any, Any]) -> dict[str, Any]:
    place, was, value = edit
    body = json.dumps([{"op": "add" if was is None else "replace", "path": pointer(place), "value": value}])
    answer = await cluster.http.patch(path, content=body, headers={"Content-Type": "application/json-patch+json"})
    answer.raise_for_status()
    begun = time.monotonic()
    while time.monotonic() - begun < 6 * HEALED_S:
        now = (await cluster.http.get(path)).raise_for_status().json()
        if at(now, place) == was:
            return {"object": what, "field": ".".join(place), "healed_s": round(time.monotonic() - begun, 2)}
        await asyncio.sleep(0.05)
    return {"object": what, "field": ".".join(place), "healed_s": None}


async def soak(bed: Bed, seconds: float, seed: int) -> dict[str, Any]:
    """The whole run; its figures."""
    port, health = control_plane.free_ports(2)
    command, env = operator(bed, port, health)
    cluster = Cluster.connect(bed.api)
    await cluster.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await make_nodes(cluster, 40)
    async with facts_port():
        with process(command, bed.folder / "operator.log", env) as alive:
            for name, spec in SORTS.items():
                await cluster.post(f"{GROUP}/namespaces/{NAMESPACE}/llmservices", service(name, spec))
            say(f"{len(SORTS)} services are made, waiting until they have come to rest")
            await settled(bed, cluster)
            start = len(bed.writes())
            say(f"at rest for {seconds / 2:.0f} s")
            await asyncio.sleep(seconds / 2)
            first = bed.writes()[start:]
            say(f"{len(first)} writes; one field of each owned object is edited")
            edits = await edit_all(cluster, random.Random(seed))  # noqa: S311 - which field, not a secret
            await asyncio.sleep(QUIET_S)
            again = len(bed.writes())
            say(f"{len(edits)} edits are taken back or given up; at rest for {seconds / 2:.0f} s more")
            await asyncio.sleep(seconds / 2)
            rest = bed.writes()[again:]
            healing = bed.writes()[start + len(first) : again]
            memory_mib = alive.memory_mib()
    await cluster.http.aclose()
    return {
        "seconds": seconds,
        "services": len(SORTS),
        "writes_at_rest": [in_words(row) for row in (*first, *rest)],
        "edits": edits,
        "writes_that_healed": len(healing),
        "rss_mib": round(memory_mib, 1),
    }


def table(figures: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [f"{row['object']:<36} {row['field']:<56} {row['healed_s']} s" for row in figures["edits"]]
    slow = [row for row in figures["edits"] if row["healed_s"] is None or row["healed_s"] > HEALED_S]
    lines += [
        f"{figures['services']} services of {len(SORTS)} sorts, {figures['seconds']:.0f} s at rest: "
        f"{len(figures['writes_at_rest'])} writes {figures['writes_at_rest'][:8]}",
        f"{len(figures['edits'])} edits, {len(slow)} not taken back within {HEALED_S:.0f} s; "
        f"{figures['writes_that_healed']} writes to do so; {figures['rss_mib']} MiB",
    ]
    return "\n".join(lines)


def main() -> int:
    """Run, print, judge."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--seconds", type=float, default=600, help="at rest, both halves together (default: 600)")
    words.add_argument("--seed", type=int, default=1, help="which fields are edited")
    words.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    words.add_argument("--folder", type=Path, help="keep data and logs here (default: a temporary folder)")
    options = words.parse_args()
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-soak-")))
        folder.mkdir(parents=True, exist_ok=True)
        bed = stack.enter_context(running_bed(folder, ALL_CONTROLLERS))
        figures = asyncio.run(soak(bed, options.seconds, options.seed))
    print(json.dumps(figures, indent=1) if options.output == "json" else table(figures))
    healed = all(row["healed_s"] is not None and row["healed_s"] <= HEALED_S for row in figures["edits"])
    return 0 if healed and not figures["writes_at_rest"] else 1


if __name__ == "__main__":
    sys.exit(main())
