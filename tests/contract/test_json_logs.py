"""JSON logs of the real programs: each line that they write parses, in one shape, without secrets."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from windlass_testbed.ports import free_port
from windlass_testbed.waiting import HANG_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
JSON = {"WINDLASS_LOG_FORMAT": "json"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
FIRST = ["time", "level", "logger", "message"]
NOWHERE = "http://127.0.0.1:9"
SECRET = "sk-not-to-be-read"
IMAGES = dict.fromkeys(("WINDLASS_SERVER_IMAGE", "WINDLASS_OPERATOR_IMAGE"), "windlass/x")
Record = dict[str, Any]


def program(name: str) -> str:
    """A console script of this environment."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert found is not None
    return found


def records(text: str) -> list[Record]:
    """Every line as a record of the documented shape."""
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        assert list(one)[:4] == FIRST
        assert TIME.fullmatch(one["time"])
        assert one["level"] in {"debug", "info", "warning", "error", "critical"}
        assert one["message"]
    return found


def run(words: list[str], env: Mapping[str, str], timeout: float = HANG_S) -> tuple[int, list[Record]]:
    """Run to the end; the exit code and all that was written."""
    environment = {**os.environ, **JSON, **env}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    return done.returncode, records(done.stdout + done.stderr)


def test_the_operator_that_misses_a_setting() -> None:
    """The sentence that ends it is a record, too."""
    env = dict.fromkeys(("WINDLASS_SERVER_IMAGE", "WINDLASS_SERVER_VERSION"), "")
    code, (record,) = run([program("windlass-operator"), "run"], env)
    assert (code, record["level"], record["logger"]) == (2, "error", "windlass_operator.run")
    assert record["message"].startswith("WINDLASS_SERVER_IMAGE is not set")


def test_the_operator_without_an_api_server(tmp_path: Path) -> None:
    """What it waits for is a record; its own level leaves out what is lower."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": NOWHERE}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
        "current-context": "c",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    ports = {"WINDLASS_METRICS_PORT": "0", "WINDLASS_HEALTH_PORT": "0"}
    env = {**os.environ, **JSON, **IMAGES, **ports, "WINDLASS_SERVER_VERSION": "1", "KUBECONFIG": f"{tmp_path}/config"}
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen([program("windlass-operator"), "run"], env=env, stdout=out, stderr=out)
    wait_until(lambda: "waiting" in log.read_text() or process.poll() is not None)
    process.terminate()
    process.wait(HANG_S)
    found = records(log.read_text())
    assert any("cannot list llmservices" in one["message"] and one["level"] == "warning" for one in found)
    assert SECRET not in log.read_text()


def test_an_operator_s_bug_is_a_record_with_its_traceback() -> None:
    """An exception that nobody catches, in the main thread or in another one."""
    script = (
        "import threading; from windlass_operator.runtime import log; log.start()\n"
        "def fail(): raise ValueError('token " + SECRET + "')\n"
        "one = threading.Thread(target=fail); one.start(); one.join(); fail()"
    )
    code, found = run([sys.executable, "-c", script], {"HUB_TOKEN": SECRET})
    assert (code, [one["message"] for one in found]) == (1, ["ValueError: token ***"] * 2)
    assert all(one["traceback"].startswith("Traceback (most recent call last):\n") for one in found)
    assert all(SECRET not in one["traceback"] for one in found)


def test_a_reconcile_s_records_name_its_service() -> None:
    """Namespace and name are fields of every record that is written during a reconcile."""
    script = """
import asyncio, logging
from windlass_operator.runtime import log
from windlass_operator.reconcile.snapshot import Key
from windlass_operator.runtime.queue import WorkQueue
log.start()
async def work(key):
    logging.getLogger("windlass_operator.cluster.client").info("read")
    raise RuntimeError("broken")
async def main():
    queue, ended = WorkQueue(), asyncio.Event()
    async def failed(key, error):
        ended.set()
    queue.add(Key("team-a", "qwen"))
    task = asyncio.create_task(queue.run(work, failed))
    await ended.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
