"""The election by a Kubernetes Lease, over HTTP, against a small API server that keeps one object and its version."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from windlass_base.kube.lease import LeaseName
from windlass_base.kube.service_account import KubeApi
from windlass_license.cluster.pod import api_server
from windlass_license.election.kube_lease import TIMES, KubeLease
from windlass_license.errors import SettingsError
from windlass_license.settings import parse_kube_lease
from windlass_testbed.waiting import HANG_S


@dataclass
class FakeApi:
    """What the API server would keep; `down` makes it answer 500."""

    lease: dict[str, Any] | None = None
    version: int = 0
    down: bool = False
    tokens: set[str] = field(default_factory=set)

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        """GET, POST and PUT of the one Lease."""
        if self.down:
            return 500, {"message": "etcd is down"}
        collection = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        if method == "POST" and path == collection and self.lease is None:
            return 201, self.store(body or {})
        if path != f"{collection}/license":
            return 404, {}
        if method == "GET":
            return (200, self.lease) if self.lease else (404, {})
        if body is None or body["metadata"].get("resourceVersion") != str(self.version):
            return 409, {}
        return 200, self.store(body)

    def store(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Keep it under a new version."""
        self.version += 1
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self.version)}}
        return self.lease


@pytest.fixture
def fake() -> FakeApi:
    return FakeApi()


@pytest.fixture
def api(fake: FakeApi, tmp_path: Path) -> Iterator[KubeApi]:
    """A client of the fake."""

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            fake.tokens.add(self.headers["Authorization"])
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, content = fake.answer(self.command, self.path, body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = respond  # noqa: N815  the base class calls them so

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    (tmp_path / "token").write_text("t0ken\n")
    with closing(KubeApi(f"http://127.0.0.1:{server.server_port}", tmp_path / "token", timeout_s=HANG_S)) as api:
        yield api
    server.shutdown()
    thread.join()
    server.server_close()


class Clock:
    """Seconds in the hands of the test."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def replica(api: KubeApi, identity: str, clock: Clock) -> KubeLease:
    return KubeLease(api, LeaseName("kube-system", "license", identity), TIMES, clock)


def test_one_of_two(api: KubeApi, fake: FakeApi) -> None:
    """The first makes the Lease, the second waits and can say for whom; the token is sent."""
    first, second = replica(api, "a", Clock()), replica(api, "b", Clock())
    assert (first.attempt(), second.attempt(), first.valid(), second.valid()) == (True, False, True, False)
    assert second.holder() == "a"
    assert fake.lease is not None
    assert (fake.lease["spec"]["holderIdentity"], fake.lease["spec"]["leaseTransitions"]) == ("a", 0)
    assert fake.tokens == {"Bearer t0ken"}


def test_a_silent_holder_is_replaced_after_the_duration(api: KubeApi, fake: FakeApi) -> None:
    """Not before: the waiting replica measures by its own clock from when it saw the record first."""
    first, clock = replica(api, "a", Clock()), Clock()
    rival = replica(api, "b", clock)
    assert first.attempt()
    assert not rival.attempt()
    clock.now += 14
    assert not rival.attempt()
    clock.now += 2
    assert rival.attempt()
    assert fake.lease is not None
    assert fake.lease["spec"]["holderIdentity"] == "b"
    assert not first.attempt()
    assert first.holder() == "b"


def test_a_renewing_holder_is_not_replaced(api: KubeApi) -> None:
    """However long the other waits."""
    clock_a, clock_b = Clock(), Clock()
    first, second = replica(api, "a", clock_a), replica(api, "b", clock_b)
    for _ in range(20):
        assert first.attempt()
        assert not second.attempt()
        clock_a.now += 2
        clock_b.now += 2


def test_the_holder_stops_before_anybody_may_take_over(api: KubeApi, fake: FakeApi) -> None:
    """Cut off from the API server it stays valid for the deadline, which is shorter than the duration."""
    clock = Clock()
    first = replica(api, "a", clock)
    assert first.attempt()
    fake.down = True
    clock.now += 9
    assert first.attempt()
    clock.now += 2
    assert not first.valid()
    assert not first.attempt()
    fake.down = False
    assert first.attempt()


def test_a_paused_holder_is_not_valid_when_it_wakes(api: KubeApi) -> None:
    """It needs no word from the API server to know."""
    clock_a, clock_b = Clock(), Clock()
    first, second = replica(api, "a", clock_a), replica(api, "b", clock_b)
    assert first.attempt()
    assert not second.attempt()
    clock_a.now += 60
    clock_b.now += 60
    assert second.attempt()
    assert not first.valid()


def test_release_lets_the_next_in_at_once(api: KubeApi, fake: FakeApi) -> None:
    """And releasing a Lease that is another's does nothing."""
    first, second = replica(api, "a", Clock()), replica(api, "b", Clock())
    first.attempt()
    assert not second.attempt()
    second.release()
    assert not second.attempt()
    first.release()
    assert not first.valid()
    assert second.attempt()
    assert fake.lease is not None
    assert fake.lease["spec"]["holderIdentity"] == "b"


def test_two_writes_at_once(api: KubeApi, fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes on an outdated version has lost."""
    first = replica(api, "a", Clock())
    fake.store({"metadata": {"name": "license"}, "spec": {"holderIdentity": ""}})
    old = fake.answer

    def meanwhile(method: str, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        answer = old(method, path, body)
        if method == "GET":
            fake.version += 1
        return answer

    monkeypatch.setattr(fake, "answer", meanwhile)
    assert not first.attempt()


def test_the_name_of_the_lease() -> None:
    """Each start has an identity of its own."""
    one, two = parse_kube_lease("kube-system/license"), parse_kube_lease("kube-system/license")
    assert (one.namespace, one.name) == ("kube-system", "license")
    assert one.me != two.me
    with pytest.raises(SettingsError, match="write NAMESPACE/NAME"):
        parse_kube_lease("license")


def test_outside_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag without a cluster is explained."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(SettingsError, match="outside a cluster leave the first out and give --lease-auth none"):
        api_server()
