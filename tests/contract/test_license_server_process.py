"""The real `windlass-license` process from key to refusal, with the bytes that curl sends, as the manual does it."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from windlass_testbed.ports import free_port
from windlass_testbed.waiting import wait_until

LISTING = "GPU 0: L20 (UUID: GPU-0)\r\nGPU 1: L20 (UUID: GPU-1)\r\n\r\nGPU 0: L20 (UUID: GPU-2)\r\n"
PROGRAM = shutil.which("windlass-license", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
TOKEN = "s3cret"
DEADLINE_S = 60


def run(*arguments: str | Path) -> str:
    """Run one command of the program; its standard output."""
    assert PROGRAM is not None
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


@dataclass
class Reply:
    """Status and text of an answer."""

    status: int
    text: str


@dataclass
class Server:
    """A started process and where it listens."""

    process: subprocess.Popen[str]
    url: str

    def call(self, path: str, data: bytes | None = None, method: str | None = None, **headers: str) -> Reply:
        """One request with the standard library only."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data, named, method=method)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return Reply(answer.status, answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, error.read().decode())

    def upload(self, file: Path, token: str | None = TOKEN) -> Reply:
        """What `curl -F file=@FILE -H "Authorization: Bearer …"` puts on the wire."""
        edge = "------------------------d74496d66958873e"
        disposition = f'Content-Disposition: form-data; name="file"; filename="{file.name}"'
        head = f"--{edge}\r\n{disposition}\r\nContent-Type: application/octet-stream\r\n\r\n"
        body = head.encode() + file.read_bytes() + f"\r\n--{edge}--\r\n".encode()
        headers = {"Content_Type": f"multipart/form-data; boundary={edge}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self.call("/ls", body, **headers)

    def lease(self, uid: str, *gpus: str) -> tuple[int, dict[str, object]]:
        """Ask for GPUs as the pod `uid`."""
        body = {"gpus": gpus, "holder": {"namespace": "demo", "pod": f"pod-{uid}", "uid": uid, "service": "qwen"}}
        reply = self.call("/v1/leases", json.dumps(body).encode(), Content_Type="application/json")
        return reply.status, json.loads(reply.text)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> str:
        """End the process by its id; what it wrote to standard output."""
        self.process.send_signal(how)
        out, _ = self.process.communicate(timeout=DEADLINE_S)
        return out


def start(shop: Path, port: int) -> Server:
    """Start the server on the shop's key and data, and wait for the greeting."""
    assert PROGRAM is not None
    where = ["--host", "127.0.0.1", "--port", str(port), "--data", str(shop / "data")]
    command = [PROGRAM, "serve", *where, "--public-key", str(shop / "keys" / "public.pem")]
    environment = {**os.environ, "WINDLASS_LICENSE_ADMIN_TOKEN": TOKEN, "WINDLASS_LICENSE_LEASE_AUTH": "none"}
    with (shop / "server.log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    server = Server(process, f"http://127.0.0.1:{port}")

    def greets() -> bool:
        with suppress(urllib.error.URLError):
            assert server.call("/").text == "windlass license server\n"
            return True
        return False

    if wait_until(lambda: process.poll() is not None or greets()) and process.poll() is None:
        return server
    server.stop(signal.SIGKILL)
    raise AssertionError(f"the server did not come up: {(shop / 'server.log').read_text()}")


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with keys/ and an issued license.dat: three GPUs, two at a time."""
    folder = tmp_path_factory.mktemp("issued")
    run("keygen", "--out", folder / "keys")
    (folder / "request.txt").write_text(LISTING, newline="")
    terms = ["--customer", "leolingli", "--appid", "1234", "--expires", "2100-01-01T00:00:00+08:00"]
    limits = ["--max-concurrent", "2", "--key", folder / "keys" / "private.pem", "--out", folder / "license.dat"]
    run("issue", "--gpus", folder / "request.txt", *terms, *limits)
    return folder


@pytest.fixture
def shop(issued: Path, tmp_path: Path) -> Path:
    """A copy of it for the test, and the server's data beside it."""
    return Path(shutil.copytree(issued, tmp_path / "shop"))


@pytest.fixture
def port() -> int:
    """Where the server of the test listens."""
    return free_port()


@pytest.fixture
def server(shop: Path, port: int) -> Iterator[Server]:
    """A running server without a license."""
    server = start(shop, port)
    yield server
    if server.process.poll() is None:
        server.stop()


def test_from_key_to_refusal(server: Server, shop: Path) -> None:
    """keygen → issue → upload → view → lease → refuse, then stopped with its audit log on standard output."""
    assert server.lease("a", "GPU-0")[1]["reason"] == "NoLicense"
    assert server.upload(shop / "license.dat", token=None).status == 401
    uploaded = server.upload(shop / "license.dat")
    assert (uploaded.status, uploaded.text.split(": ")[0]) == (200, "license file successfully uploaded")

    open_view = server.call("/ls/view").text
    assert "GPU-0" not in open_view
    assert [info["count"] for info in yaml.safe_load(open_view)["gpuinfos"]] == [3]
    seen = yaml.safe_load(server.call("/ls/view", Authorization=f"Bearer {TOKEN}").text)
    assert (seen["appid"], seen["customer"], seen["accesslimit"]) == ("1234", "leolingli", 2)
    assert [info["uuid"] for info in seen["gpuinfos"]] == ["GPU-0", "GPU-1", "GPU-2"]

    status, granted = server.lease("a", "GPU-0", "GPU-1")
    assert (status, granted["state"], granted["ttlSeconds"], granted["expired"]) == (200, "granted", 60, False)
    assert server.lease("a", "GPU-1", "GPU-0")[1]["lease"] == granted["lease"]
    status, refused = server.lease("b", "GPU-2")
    assert (status, refused["reason"]) == (403, "LimitReached")
    assert "in use by 1 pod; demo/pod-b asks" in str(refused["message"])
    assert server.lease("b", "GPU-9")[1]["gpus"] == ["GPU-9"]

    assert server.call(f"/v1/leases/{granted['lease']}", method="DELETE").status == 204
    assert server.lease("b", "GPU-2")[1]["state"] == "granted"

    records = [json.loads(line) for line in server.stop().splitlines()]
    expected = ["refused", "uploaded", "granted", "refused", "refused", "released", "granted"]
    assert expected == [record["event"] for record in records]


def test_kill_loses_nothing(server: Server, shop: Path, port: int) -> None:
    """After kill -9 the next process has the license, the lease and the audit log."""
    server.upload(shop / "license.dat")
    _, granted = server.lease("a", "GPU-0", "GPU-1")
    server.stop(signal.SIGKILL)

    again = start(shop, port)
    try:
        assert again.lease("b", "GPU-2")[1]["reason"] == "LimitReached"
        renewed = again.lease("a", "GPU-0", "GPU-1")[1]
        assert (renewed["state"], renewed["lease"]) == ("renewed", granted["lease"])
        audit = again.call("/ls/audit", Authorization=f"Bearer {TOKEN}").text.splitlines()
        assert [json.loads(line)["event"] for line in audit] == ["uploaded", "granted", "refused"]
    finally:
        again.stop()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_second_process_stands_by(how: signal.Signals, server: Server, shop: Path) -> None:
    """On the same data it is not ready and grants nothing; when the first ends, in whatever way, it goes on."""
    server.upload(shop / "license.dat")
    _, granted = server.lease("a", "GPU-0", "GPU-1")
    second = start(shop, free_port())
    try:
        assert (second.call("/readyz").status, second.call("/healthz").status) == (503, 200)
        status, answer = second.lease("b", "GPU-2")
        assert (status, answer["reason"]) == (503, "StandBy")
        assert f"active is process {server.process.pid}" in str(answer["message"])
        server.stop(how)
        wait_until(lambda: second.call("/readyz").status == 200, "the stand-by's turn")
        assert second.lease("b", "GPU-2")[1]["reason"] == "LimitReached"
        renewed = second.lease("a", "GPU-0", "GPU-1")[1]
        assert (renewed["state"], renewed["lease"]) == ("renewed", granted["lease"])
    finally:
        second.stop()


def test_a_paused_process_keeps_its_seat(server: Server, shop: Path) -> None:
    """Without a cluster a paused process looks like a slow one: the stand-by waits, and no seat is given twice."""
    server.upload(shop / "license.dat")
    second = start(shop, free_port())
    server.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(2.5)  # clock: it asks for the seat each second; a slow machine asks less often
        assert second.call("/readyz").status == 503
    finally:
        server.process.send_signal(signal.SIGCONT)
        second.stop()
    assert server.lease("a", "GPU-0")[1]["state"] == "granted"


def test_a_full_disk(server: Server, shop: Path) -> None:
    """What cannot be kept is not granted, and is not believed later; with room again the server goes on."""
    server.upload(shop / "license.dat")
    _, granted = server.lease("a", "GPU-0")
    full = max(file.stat().st_size for file in (shop / "data").iterdir())
    _, unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
    status, answer = server.lease("b", "GPU-1")
    assert (status, answer["reason"]) == (503, "StoreFailed")
    assert "look at its volume" in str(answer["message"])
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
    assert server.lease("a", "GPU-0")[1]["lease"] == granted["lease"]
    assert server.lease("c", "GPU-2")[1]["state"] == "granted"
    audit = server.call("/ls/audit?event=granted", Authorization=f"Bearer {TOKEN}").text.splitlines()
    assert [json.loads(line)["uid"] for line in audit] == ["a", "c"]


def test_a_tampered_file_changes_nothing(server: Server, shop: Path) -> None:
    """`verify` and the server say the same about a changed file, and the license in force stays."""
    server.upload(shop / "license.dat")
    bad = shop / "bad.dat"
    bad.write_bytes((shop / "license.dat").read_bytes().replace(b"Concurrent GPUs: 2", b"Concurrent GPUs: 9"))
    refused = server.upload(bad)
    assert refused.status == 400
    sentence = refused.text.removeprefix("license file refused, nothing changed: ").strip()
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run("verify", bad, "--public-key", shop / "keys" / "public.pem")
    assert (caught.value.returncode, sentence in caught.value.stderr) == (1, True)
    assert server.lease("a", "GPU-0")[1]["state"] == "granted"
