"""Pods that are no part of a service, and what the ports of others say to them. Used by the attacks on the network.

A port is open (it accepts), refused (nobody listens there) or silent (a policy drops the packets).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_testbed import cluster
from windlass_testbed.paths import REPOSITORY, Paths

SILENCE_S = 2.0  # a pod of the cluster answers within milliseconds; a dropped packet is sent again after one second
LISTENING = (REPOSITORY / "tests/attack/network/listening.py").read_text()
Place = tuple[str, int]
"""An address and a port."""

ASK = (REPOSITORY / "tests/attack/network/asking.py").read_text()
# Listens on the ports until it is told to end; the first one answers every GET, as a probe asks it.
SERVE = """
import http.server, json, os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
first, *others = json.loads(sys.argv[1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"here")
    def log_message(self, *_): pass
held = [socket.create_server(("", port)) for port in others]
http.server.ThreadingHTTPServer(("", first), Handler).serve_forever()
"""


def serving(ports: Iterable[int]) -> list[str]:
    """The command of a container that listens on the ports; the first answers every GET."""
    return ["python3", "-c", SERVE, json.dumps(list(ports))]


def listener(name: str, image: str, ports: Iterable[int], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A pod that listens on the ports, and from which others are asked; `image` has a Python."""
    command = serving(ports)
    probe = {"httpGet": {"path": "/", "port": int(next(iter(ports)))}, "periodSeconds": 1}
    container = {"name": "server", "image": image, "command": command, "readinessProbe": probe}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False},
    }


@dataclass(frozen=True)
class Asker:
    """A pod from which other pods' ports are tried."""

    paths: Paths
    namespace: str
    name: str

    def run(self, code: str, *words: str) -> Any:
        """What a Python program in the pod prints, which is JSON."""
        command = ("exec", self.name, "--", "python3", "-c", code, *words)
        return json.loads(cluster.kubectl(self.paths, "-n", self.namespace, *command))

    def ask(self, places: Iterable[Place]) -> dict[Place, str]:
        """What each place says: open, refused or silent."""
        rows = list(places)
        return dict(zip(rows, self.run(ASK, json.dumps(rows), str(SILENCE_S)), strict=True))

    def says(self, address: str, ports: Iterable[int]) -> dict[int, str]:
        """What each port of an address says."""
        return {port: word for (_, port), word in self.ask((address, port) for port in ports).items()}

    def listening(self) -> set[int]:
        """The pod's own ports that listen on more than loopback."""
        return set(self.run(LISTENING))

    @property
    def address(self) -> str:
        """The pod's IP address."""
        words = ("get", "pod", self.name, "-o", "jsonpath={.status.podIP}")
        return cluster.kubectl(self.paths, "-n", self.namespace, *words)
