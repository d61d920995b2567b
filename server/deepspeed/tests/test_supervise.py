"""`run` as a process: license before engine, facts as the vLLM server has them, the reason of a failure left behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from windlass_deepspeed.errors import UsageError
from windlass_deepspeed.flags import resolve
from windlass_deepspeed.supervise import enough, shown
from windlass_operator.status import facts as operator
from windlass_testbed.ports import free_port
from windlass_testbed.waiting import wait_until

MODEL = Path(__file__).parents[3] / "models" / "demo"
DEADLINE_S = 120
ENGINE = """
import http.server, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""
# The command itself, but for the engine, which needs torch.
RUN = """
import sys
from windlass_deepspeed import cli, supervise
engine = sys.argv.pop(1)
supervise.engine_command = lambda argv: (sys.executable, "-c", engine, *argv)
cli.main()
"""


class LicenseServer:
    """Refuses until it is told otherwise; keeps what it was asked."""

    def __init__(self) -> None:
        self.grants = False
        self.asked: list[tuple[str, dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                outer.asked.append(("POST", json.loads(self.rfile.read(length))))
                granted = {"lease": "L1", "ttlSeconds": 60, "graceSeconds": 60, "message": "granted"}
                refused = {"reason": "NoLicense", "message": "no license is in force"}
                self.answer(200 if outer.grants else 403, granted if outer.grants else refused)

            def do_DELETE(self) -> None:
                outer.asked.append(("DELETE", {}))
                self.answer(204, {})

            def answer(self, status: int, body: dict[str, Any]) -> None:
                content = json.dumps(body).encode() if status != 204 else b""
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def license_server() -> Iterator[LicenseServer]:
    server = LicenseServer()
    thread = Thread(target=server.http.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A machine with one GPU, and a place for the last words."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA L20 (UUID: GPU-a)'\n")
    smi.chmod(0o755)
    (tmp_path / "last").touch()
    said = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "WINDLASS_TERMINATION_LOG": str(tmp_path / "last")}
    return {**os.environ, **said, "WINDLASS_FACTS_PORT": str(free_port()), "WINDLASS_SERVICE": "qwen"}


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", RUN, ENGINE, "run", *words]


def facts(environment: dict[str, str]) -> dict[str, Any]:
    with contextlib.suppress(OSError):
        url = f"http://127.0.0.1:{environment['WINDLASS_FACTS_PORT']}/windlass/facts"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            return dict(json.load(answer))
    return {}


def test_license_then_engine_then_release(license_server: LicenseServer, environment: dict[str, str]) -> None:
    """The refusal is waited out without an engine; the facts are what the operator reads of either image."""
    port = free_port()
    environment |= {"WINDLASS_LS_ADDR": license_server.url, "WINDLASS_POD_UID": "uid-1"}
    words = command("--model-path", str(MODEL), "--port", str(port), "--api-keys", "secret")
    with subprocess.Popen(words, env=environment) as process:
        try:
            wait_until(lambda: facts(environment).get("license", {}).get("state") == "refused")
            found = facts(environment)
            assert (found["phase"], found["engine"]["name"]) == ("license", "deepspeed")
            assert "secret" not in json.dumps(found)
            seen = operator.parse("qwen-0", found)
            assert seen is not None
            verdict = operator.license_verdict([seen], "2026-01-01T00:00:00Z")
            assert verdict is not None
            assert (verdict.reason, verdict.message) == ("LicenseMissing", "GPU GPU-a: no license is in force")
            license_server.grants = True
            wait_until(lambda: facts(environment)["phase"] == "serving")
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()
    body = license_server.asked[0][1]
    assert (body["gpus"], body["holder"]["uid"], body["holder"]["service"]) == (["GPU-a"], "uid-1", "qwen")
    assert license_server.asked[-1][0] == "DELETE"


@pytest.mark.parametrize(
    ("words", "variables", "code", "reason", "said"),
    [
        ((), {"WINDLASS_LICENSE_WAIT": "0"}, 4, "LicenseRefused", "GPU GPU-a: no license server answers"),
        (("--model-path", "/no/model"), {}, 3, "ModelMissing", "/no/model"),
        (("--num-gpus", "x"), {}, 2, "BadFlag", "--num-gpus"),
        ((), {"WINDLASS_LS_ADDR": "ftp://a"}, 2, "BadFlag", "variable WINDLASS_LS_ADDR"),
    ],
    ids=["license", "model", "flag", "address"],
)
def test_last_words(
    words: tuple[str, ...], variables: dict[str, str], code: int, reason: str, said: str, environment: dict[str, str]
) -> None:
    """One sentence, a code of its own, and the reason where Kubernetes looks for it."""
    environment |= {"WINDLASS_LS_ADDR": "127.0.0.1:9", **variables}
    line = command("--model-path", str(MODEL), *words)
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    left = json.loads(Path(environment["WINDLASS_TERMINATION_LOG"]).read_text())
    assert (done.returncode, left["reason"], left["exitCode"]) == (code, reason, code)
    assert said in left["message"]
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--api-keys", "a,b", "--port", "1"), ("--api-keys", "***", "--port", "1")),
        (("--api_key=a",), ("--api_key=***",)),
        (("--dtype", "auto"), ("--dtype", "auto")),
    ],
)
def test_keys_are_not_shown(words: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """However they are written."""
    assert expected == shown(words)


@pytest.mark.parametrize(("words", "gpus"), [("--num-gpus 2", 2), ("--num-gpus 2 --worker-num 2", 4), ("", 0)])
def test_enough_gpus(words: str, gpus: int) -> None:
    """GPUs are those of one engine times the engines; a container for the CPU has none and needs none."""
    enough(resolve(tuple(words.split()), {}), gpus)


def test_too_few_gpus_end_the_start() -> None:
    """Before a license is asked for."""
    with pytest.raises(UsageError, match="--num-gpus 2 and --worker-num 2 need 4 GPUs, and this container has 2; "):
        enough(resolve(("--num-gpus", "2", "--worker-num", "2"), {}), 2)
