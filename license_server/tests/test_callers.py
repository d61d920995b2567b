"""Which pod asks: by tokens that a small API server reviews, over HTTP."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from windlass_base.kube.service_account import KubeApi
from windlass_license.cluster import callers as module
from windlass_license.cluster.callers import FAILURES, FRESH_S, USABLE_S, Callers
from windlass_license.cluster.identity import AUDIENCE, Caller, gpus_requested
from windlass_license.errors import ReviewError, UnknownCallerError
from windlass_testbed.waiting import HANG_S, wait_until_async

NOW_S = 1_800_000_000.0


def token(name: str, audience: str | int = AUDIENCE, expires_s: float = NOW_S + 3600) -> str:
    """A token as it looks; whether it is good is the API server's word."""
    audiences = [audience] if isinstance(audience, str) else audience
    claims = base64.urlsafe_b64encode(json.dumps({"aud": audiences, "exp": expires_s, "sub": name}).encode())
    return f"e30.{claims.decode().rstrip('=')}.{name}"


def pod(uid: str, gpus: int = 1) -> dict[str, Any]:
    """A pod that requests so many GPUs."""
    return {"metadata": {"uid": uid}, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]}}


@dataclass
class Cluster:
    """Pods by their tokens; `down` makes the API server answer 500."""

    pods: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    down: bool = False
    audiences: tuple[str, ...] = (AUDIENCE,)
    held: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        """TokenReview and GET of a pod."""
        self.held.wait(HANG_S)
        self.asked.append(path)
        if self.down:
            return 500, {"message": "etcd is down"}
        if body is None:
            found = [row for name, row in self.pods.values() if path.endswith(f"/{name}")]
            return (200, found[0]) if found else (404, {})
        name, row = self.pods.get(body["spec"]["token"], ("", {}))
        if not name:
            return 201, {"status": {"authenticated": False, "error": "unknown"}}
        extra = {
            "authentication.kubernetes.io/pod-name": [name],
            "authentication.kubernetes.io/pod-uid": [row["metadata"]["uid"]],
        }
        user = {"username": "system:serviceaccount:team-a:default", "extra": extra}
        return 201, {"status": {"authenticated": True, "user": user, "audiences": list(self.audiences)}}


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.held.set()
    return made


@pytest.fixture
def api(cluster: Cluster, tmp_path: Path) -> Iterator[KubeApi]:
    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            status, content = cluster.answer(self.path, json.loads(self.rfile.read(length)) if length else None)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = respond  # noqa: N815  the base class calls them so

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    (tmp_path / "token").write_text("t0ken\n")
    with closing(KubeApi(f"http://127.0.0.1:{server.server_port}", tmp_path / "token", timeout_s=HANG_S)) as api:
        yield api
    cluster.held.set()
    server.shutdown()
    thread.join()
    server.server_close()


class Clock:
    """The wall clock in the hands of the test."""

    now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


def bearer(name: str, **claims: Any) -> str:
    return f"Bearer {token(name, **claims)}"


async def until_idle(callers: Callers) -> None:
    """Wait for the reviews beside the requests."""
    while callers._under_way:
        await asyncio.gather(*callers._under_way.values(), return_exceptions=True)
        await asyncio.sleep(0)


async def test_a_pod_is_known_by_its_token(api: KubeApi, cluster: Cluster) -> None:
    """Namespace, name and uid are the review's, the GPUs are the pod's own; the second question asks nobody."""
    cluster.pods[token("a")] = ("pod-a", pod("uid-a", 2))
    callers = Callers(api, wall=Clock())
    for _ in range(2):
        assert Caller("team-a", "pod-a", "uid-a", 2) == await callers.identify(bearer("a"), "10.0.0.1")
    assert len(cluster.asked) == 2
    assert Caller("team-a", "pod-a", "uid-a") == await Callers(api, False, Clock()).identify(bearer("a"), "10.0.0.1")
    callers.close()


