"""A hub on 127.0.0.1 that speaks both protocols as the real ones do, with a CDN on another port, and every bad habit.

`fault` is asked at each request for what shall go wrong; `seen` and `sent` tell what was asked for and sent. Run as a
program it serves a directory: `python hub.py DIRECTORY [--host ADDRESS] [--port N] [--pause SECONDS]`, one model per
OWNER/NAME in it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

HANG_S = 120  # as of windlass_testbed.waiting; a pod runs this file by itself
LFS_FROM = 1024  # bytes; smaller files lie in git itself
PAGE = 3
CHUNK = 16 << 10
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one answer; `after` counts the bytes that still come through."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    after: int = 0
    act: str = ""  # cut, stall, corrupt


@dataclass(frozen=True)
class Seen:
    """One request; `file` is the path in the model, empty for a listing."""

    host: str
    target: str
    file: str
    headers: Mapping[str, str]


class Hub:
    """Two servers; `with Hub(models) as hub:` runs them. `models[NAME][REVISION]` are files."""

    def __init__(self, models: dict[str, dict[str, Files]], token: str = "", host: str = "127.0.0.1", port: int = 0):
        self.models, self.token = models, token
        self.gated: set[str] = set()
        self.fault: Callable[[Seen], Fault | None] = lambda _: None
        self.ranges = self.redirects = True
        self.pause_s = 0.0  # after each chunk
        self.hold_at: int | None = None  # how many bytes in all go out before it waits for another number
        self.extra_rows: list[dict] = []  # what a hostile hub lists besides
        self.seen: list[Seen] = []
        self.sent = 0
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.servers = [_Server((host, port), self, "hub"), _Server((host, 0), self, "cdn")]
        self.url, self.cdn = (f"http://{host}:{server.server_port}" for server in self.servers)

    def __enter__(self) -> Hub:
        for server in self.servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def asked(self, file: str = "", host: str = "") -> list[Seen]:
        """Requests for one file, or at one host."""
        return [one for one in self.seen if file in ("", one.file) and host in ("", one.host)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], hub: Hub, host: str) -> None:
        super().__init__(address, _Handler)
        self.hub, self.host = hub, host

    def handle_error(self, *_: object) -> None:
        """Clients are killed here all the time."""


@cache
def sha256_of(data: bytes) -> str:
    """The digest of a file, computed once: hubs know theirs."""
    return hashlib.sha256(data).hexdigest()


@cache
def git_id(data: bytes) -> str:
    """The id of a git blob."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324


