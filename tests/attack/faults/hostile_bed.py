"""Where hostile specs are tried: a real API server with an audit log, the operator as a process, and lying pods.

The audit log tells every write that the operator asked for, and what it was answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from api_bed import CRD_FILE, load
from hostile_answers import SERVED

NAMESPACE, USER = "hostile", "operator"
GROUP = f"/apis/serving.windlass.dev/v1alpha1/namespaces/{NAMESPACE}/llmservices"
FACTS_PORT = 8502
STOP_S = 20
WRITES = ("create", "update", "patch", "delete", "deletecollection")
POLICY = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [USER], "verbs": list(WRITES)}, {"level": "None"}],
}  # fmt: skip
NODES: tuple[dict[str, Any], ...] = (
    {"name": "gpu", "labels": {"nvidia.com/gpu.product": "NVIDIA-L20", "nvidia.com/gpu.memory": "46068"}, "gpus": "8"},
    {"name": "odd", "labels": {"nvidia.com/gpu.product": "", "nvidia.com/gpu.memory": "x"}, "gpus": "9E"},
    {"name": "none", "labels": {"nvidia.com/gpu.product": "NVIDIA-H20", "nvidia.com/gpu.memory": "0"}, "gpus": "0"},
)  # fmt: skip
OWNER = re.compile(r"^(h-\d+)(?:$|[-.])")


@dataclass
class HostileBed:
    """The API server, the operator beside it, and what it wrote."""

    folder: Path
    server: Any  # control_plane.ApiServer
    http: httpx2.AsyncClient
    operator: subprocess.Popen[bytes]
    metrics_port: int
    facts_hosts: tuple[str, ...]
    writes: Counter[str] = field(default_factory=Counter)  # by service; "" is what several share
    refused: Counter[str] = field(default_factory=Counter)  # the operator's own requests, by what they were told
    _read: int = 0

    async def send(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        """One request: the code and the decoded answer."""
        content = None if body is None else json.dumps(body).encode()
        answer = await self.http.request(method, path, content=content, headers={"Content-Type": kind})
        return answer.status_code, answer.json()

    async def items(self, path: str) -> list[dict[str, Any]]:
        """All objects of a collection."""
        code, found = await self.send("GET", path)
        assert code == httpx2.codes.OK, found
        return list(found["items"])

    def audit(self) -> int:
        """Count what the operator wrote since the last look; returns how many requests that was."""
        log = self.folder / "audit.log"
        if not log.exists():
            return 0
        with log.open() as lines:
            lines.seek(self._read)
            rows = [json.loads(line) for line in iter(lines.readline, "") if line.endswith("\n")]
            self._read = lines.tell() if rows else self._read
        for row in rows:
            ref, code = row.get("objectRef") or {}, int(row["responseStatus"]["code"])
            owner = OWNER.match(str(ref.get("name") or ""))
            self.writes[owner[1] if owner else ""] += 1
            if code >= httpx2.codes.BAD_REQUEST:
                said = re.sub(
                    r'"[^"]*"', "…", str(row["responseStatus"].get("message") or row["responseStatus"].get("reason"))
                )
                self.refused[f"{code} {row['verb']} {ref.get('resource')}: {said[:120]}"] += 1
        return len(rows)

    async def errors(self) -> float:
        """Runs of the operator that ended with an exception, so far."""
        async with httpx2.AsyncClient(trust_env=False) as plain:
            text = (await plain.get(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30)).text
        return float(re.findall(r"^windlass_reconcile_errors_total (\S+)$", text, re.MULTILINE)[0])

    def unanswered(self) -> int:
        """Runs that ended because the API server did not answer in time: a busy machine, no fault."""
        return (self.folder / "operator.log").read_text(errors="replace").count("the API server does not answer")

    def memory_mib(self) -> float:
        """What the operator holds now."""
        status = Path(f"/proc/{self.operator.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    def tracebacks(self) -> Counter[str]:
        """The last lines of the exceptions in the operator's log, with the place where each was raised."""
        text = (self.folder / "operator.log").read_text(errors="replace")
        found = re.findall(r"Traceback \(most recent call last\):\n((?:[ \t].*\n)*)(\S.*)", text)
        return Counter(f"{_place(stack)}: {last[:200]}" for stack, last in found)