REFUSED = {
    "nothing": ("", "no usable token"),
    "another scheme": (f"Basic {token('a')}", "no usable token"),
    "no token": ("Bearer x.y.z", "holds no service account token"),
    "nested": ("Bearer e30." + base64.urlsafe_b64encode(b"[" * 4000).decode() + ".x", "holds no service account token"),
    "too long": (f"Bearer {'x' * 9000}", "no usable token"),
    "another audience": (bearer("a", audience="https://kubernetes.default.svc"), "another audience"),
    "expired": (bearer("a", expires_s=NOW_S - 1), "expired"),
    "an end of 400 digits": (bearer("a", expires_s=10**400), "the end of the token is no time"),
    "an end that is no number": (bearer("a", expires_s=float("nan")), "the end of the token is no time"),
    "audiences of another shape": (bearer("a", audience=5), "another audience"),
    "unknown to the API server": (bearer("stranger"), "the API server refuses the token: unknown"),
}


@pytest.mark.parametrize(("shown", "said"), REFUSED.values(), ids=REFUSED)
async def test_refused(shown: str, said: str, api: KubeApi, cluster: Cluster) -> None:
    """What cannot be a token for this server never reaches the API server."""
    cluster.pods[token("a")] = ("pod-a", pod("uid-a"))
    with pytest.raises(UnknownCallerError, match=said):
        await Callers(api, wall=Clock()).identify(shown, "10.0.0.1")
    assert len(cluster.asked) == (1 if "API server" in said else 0)


async def test_a_token_without_our_audience_in_the_review(api: KubeApi, cluster: Cluster) -> None:
    """An API server that knows no audiences proves nothing."""
    cluster.pods[token("a")] = ("pod-a", pod("uid-a"))
    cluster.audiences = ()
    with pytest.raises(UnknownCallerError, match="another audience"):
        await Callers(api, wall=Clock()).identify(bearer("a"), "10.0.0.1")


async def test_an_end_without_a_date_counts_as_a_failure_of_its_address(api: KubeApi, cluster: Cluster) -> None:
    """As every other token that cannot be good."""
    callers = Callers(api, wall=Clock())
    for number in range(FAILURES):
        with pytest.raises(UnknownCallerError, match="no time"):
            await callers.identify(bearer(str(number), expires_s=10**400), "10.0.0.9")
    with pytest.raises(UnknownCallerError, match="too many tokens"):
        await callers.identify(bearer("a"), "10.0.0.9")
    assert cluster.asked == []


_GOOD = {"authenticated": True, "audiences": [AUDIENCE]}
SHAPES: list[Any] = [
    [],
    "x",
    5,
    {"status": "x"},
    {"status": [1]},
    {"status": {"authenticated": "false"}},
    {"status": {"authenticated": True, "audiences": 5}},
    {"status": {"authenticated": True, "audiences": AUDIENCE}},
    {"status": {**_GOOD, "user": "x"}},
    {"status": {**_GOOD, "user": {"username": "system:serviceaccount:n:d", "extra": ["x"]}}},
    {
        "status": {
            **_GOOD,
            "user": {
                "username": "system:serviceaccount:n:d",
                "extra": {"authentication.kubernetes.io/pod-name": "pod-a"},
            },
        }
    },
]
POD_SHAPES: list[Any] = [
    [],
    "x",
    {"metadata": "x"},
    {**pod("uid-a"), "spec": 5},
    {**pod("uid-a"), "spec": {"containers": {"a": 1}}},
    {**pod("uid-a"), "spec": {"containers": ["x"]}},
    {**pod("uid-a"), "spec": {"initContainers": [5]}},
    {**pod("uid-a"), "spec": {"containers": [{"resources": {"limits": ["x"]}}]}},
]


@pytest.mark.parametrize("odd", SHAPES, ids=repr)
async def test_a_review_of_another_shape_says_nothing_about_the_token(odd: Any, api: KubeApi, cluster: Cluster) -> None:
    """Ask again: it is no failure of the address."""
    cluster.answer = lambda path, body: (201, odd)  # type: ignore[method-assign]
    callers = Callers(api, wall=Clock())
    for _ in range(FAILURES + 1):
        with pytest.raises(ReviewError, match="shape"):
            await callers.identify(bearer("a"), "10.0.0.1")


