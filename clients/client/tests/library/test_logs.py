"""Logs of several pods: one after the other, or merged while they go on; a silent pod is no error of the rest."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx2
import pytest
from windlass_base.kube.errors import InvalidError
from windlass_client import NoLogsError, logs
from windlass_testbed.waiting import HANG_S, wait_until_async

from .mock_api import Chunks, MockApi

WAITING = {"kind": "Status", "code": 400, "reason": "BadRequest", "message": 'container "server" is waiting to start'}


class Pods:
    """Pods by name with what their container wrote; None: it has not started."""

    def __init__(self, **texts: bytes | None) -> None:
        self.texts = {name.replace("_", "-"): text for name, text in texts.items()}
        self.asked: list[httpx2.Request] = []

    @staticmethod
    def stamped(line: bytes) -> bytes:
        """A line that begins with a digit was written in that second."""
        return b"2026-01-01T00:00:0%s.5Z %s" % (line[:1] if line[:1].isdigit() else b"0", line)

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        parts = request.url.path.split("/")
        if parts[-1] == "pods":
            items = [{"metadata": {"name": name}} for name in sorted(self.texts)]
            return httpx2.Response(200, json={"metadata": {"resourceVersion": "1"}, "items": items})
        if parts[-1] != "log":
            return httpx2.Response(404, json={"kind": "Status", "reason": "NotFound", "message": "not found"})
        text = self.texts[parts[-2]]
        if text and "timestamps" in request.url.params:
            text = b"".join(self.stamped(line) for line in text.splitlines(keepends=True))
        if text is None:
            return httpx2.Response(400, json=WAITING)
        return httpx2.Response(200, content=Chunks([text[:3], text[3:]]))


async def lines(pods: Pods, **options: object) -> list[tuple[str, str]]:
    found = MockApi().client(pods.handle).logs("qwen", **options)
    return [(line.pod, line.text) async for line in found]


async def test_every_pod_is_read_by_name_and_line_by_line():
    """Only a line feed ends a line: progress bars and Unicode separators stay inside."""
    pods = Pods(b="two\u2028still two\r\nend".encode(), a=b"one\n")
    assert await lines(pods) == [("a", "one"), ("b", "two\u2028still two"), ("b", "end")]


async def test_options_reach_the_api_server():
    """The run before, the last lines, one pod only."""
    pods = Pods(a=b"x\n", b=b"y\n")
    assert await lines(pods, pod="b", previous=True, tail_lines=5) == [("b", "y")]
    params = dict(pods.asked[-1].url.params)
    assert params == {"container": "server", "previous": "true", "tailLines": "5"}


async def test_a_pod_that_has_not_started_does_not_hide_the_others():
    """Alone, its sentence is the error."""
    assert await lines(Pods(a=None, b=b"y\n")) == [("b", "y")]
    with pytest.raises(NoLogsError, match="waiting to start"):
        await lines(Pods(a=None))
    with pytest.raises(NoLogsError, match="has no pods; see its status"):
        await lines(Pods())
    with pytest.raises(NoLogsError, match="written nothing"):
        await lines(Pods(a=b""))


async def test_following_takes_in_pods_that_come_later(monkeypatch):
    """A rollout's new pods are heard without asking again."""
    monkeypatch.setattr(logs, "LOOK_AGAIN_S", 0.02)
    pods = Pods(a=b"one\n")
    stream = MockApi().client(pods.handle).logs("qwen", follow=True)
    first = await asyncio.wait_for(anext(stream), HANG_S)
    pods.texts["b"] = b"two\n"
    seen = {first.pod}
    while "b" not in seen:
        seen.add((await asyncio.wait_for(anext(stream), HANG_S)).pod)
    await stream.aclose()


async def test_a_container_that_starts_again_is_read_on(monkeypatch):
    """No line comes twice, and the time of the last one is what is asked for."""
    monkeypatch.setattr(logs, "LOOK_AGAIN_S", 0.02)
    pods = Pods(a=b"1 first\n2 second\n")
    stream = MockApi().client(pods.handle).logs("qwen", follow=True)
    seen = [(await asyncio.wait_for(anext(stream), HANG_S)).text for _ in range(2)]
    waiting = asyncio.create_task(anext(stream))
    looked = len(pods.asked)
    await wait_until_async(lambda: len(pods.asked) > looked + 4)
    assert not waiting.done()
    pods.texts["a"] = b"2 second\n3 third\n"
    line = await asyncio.wait_for(waiting, HANG_S)
    assert [*seen, line.text] == ["1 first", "2 second", "3 third"]
    read = [request for request in pods.asked if request.url.path.endswith("/log")]  # between two, pods are listed
    assert read[-1].url.params["sinceTime"] >= "2026-01-01T00:00:02.5Z"
    await stream.aclose()


