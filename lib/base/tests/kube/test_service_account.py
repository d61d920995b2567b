"""The API server as a pod asks it: an answer has bounds in bytes and in time."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import httpx2
import pytest
from windlass_base.kube import service_account
from windlass_base.kube.service_account import KubeApi, KubeError

TIMEOUT_S = 30.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The monotonic clock in the hands of the test."""
    found = SimpleNamespace(s=100.0)
    monkeypatch.setattr(service_account, "time", SimpleNamespace(monotonic=lambda: found.s))
    return found


@pytest.fixture
def ask(tmp_path):
    """`ask(parts)` is the object of an answer that comes in these parts."""
    (tmp_path / "token").write_text("t")

    def asked(parts: Iterator[bytes]) -> object:
        api = KubeApi("http://api", tmp_path / "token", timeout_s=TIMEOUT_S)
        answer = lambda _: httpx2.Response(200, stream=Parts(parts))  # noqa: E731
        api.__dict__["_http"] = httpx2.Client(base_url=api.url, transport=httpx2.MockTransport(answer))
        try:
            return api.call("GET", "/x")[1]
        finally:
            api.close()

    return asked


class Parts(httpx2.SyncByteStream):
    def __init__(self, parts: Iterator[bytes]) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[bytes]:
        return self.parts


def test_an_answer_in_parts_is_read(ask, now):
    assert ask(iter([b'{"a"', b": 1}"])) == {"a": 1}


def test_an_answer_that_comes_byte_by_byte_ends(ask, now):
    """Each byte within its time-out, all of them never."""
    read = 0

    def trickle() -> Iterator[bytes]:
        nonlocal read
        while True:
            now.s += 1
            read += 1
            yield b" "

    with pytest.raises(KubeError, match="GET /x: the answer does not end"):
        ask(trickle())
    assert read == 3 * TIMEOUT_S + 1


def test_an_answer_without_an_end_is_no_object(ask, now):
    with pytest.raises(KubeError, match="the answer is longer than 4194304 bytes"):
        ask(iter(lambda: b" " * 2**20, b""))
