"""Which node image is taken: the switch, what stands already, and what a registry says within its two seconds."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from windlass_testbed import published
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.published import Answer, Choice, Wanted, choose, host_and_path, probe, wanted
from windlass_testbed.versions import CLUSTER_TOOLS, KUBERNETES, PUBLISHED_NODE, PUBLISHED_TOOLS, TOOL
from windlass_testbed.waiting import HANG_S

DIGEST = "sha256:" + "0" * 64
NAMED = f"127.0.0.1:5000/kindest/node:v1.34.4@{DIGEST}"


def there(_: str) -> Answer:
    return Answer(0.3)


def absent(_: str) -> Answer:
    return Answer(2.0, "registry-1.docker.io did not answer within 2 s")


def not_asked(_: str) -> Answer:
    raise AssertionError("nobody shall be asked")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Wanted("auto", PUBLISHED_NODE)),
        ({"WINDLASS_NODE": "built"}, Wanted("built", PUBLISHED_NODE)),
        ({"WINDLASS_NODE": "published"}, Wanted("published", PUBLISHED_NODE)),
        ({"WINDLASS_NODE_IMAGE": NAMED}, Wanted("published", NAMED)),
        ({"WINDLASS_NODE_IMAGE": NAMED, "WINDLASS_NODE": "auto"}, Wanted("auto", NAMED)),
    ],
)
def test_the_environment_says_which_way(environment, expected):
    assert wanted(environment) == expected


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"WINDLASS_NODE": "pulled"}, "it is auto, published or built"),
        ({"WINDLASS_NODE_IMAGE": "kindest/node:v1.34.4"}, "has no digest"),
    ],
)
def test_a_wrong_word_is_refused(environment, words):
    with pytest.raises(BedError, match=words):
        wanted(environment)


@pytest.mark.parametrize(
    ("way", "running", "built", "ask", "image", "words"),
    [
        ("built", None, False, not_asked, "", "as WINDLASS_NODE asks"),
        ("published", "", True, not_asked, NAMED, "as the environment asks"),
        ("auto", "", False, not_asked, "", "as the cluster that is up"),
        ("auto", f"127.0.0.1:5000/kindest/node@{DIGEST}", True, not_asked, NAMED, "as the cluster that is up"),
        ("auto", f"kindest/node@{DIGEST[:-1]}1", True, not_asked, f"kindest/node@{DIGEST[:-1]}1", "as the cluster"),
        ("auto", None, True, not_asked, "", "since its programs are in the cache"),
        ("auto", None, False, there, NAMED, "since its registry answered after 0.3 s"),
        ("auto", None, False, absent, "", "since registry-1.docker.io did not answer within 2 s"),
    ],
)
def test_the_choice(way, running, built, ask, image, words):
    """What stands already is kept, and only a machine that would have to build asks a registry."""
    choice = choose(Wanted(way, NAMED), running, built=built, probe=ask)
    assert choice.image == image
    assert words in choice.line


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (
            PUBLISHED_NODE.partition("@")[0] + f"@{DIGEST}",
            ("registry-1.docker.io", f"/v2/kindest/node/manifests/{DIGEST}"),
        ),
        (f"kindest/node@{DIGEST}", ("registry-1.docker.io", f"/v2/kindest/node/manifests/{DIGEST}")),
        (f"busybox:1@{DIGEST}", ("registry-1.docker.io", f"/v2/library/busybox/manifests/{DIGEST}")),
        (NAMED, ("127.0.0.1:5000", f"/v2/kindest/node/manifests/{DIGEST}")),
        (f"registry.k8s.io/a/b/c:v1@{DIGEST}", ("registry.k8s.io", f"/v2/a/b/c/manifests/{DIGEST}")),
    ],
)
def test_where_a_manifest_is_asked_for(image, expected):
    assert host_and_path(image) == expected


@contextmanager
def registry_that_says(code: int) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            self.send_response(code)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("code", "missing"), [(200, ""), (401, ""), (404, "answers with HTTP 404"), (503, "answers with HTTP 503")]
)
def test_what_a_registry_says(code, missing):
    """401 asks for a token, as Docker Hub does of everybody; the container engine gets one."""
    with registry_that_says(code) as (address, asked):
        answer = probe(f"{address}/kindest/node@{DIGEST}")
    assert (missing in answer.missing, bool(answer.missing)) == (True, bool(missing))
    assert asked == [f"/v2/kindest/node/manifests/{DIGEST}"]


def test_what_speaks_no_http_is_named():
    """Another program may have the port."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()

        def greet() -> None:
            link, _ = other.accept()
            with link:
                link.recv(4096)
                link.sendall(b"220 mail ready\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        answer = probe(f"127.0.0.1:{other.getsockname()[1]}/kindest/node@{DIGEST}")
        thread.join()
    assert "cannot be reached" in answer.missing


def test_a_registry_that_says_nothing_costs_its_time_and_no_more():
    """It takes the connection and is silent."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        answer = probe(f"127.0.0.1:{silent.getsockname()[1]}/kindest/node@{DIGEST}", within_s=0.3)
    assert "did not answer" in answer.missing


def test_a_resolver_that_says_nothing_costs_no_more(monkeypatch):
    """The time for a name is no socket's, so the whole question has its bound."""
    answered = threading.Event()
    monkeypatch.setattr(published, "_missing", lambda *_: str(answered.wait(HANG_S)))
    answer = probe(f"registry.example.com/kindest/node@{DIGEST}", within_s=0.2)
    answered.set()
    assert answer.missing == "registry.example.com did not answer within 0.2 s"


def test_a_registry_that_refuses_the_connection_is_named():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        answer = probe(f"127.0.0.1:{closed.getsockname()[1]}/kindest/node@{DIGEST}")
    assert "cannot be reached" in answer.missing


@pytest.mark.parametrize(
    ("forced", "expected"), [(False, "built here, since the pull failed"), (True, None)], ids=["auto", "published"]
)
def test_a_pull_that_fails(monkeypatch, tmp_path, forced, expected):
    """The node image is built then, unless the published one was asked for."""

    def fails(*_: object) -> str:
        raise BedError("toomanyrequests")

    monkeypatch.setattr(published, "docker", fails)
    monkeypatch.setattr(published, "succeeds", lambda *_: False)
    where, choice = Paths(tmp_path, tmp_path / "run"), Choice(NAMED, "", forced=forced)
    if expected is None:
        with pytest.raises(BedError, match="toomanyrequests"):
            published._pulled(where, choice)
    else:
        assert expected in published._pulled(where, choice).line


def test_the_published_node_is_of_our_kubernetes_and_needs_none_of_its_programs():
    """Same minor version, named by a digest; nothing that it brings is compiled beside it."""
    name, _, digest = PUBLISHED_NODE.partition("@")
    assert name.rpartition(":")[2].rpartition(".")[0] == KUBERNETES.rpartition(".")[0]
    assert len(digest) == len(DIGEST)
    assert set(PUBLISHED_TOOLS) < set(CLUSTER_TOOLS)
    assert not [name for name in PUBLISHED_TOOLS if TOOL[name].stamped]
