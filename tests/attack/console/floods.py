"""Floods at a running console, and what they cost others: a signed-in user's wait, and the process' memory."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from windlass_testbed.waiting import HANG_S

from ..guard.attacks import Target


@dataclass
class Watch:
    """How long the probe stayed away, and how much memory the console took, while something else went on."""

    target: Target
    longest_s: float = 0.0
    most_mib: float = 0.0
    asked: int = 0
    failed: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask and weigh again and again."""
        while not self.stop.is_set():
            began = time.monotonic()
            try:
                ok = self.target.ask("GET", "/healthz", timeout_s=60).status == 200
            except OSError:
                ok = False
            self.asked, self.failed = self.asked + 1, self.failed + (not ok)
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            self.most_mib = max(self.most_mib, self.target.memory_mib())
            time.sleep(0.05)  # clock: how often it asks and weighs


@contextmanager
def watching(target: Target) -> Iterator[Watch]:
    """Watch the console meanwhile."""
    watch = Watch(target)
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        yield watch
    finally:
        watch.stop.set()
        thread.join()


@dataclass
class Flood:
    """What was sent, and the statuses that came back."""

    sent: int = 0
    statuses: set[int] = field(default_factory=set)


@contextmanager
def sign_ins(target: Target, clients: int) -> Iterator[Flood]:
    """So many clients that sign in with tokens of their invention, one after the other."""
    flood, stop = Flood(), threading.Event()

    def run(number: int) -> None:
        while not stop.is_set():
            flood.sent += 1
            body = b'{"token": "e30.e30.%d-%d"}' % (number, flood.sent)
            try:
                answer = target.ask("POST", "/api/session", body, timeout_s=60, x_windlass_console="1")
            except OSError:
                continue
            flood.statuses.add(answer.status)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield flood
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def long_heads(cookie: str) -> dict[str, dict[str, str]]:
    """Headers that are too many or too long, each beside the user's own cookie."""
    return {
        "a long header": {"x_long": "a" * 40_000, "cookie": cookie},
        "a long cookie": {"cookie": "x=" + "a" * 40_000},
        "many cookies": {"cookie": "; ".join(f"x{number}=1" for number in range(6_000))},
        "a cookie of our name": {"cookie": "windlass_session=" + "A" * 20_000},
        "many headers": {f"x_{number}": "1" for number in range(5_000)},
        "a long token": {"authorization": "Bearer " + "a" * 31_000},
        "a broken token": {"authorization": "Bearer " + "e30." * 4_000},
    }


def status_now(one: socket.socket) -> int:
    """The status of the answer that has come so far; 0 for none."""
    one.settimeout(HANG_S)
    try:
        head = one.recv(64)
    except OSError:
        return 0
    return int(head[9:12]) if head.startswith(b"HTTP/1.") else 0
