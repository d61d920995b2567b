"""`make upgrade-licenses`: the license servers of 0.1.0 and of this release in turn on one folder, and back, twice.

Real processes over HTTP: 0.1.0's code is a git archive of its commit. In each turn another pod leases and releases, and
one is refused, so that either server reads the other's records of every event. Ends with 1 where a lease was granted
anew instead of renewed, an audit record was lost or not written, or 0.1.0 signed an answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windlass_testbed import first_release, licensing
from windlass_testbed.paths import Paths, paths
from windlass_testbed.ports import free_port

UUID, SECOND = (f"GPU-{digit * 8}-2222-3333-4444-555555555555" for digit in "16")
UNLICENSED = "GPU-99999999-2222-3333-4444-555555555555"
POD = "qwen-0"
START_S = 60.0
OK = 200
SERVE = "import sys; from windlass_license.cli import main; sys.exit(main(sys.argv[1:]))"
EVENTS = {"granted", "released", "refused"}
TURNS = (("0.1.0", True), ("this release", False), ("0.1.0", True), ("this release", False))


def ask(url: str, body: bytes | None = None, kind: str = "application/json") -> tuple[int, str, list[str]]:
    """Status, body and the names of the headers."""
    request = urllib.request.Request(url, body, {"Content-Type": kind} if body else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode(), [name.lower() for name in answer.headers]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), [name.lower() for name in error.headers]


@contextmanager
def serving(where: Paths, data: Path, *, first: bool) -> Iterator[str]:
    """A server of either release on the folder; pods of 0.1.0 show no token."""
    port = free_port()
    source = {"PYTHONPATH": str(first_release.tree(where) / "license_server/src")} if first else {}
    words = ["serve", "--host", "127.0.0.1", "--port", str(port), "--data", str(data)]
    words += ["--public-key", str(licensing.signing_keys(where) / "public.pem")]
    words += [] if first else ["--lease-auth", "none"]
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-c", SERVE, *words]
        process = subprocess.Popen(command, env={**os.environ, **source}, stdout=log, stderr=log)
        try:
            yield _ready(process, f"http://127.0.0.1:{port}")
        except BaseException:
            log.seek(0)
            print(log.read()[-2000:])
            raise
        finally:
            process.terminate()
            process.wait(30)


def _ready(process: subprocess.Popen[bytes], url: str) -> str:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if ask(f"{url}/readyz")[0] == OK:
                return url
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"the license server at {url} did not become ready: exit code {process.poll()}")


def upload(url: str, file: Path) -> None:
    """As curl does."""
    mark = uuid.uuid4().hex
    head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="license.dat"\r\n\r\n'
    body = head.encode() + file.read_bytes() + f"\r\n--{mark}--\r\n".encode()
    status, text, _ = ask(f"{url}/ls", body, f"multipart/form-data; boundary={mark}")
    if status != OK:
        raise RuntimeError(f"the license was refused: {text}")


def lease(url: str, *, nonce: bool, gpu: str = UUID, pod: str = POD) -> tuple[int, dict[str, str], bool]:
    """Ask as a pod of 0.1.0 does, or as one of this release, with a nonce; whether the answer is signed."""
    holder = {"namespace": "team-a", "pod": pod, "uid": f"uid-{pod}", "service": "qwen"}
    body = {"gpus": [gpu], "holder": holder, **({"nonce": "ab" * 16} if nonce else {})}
    status, text, headers = ask(f"{url}/v1/leases", json.dumps(body).encode())
    return status, json.loads(text), "windlass-answer-signature" in headers


def others(url: str, turn: int, *, nonce: bool) -> set[str]:
    """Lease and release as one pod, be refused as another; the events of which the log has a record of these pods."""
    pods = (f"leaves-{turn}-{nonce}", f"refused-{turn}-{nonce}")
    _, granted, _ = lease(url, nonce=nonce, gpu=SECOND, pod=pods[0])
    urllib.request.urlopen(urllib.request.Request(f"{url}/v1/leases/{granted['lease']}", method="DELETE"), timeout=10)
    lease(url, nonce=nonce, gpu=UNLICENSED, pod=pods[1])
    records = [json.loads(line) for line in audit(url)]
    return {record["event"] for record in records if record.get("pod") in pods}


def audit(url: str) -> set[str]:
    """All records."""
    return set(ask(f"{url}/ls/audit?limit=10000")[1].splitlines())


def main() -> int:
    """The turns as a table; 1 where one was not as it shall be."""
    where, wrong, records, known = paths(), 0, set[str](), ""
    gpus = "".join(f"GPU {number}: NVIDIA L20 (UUID: {uuid})\n" for number, uuid in enumerate((UUID, SECOND)))
    license_file = first_release.issue(where, gpus, licensing.signing_keys(where) / "private.pem")
    print("| server | the pod asks as | answer | signed | the same lease | audit records | lost |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for turn, (name, first) in enumerate(TURNS):
            with serving(where, Path(folder), first=first) as url:
                if turn == 0:
                    upload(url, license_file)
                for nonce in (False, True):
                    status, answer, signed = lease(url, nonce=nonce)
                    same = not known or answer.get("lease") == known
                    known = known or str(answer.get("lease"))
                    wanted = "granted" if turn == 0 and not nonce else "renewed"
                    events = others(url, turn, nonce=nonce)
                    now = audit(url)
                    lost, records = len(records - now), now
                    bad = (status, answer.get("state"), same, lost, events) != (OK, wanted, True, 0, EVENTS)
                    wrong += bad or (first and signed)
                    pod = "0.2.0" if nonce else "0.1.0"
                    print(f"| {name} | {pod} | {answer.get('state')} | {signed} | {same} | {len(now)} | {lost} |")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
