"""Attacks on a running server of ours, each a function of its address; what fell is told in figures, not judged.

`python tests/attack/guard/attacks.py URL --key KEY [--pid PID] [NAME…]` runs them and prints one line each. Bounded: at
most a few hundred connections and a few hundred mebibytes, all to the address that is given.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from windlass_testbed.waiting import HANG_S

MIB = 1024**2
CHAT = "/v1/chat/completions"
Figures = dict[str, Any]


@dataclass
class Target:
    """A server, a key of it, and its process."""

    url: str
    key: str = ""
    pid: int = 0

    def connect(self, receive_buffer: int = 0, timeout_s: float = 60) -> socket.socket:
        """A plain connection."""
        where = urlsplit(self.url)
        one = socket.socket()
        if receive_buffer:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        one.settimeout(timeout_s)
        one.connect((where.hostname, where.port))
        return one

    def head(self, method: str, path: str, length: int | None = None, **headers: str) -> bytes:
        """A request's head, byte for byte as it is said."""
        words = {"host": "127.0.0.1", "content-type": "application/json"} | headers
        if self.key:
            words.setdefault("authorization", f"Bearer {self.key}")
        if length is not None:
            words["content-length"] = str(length)
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in words.items() if value)
        return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, timeout_s: float = 60, **headers: str
    ) -> Answer:
        """One request on a connection of its own; the head and the body may be as hostile as they like."""
        with self.connect(timeout_s=timeout_s) as one:
            one.sendall(
                self.head(method, path, None if body is None else len(body), **{"connection": "close"} | headers)
            )
            with suppress(ConnectionError, TimeoutError):  # refused before it was all sent
                one.sendall(body or b"")
            return Answer(_all(one))

    def memory_mib(self) -> float:
        """Resident memory of the process and its children, proportionally shared."""
        return sum(_pss(pid) for pid in (self.pid, *_below(self.pid))) / 1024 if self.pid else 0.0


@dataclass(frozen=True)
class Answer:
    """What came back."""

    raw: bytes

    @property
    def status(self) -> int:
        """0 when nothing came."""
        return int(self.raw[9:12]) if self.raw.startswith(b"HTTP/1.") else 0

    @property
    def text(self) -> str:
        """The body."""
        return self.raw.partition(b"\r\n\r\n")[2].decode(errors="replace")


