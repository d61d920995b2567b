"""Plays Job controller, kubelet and vandal for one service after the other, by what its draw says comes back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx2
from hostile_bed import NAMESPACE, HostileBed

CORE, APPS, BATCH = (f"{root}/namespaces/{NAMESPACE}" for root in ("/api/v1", "/apis/apps/v1", "/apis/batch/v1"))
MERGE = "application/merge-patch+json"
SERVICE_LABEL, COMPONENT_LABEL = "serving.windlass.dev/service", "app.kubernetes.io/component"
PLAYS_MAX = 3  # Jobs of one service that are answered; then they run for ever
COLLECTIONS = (
    f"{BATCH}/jobs", f"{APPS}/deployments", f"{APPS}/replicasets", f"{APPS}/statefulsets", f"{CORE}/pods",
    f"{CORE}/services", f"{CORE}/events", f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
    f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/ingresses",
    f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
)  # fmt: skip
Object = Mapping[str, Any]


@dataclass
class Player:
    """What was played for which object, so that each is played once."""

    bed: HostileBed
    done: set[str] = field(default_factory=set)  # uids
    jobs: Counter[str] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)  # by the API server: a lie too big even for it

    async def play(self, draws: Mapping[str, Mapping[str, Any]]) -> int:
        """Answer what has newly come; returns how many objects that was."""
        played = 0
        for kind, path in (
            ("job", f"{BATCH}/jobs"),
            ("deployment", f"{APPS}/deployments"),
            ("set", f"{APPS}/statefulsets"),
        ):
            for row in await self.bed.items(path):
                name, uid = str((row["metadata"].get("labels") or {}).get(SERVICE_LABEL)), row["metadata"]["uid"]
                draw = draws.get(name, {})
                if uid in self.done or "message" not in draw or row["metadata"].get("deletionTimestamp"):
                    continue
                self.done.add(uid)
                await (self._job(name, row, draw) if kind == "job" else self._workload(name, row, draw, kind))
                played += 1
        return played

    async def _job(self, name: str, job: Object, draw: Mapping[str, Any]) -> None:
        self.jobs[name] += 1
        if self.jobs[name] > PLAYS_MAX:
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {"exitCode": draw["exit_code"], "message": draw["message"], "finishedAt": now}
        row = {
            "name": "inspect",
            "image": "i",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }
        phase = "Failed" if draw["exit_code"] else "Succeeded"
        await self._pod(job, f"{job['metadata']['name']}-x", {"phase": phase, "containerStatuses": [row]}, "Job")
        if draw["exit_code"]:
            told = [{"type": type_, "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": now}
                    for type_ in ("FailureTarget", "Failed")]  # fmt: skip
            status = {"startTime": now, "failed": 1, "conditions": told}
            await self._patch(f"{BATCH}/jobs/{job['metadata']['name']}/status", {"status": status})
        notes = (draw.get("annotations") or {}).get("job")
        if notes:
            await self._patch(f"{BATCH}/jobs/{job['metadata']['name']}", {"metadata": {"annotations": notes}})

    async def _workload(self, name: str, row: Object, draw: Mapping[str, Any], kind: str) -> None:
        maker, owner = (row, "StatefulSet") if kind == "set" else (await self._replica_set(row), "ReplicaSet")
        for index, status in enumerate(draw["pods"]):
            address = self.bed.facts_hosts[draw["served"]]
            where = {"podIP": address, "podIPs": [{"ip": address}]} if status["phase"] == "Running" else {}
            await self._pod(maker, f"{name}-s{index}", {**status, **where}, owner)
        if kind == "deployment":
            await self._patch(f"{APPS}/deployments/{row['metadata']['name']}/status", {"status": draw["deployment"]})
        notes = (draw.get("annotations") or {}).get("service")
        if notes:
            await self._vandalize(name, notes)

    async def _vandalize(self, name: str, notes: Mapping[str, Any]) -> None:
        """Write over the operator's own notes on the Service: fields of the plan, the hold, the finding, or all."""
        code, live = await self.bed.send("GET", f"{CORE}/services/{name}")
        if code != httpx2.codes.OK:
            return
        said = dict(live["metadata"].get("annotations") or {})
        record = json.loads(said.get("serving.windlass.dev/plan") or "{}")
        record["plan"] = {**record.get("plan", {}), **notes.get("plan", {})}
        texts = {"serving.windlass.dev/plan": notes.get("text") or json.dumps(record), **notes.get("finding", {})}
        if "held" in notes:
            texts["serving.windlass.dev/held"] = json.dumps(
                {"digest": "x", "container": "", "excerpt": "", **notes["held"]}
            )
        await self._patch(f"{CORE}/services/{name}", {"metadata": {"annotations": texts}})

    async def _replica_set(self, deployment: Object) -> Object:
        """What the Deployment controller would make: the operator takes only its pods for the service's own."""
        meta, spec = deployment["metadata"], deployment["spec"]
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "controller": True, "name": meta["name"]}
        made = {"name": f"{meta['name']}-1", "labels": spec["template"]["metadata"]["labels"]}
        made["ownerReferences"] = [{**owner, "uid": meta["uid"]}]
        wanted = {"replicas": 0, "selector": spec["selector"], "template": spec["template"]}
        code, answer = await self.bed.send("POST", f"{APPS}/replicasets", {"metadata": made, "spec": wanted})
        self._note(code)
        made_it: Object = answer if code < httpx2.codes.BAD_REQUEST else deployment
        return made_it

    async def _pod(self, maker: Object, name: str, status: Object, owner: str) -> None:
        meta: dict[str, Any] = {"name": name, "labels": maker["spec"]["template"]["metadata"]["labels"]}
        if owner:
            made = {key: maker["metadata"][key] for key in ("name", "uid")}
            group = "batch/v1" if owner == "Job" else "apps/v1"
            meta["ownerReferences"] = [{"apiVersion": group, "kind": owner, "controller": True, **made}]
        code, _ = await self.bed.send(
            "POST", f"{CORE}/pods", {"metadata": meta, "spec": maker["spec"]["template"]["spec"]}
        )
        self._note(code)
        await self._patch(f"{CORE}/pods/{name}/status", {"status": status})

    async def _patch(self, path: str, body: Object) -> None:
        code, _ = await self.bed.send("PATCH", path, body, MERGE)
        self._note(code)

    def _note(self, code: int) -> None:
        if code >= httpx2.codes.BAD_REQUEST:
            self.refused[code] += 1

    async def swept(self) -> None:
        """Take away what a garbage collector would."""
        for path in COLLECTIONS:
            await self.bed.send("DELETE", f"{path}?gracePeriodSeconds=0")
        self.jobs.clear()
        self.done.clear()
