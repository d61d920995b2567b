"""`windlass run --api-server-count 2` with the engine: one queue, one set of limits, one page of metrics, one end."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from windlass_testbed import daemon
from windlass_testbed.waiting import wait_until

from ..conftest import Engine
from ..serving_engine import ASK_S
from ..serving_engine import answers as is_up

PLACES, SHARE, STREAMS, TOKENS = 4, 3, 12, 900
"""One place is kept from the key that holds all others."""
SAMPLES = 20
"""Pages with a queue that are read."""
PATIENCE_S = 600
"""Of the server at its end, and of the clients: the machine may be slow."""
FLAGS = (
    "--dtype float32 --max-model-len 1024 --served-model-name demo --api-server-count 2 --use-lookahead "
    f"--limit-worker-concurrency {PLACES} --api-keys-file /keys/keys.yaml --shutdown-timeout {PATIENCE_S}"
)
KEYS = """\
keys:
  - {name: free, key: sk-free-1}
  - {name: few, key: sk-few-few-1, requestsPerMinute: 3}
"""
PROCESSES = (
    "import pathlib\n"
    "rows = {path.parent.name: path.read_bytes() for path in pathlib.Path('/proc').glob('[0-9]*/cmdline')}\n"
    "print(*sorted(pid for pid, row in rows.items() if row.startswith(b'VLLM::APIServer_')))\n"
)
BODY = {"model": "demo", "prompt": "def add(a, b):", "max_tokens": TOKENS, "ignore_eos": True, "stream": True}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "keys.yaml").write_text(KEYS)
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755)  # the server is no root
    return folder


@pytest.fixture(scope="module")
def url(engine: Engine, keys: Path) -> Iterator[str]:
    with engine.serving("windlass", "run", *FLAGS.split(), mounts={keys: "/keys:ro"}) as address:
        yield address


@contextmanager
def connections(url: str, number: int, key: str = "sk-free-1") -> Iterator[list[httpx.Client]]:
    """So many clients, each with a connection of its own, which any of the processes may take."""
    with ExitStack() as stack:
        made = (
            httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S)
            for _ in range(number)
        )
        yield [stack.enter_context(client) for client in made]


def ask(client: httpx.Client, **more: object) -> httpx.Response:
    """One completion."""
    return client.post("/v1/completions", json=BODY | more)


def sums(text: str) -> dict[str, float]:
    """The sums of a page's metrics by name."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def page(url: str, path: str = "/windlass/metrics") -> dict[str, float]:
    """The sums as one of the processes has them."""
    return sums(httpx.get(url + path, timeout=ASK_S).text)


def api_processes(engine: Engine, url: str) -> list[str]:
    """Their ids in the container."""
    return daemon.docker(engine.paths, "exec", engine.container(url), "python3", "-c", PROCESSES).split()


def test_places_and_queue_are_the_containers(engine: Engine, url: str) -> None:
    """Never more than the places run, and what waits is seen by each process."""
    assert len(api_processes(engine, url)) == 2
    before = page(url).get("windlass_usage_requests_total", 0)
    seen: list[tuple[float, float]] = []

    def watch() -> int:
        """Read pages until so many had a queue; their number."""

        def queued() -> int:
            found = page(url)
            seen.append((found["windlass_api_requests_running"], found["windlass_api_requests_waiting"]))
            pages = sum(waiting > 0 for _, waiting in seen)
            return pages if pages >= SAMPLES else 0

        return wait_until(queued, "pages with a queue", PATIENCE_S, 0.05)

    def ask_on(client: httpx.Client) -> list[httpx.Response]:
        """Ask while somebody watches: on a busy machine a page takes as long as an answer."""
        asked = [ask(client, max_tokens=200)]
        while not watching.done():
            asked.append(ask(client, max_tokens=200))
        return asked

    with ThreadPoolExecutor(STREAMS + 1) as pool, connections(url, STREAMS) as clients:
        watching = pool.submit(watch)
        answers = [answer for some in pool.map(ask_on, clients) for answer in some]
    assert watching.result() == SAMPLES, seen
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    assert all(answer.text.endswith("data: [DONE]\n\n") for answer in answers)
    assert max(running for running, _ in seen) == SHARE, seen
    pages = [page(url) for _ in range(8)]
    assert {found["windlass_usage_requests_total"] for found in pages} == {before + len(answers)}


def test_limits_are_the_services(url: str) -> None:
    """Three requests a minute, whatever process gets them."""
    with ThreadPoolExecutor(8) as pool, connections(url, 8, "sk-few-few-1") as clients:
        codes = sorted(pool.map(lambda one: ask(one, max_tokens=8).status_code, clients))
    assert codes == [200] * 3 + [429] * 5


def test_the_engines_page_has_lookaheads_counts(url: str) -> None:
    """From each process, and the engine's own requests of both."""
    pages = [page(url, "/metrics") for _ in range(8)]
    assert all("windlass_lookahead_requests_total" in found for found in pages)
    assert len({found["vllm:request_success_total"] for found in pages}) == 1


def test_running_answers_end_before_the_server(engine: Engine, url: str) -> None:
    """SIGTERM: who runs gets all tokens, who comes is refused, and the container ends well. The last of this server."""
    name = engine.container(url)
    with ThreadPoolExecutor(SHARE) as pool, connections(url, SHARE) as clients:
        running = [pool.submit(ask, one) for one in clients]
        wait_until(lambda: page(url)["windlass_api_requests_running"] >= SHARE or any(one.done() for one in running))
        daemon.docker(engine.paths, "kill", "--signal", "TERM", name)
        answers = [one.result() for one in running]
    assert all(answer.text.endswith("data: [DONE]\n\n") for answer in answers)
    assert daemon.docker(engine.paths, "wait", name).strip() == "0"


def test_a_lost_process_ends_the_server(engine: Engine, keys: Path) -> None:
    """The pod starts anew with all of them."""
    with engine.started("windlass", "run", *FLAGS.split(), mounts={keys: "/keys:ro"}) as (name, host):
        assert is_up(f"http://{host}", lambda: engine.is_running(name))
        victim = api_processes(engine, f"http://{host}")[0]
        daemon.docker(engine.paths, "exec", name, "python3", "-c", f"import os; os.kill({victim}, 9)")
        assert daemon.docker(engine.paths, "wait", name).strip() != "0"
        assert "the engine ended with exit code 1: RuntimeError: Process ApiServer_" in engine.log(name, "all")
