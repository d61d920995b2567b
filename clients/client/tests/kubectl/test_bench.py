"""`kubectl windlass bench`: its Job, and what is done with it, against an API server that answers from a table."""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
import yaml
from windlass_base.kube.errors import ClientError, InvalidError
from windlass_client import AsyncClient, bench_job, token_access
from windlass_client.bench_archive import MARK
from windlass_kubectl import bench
from windlass_kubectl.parser import parser

GOLDEN = Path(__file__).parents[4] / "operator/tests/golden/deployment-all-fields.yaml"
SERVICE: dict[str, Any] = {
    "apiVersion": "serving.windlass.dev/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "qwen", "namespace": "team", "uid": "u1"},
    "spec": {"model": {"id": "m"}, "expose": {"apiKeysSecret": "keys"}},
}


def served() -> dict[str, Any]:
    """A pod as the operator's Deployment makes it."""
    template = yaml.safe_load(GOLDEN.read_text())["spec"]["template"]
    return {"metadata": {"name": "qwen-1"}, "spec": template["spec"], "status": {"phase": "Running"}}


def made(**wanted: Any) -> dict[str, Any]:
    return bench_job.job(SERVICE, served(), bench_job.Wanted(("--concurrency", "1,10"), **wanted), "abc123")


def test_the_job_has_the_pods_image_and_model_and_no_gpu():
    """Not its license token, its caches or its place on a GPU node."""
    document = made()
    pod = document["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    server = served()["spec"]["containers"][0]
    assert container["image"] == server["image"]
    assert container["securityContext"] == server["securityContext"]
    assert container["args"] == [
        "--server=http://qwen.team.svc:8501",
        "--tokenizer=/data/model",
        "--output-dir=/tmp/bench",
        "--print-archive",
        "--concurrency",
        "1,10",
    ]
    assert [one["name"] for one in pod["volumes"]] == ["model", "tmp"]
    assert "nvidia" not in json.dumps(container["resources"])
    assert "nodeSelector" not in pod
    assert pod["automountServiceAccountToken"] is False
    assert document["spec"]["backoffLimit"] == 0
    assert document["metadata"]["ownerReferences"][0]["uid"] == "u1"


def test_keys_are_mounted_and_never_read():
    """The Job names the Secret; its key is in no argument and no variable."""
    pod = made(secret="keys/alice")["spec"]["template"]["spec"]
    assert pod["volumes"][1] == {
        "name": "keys",
        "secret": {"secretName": "keys", "items": [{"key": "alice", "path": "alice"}]},
    }
    assert f"--token-file={bench_job.KEYS}" in pod["containers"][0]["args"]


def test_a_service_is_not_selected_by_the_jobs_labels():
    """A Job's pod with the labels of a server would be sent requests, and pruned by the operator."""
    labels = made()["spec"]["template"]["metadata"]["labels"]
    selector = yaml.safe_load(GOLDEN.read_text())["spec"]["selector"]["matchLabels"]
    assert not selector.items() & labels.items()
    assert "app.kubernetes.io/managed-by" not in labels


@pytest.mark.parametrize("word", ["--server=http://x", "--token", "--output-dir=/x"])
def test_what_the_plug_in_sets_is_refused(word: str):
    with pytest.raises(InvalidError, match="is set by kubectl windlass bench"):
        bench.check([word])


def test_words_behind_two_dashes_are_the_benchmarks():
    """Options of both programs may have the same name."""
    seen = parser().parse_args(["bench", "demo", "-o", "json", "--", "--name", "x"])
    assert (seen.name, seen.output, seen.behind) == ("demo", "json", ["--name", "x"])
    assert parser().parse_args(["chat", "demo", "--", "-x"]).prompt == "-x"


def archive_of(files: dict[str, bytes]) -> list[str]:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    text = base64.b64encode(out.getvalue()).decode()
    return [f"{MARK}{text}", f"{MARK}sha256={hashlib.sha256(out.getvalue()).hexdigest()}"]


class Cluster:
    """The paths that the command asks; the Job's pod ends with a code and a log."""

    def __init__(self, log: list[str], code: int = 0) -> None:
        self.log, self.code, self.asked = log, code, []
        self.waiting: list[dict[str, Any]] = []

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append((request.method, request.url.path, request.url.params.get("labelSelector", "")))
        if request.url.path.endswith("/log"):
            return httpx2.Response(200, text="".join(f"{line}\n" for line in self.log))
        if request.url.path.endswith("/pods"):
            return httpx2.Response(200, json={"items": [self._pod(request.url.params["labelSelector"])]})
        return httpx2.Response(200, json=SERVICE if "llmservices" in request.url.path else {})

    def _pod(self, selector: str) -> dict[str, Any]:
        if "job-name" not in selector:
            return served()
        if self.waiting:
            return {"metadata": {"name": "p"}, "status": self.waiting.pop(0)}
        state = {"terminated": {"exitCode": self.code}}
        return {"metadata": {"name": "p"}, "status": {"phase": "Succeeded", "containerStatuses": [{"state": state}]}}

    @property
    def methods(self) -> list[str]:
        return [f"{method} {path.rsplit('/', 1)[-1][:4]}" for method, path, _ in self.asked if method != "GET"]


def session(cluster: Cluster, *words: str, handler: Callable[..., Any] | None = None) -> Any:
    """The command's own options, over the table."""
    options = parser().parse_args(["bench", "qwen", *words])
    transport = httpx2.MockTransport(handler or cluster.answer)
    client = AsyncClient(token_access("https://api", "t", namespace="team"), transport=transport)

    class Fake:
        namespace = "team"
        is_text = options.output == "text"

        def __init__(self) -> None:
            self.notes: list[str] = []
            self.printed: list[Any] = []
            self.options, self.client = options, client

        def note(self, text: str) -> None:
            self.notes.append(text)

        def data(self, text: str, end: str = "\n") -> None:
            self.printed.append(text)

        def emit(self, document: dict[str, Any]) -> None:
            self.printed.append(document)

    return Fake()


FILES = {"summary.csv": b"Test name,Successful requests\nrow,6\n", "summary.txt": b"block\n", "report.html": b"<html>"}


def test_the_folder_comes_back_and_the_job_goes(tmp_path: Path):
    """Progress is on standard error, the archive's lines are not."""
    cluster = Cluster(["windlass: run 1 of 1", *archive_of(FILES)])
    one = session(cluster, "--out", str(tmp_path / "out"), "-o", "json")
    assert asyncio.run(bench.run(one)) == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == FILES
    assert one.printed[0]["runs"] == [{"Test name": "row", "Successful requests": "6"}]
    assert "windlass: run 1 of 1" in one.notes
    assert not any(MARK in note for note in one.notes)
    assert cluster.methods == ["POST jobs", "DELETE qwen"]


def test_a_failed_benchmark_ends_with_1_and_keeps_what_came(tmp_path: Path):
    """Runs before the failure are in the folder."""
    cluster = Cluster([*archive_of(FILES), "windlass: the server ended"], code=1)
    assert asyncio.run(bench.run(session(cluster, "--out", str(tmp_path / "out")))) == 1
    assert (tmp_path / "out/report.html").is_file()


def test_a_log_without_results_is_an_error(tmp_path: Path):
    """The Job is deleted all the same."""
    cluster = Cluster(["nothing"])
    with pytest.raises(ClientError, match="without results"):
        asyncio.run(bench.run(session(cluster, "--out", str(tmp_path / "out"))))
    assert cluster.methods[-1] == "DELETE qwen"


def test_a_kept_job_is_not_deleted(tmp_path: Path):
    cluster = Cluster(archive_of(FILES))
    asyncio.run(bench.run(session(cluster, "--out", str(tmp_path / "out"), "--keep")))
    assert cluster.methods == ["POST jobs"]


def test_an_interruption_deletes_the_job(tmp_path: Path):
    """As Ctrl-C does: the task is cancelled while the log is read; --keep is of whole runs."""
    cluster = Cluster([])

    async def interrupted() -> None:
        reading = asyncio.Event()

        async def handler(request: httpx2.Request) -> httpx2.Response:
            if request.url.path.endswith("/log"):
                reading.set()
                await asyncio.Event().wait()
            return await cluster.answer(request)

        one = session(cluster, "--out", str(tmp_path / "out"), "--keep", handler=handler)
        task = asyncio.create_task(bench.run(one))
        await reading.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())
    assert cluster.methods == ["POST jobs", "DELETE qwen"]


