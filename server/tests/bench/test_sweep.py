"""`windlass bench run` as a process: turns, resumption, and that no server outlives it. vLLM is a stand-in.

tests/engine/bench/test_bench_run.py has vLLM's own servers and client.
"""

import csv
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .samples import RESULT

VLLM = f"""\
import json, os, pathlib, signal, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Engine(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"vllm:generation_tokens_total 1\\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    words = dict(zip(sys.argv, sys.argv[1:]))
    log = pathlib.Path(os.environ["STAND_IN_LOG"])
    if sys.argv[1] == "serve":
        if "--refuse" in sys.argv:
            sys.exit("no such method")
        with log.open("a") as file:
            file.write(f"serve {{words['--name']}} {{os.getpid()}}\\n")
        ThreadingHTTPServer(("127.0.0.1", int(words["--port"])), Engine).serve_forever()
    with log.open("a") as file:
        file.write(f"bench {{words.get('--label', 'warm-up')}} {{words['--seed']}}\\n")
    if "--result-dir" not in words:
        return
    folder = pathlib.Path(words["--result-dir"])
    folder.mkdir(parents=True)
    if os.environ.get("STAND_IN_WAITS") in folder.parts:
        with open(os.environ["STAND_IN_PIPE"], "w"):  # its end tells that this process has ended
            signal.pause()
    faster = 1.5 if words["--label"] == "b" else 1.0
    result = {RESULT!r} | {{"output_throughput": faster * (100 + int(words["--seed"]))}}
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
"""
DRIVER = """\
import sys
from pathlib import Path
from windlass.bench.running.benchmark import Benchmark
from windlass.bench.running.matrix import Arm, Asked
from windlass.bench.serving.load import DataSet, Load
from windlass.cli import bench_run

model, out, rounds, together, *refused = sys.argv[1:]
names = "abc"[: 2 + len(refused)]
words = {name: ("--name", name, *(["--refuse"] if name in refused else [])) for name in names}
arms = tuple(Arm(name, words[name], is_stock=True) for name in names)
load = Load(server="", tokenizer=model, warmup=3, num_prompts=4)
asked = (Asked(1), Asked(4))
whole = Benchmark(Path(model), Path(out), arms, asked, int(rounds), load, is_together=together == "together")
try:
    bench_run._run(whole, 30.0, None)
except KeyboardInterrupt:  # as the command's own main
    sys.exit(130)
"""


def ended(pid: int, seconds: float) -> bool:
    """Whether a process that is not ours ends within this time; one that nobody has buried yet has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


class Place:
    """The folder of a test: the stand-in, the driver, its output and its log."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.log = folder, folder / "out", folder / "log"
        for name in ("vllm", "vllm/entrypoints", "vllm/entrypoints/cli", "model"):
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text("")
        (folder / "vllm/entrypoints/cli/main.py").write_text(VLLM)
        (folder / "model/tokenizer.json").write_text("{}")
        (folder / "driver.py").write_text(DRIVER)

    def command(self, rounds: int, how: str, *refused: str) -> list[str]:
        words = [str(self.folder / "driver.py"), str(self.folder / "model"), str(self.out), str(rounds), how, *refused]
        return [sys.executable, *words]

    def variables(self, **more: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.folder), "STAND_IN_LOG": str(self.log), **more}

    def run(self, rounds: int, how: str, *refused: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(rounds, how, *refused),
            env=self.variables(),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    @property
    def said(self) -> list[list[str]]:
        """What was started, in its order."""
        return [line.split() for line in self.log.read_text().splitlines()]

    @property
    def servers(self) -> list[int]:
        """Process ids of all servers that were ever started."""
        return [int(words[2]) for words in self.said if words[0] == "serve"]

    @property
    def measured(self) -> list[tuple[str, str]]:
        """Server and seed of each measurement in its order."""
        return [(words[1], words[2]) for words in self.said if words[0] == "bench" and words[1] != "warm-up"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Nothing of it outlives the test."""
    found = Place(tmp_path)
    yield found
    assert not [pid for pid in (found.servers if found.log.exists() else []) if not ended(pid, 0)]


def test_one_after_the_other(place: Place) -> None:
    """The last server of a round is the first of the next, and each round and load has prompts of its own."""
    done = place.run(2, "after")
    assert done.returncode == 0, done.stderr
    assert place.measured == [
        ("a", "0"),
        ("a", "1"),
        ("b", "0"),
        ("b", "1"),
        ("b", "2"),
        ("b", "3"),
        ("a", "2"),
        ("a", "3"),
    ]
    assert [words[1] for words in place.said if words[0] == "serve"] == ["a", "b", "a"]
    with (place.out / "table.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [(row["server"], row["concurrency"], row["rounds"], row["verdict"]) for row in rows] == [
        ("a", "1", "2", ""),
        ("b", "1", "2", "better"),
        ("a", "4", "2", ""),
        ("b", "4", "2", "better"),
    ]
    assert {float(row["ratio"]) for row in rows if row["ratio"]} == {1.5}
    assert json.loads((place.out / "a/concurrency-4/round-02/result.json").read_text())["output_throughput"] == 103
    assert (place.out / "commands.txt").read_text().count("bench serve") == 8
    assert "faster" in done.stdout


def test_together(place: Place) -> None:
    """Side by side each server is started once, and they take turns."""
    done = place.run(2, "together")
    assert done.returncode == 0, done.stderr
    assert place.measured == [
        ("a", "0"),
        ("b", "0"),
        ("a", "1"),
        ("b", "1"),
        ("b", "2"),
        ("a", "2"),
        ("b", "3"),
        ("a", "3"),
    ]
    assert len(place.servers) == 2


def test_it_goes_on(place: Place) -> None:
    """What is measured is not measured again; a folder of another benchmark is refused."""
    assert place.run(1, "after").returncode == 0
    before = len(place.measured)
    (place.out / "b/concurrency-4/round-01/result.json").unlink()
    assert place.run(1, "after").returncode == 0
    assert place.measured[before:] == [("b", "1")]
    other = place.run(2, "after")
    assert (other.returncode != 0, "holds a benchmark with other rounds" in other.stderr) == (True, True)


def test_a_server_that_does_not_start(place: Place) -> None:
    """The others are measured; its last words are said, and the exit code tells."""
    done = place.run(1, "together", "c")
    assert done.returncode != 0
    assert "c ended with code 1 before it was ready" in done.stderr
    assert "no such method" in done.stderr
    assert len(place.measured) == 4
    assert "\nb " in done.stdout


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
def test_no_server_outlives_it(place: Place, number: signal.Signals, code: int) -> None:
    """Ctrl-C, kill and kill -9 in the middle of a measurement; the next start takes that measurement again."""
    pipe = place.folder / "pipe"
    os.mkfifo(pipe)
    words = ["env", "--default-signal=INT", *place.command(1, "together")]
    env = place.variables(STAND_IN_WAITS="b", STAND_IN_PIPE=str(pipe))
    with subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL) as process, pipe.open("rb") as client:
        process.send_signal(number)
        assert process.wait(60) == code
        assert (select.select([client], [], [], 60)[0], client.read()) == ([client], b"")
    assert all(ended(pid, 60) for pid in place.servers)
    done = place.run(1, "together")
    assert done.returncode == 0, done.stderr
    assert place.measured.count(("b", "0")) == 2