async def test_following_ends_with_what_went_wrong():
    """A service whose pods may not be listed is not followed in silence."""

    async def refuse(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(403, json={"kind": "Status", "reason": "Forbidden", "message": "cannot list pods"})

    stream = MockApi().client(refuse).logs("qwen", follow=True)
    with pytest.raises(Exception, match="cannot list pods"):
        await anext(stream)


async def test_so_many_pods_are_followed_at_once():
    """More are refused by a sentence; one of them, and reading them one after the other, goes on."""
    api, pods = MockApi(), Pods(a=b"one\n", b=b"two\n", c=b"three\n")
    client = api.client(pods.handle)
    ask = logs.LogQuery("team-a", "qwen", follow=True, pods_max=2)
    with pytest.raises(InvalidError, match="has 3 pods, and 2 are followed at once; choose one"):
        await anext(logs.read(client.api, ask, client.pods))
    once = replace(ask, follow=False)
    assert [line.text async for line in logs.read(client.api, once, client.pods)] == ["one", "two", "three"]


class Jobs:
    """A service, Jobs that own pods, and serving pods; each pod wrote its container's name."""

    def __init__(self, *serving: str) -> None:
        self.serving = list(serving)
        self.jobs = [self.a_job("fetch", "u", "another"), self.a_job("look", "u"), self.a_job("strange", "another")]
        self.pods = [
            self.a_pod("look-1", "look", "2026-01-01T00:00:02Z", "inspect"),
            self.a_pod("fetch-1", "fetch", "2026-01-01T00:00:01Z", "mesh-proxy", "download"),
            self.a_pod("strange-1", "strange", "2026-01-01T00:00:00Z", "download"),
            self.a_pod("forged-1", "nobody", "2026-01-01T00:00:00Z", "download"),
        ]

    @staticmethod
    def a_job(uid: str, *owners: str) -> dict:
        return {"metadata": {"name": uid, "uid": uid, "ownerReferences": [{"uid": owner} for owner in owners]}}

    @staticmethod
    def a_pod(name: str, job: str, created: str, *containers: str) -> dict:
        owner = {"uid": job, "controller": True}
        meta = {"name": name, "creationTimestamp": created, "ownerReferences": [owner]}
        return {"metadata": meta, "spec": {"containers": [{"name": one} for one in containers]}}

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        last, selector = request.url.path.rsplit("/", 1)[-1], request.url.params.get("labelSelector", "")
        if last == "log":
            return httpx2.Response(200, content=request.url.params["container"].encode() + b"\n")
        rows = {"jobs": self.jobs, "pods": self.pods if "download" in selector else []}
        if last in rows:
            rows["pods"] += [{"metadata": {"name": name}} for name in self.serving if "server" in selector]
            return httpx2.Response(200, json={"metadata": {"resourceVersion": "1"}, "items": rows[last]})
        return httpx2.Response(200, json={"metadata": {"name": "qwen", "uid": "u"}})


async def test_without_serving_pods_the_jobs_of_the_model_are_read():
    """Oldest first, each in its own container; a Job of other services is none of them, nor is a pod without a Job."""
    assert await lines(Jobs()) == [("fetch-1", "download"), ("look-1", "inspect")]
    assert await lines(Jobs("qwen-1")) == [("qwen-1", "server")]


@pytest.mark.parametrize("follow", [False, True])
async def test_a_long_line_comes_in_pieces(follow):
    """Of at most so many characters, which give the line when they are joined."""
    text = "".join(chr(97 + place % 26) for place in range(70))
    client = MockApi().client(Pods(a=f"{text}\nend\n".encode()).handle)
    ask = logs.LogQuery("team-a", "qwen", follow=follow, piece_max=16)
    stream = logs.read(client.api, ask, client.pods)
    pieces = [await asyncio.wait_for(anext(stream), HANG_S) for _ in range(6)]
    await stream.aclose()
    assert max(len(piece.text) for piece in pieces) == 16
    assert "".join(piece.text for piece in pieces[:5]) == text
    assert [piece.goes_on for piece in pieces] == [True] * 4 + [False] * 2
    assert pieces[5].text == "end"
