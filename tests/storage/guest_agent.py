"""Runs inside the guest: starts programs for the tests and tells how they end, by HTTP on port 7000.

`POST /start {argv, env}` gives an id, `POST /poll {id}` its exit code, or null, and all that it printed.
Standard library only: it runs by the Python of any of our images.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = 7000
PATH = "/opt/windlass/bin:/usr/local/bin:/usr/bin:/bin"


class Agent(ThreadingHTTPServer):
    """The programs that were started, by their number."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("10.0.2.15", PORT), Handler)
        self.programs: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(self, argv: list[str], env: dict[str, str]) -> dict[str, object]:
        """Start a program; what it prints goes to a file in the guest's memory, never to the share."""
        output = Path(tempfile.mkstemp(dir="/dev/shm")[1])
        with output.open("wb") as file:
            program = subprocess.Popen(
                argv, env={"PATH": PATH, "HOME": "/tmp", **env}, cwd="/tmp",
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.programs.append((program, output))
        return {"id": len(self.programs) - 1}

    def poll(self, number: int) -> dict[str, object]:
        """Its exit code, or null while it runs, and its output so far."""
        program, output = self.programs[number]
        return {"code": program.poll(), "output": output.read_text(errors="replace")}


class Handler(BaseHTTPRequestHandler):
    """JSON in, JSON out."""

    server: Agent

    def log_message(self, *_: object) -> None:
        """The console stays the kernel's."""

    def do_POST(self) -> None:
        """Start or poll."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/start":
            answer = self.server.start(asked["argv"], asked.get("env", {}))
        else:
            answer = self.server.poll(asked["id"])
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    os.umask(0o022)
    Agent().serve_forever()