@pytest.mark.parametrize("odd", POD_SHAPES, ids=repr)
async def test_a_pod_of_another_shape(odd: Any, api: KubeApi, cluster: Cluster) -> None:
    """As a review of another shape."""
    cluster.pods[token("a")] = ("pod-a", pod("uid-a"))
    original = cluster.answer
    cluster.answer = lambda path, body: original(path, body) if body else (200, odd)  # type: ignore[method-assign]
    with pytest.raises(ReviewError, match="shape"):
        await Callers(api, wall=Clock()).identify(bearer("a"), "10.0.0.1")


async def test_another_pod_of_the_same_name(api: KubeApi, cluster: Cluster) -> None:
    """The token's pod is gone when its name has another uid."""
    cluster.pods[token("a")] = ("pod-a", pod("uid-a"))
    callers = Callers(api, wall=Clock())
    original = cluster.answer
    cluster.answer = lambda path, body: original(path, body) if body else (200, pod("uid-new"))  # type: ignore[method-assign]
    with pytest.raises(UnknownCallerError, match="is gone"):
        await callers.identify(bearer("a"), "10.0.0.1")


async def test_a_known_pod_never_waits_for_the_api_server(api: KubeApi, cluster: Cluster) -> None:
    """Also when the API server is away, until the token cannot count any more; a deleted pod is forgotten."""
    cluster.pods[token("a")] = ("pod-a", pod("uid-a"))
    clock = Clock()
    callers = Callers(api, wall=clock, monotonic=clock)
    await callers.identify(bearer("a"), "10.0.0.1")
    cluster.down = True
    clock.now_s += FRESH_S + 1
    assert (await callers.identify(bearer("a"), "10.0.0.1")).uid == "uid-a"
    await until_idle(callers)
    clock.now_s = NOW_S + USABLE_S + 1
    with pytest.raises(ReviewError, match="etcd is down"):
        await callers.identify(bearer("a"), "10.0.0.1")
    cluster.down = False
    await callers.identify(bearer("a"), "10.0.0.1")
    clock.now_s += FRESH_S + 1
    cluster.pods.clear()
    await callers.identify(bearer("a"), "10.0.0.1")
    await until_idle(callers)
    with pytest.raises(UnknownCallerError):
        await callers.identify(bearer("a"), "10.0.0.1")


async def test_invented_tokens_do_not_use_up_the_reviews(api: KubeApi, cluster: Cluster) -> None:
    """One address is soon refused without a review; another is not, and what waits is bounded."""
    cluster.pods[token("a")] = ("pod-a", pod("uid-a"))
    callers = Callers(api, wall=Clock())
    for number in range(50):
        with pytest.raises(UnknownCallerError):
            await callers.identify(bearer(f"invented-{number}"), "10.0.0.9")
    assert len(cluster.asked) == FAILURES
    assert (await callers.identify(bearer("a"), "10.0.0.1")).uid == "uid-a"
    cluster.held.clear()
    waiting = [
        asyncio.create_task(callers.identify(bearer(f"more-{n}"), f"10.0.1.{n}")) for n in range(module.REVIEWS_WAITING)
    ]
    await wait_until_async(lambda: len(callers._under_way) == module.REVIEWS_WAITING)
    with pytest.raises(ReviewError, match="too many tokens to check"):
        await callers.identify(bearer("one-more"), "10.0.2.1")
    assert (await callers.identify(bearer("a"), "10.0.0.1")).uid == "uid-a"
    cluster.held.set()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_token_reviewed_lately_outlasts_an_outage(api: KubeApi, cluster: Cluster) -> None:
    """Counted from its last review, not from its first; and never past its own end."""
    cluster.pods[token("a")] = ("pod-a", pod("uid-a"))
    clock = Clock()
    callers = Callers(api, wall=clock, monotonic=clock)
    for _ in range(6):
        await callers.identify(bearer("a"), "10.0.0.1")
        await until_idle(callers)
        clock.now_s += FRESH_S
    cluster.down = True
    assert clock.now_s == NOW_S + USABLE_S
    assert (await callers.identify(bearer("a"), "10.0.0.1")).uid == "uid-a"
    clock.now_s += USABLE_S - FRESH_S - 1
    assert (await callers.identify(bearer("a"), "10.0.0.1")).uid == "uid-a"
    await until_idle(callers)
    clock.now_s += 2
    with pytest.raises(ReviewError):
        await callers.identify(bearer("a"), "10.0.0.1")