def commit_of(files: Files) -> str:
    """A commit's name, made of its content."""
    rows = sorted((path, sha256_of(data)) for path, data in files.items())
    return hashlib.sha1(json.dumps(rows).encode()).hexdigest()  # noqa: S324


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body go out one after the other
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        hub, parts = self.server.hub, urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        path = unquote(parts.path)
        kind, name, revision, file = _route(path, query)
        seen = Seen(self.server.host, self.path, file, {key.lower(): value for key, value in self.headers.items()})
        with hub.lock:
            hub.seen.append(seen)
            fault = hub.fault(seen)
        if fault is not None and fault.status:
            self._answer(fault.status, fault.body, fault.headers)
        elif self.server.host == "cdn":
            self._blob(hub, path.removeprefix("/blobs/"), fault)
        elif self._may(hub, kind, name, file):
            getattr(self, f"_{kind}")(hub, name, revision, file, query, fault)

    def _may(self, hub: Hub, kind: str, name: str, file: str) -> bool:
        """Refuse as the hub of that kind does."""
        known = self.headers.get("Authorization") == f"Bearer {hub.token}" if hub.token else True
        hugging = kind in ("revision", "tree", "resolve", "none")
        if name in hub.gated and file:
            self._refuse(403, "GatedRepo", f"Access to model {name} is restricted")
        elif hub.token and not known:
            self._refuse(401, "RepoNotFound" if hugging else "", "Invalid username or password.")
        elif name not in hub.models and hugging:
            self._refuse(404, "RepoNotFound", "Repository not found")
        elif name not in hub.models:
            body = {"Code": 10010205001, "Message": f"record not found: {name}", "Success": False}
            self._answer(404, json.dumps(body).encode())
        else:
            return True
        return False

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._answer(
            status, json.dumps({"error": message}).encode(), {"X-Error-Code": code, "X-Error-Message": message}
        )

    def _files(self, hub: Hub, name: str, revision: str) -> Files | None:
        revisions = hub.models[name]
        return revisions.get(revision) or next(
            (all_ for all_ in revisions.values() if commit_of(all_) == revision), None
        )

    def _revision(self, hub: Hub, name: str, revision: str, *_: object) -> None:
        files = self._files(hub, name, revision)
        if files is None:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        siblings = [{"rfilename": path} for path in files]
        self._json({"id": name, "sha": commit_of(files), "siblings": siblings})

    def _tree(self, hub: Hub, name: str, revision: str, _file: str, query: dict[str, str], _: object) -> None:
        files = self._files(hub, name, revision) or {}
        rows: list[dict] = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "sub"}, *hub.extra_rows]
        for path, data in sorted(files.items()):
            row = {"type": "file", "oid": git_id(data), "size": len(data), "path": path}
            lfs = {"oid": sha256_of(data), "size": len(data), "pointerSize": 134}
            rows.append({**row, "lfs": lfs} if len(data) >= LFS_FROM else row)
        start = int(query.get("cursor", 0))
        # The address of the hub itself, as behind a mirror.
        after = f"https://huggingface.co/api/models/{name}/tree/{revision}?recursive=true&cursor={start + PAGE}"
        self._json(rows[start : start + PAGE], {"Link": f'<{after}>; rel="next"'} if start + PAGE < len(rows) else {})

    def _resolve(self, hub: Hub, name: str, revision: str, file: str, _: object, fault: Fault | None) -> None:
        data = (self._files(hub, name, revision) or {}).get(file)
        if data is None:
            self._refuse(404, "EntryNotFound", "Entry not found")
        else:
            self._send_or_redirect(hub, data, fault)

    def _repo_files(self, hub: Hub, name: str, revision: str, *_: object) -> None:
        files = self._files(hub, name, revision)
        if files is None:
            self._json({"Code": 200, "Success": True, "Data": {"Files": None, "LatestCommitter": None}})
            return
        commit = commit_of(files)
        rows: list[dict] = [{"Path": "sub", "Name": "sub", "Type": "tree", "Size": 0}, *hub.extra_rows]
        rows += [
            {
                "Path": path,
                "Name": path.rsplit("/", 1)[-1],
                "Type": "blob",
                "Size": len(data),
                "Sha256": sha256_of(data),
                "IsLFS": len(data) >= LFS_FROM,
                "Revision": commit,
            }
            for path, data in sorted(files.items())
        ]
        latest = {"Id": "", "ShortId": commit[:8]}
        self._json({"Code": 200, "Success": True, "Data": {"Files": rows, "LatestCommitter": latest}})

    def _repo(self, hub: Hub, name: str, revision: str, file: str, _: object, fault: Fault | None) -> None:
        data = (self._files(hub, name, revision) or {}).get(file)
        if data is None:
            self._answer(404, json.dumps({"Code": 404, "Message": "not found", "Success": False}).encode())
        else:
            self._send_or_redirect(hub, data, fault)

    def _none(self, *_: object) -> None:
        self._answer(404, b"<html>not here</html>")

    def _send_or_redirect(self, hub: Hub, data: bytes, fault: Fault | None) -> None:
        if len(data) < LFS_FROM or not hub.redirects:
            self._send(hub, data, fault)
            return
        digest = sha256_of(data)
        headers = {"X-Linked-Size": str(len(data)), "X-Linked-ETag": f'"{digest}"'}
        self._answer(302, b"", {**headers, "Location": f"{hub.cdn}/blobs/{digest}?signature=1"})

    def _blob(self, hub: Hub, digest: str, fault: Fault | None) -> None:
        all_ = (data for revisions in hub.models.values() for files in revisions.values() for data in files.values())
        self._send(hub, next(data for data in all_ if sha256_of(data) == digest), fault)

    def _send(self, hub: Hub, data: bytes, fault: Fault | None) -> None:
        start, end, wanted = 0, len(data), self.headers.get("Range", "")
        if wanted and hub.ranges:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(len(data), int(last or len(data)) + 1)
        self.send_response(206 if wanted and hub.ranges else 200)
        if wanted and hub.ranges:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        for offset in range(start, end, CHUNK):
            piece = data[offset : min(end, offset + CHUNK)]
            if fault is not None and fault.act and offset - start + len(piece) > fault.after:
                piece = self._go_wrong(fault, piece)
            if not piece:
                return
            while hub.hold_at is not None and hub.sent >= hub.hold_at and not hub.ended.is_set():
                time.sleep(0.01)  # clock: between two looks
            self.wfile.write(piece)
            with hub.lock:
                hub.sent += len(piece)
            if hub.pause_s:
                time.sleep(hub.pause_s)  # clock: the pace of the network

    def _go_wrong(self, fault: Fault, piece: bytes) -> bytes:
        if fault.act == "corrupt":
            return bytes([piece[0] ^ 255]) + piece[1:]
        if fault.act == "stall":
            self.wfile.flush()
            self.server.hub.ended.wait(HANG_S)
        self.close_connection = True
        return b""

    def _json(self, value: object, headers: Mapping[str, str] | None = None) -> None:
        self._answer(200, json.dumps(value).encode(), headers or {})

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _route(path: str, query: Mapping[str, str]) -> tuple[str, str, str, str]:
    """(kind, model, revision, file) of a request."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "models"] and len(parts) > 5:
        return parts[4], "/".join(parts[2:4]), "/".join(parts[5:]), ""
    if parts[:3] == ["api", "v1", "models"] and len(parts) >= 6:
        kind = "_".join(parts[5:])
        return kind, "/".join(parts[3:5]), query.get("Revision", "master"), query.get("FilePath", "")
    if len(parts) > 4 and parts[2] == "resolve":
        return "resolve", "/".join(parts[:2]), parts[3], "/".join(parts[4:])
    return "none", "", "", ""


def serve_directory(folder: Path, host: str, port: int, pause_s: float = 0.0) -> None:
    """Serve `folder/OWNER/NAME/…` as both hubs' default revisions, until interrupted."""
    models: dict[str, dict[str, Files]] = {}
    for model in sorted(folder.glob("*/*")):
        if model.is_dir():
            files = {str(path.relative_to(model)): path.read_bytes() for path in model.rglob("*") if path.is_file()}
            models[f"{model.parent.name}/{model.name}"] = {"main": files, "master": files}
    with Hub(models, host=host, port=port) as hub:
        hub.pause_s = pause_s
        print(f"{hub.url} serves {', '.join(quote(name) for name in models)}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--host", default="127.0.0.1")
    arguments.add_argument("--port", type=int, default=8600)
    arguments.add_argument("--pause", type=float, default=0.0, help="seconds after each 16 KiB, for a slow hub")
    given = arguments.parse_args()
    serve_directory(given.folder, given.host, given.port, given.pause)