asyncio.run(main())
"""
    _, (first, second) = run([sys.executable, "-c", script], {})
    assert [(one["namespace"], one["name"]) for one in (first, second)] == [("team-a", "qwen")] * 2
    assert (second["level"], "RuntimeError: broken" in second["traceback"]) == ("error", True)


def test_the_inspect_job(tmp_path: Path) -> None:
    """Its report is a field, and the records name the service."""
    words = [program("windlass-operator"), "inspect", "--root", str(tmp_path), "--path", "nope"]
    env = {"WINDLASS_SERVICE": "qwen", "WINDLASS_POD_NAMESPACE": "team-a"}
    code, (record,) = run([*words, "--termination-log", str(tmp_path / "end")], env)
    assert (code, record["namespace"], record["name"]) == (0, "team-a", "qwen")
    assert record["report"]["reason"] == "PathNotFound"
    code, (record,) = run([*words, "--termination-log", str(tmp_path / "no" / "end")], env)
    assert (code, record["level"]) == (1, "error")


def test_the_download_job(tmp_path: Path) -> None:
    """A hub out of reach, with a token that no line holds."""
    words = [program("windlass-download"), "--root", str(tmp_path), "--hub=huggingface", "--name=a/b"]
    more = [f"--endpoint={NOWHERE}", "--give-up-s=0", "--termination-log", str(tmp_path / "end")]
    code, found = run([*words, *more], {"WINDLASS_HUB_TOKEN": SECRET})
    assert (code, found[-1]["report"]["reason"]) == (1, "HubUnreachable")
    assert SECRET not in json.dumps(found)


def test_the_license_server(tmp_path: Path) -> None:
    """From the start over a refused upload and a license to the end: log and audit records in the one shape."""
    tool = program("windlass-license")
    keys, data, licence = tmp_path / "keys", tmp_path / "data", tmp_path / "license.dat"
    subprocess.run([tool, "keygen", "--out", keys], check=True, capture_output=True, timeout=60)
    (tmp_path / "gpus").write_text("GPU 0: L20 (UUID: GPU-0)\n")
    terms = ["--customer", "c", "--appid", "1", "--expires", "2100-01-01T00:00:00+00:00", "--max-concurrent", "1"]
    issue = [tool, "issue", "--gpus", tmp_path / "gpus", *terms, "--key", keys / "private.pem", "--out", licence]
    subprocess.run(issue, check=True, capture_output=True, timeout=60)
    port = free_port()
    env = {**os.environ, **JSON, "WINDLASS_LICENSE_ADMIN_TOKEN": SECRET, "WINDLASS_LICENSE_LEASE_AUTH": "none"}
    words = ["serve", "--host", "127.0.0.1", "--port", str(port), "--data", data, "--public-key", keys / "public.pem"]
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen([tool, *words], env=env, stdout=out, stderr=out)
    url = f"http://127.0.0.1:{port}"
    try:
        until_it_answers(url)
        assert [upload(url, body) for body in (b"no license", licence.read_bytes())] == [400, 200]
    finally:
        process.terminate()
        process.wait(30)
    text = log.read_text()
    found = records(text)
    assert {"uploadRefused", "uploaded"} <= {one.get("event") for one in found}
    assert any("trusting public keys" in one["message"] for one in found)
    assert SECRET not in text
    assert "Signature:" not in text
    assert licence.read_text().rpartition("Signature: ")[2].strip() not in text


def until_it_answers(url: str) -> None:
    """Wait for the server's start."""

    def answers() -> bool:
        with contextlib.suppress(urllib.error.URLError):
            urllib.request.urlopen(url, timeout=HANG_S).close()
            return True
        return False

    wait_until(answers, "the license server's start")