async def test_no_token_counts_after_its_end(api: KubeApi, cluster: Cluster) -> None:
    """By the date; a token does not live on by reviews."""
    short = {"expires_s": NOW_S + FRESH_S + 10}
    cluster.pods[token("a", **short)] = ("pod-a", pod("uid-a"))
    wall, ticks = Clock(), Clock()
    callers = Callers(api, wall=wall, monotonic=ticks)
    await callers.identify(bearer("a", **short), "10.0.0.1")
    wall.now_s = ticks.now_s = NOW_S + FRESH_S + 1
    await callers.identify(bearer("a", **short), "10.0.0.1")
    await until_idle(callers)
    wall.now_s = NOW_S + FRESH_S + 11
    with pytest.raises(UnknownCallerError, match="expired"):
        await callers.identify(bearer("a", **short), "10.0.0.1")


async def test_a_date_that_is_set_back_locks_nobody_out(api: KubeApi, cluster: Cluster) -> None:
    """Refusals and reviews age by the time that passes."""
    cluster.pods[token("a")] = ("pod-a", pod("uid-a"))
    wall, ticks = Clock(), Clock()
    callers = Callers(api, wall=wall, monotonic=ticks)
    for number in range(FAILURES):
        with pytest.raises(UnknownCallerError):
            await callers.identify(bearer(f"invented-{number}"), "10.0.0.9")
    wall.now_s -= 86400
    with pytest.raises(UnknownCallerError, match="too many tokens"):
        await callers.identify(bearer("a"), "10.0.0.9")
    ticks.now_s += module.FAILURES_S + 1
    assert (await callers.identify(bearer("a"), "10.0.0.9")).uid == "uid-a"
    asked = len(cluster.asked)
    ticks.now_s += FRESH_S + 1
    await callers.identify(bearer("a"), "10.0.0.9")
    await until_idle(callers)
    assert len(cluster.asked) == asked + 2


GPU = "nvidia.com/gpu"


def _init(count: int, **more: Any) -> dict[str, Any]:
    return {"resources": {"limits": {GPU: str(count)}}, **more}


SIDECAR = {"restartPolicy": "Always"}
PODS: dict[str, tuple[dict[str, Any], int]] = {
    "none": ({"containers": [{"name": "a"}]}, 0),
    "two containers": ({"containers": [{"resources": {"limits": {GPU: "2"}}}, {"resources": {"limits": {GPU: 1}}}]}, 3),
    "slices": ({"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.5gb": "2", "cpu": "4"}}}]}, 2),
    "an init container alone": ({"containers": [{}], "initContainers": [{"resources": {"limits": {GPU: "4"}}}]}, 4),
    "a sidecar beside": (
        {
            "containers": [{"resources": {"limits": {GPU: "1"}}}],
            "initContainers": [{"restartPolicy": "Always", "resources": {"limits": {GPU: "1"}}}],
        },
        2,
    ),
    "shares in time": ({"containers": [{"resources": {"limits": {"nvidia.com/gpu.shared": "2"}}}]}, 2),
    "memory and cores of a part of a GPU": (
        {
            "containers": [
                {"resources": {"limits": {GPU: "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}}}
            ]
        },
        1,
    ),
    "a sidecar beside a later init container": (
        {"containers": [_init(1)], "initContainers": [_init(1, **SIDECAR), _init(4)]},
        5,
    ),
    "a sidecar after an init container": (
        {"containers": [_init(1)], "initContainers": [_init(4), _init(2, **SIDECAR)]},
        4,
    ),
    "sidecars, init containers and containers": (
        {
            "containers": [_init(1), _init(2)],
            "initContainers": [_init(1, **SIDECAR), _init(2), _init(2, **SIDECAR), _init(1)],
        },
        6,
    ),
    "no number": ({"containers": [{"resources": {"limits": {GPU: "1e9"}}}]}, 0),
}


@pytest.mark.parametrize(("spec", "expected"), PODS.values(), ids=PODS)
def test_gpus_of_a_pod(spec: dict[str, Any], expected: int) -> None:
    """As the scheduler counts them."""
    assert gpus_requested({"spec": spec}) == expected
