"""A report: logs of every container, with the secrets that were met anywhere taken out; what is missing is said."""

from __future__ import annotations

import stat
import tarfile
from argparse import Namespace
from datetime import UTC, datetime
from types import SimpleNamespace

import httpx2
import pytest
from windlass_client import AsyncClient, InvalidError, NotFoundError, token_access
from windlass_kubectl.report import collect, write

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PLANTED = "Zq-planted-4f1c9a"
ENV = [{"name": "HF_TOKEN", "value": PLANTED}, {"name": "SEED", "value": "17"}]
SERVICE = {
    "metadata": {"name": "qwen", "namespace": "team", "uid": "u"},
    "spec": {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, "env": ENV},
}
PODS = [
    {"metadata": {"name": "qwen-1"}, "spec": {"containers": [{"name": "server", "env": ENV}]}},
    {"metadata": {"name": "qwen-inspect"}, "spec": {"containers": [{"name": "inspect"}]}},
]
SHARED = {
    "jobs": [{"metadata": {"name": "a-download", "uid": "j", "ownerReferences": [{"uid": "a"}, {"uid": "u"}]}}],
    "pods": [
        {
            "metadata": {"name": "a-download-1", "ownerReferences": [{"uid": "j", "controller": True}]},
            "spec": {"containers": [{"name": "download"}]},
        }
    ],
}


class Server:
    """An API server with one service and two pods; Ingresses may not be listed."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        self.asked.append(path)
        if path.endswith("/llmservices/qwen"):
            return httpx2.Response(200, json=SERVICE)
        if path.endswith("/log"):
            return self.log(path, "previous" in request.url.params)
        if path.endswith("/ingresses"):
            status = {"kind": "Status", "reason": "Forbidden", "message": "cannot list ingresses"}
            return httpx2.Response(403, json=status)
        if "/llmservices/" in path:
            return httpx2.Response(404, json={"kind": "Status", "reason": "NotFound", "message": "not found"})
        if "download" in request.url.params.get("labelSelector", ""):
            return httpx2.Response(200, json={"metadata": {}, "items": SHARED[path.rsplit("/", 1)[-1]]})
        return httpx2.Response(200, json={"metadata": {}, "items": PODS if path.endswith("/team/pods") else []})

    @staticmethod
    def log(path: str, previous: bool) -> httpx2.Response:
        if previous and "inspect" in path:
            status = {"kind": "Status", "reason": "BadRequest", "message": "previous terminated container not found"}
            return httpx2.Response(400, json=status)
        word = "before" if previous else "now"
        return httpx2.Response(200, text=f"{word}: login with {PLANTED} failed\nAuthorization: Bearer abcdef123\n")


@pytest.fixture
def session():
    server = Server()
    access = token_access("https://api", "t", namespace="team")
    client = AsyncClient(access, transport=httpx2.MockTransport(server.handle))
    options = Namespace(name="qwen", tail=5)
    return SimpleNamespace(client=client, namespace="team", options=options, now=lambda: NOW, server=server)


async def test_logs_of_every_container_are_there_without_their_secrets(session):
    """The value that stands under HF_TOKEN in the spec is gone from the log lines that repeat it."""
    bundle = await collect(session, "qwen")
    assert PLANTED in str(bundle.files())
    files = bundle.redacted().files()
    assert {"qwen-1.server.log", "qwen-1.server.previous.log", "qwen-inspect.inspect.log"} <= files.keys()
    assert "qwen-inspect.inspect.previous.log" not in files
    assert files["qwen-1.server.log"].startswith("now: login with [redacted] failed\n")
    assert "17" in files["service.yaml"]
    for secret in (PLANTED, "abcdef123"):
        assert secret not in str(files)


async def test_a_download_that_services_share_is_in_the_report(session):
    """Its Job and its log, though neither bears the service's name."""
    files = (await collect(session, "qwen")).redacted().files()
    assert "a-download-1.download.log" in files
    assert "a-download" in files["jobs.yaml"]
    assert [files["pods.yaml"].count(f"name: {name}\n") for name in ("qwen-1", "a-download-1")] == [1, 1]


async def test_secrets_are_never_asked_for(session):
    """Nor ConfigMaps: what is not read cannot leak."""
    await collect(session, "qwen")
    assert [path for path in session.server.asked if "secret" in path or "configmap" in path] == []


async def test_what_may_not_be_read_is_reported(session):
    """An incomplete report says so itself."""
    files = (await collect(session, "qwen")).files()
    assert "ingresses: cannot list ingresses" in files["missing.txt"]


async def test_no_service_no_report(session):
    with pytest.raises(NotFoundError):
        await collect(session, "nobody")


def test_the_archive_is_its_owners_alone(tmp_path):
    """Whoever shares the machine does not read it; a folder that is not there is one sentence."""
    file = tmp_path / "report.tar.gz"
    file.write_text("an older one")
    write(file, {"a.txt": "text"}, NOW)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with tarfile.open(file) as archive:
        assert archive.getnames() == ["report/a.txt"]
        assert archive.extractfile("report/a.txt").read() == b"text"
    with pytest.raises(InvalidError, match="cannot be written: No such file or directory"):
        write(tmp_path / "nowhere" / "x", {}, NOW)
