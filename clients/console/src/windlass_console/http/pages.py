"""The files of the pages, read once: content type by their ending, an ETag, and nothing else of the package."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

from fastapi import Request
from fastapi.responses import Response

from windlass_console.errors import NotThereError

INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/vnd.microsoft.icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Page:
    """One file."""

    content: bytes
    content_type: str
    etag: str


def load(root: Traversable | None = None) -> dict[str, Page]:
    """All files with a known ending, by their path below the folder."""
    folder = root or resources.files("windlass_console").joinpath("pages")
    return dict(_below(folder, ""))


def _below(folder: Traversable, path: str) -> list[tuple[str, Page]]:
    found: list[tuple[str, Page]] = []
    for one in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if one.is_dir():
            found += _below(one, f"{path}{one.name}/")
        elif (kind := TYPES.get(f".{one.name.rpartition('.')[2]}")) is not None:
            content = one.read_bytes()
            found.append((path + one.name, Page(content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')))
    return found


def answer(pages: Mapping[str, Page], request: Request, path: str) -> Response:
    """The file, or 304 where the browser has it."""
    page = pages.get(path or INDEX)
    if page is None:
        raise NotThereError(f"the console has no page /{path[:100]}; begin at its first page")
    headers = {"ETag": page.etag, "Cache-Control": "no-cache"}
    if page.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(page.content, media_type=page.content_type, headers=headers)