def _place(stack: str) -> str:
    rows = re.findall(r'File ".*/((?:windlass_operator|windlass_sizing)/[^"]+)", line (\d+)', stack)
    return ":".join(rows[-1]) if rows else "?"


@asynccontextmanager
async def hostile_bed(folder: Path) -> AsyncIterator[HostileBed]:
    """Everything up, a namespace and a few odd nodes there; stopped by process id at the end."""
    plane = load("control_plane")
    policy, token = folder / "policy.json", secrets.token_hex(16)
    policy.write_text(json.dumps(POLICY))
    (folder / "tokens.csv").write_text(f'{token},{USER},{USER},"system:masters"\n')
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}", "--audit-log-mode=blocking")
    with plane.running_api_server(folder, flags) as server:
        server.install_crd(CRD_FILE)
        metrics, health = plane.free_ports(2)
        hosts = tuple(f"127.{20 + os.getpid() % 200}.0.{index + 1}" for index in range(len(SERVED)))
        async with _client(server) as http, _lying_pods(hosts):
            with _operator(folder, server, token, (metrics, health)) as running:
                bed = HostileBed(folder, server, http, running, metrics, hosts)
                await _furnished(bed)
                await _watching(bed, metrics)
                yield bed


@asynccontextmanager
async def _client(server: Any) -> AsyncIterator[httpx2.AsyncClient]:
    import ssl

    context = ssl.create_default_context(cafile=str(server.ca_file))
    headers = {"Authorization": f"Bearer {server.token}"}
    async with httpx2.AsyncClient(
        base_url=server.url, verify=context, headers=headers, trust_env=False, timeout=60
    ) as http:
        yield http


@contextmanager
def _operator(folder: Path, server: Any, token: str, ports: tuple[int, int]) -> Iterator[subprocess.Popen[bytes]]:
    config = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    login = folder / "operator.kubeconfig"
    login.write_text(json.dumps(config))
    login.chmod(0o600)
    env = {
        **os.environ, "KUBECONFIG": str(login),
        "WINDLASS_SERVER_IMAGE": "windlass/server", "WINDLASS_SERVER_VERSION": "1.2",
        "WINDLASS_OPERATOR_IMAGE": "windlass/operator:1.2", "WINDLASS_WATCH_NAMESPACE": NAMESPACE,
        "WINDLASS_METRICS_PORT": str(ports[0]), "WINDLASS_HEALTH_PORT": str(ports[1]),
        "WINDLASS_NODE_PATHS": "/models,/a",
    }  # fmt: skip
    with (folder / "operator.log").open("wb") as log:
        running = subprocess.Popen([sys.executable, "-m", "windlass_operator", "run"], stdout=log, stderr=log, env=env)
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(STOP_S)  # clock: then it is killed
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


async def _furnished(bed: HostileBed) -> None:
    await bed.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for row in NODES:
        await bed.send("POST", "/api/v1/nodes", {"metadata": {"name": row["name"], "labels": row["labels"]}})
        amount = {"nvidia.com/gpu": row["gpus"], "cpu": "64", "memory": "512Gi"}
        status = {"allocatable": amount, "capacity": amount, "conditions": [{"type": "Ready", "status": "True"}]}
        await bed.send(
            "PATCH", f"/api/v1/nodes/{row['name']}/status", {"status": status}, "application/merge-patch+json"
        )


async def _watching(bed: HostileBed, port: int, patience_s: float = 180) -> None:
    """Wait until the operator's watches are alive."""
    async with httpx2.AsyncClient(trust_env=False) as plain, asyncio.timeout(patience_s):
        while True:
            assert bed.operator.poll() is None, (bed.folder / "operator.log").read_text(errors="replace")[-2000:]
            try:
                if (await plain.get(f"http://127.0.0.1:{port}/readyz")).status_code == httpx2.codes.OK:
                    return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(0.2)  # clock: how often it looks; the patience is a parameter


@asynccontextmanager
async def _lying_pods(hosts: tuple[str, ...]) -> AsyncIterator[None]:
    """A facts port at each address, that always answers the same."""
    said = dict(zip(hosts, SERVED, strict=True))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            body = said[writer.get_extra_info("sockname")[0]]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(answer, list(hosts), FACTS_PORT):
        yield
