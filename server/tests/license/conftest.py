"""Leases of tests are shared with nobody else's: each test has its own folder for temporary files."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

URL = "http://license"
"""Of a license server in the test's event loop, where simulated time passes."""


@dataclass
class Question:
    """One request."""

    method: str
    path: str
    body: dict


@dataclass
class Answering:
    """A license server that answers by the test's function, and keeps what it was asked."""

    answer: Callable[[Question], tuple[int, str]]
    seen: list[Question] = field(default_factory=list)

    @property
    def transport(self) -> httpx.MockTransport:
        """The way of a client to it."""
        return httpx.MockTransport(self._handle)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(Question(request.method, request.url.path, json.loads(request.content or b"{}")))
        status, text = self.answer(self.seen[-1])
        return httpx.Response(status, content=text.encode())


@pytest.fixture
def answering() -> type[Answering]:
    """`answering(lambda seen: (200, "text"))` is a license server without a connection."""
    return Answering


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, of this process and of those that it starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path