@dataclass
class Watch:
    """How long /health stayed away, and how much memory the server took, while something else went on."""

    target: Target
    longest_s: float = 0.0
    most_mib: float = 0.0
    asked: int = 0
    failed: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask again and again."""
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                ok = self.target.ask("GET", "/health", timeout_s=120).status == 200
            except OSError:
                ok = False
            self.asked, self.failed = self.asked + 1, self.failed + (not ok)
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            time.sleep(0.02)  # clock: how often it asks

    def weigh(self) -> None:
        """Look at the memory again and again: a server that does not answer still takes some."""
        while not self._stop.is_set():
            self.most_mib = max(self.most_mib, self.target.memory_mib())
            time.sleep(0.1)  # clock: how often it weighs

    @property
    def figures(self) -> Figures:
        """The same for a table."""
        memory = {"memory_mib": round(self.most_mib)} if self.target.pid else {}
        return {"health_longest_s": round(self.longest_s, 2), "health_failed": self.failed} | memory


@contextmanager
def watching(target: Target) -> Iterator[Watch]:
    """Watch /health meanwhile."""
    watch = Watch(target)
    threads = [threading.Thread(target=work) for work in (watch.run, watch.weigh)]
    for thread in threads:
        thread.start()
    try:
        yield watch
    finally:
        watch._stop.set()
        for thread in threads:
            thread.join()


def newline_paths(target: Target) -> Figures:
    """`%0a` behind a path: the guard's rows do not match, the router's do."""
    hot = json.dumps({"messages": [], "temperature": 3}).encode()
    return {
        "scale_elastic_ep%0a": target.ask("POST", "/scale_elastic_ep%0a", b"{}").status,
        "chat%0a with temperature 3": target.ask("POST", f"{CHAT}%0a", hot).text[:90],
    }


def control_routes(target: Target) -> Figures:
    """What controls the engine, asked with a right key."""
    paths = ("/inference/v1/abort_requests", "/abort_requests", "/sleep", "/start_profile", "/v1/load_lora_adapter")
    return {path: target.ask("POST", path, b'{"request_ids": ["x"]}').status for path in paths}


def bombs(size: int = 31 * MIB) -> dict[str, bytes]:
    """Bodies that cost a parser most."""
    return {
        "empty objects": b'{"messages":[' + b"{}," * (size // 3) + b"{}]}",
        "distinct keys": b"{" + b",".join(b'"%x":1' % number for number in range(size // 13)) + b"}",
        "nested": b'{"a":' + b"[" * size,
        "quotes": b'{"a":' + b'"' * size,
        "escapes": b'{"a":"' + b'\\"' * (size // 2) + b'"}',
        "digits": b'{"temperature":' + b"1" * size + b"}",
    }


def body_bombs(target: Target, at_once: int = 1, size: int = 31 * MIB, names: tuple[str, ...] = ()) -> Figures:
    """Each of them, so many at once."""
    figures: Figures = {}
    for name, bomb in bombs(size).items():
        if names and name not in names:
            continue
        began = time.monotonic()
        with watching(target) as watch, ThreadPoolExecutor(at_once) as pool:
            asked = [pool.submit(target.ask, "POST", CHAT, bomb, timeout_s=240) for _ in range(at_once)]
            statuses = [_status(one.result) for one in asked]
        figures[name] = {"statuses": sorted(set(statuses)), "s": round(time.monotonic() - began, 1)} | watch.figures
    return figures


def _status(result: Callable[[], Answer]) -> int:
    try:
        return result().status
    except OSError:
        return 0


def hostile_numbers(target: Target) -> Figures:
    """Numbers that have no float, in fields with a range."""
    numbers = {"400 digits": "9" * 400, "5000 digits": "9" * 5000, "1e400": "1e400", "-400 digits": "-" + "9" * 400}
    fields = ("temperature", "top_p", "max_tokens", "seed", "n", "min_p")
    return {
        name: sorted({target.ask("POST", CHAT, _with(field_, number)).status for field_ in fields})
        for name, number in numbers.items()
    }


def _with(name: str, number: str) -> bytes:
    return f'{{"messages": [{{"role": "user", "content": "x"}}], "max_tokens": 1, "{name}": {number}}}'.encode()


def slow_readers(target: Target, other: Target, readers: int, pieces: int = 600, patience_s: float = 60) -> Figures:
    """So many clients that ask for long answers and read nothing; then a request of another key."""
    body = json.dumps({"messages": [], "pieces": pieces}).encode()
    with _many(target, readers, target.head("POST", CHAT, len(body)) + body, receive_buffer=4096):
        time.sleep(2)  # clock: the readers take their places; a slow machine may give them fewer
        began = time.monotonic()
        try:
            status = other.ask("POST", CHAT, b'{"messages": []}', timeout_s=patience_s).status
        except OSError:
            status = 0
        return {"other_status": status, "other_s": round(time.monotonic() - began, 2)}


def half_heads(target: Target, connections: int = 200, wait_s: float = 15) -> Figures:
    """Connections whose head never ends: how many are still there after a while."""
    with _many(target, connections, b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-slow: ") as many:
        time.sleep(wait_s)  # clock: the length of the attack
        return {"opened": len(many), "still_open": sum(_is_open(one) for one in many)}


def half_bodies(target: Target, connections: int, wait_s: float, size: int = 1 * MIB) -> Figures:
    """Bodies that never end: what /health and memory do, and how many are still there."""
    head = target.head("POST", CHAT, size) + b'{"messages": ['
    with watching(target) as watch, _many(target, connections, head) as many:
        time.sleep(wait_s)  # clock: the length of the attack
        still = sum(_is_open(one) for one in many)
    return {"opened": len(many), "still_open": still} | watch.figures


@contextmanager
def _many(target: Target, count: int, sent: bytes, receive_buffer: int = 0) -> Iterator[list[socket.socket]]:
    many: list[socket.socket] = []
    try:
        for _ in range(count):
            one = target.connect(receive_buffer)
            one.sendall(sent)
            many.append(one)
        yield many
    finally:
        for one in many:
            one.close()


def _is_open(one: socket.socket) -> bool:
    """Whether neither an answer nor an end has come."""
    one.setblocking(False)
    try:
        one.recv(1, socket.MSG_PEEK)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def _all(one: socket.socket) -> bytes:
    parts = []
    with suppress(OSError):
        while part := one.recv(65536):
            parts.append(part)
    return b"".join(parts)


def _pss(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def _below(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *_below(child)]
    return found


ALL: dict[str, Callable[[Target], Figures]] = {
    "newline paths": newline_paths,
    "control routes": control_routes,
    "hostile numbers": hostile_numbers,
    "half heads": half_heads,
    "body bombs": body_bombs,
    "four body bombs at once": lambda target: body_bombs(target, 4, names=("empty objects",)),
}


@contextmanager
def served(program: Path, **environment: str) -> Iterator[Target]:
    """A server process of these folders, which prints its address and ends with its standard input."""
    command, more = [sys.executable, str(program)], os.environ | environment
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=more)
    try:
        url = process.stdout.readline().strip() if process.stdout else ""
        yield Target(url, environment.get("KEY", ""), process.pid)
    finally:
        try:
            process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def main() -> None:
    """Run the attacks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--key", default="")
    parser.add_argument("--pid", type=int, default=0)
    words = parser.parse_args()
    for name, attack in ALL.items():
        if not words.names or name in words.names:
            print(f"{name}: {json.dumps(attack(Target(words.url, words.key, words.pid)))}", flush=True)


if __name__ == "__main__":
    main()
