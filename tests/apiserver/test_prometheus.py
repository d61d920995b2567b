"""A real Prometheus scrapes a real operator and a real license server: dashboard queries have data, alerts fire.

What the serving pods export is not here: no engine runs beside an API server alone.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from windlass_testbed import prometheus
from windlass_testbed.paths import paths
from windlass_testbed.waiting import HANG_S, wait_until

pytestmark = pytest.mark.apiserver

CHART = Path(__file__).parents[2] / "charts/windlass/files"
HERE = ("operator", "licenses")
"""The dashboards about what runs here; `tests/engine/test_dashboards.py` has the others."""
WAITS = "windlass_llmservice_wait_"
"""A service's wait is over once a pod answers, and none does here."""
PICTURE_S = 180.0
FOR = "2s"
"""In the place of minutes: how long an expression must hold, here."""


def fetch(url: str, data: bytes | None = None, **headers: str) -> Any:
    """One request past any proxy; its JSON, or its text."""
    request = urllib.request.Request(url, data, {name.replace("_", "-"): value for name, value in headers.items()})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=HANG_S) as answer:
        text = answer.read().decode()
    return json.loads(text) if text.startswith("{") else text


def until(look: Callable[[], Any], what: str) -> Any:
    """The first true value of `look`, while a server that is not there yet counts as false."""

    def seen() -> Any:
        with suppress(urllib.error.URLError, ConnectionError):
            return look()
        return None

    return wait_until(seen, what, look_s=0.5)


