"""The command as a process: counters before and after, children, Ctrl-C. The child is a stand-in that keeps its words.

tests/engine/bench/test_bench_serve.py has vLLM's own client and server.
"""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .samples import RESULT

CLIENT = f"""\
import json, os, pathlib, signal, sys


def main():
    words = dict(zip(sys.argv, sys.argv[1:]))
    if "--result-dir" not in words:
        sys.exit(0)
    folder = pathlib.Path(words["--result-dir"])
    folder.mkdir(parents=True)
    (folder / "key").write_text(os.environ.get("OPENAI_API_KEY", ""))
    many = words.get("--max-concurrency")
    if many == "7":
        sys.exit(3)
    if many == "8":
        print("waiting", os.getpid(), flush=True)
        signal.pause()
    failed = {{"completed": 0, "failed": 4}} if many == "9" else {{}}
    (folder / "result.json").write_text(json.dumps({RESULT!r} | failed))
"""


class Engine(BaseHTTPRequestHandler):
    """Names a model, and counts 1,600 generated tokens between two looks."""

    looks = 0
    keys: set[str | None]

    def do_GET(self) -> None:
        """/v1/models and /metrics."""
        type(self).keys.add(self.headers.get("Authorization"))
        if self.path == "/metrics":
            type(self).looks += 1
            body = f"vllm:generation_tokens_total {1600.0 * self.looks}\nvllm:prefix_cache_queries_total 1\n"
        else:
            body = json.dumps({"data": [{"id": "demo"}]})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def engine() -> Iterator[str]:
    """A server's address."""
    Engine.looks, Engine.keys = 0, set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.fixture
def command(tmp_path: Path, engine: str) -> list[str]:
    """Words of a benchmark, without its concurrency."""
    for folder in ("vllm", "vllm/entrypoints", "vllm/entrypoints/cli", "model"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "vllm/entrypoints/cli/main.py").write_text(CLIENT)
    (tmp_path / "model/tokenizer.json").write_text("{}")
    words = ["-m", "windlass.cli.main", "bench", "serve", "--server", engine, "--tokenizer", str(tmp_path / "model")]
    return [sys.executable, *words, "--output-dir", str(tmp_path / "out"), "--concurrency"]


def variables(folder: Path, **more: str) -> dict[str, str]:
    """With the stand-in on Python's path, and a key of another service."""
    return {**os.environ, "PYTHONPATH": str(folder), "OPENAI_API_KEY": "another's", **more}


def ended(command: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=variables(folder, **more), capture_output=True, text=True, check=False, timeout=60
    )


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "out/summary.csv").open() as lines:
        return list(csv.DictReader(lines))


def test_a_sweep_fills_the_folder(command: list[str], tmp_path: Path) -> None:
    """A result a run, vLLM's own fields untouched; tables and the page of all; the exact commands, without the key."""
    done = ended([*command, "1,4", "--warmup", "2"], tmp_path, WINDLASS_API_KEY="s3cret")
    out = tmp_path / "out"
    assert (done.returncode, "windlass: run 2 of 2: 02-concurrency-4" in done.stderr) == (0, True), done.stderr
    assert json.loads((out / "02-concurrency-4/result.json").read_text()) == RESULT
    assert json.loads((out / "02-concurrency-4/counters.json").read_text())["generation_tokens"] == 1600
    assert [(row["Maximum concurrency"], row["Name"].endswith("_demo")) for row in rows(tmp_path)] == [
        ("1", True),
        ("4", True),
    ]
    assert (out / "summary.txt").read_text().count("Serving Benchmark Result") == 2
    assert (out / "report.html").read_text().count("<svg") == 3
    said = (out / "commands.txt").read_text()
    assert [line.split()[1] for line in said.splitlines()[:5]] == ["started", "windlass", "vllm", "python", "platform"]
    assert (said.count(" bench serve "), "s3cret" in said + done.stderr + done.stdout) == (3, False)
    assert (Engine.keys, (out / "01-concurrency-1/key").read_text()) == ({"Bearer s3cret"}, "s3cret")


def test_another_services_key_is_not_sent(command: list[str], tmp_path: Path) -> None:
    """vLLM's client would take OPENAI_API_KEY as it stands."""
    assert ended([*command, "1"], tmp_path).returncode == 0
    assert ((tmp_path / "out/01-concurrency-1/key").read_text(), Engine.keys) == ("", {None})


@pytest.mark.parametrize(
    ("concurrency", "said", "kept"),
    [
        ("1,7,4", "windlass: vLLM's load generator ended with code 3; its words are above", 1),
        ("1,9,4", "windlass: no request of 02-concurrency-9 was answered", 2),
    ],
)
def test_a_run_that_fails_ends_the_sweep(
    command: list[str], tmp_path: Path, concurrency: str, said: str, kept: int
) -> None:
    """With code 1; what ended before stays."""
    done = ended([*command, concurrency], tmp_path)
    assert (done.returncode, said in done.stderr, len(rows(tmp_path))) == (1, True, kept), done.stderr


def test_interrupted(command: list[str], tmp_path: Path) -> None:
    """Ctrl-C ends the child too, and keeps the runs that have ended."""
    words = ["env", "--default-signal=INT", *command, "1,8,4"]  # a job in the background ignores it from its birth
    with subprocess.Popen(words, env=variables(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        word, _, child = process.stdout.readline().partition(" ")
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    assert (word, code, [row["Folder"] for row in rows(tmp_path)]) == ("waiting", 130, ["01-concurrency-1"])
    with pytest.raises(ProcessLookupError):
        os.kill(int(child), 0)


def test_without_vllm(command: list[str], tmp_path: Path) -> None:
    """One sentence, before a server is asked or a folder made."""
    said = "windlass: windlass bench serve needs vLLM's load generator"
    blocker = """if True:
        import importlib.util
        there = importlib.util.find_spec
        importlib.util.find_spec = lambda name: None if name == "vllm" else there(name)
        from windlass.cli.main import main
        main()"""
    done = ended([sys.executable, "-c", blocker, *command[3:], "1"], tmp_path)
    assert (done.returncode, done.stderr[: len(said)], done.stderr.count("\n")) == (2, said, 1)
    assert (Engine.keys, (tmp_path / "out").exists()) == (set(), False)
