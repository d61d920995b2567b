"""Real processes that run the command, to be killed at any byte; and a reader that never believes half a model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from windlass_testbed.waiting import HANG_S, wait_until


class Zygote:
    """A process that forks the command; `with Zygote() as zygote:` ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(HANG_S)
        self._process.stdout.close()

    def start(self, arguments: list[str], lying: bool = False) -> int:
        """Run the command; its process id. `lying`: every claim is its own."""
        return self._ask("start lying" if lying else "start", arguments)

    def wait(self, pid: int) -> int:
        """The exit code, or minus the signal."""
        return self._ask("wait", pid)

    def run(self, arguments: list[str]) -> int:
        """Run the command to its end."""
        return self.wait(self.start(arguments))

    def kill_when(self, pid: int, due: Callable[[], bool]) -> int:
        """Kill it without a warning as soon as `due` says so, unless it ends before; its exit."""
        wait_until(lambda: due() or not _runs(pid), look_s=0.001)
        os.kill(pid, signal.SIGKILL)
        return self.wait(pid)

    def _ask(self, word: str, value: object) -> int:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([word, value]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


class Reader:
    """Looks at a target all the time, as an inspect Job or a server does: where there is a config.json, all is there.

    `revisions` are the models that may lie there, told apart by their config.json.
    """

    def __init__(self, target: Path, *revisions: Mapping[str, bytes]) -> None:
        self.target, self.revisions = target, {files["config.json"]: files for files in revisions}
        self.looks = self.models = 0
        self.wrong: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.is_set()  # asked first: what lies there at the end is looked at in any case
            self.looks += 1
            self._look()
            time.sleep(0.001)  # clock: how often it looks; each look is judged by itself

    def _look(self) -> None:
        """Read all files; a model that was exchanged in between is read again, one that was not must be whole."""
        gate = self.target / "config.json"
        try:
            before, config = _version(gate), gate.read_bytes()
        except OSError:
            return
        files = self.revisions.get(config)
        found = {path: _read(self.target / path) for path in files or ()}
        if _version(gate) != before:
            return
        self.models += 1
        if files is None or found != dict(files):
            damaged = [path for path in found if found[path] != (files or {})[path]]
            self.wrong.append(f"with config.json {config!r}, these are not whole: {damaged}")


def _version(path: Path) -> tuple[int, int] | None:
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_ctime_ns


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
