"""What the pod knows about itself, and the read-only port that shows it.

The supervisor writes, the operator reads `GET /windlass/facts`. The port answers from the first second, long before
the engine does, from a thread of its own: a busy event loop must not make a healthy pod look dead.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from windlass_base.bounded_server import END_LOOK_S, BoundedServer

from windlass.engine.prefix_offload import counts
from windlass.engine.startup import measured, phases
from windlass.engine.startup.preread import Progress
from windlass.errors import UsageError, WindlassError
from windlass.front.usage import page as usage
from windlass.group.membership import GroupFacts
from windlass.license.keeper import LicenseFacts
from windlass.supervisor import metrics, own_tls

FACTS_PATH = "/windlass/facts"
READY_PATH = "/windlass/ready"
"""For the probes of a group's members: a follower has no API of its own, and all members are probed alike."""
HEALTH_TIMEOUT_S = 4.0
FORMAT_VERSION = 1
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The engine's name, version and command line without secrets."""

    name: str
    version: str
    argv: tuple[str, ...]


class FactsBoard:
    """The facts of this pod; safe to read from another thread."""

    def __init__(
        self,
        service: str,
        engine: EngineFacts,
        clock: Callable[[], float] = time.monotonic,
        *,
        phase: str = phases.LICENSE,
    ) -> None:
        """Begin in this phase."""
        self._lock = threading.Lock()
        self._clock = clock
        self._service = service
        self._engine = engine
        self._phase, self._since = phase, clock()
        self._began = self._step_since = self._since
        self._serving_s: float | None = None
        self._phases: list[tuple[str, float]] = []
        self._license = LicenseFacts(True, "waiting", "starting")
        self._preread = Progress("off")
        self._group: GroupFacts | None = None
        self._measured: dict[str, float] = {}
        self._health_url = ""
        self._failure: WindlassError | None = None
        self._stall = ""
        self._counts: Path | None = None

    def enter(self, phase: str) -> None:
        """End the running phase and begin another."""
        with self._lock:
            now = self._clock()
            if phase != self._phase:
                self._phases.append((self._phase, now - self._since))
                self._phase, self._since = phase, now
                self._step_since = now
            if phase == phases.SERVING and self._serving_s is None:
                self._serving_s = now - self._began

    def fail(self, error: WindlassError) -> None:
        """The start or the engine failed, and the process is about to end."""
        self.enter(phases.FAILED)
        with self._lock:
            self._failure = error

    def set_stall(self, told: str) -> None:
        """Say how the engine hangs; empty when its steps go on."""
        self._stall = told

    @property
    def is_stalled(self) -> bool:
        """Whether the engine hangs."""
        return bool(self._stall)

    def note_output(self, line: str) -> None:
        """Note a step of the engine's start that ended, and its memory; of several workers the first one counts."""
        step, figure = phases.ended(line), measured.figure(line)
        with self._lock:
            if figure:
                self._measured.setdefault(*figure)
            if step and self._phase == phases.ENGINE and step not in dict(self._phases):
                now = self._clock()
                self._phases.append((step, now - self._step_since))
                self._step_since = now

    def set_preread(self, progress: Progress) -> None:
        """Replace what is known of the reading ahead; its end is a phase, beside the others."""
        with self._lock:
            self._preread = progress
            if progress.state in ("done", "stopped") and progress.bytes_read:
                self._phases.append((phases.PREFETCH, progress.seconds))

    def set_license(self, facts: LicenseFacts) -> None:
        """Replace what is known of the license."""
        with self._lock:
            self._license = facts

    def set_group(self, facts: GroupFacts) -> None:
        """Replace what is known of the group."""
        with self._lock:
            self._group = facts

    def set_engine(self, facts: EngineFacts) -> None:
        """Replace what is known of the engine."""
        with self._lock:
            self._engine = facts

    def set_health_url(self, url: str) -> None:
        """Say where the engine's own API tells its health; empty when it has none."""
        self._health_url = url

    def set_counts(self, folder: Path | None) -> None:
        """Say where the engines write what they found of prompts; None where prefixes are not offloaded."""
        if folder:
            counts.clear(folder)
        self._counts = folder

    @property
    def phase(self) -> str:
        """The running phase."""
        return self._phase

    def ready(self) -> bool:
        """Whether the engine serves, and its API, where it has one, says so now."""
        if self._phase != phases.SERVING:
            return False
        return not self._health_url or _answers(self._health_url)

    def to_dict(self) -> dict[str, Any]:
        """The facts as the port shows them."""
        found = counts.read(self._counts) if self._counts else None
        with self._lock:
            license_, engine = self._license, self._engine
            seconds = self._clock() - self._began if self._serving_s is None else self._serving_s
            return {
                "version": FORMAT_VERSION,
                "service": self._service,
                "phase": self._phase,
                "phases": [{"phase": phase, "seconds": round(took_s, 1)} for phase, took_s in self._phases],
                "startup": {"seconds": round(seconds, 1), "preread": self._preread.to_dict()},
                "license": {
                    "required": license_.required,
                    "state": license_.state,
                    "message": license_.message,
                    "gpus": list(license_.gpus),
                    "expires": license_.expires,
                    "reason": license_.reason,
                },
                "engine": {"name": engine.name, "version": engine.version, "argv": list(engine.argv), **self._measured},
                **({"prefixCache": found} if found else {}),
                **({"group": self._group.to_dict()} if self._group else {}),
                **({"stalled": self._stall} if self._stall else {}),
                **({"failure": _as_facts(self._failure)} if self._failure else {}),
            }