@contextmanager
def process(*command: str | Path, log: Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is stopped at the end."""
    with log.open("wb") as out:
        running = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **env})
        try:
            yield running
        finally:
            running.terminate()
            running.wait(30)


@dataclass(frozen=True)
class Prometheus:
    """Its API."""

    address: str

    def __call__(self, path: str) -> Any:
        return fetch(f"{self.address}/api/v1/{path}")["data"]


class Licenses:
    """The real license server, and licenses of its issuer."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.url = folder, f"http://127.0.0.1:{port}"
        self.program = Path(sys.executable).parent / "windlass-license"
        self._run("keygen", "--out", folder / "keys")
        (folder / "gpus.txt").write_text("GPU 0: NVIDIA L20 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n")

    def _run(self, *words: str | Path) -> None:
        subprocess.run([self.program, *words], check=True, capture_output=True, timeout=60)

    def put(self, days: float) -> None:
        """Issue a license that ends so soon, and upload it."""
        out = self.folder / f"{days}.dat"
        ends = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")
        key = ("--key", self.folder / "keys/private.pem", "--out", out)
        terms = ("--customer", "c", "--appid", "1", "--expires", ends, "--max-concurrent", "1")
        self._run("issue", "--gpus", self.folder / "gpus.txt", *terms, *key)
        body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="l.dat"\r\n\r\n' + out.read_bytes()
        said = fetch(f"{self.url}/ls", body + b"\r\n--x--\r\n", Content_Type="multipart/form-data; boundary=x")
        assert "successfully uploaded" in str(said)

    def lease(self) -> None:
        """Ask as a pod does."""
        holder = {"namespace": "team-a", "pod": "chat-0", "uid": "u", "service": "chat"}
        body = {"gpus": ["GPU-11111111-2222-3333-4444-555555555555"], "holder": holder}
        fetch(f"{self.url}/v1/leases", json.dumps(body).encode(), Content_Type="application/json")


@pytest.fixture
def ports(apiserver) -> list[int]:
    """Free ones for the operator, the license server and Prometheus."""
    return sys.modules[type(apiserver).__module__].free_ports(3)


@pytest.fixture
def licenses(tmp_path, ports) -> Iterator[Licenses]:
    (tmp_path / "licenses").mkdir()
    found = Licenses(tmp_path / "licenses", ports[1])
    where = ("--host", "127.0.0.1", "--port", str(ports[1]), "--data", tmp_path / "licenses/data")
    key = ("--public-key", found.folder / "keys/public.pem", "--lease-auth", "none")
    with process(found.program, "serve", *where, *key, log=tmp_path / "license.log"):
        until(lambda: fetch(found.url), "the license server")
        yield found


@pytest.fixture
def ask(tmp_path, ports) -> Iterator[Prometheus]:
    """Asks Prometheus' API; it scrapes both each second, with the chart's rules and a shorter `for`."""
    groups = yaml.safe_load((CHART / "rules.yaml").read_text())
    for rule in (rule for group in groups for rule in group["rules"]):
        rule["for"] = FOR
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    jobs = [
        {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        for name, port in zip(("operator", "license"), ports, strict=False)
    ]
    every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config = {"global": every, "rule_files": [str(tmp_path / "rules.yaml")], "scrape_configs": jobs}
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{ports[2]}"
    flags = (f"--config.file={tmp_path}/prometheus.yaml", f"--storage.tsdb.path={tmp_path}/tsdb")
    program = prometheus.ensure(paths()) / "prometheus"
    with process(program, *flags, f"--web.listen-address={address}", log=tmp_path / "prometheus.log"):
        until(lambda: fetch(f"http://{address}/-/ready"), "Prometheus")
        yield Prometheus(f"http://{address}")


def firing(ask: Prometheus) -> set[str]:
    """The alerts that fire, with the service and the reason where they have one.

    Services that other tests left in namespaces of their own do not count.
    """
    rows = [row["labels"] for row in ask("alerts")["alerts"] if row["state"] == "firing"]
    rows = [row for row in rows if not row.get("namespace", "").startswith("test-")]
    return {" ".join(row[key] for key in ("alertname", "namespace", "name", "reason") if key in row) for row in rows}


def values(ask: Prometheus, query: str) -> list[float]:
    """What a panel would show now."""
    rows = ask(f"query?{urllib.parse.urlencode({'query': query})}")["result"]
    return [number for row in rows if not math.isnan(number := float(row["value"][1]))]


def draw(ask: Prometheus, folder: str, look: Callable[[], Any]) -> None:
    """The pictures of the docs, after three minutes of scraping; `look` gives the programs work meanwhile."""
    until_ = time.monotonic() + PICTURE_S
    while time.monotonic() < until_:
        look()
        time.sleep(1)  # clock: the length of the pictures
    uv = [Path(sys.executable).parent / "uv", "run", "--quiet", "--no-project", "--with", "matplotlib==3.11.2"]
    for name in HERE:
        words = [CHART.parents[2] / "tools/docs/draw_dashboard.py", name, ask.address, f"{folder}/dashboard-{name}.png"]
        subprocess.run([*uv, *words, str(PICTURE_S / 60)], check=True)


def a_service(name: str, source: dict[str, Any]) -> dict[str, Any]:
    spec = {"model": {"id": "m", "source": source}, "license": {"required": False}}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService", "metadata": meta, "spec": spec}


def queries() -> list[str]:
    """Of every panel about what runs here."""
    boards = (json.loads((CHART / f"dashboards/{name}.json").read_text()) for name in HERE)
    found = [target["expr"] for board in boards for panel in board["panels"] for target in panel["targets"]]
    return [query for query in found if WAITS not in query]


@pytest.fixture
def running(apiserver, operator, licenses, ask, ports) -> Iterator[subprocess.Popen[bytes]]:
    """The operator with one service, and a license of a hundred days."""
    licenses.put(100)
    started = operator(apiserver.kubeconfig, ports[0])
    until(lambda: values(ask, "sum(windlass_leader) == 1"), "an operator at work")
    service = a_service("waits", {"nfs": {"server": "10.0.0.12", "path": "/models/m"}})
    assert not apiserver.apply(service).returncode
    yield started
    apiserver.kubectl("delete", "llmservice", "--all", "-n", "default", "--ignore-not-found")


def test_queries_have_data_and_faults_fire_their_alerts(apiserver, running, licenses, ask):
    """In health every query of the dashboard has a figure and no alert fires; then come three faults."""

    asked = queries()
    assert len(asked) >= 10
    empty = set(asked)

    def all_have_data() -> bool:
        licenses.lease()
        apiserver.kubectl("annotate", "llmservice", "waits", "-n", "default", f"at={time.time()}", "--overwrite")
        empty.difference_update([query for query in empty if values(ask, query)])
        return not empty

    until(all_have_data, "data for every query")
    assert firing(ask) == set()
    if folder := os.environ.get("WINDLASS_PICTURES"):

        def look() -> None:
            all_have_data()
            apiserver.apply(
                a_service(f"more-{time.monotonic() // 20:.0f}", {"nfs": {"server": "10.0.0.12", "path": "/m"}})
            )

        draw(ask, folder, look)
    assert not apiserver.apply(a_service("forbidden", {"hostPath": {"path": "/etc"}})).returncode
    alert = "LLMServiceNotServing default forbidden NodePathForbidden"
    until(lambda: alert in firing(ask), "the alert of a service that may not")
    apiserver.kubectl("delete", "llmservice", "forbidden", "-n", "default")
    until(lambda: alert not in firing(ask), "the end of the alert, with the service")
    licenses.put(3)
    ends = {"WindlassLicenseEndsInAMonth", "WindlassLicenseEndsInAWeek"}
    until(lambda: ends <= firing(ask), "the alerts of a license that ends")
    running.terminate()
    until(lambda: "WindlassOperatorGone" in firing(ask), "the alert of an operator that is gone")