def test_why_the_pod_waits_is_noted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A pull that fails, a cluster without room."""
    monkeypatch.setattr(bench, "LOOK_S", 0.0)
    cluster = Cluster(archive_of(FILES))
    full = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: insufficient cpu"}
    cluster.waiting = [{"conditions": [full]}, {"conditions": [full]}]
    one = session(cluster, "--out", str(tmp_path / "out"))
    assert asyncio.run(bench.run(one)) == 0
    assert sum("insufficient cpu" in note for note in one.notes) == 1


def test_quantities_and_minutes_are_checked():
    """Before anything is made."""
    assert parser().parse_args(["bench", "x", "--cpu", "500m", "--minutes", "5"]).minutes == 5
    with pytest.raises((SystemExit, argparse.ArgumentError)):
        parser().parse_args(["bench", "x", "--memory", "much"])


KEYED = ({"apiKeysSecret": "keys"}, {"apiKeysSecret": "", "apiKeysSecretRef": {"name": "keys"}})


@pytest.mark.parametrize("expose", KEYED)
def test_the_keys_are_the_services_in_either_form(expose):
    """As if the caller had named the Secret."""
    rest = {"tokenizer": "", "cpu": "1", "memory": "1Gi", "minutes": 1}
    unnamed, named = (SimpleNamespace(options=SimpleNamespace(key_from_secret=key, **rest)) for key in ("", "keys"))
    found = bench._wanted(unnamed, {"spec": {"expose": expose}}, ())
    assert found == bench._wanted(named, {"spec": {}}, ())
    assert found != bench._wanted(unnamed, {"spec": {}}, ())