def _as_facts(error: WindlassError) -> dict[str, str]:
    return {"reason": error.reason, "message": str(error)}


def _answers(url: str) -> bool:
    tls = urllib.request.HTTPSHandler(context=own_tls.context())
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), tls)
    try:
        with direct.open(url, timeout=HEALTH_TIMEOUT_S) as answer:
            return int(answer.status) == HTTPStatus.OK
    except (OSError, HTTPException):
        return False


class FactsServer:
    """Serves a board over HTTP; a context manager."""

    def __init__(self, board: FactsBoard, port: int, host: str = "", usage_in: Path | None = None) -> None:
        """Bind at once, so that a taken port is told before anything starts."""
        try:
            self._http = BoundedServer((host, port), _handler(board, usage_in))
        except OSError as error:
            raise UsageError(
                f"facts port {port} cannot be opened: {error.strerror}; set WINDLASS_FACTS_PORT"
            ) from error
        self._thread = threading.Thread(target=self._http.serve_forever, args=(END_LOOK_S,), name="facts", daemon=True)

    @property
    def port(self) -> int:
        """The port that is open."""
        return int(self._http.server_address[1])

    def __enter__(self) -> FactsServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(board: FactsBoard, usage_in: Path | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers four paths."""

        timeout = 10

        def do_GET(self) -> None:
            """Facts, metrics, readiness, usage, or where they are."""
            path, _, query = self.path.partition("?")
            if path == metrics.METRICS_PATH:
                self._send(200, metrics.CONTENT_TYPE, metrics.render(board.to_dict()))
            elif path == FACTS_PATH:
                self._send(200, JSON, json.dumps(board.to_dict()))
            elif path == READY_PATH:
                self._send(200 if board.ready() else 503, JSON, json.dumps({"phase": board.phase}))
            elif path == usage.PATH:
                self._send(*usage.answer(usage_in, query))
            else:
                where = f"facts are at {FACTS_PATH}, metrics at {metrics.METRICS_PATH}, readiness at {READY_PATH}"
                self._send(404, JSON, json.dumps({"message": where}))

        def _send(self, status: int, kind: str, text: str) -> None:
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing: the operator asks every few seconds."""

    return Handler