def upload(url: str, body: bytes) -> int:
    """The status of an upload."""
    head = '--edge\r\nContent-Disposition: form-data; name="file"; filename="license.dat"\r\n\r\n'
    body = head.encode() + body + b"\r\n--edge--\r\n"
    headers = {"Authorization": f"Bearer {SECRET}", "Content-Type": "multipart/form-data; boundary=edge"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/ls", body, headers), timeout=HANG_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_license_server_that_cannot_start(tmp_path: Path) -> None:
    """A start that fails before logging begins."""
    code, (record,) = run([program("windlass-license"), "serve", "--data", str(tmp_path)], {})
    assert (code, record["level"], record["logger"]) == (2, "error", "windlass_license")


@pytest.mark.parametrize(
    ("words", "logger"),
    [(["windlass", "run"], "windlass"), (["windlass-deepspeed", "run"], "windlass-deepspeed")],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_server_without_its_model(words: list[str], logger: str, tmp_path: Path) -> None:
    """The sentence that ends `run`, with the pod's fields."""
    env = {
        "WINDLASS_TERMINATION_LOG": str(tmp_path / "end"),
        "WINDLASS_FACTS_PORT": str(free_port()),
        "WINDLASS_SERVICE": "qwen",
        "WINDLASS_POD_NAMESPACE": "team-a",
        "OPENAI_API_KEYS": f"{SECRET},second-{SECRET}",
    }
    code, found = run([program(words[0]), *words[1:], "--model", str(tmp_path / "none")], env)
    assert code != 0
    last = found[-1]
    assert (last["level"], last["logger"], last["namespace"], last["name"]) == ("error", logger, "team-a", "qwen")
    assert SECRET not in json.dumps(found)


@pytest.mark.parametrize(
    ("words", "code"), [(["windlass", "run"], 2), (["windlass-deepspeed", "run"], 2), (["windlass-operator", "run"], 2)]
)
def test_a_wrong_format_is_named(words: list[str], code: int, tmp_path: Path) -> None:
    """One plain sentence with what to write."""
    env = {**os.environ, "WINDLASS_LOG_FORMAT": "jsn", "WINDLASS_TERMINATION_LOG": str(tmp_path / "end")}
    command = [program(words[0]), *words[1:]]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert 'variable WINDLASS_LOG_FORMAT is "jsn": use one of text, json' in done.stderr


ENGINE = """
import sys
print("(APIServer pid=7) INFO 11-25 04:00:00 [api_server.py:12] Received request cmpl-0123456789ab: key SECRET")
print("(EngineCore pid=8) ERROR 11-25 04:00:01 [core.py:9] Traceback (most recent call last):")
print("(APIServer pid=7) INFO:     127.0.0.1:1 - GET / 200")
print('(EngineCore pid=8) ERROR 11-25 04:00:01 [core.py:9]   File "core.py", line 9, in run')
print("(EngineCore pid=8) ERROR 11-25 04:00:01 [core.py:9] ValueError: no blocks")
sys.stdout.write("half a line")
sys.exit(3)
"""


def test_the_engine_s_lines(tmp_path: Path) -> None:
    """A real supervisor with a child that writes as vLLM does: every line an object, a traceback one record."""
    script = f"""
import asyncio, os, sys
from windlass import log
from windlass.supervisor.board import EngineFacts, FactsBoard
from windlass.supervisor.supervise import Engine, Supervisor
log.start(os.environ)
engine = Engine((sys.executable, "-c", {ENGINE.replace("SECRET", SECRET)!r}), "{NOWHERE}/health")
log.say("starting")
async def main():
    await Supervisor(engine, FactsBoard("q", EngineFacts("vllm", "0", ())), None).run()
try:
    asyncio.run(main())
except Exception as error:
    log.say(str(error), 40)
"""
    code, found = run([sys.executable, "-c", script], {"OPENAI_API_KEYS": SECRET})
    engine = [one for one in found if one["logger"] == "engine"]
    assert code == 0
    assert engine[0]["message"] == "Received request cmpl-0123456789ab: key ***"
    facts = (engine[0]["process"], engine[0]["source"], engine[0]["request_id"])
    assert facts == ("APIServer pid=7", "api_server.py:12", "cmpl-0123456789ab")
    (failed,) = (one for one in engine if "traceback" in one)
    assert (failed["level"], failed["message"]) == ("error", "ValueError: no blocks")
    assert failed["traceback"].splitlines()[1:] == ['  File "core.py", line 9, in run', "ValueError: no blocks"]
    assert engine[-1]["message"] == "half a line"
    (last,) = (one for one in found if one["logger"] == "windlass" and one["level"] == "error")
    assert last["message"] == "the engine ended with exit code 3: ValueError: no blocks"
