"""`kubectl windlass usage` against the page of the facts port, with records on a real disk."""

from __future__ import annotations

import csv
import io
import json
from argparse import Namespace
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from windlass.front.usage import page
from windlass.front.usage.journal import Journals
from windlass.front.usage.read import Tokens
from windlass_base.kube.errors import NotFoundError
from windlass_client import token_access
from windlass_kubectl import usage
from windlass_kubectl.parser import parser
from windlass_kubectl.session import Session
from windlass_testbed.waiting import HANG_S

NOW = datetime(2026, 11, 25, 12, 30, tzinfo=UTC)
SERVICE = {"spec": {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}}}
NOWHERE = Path("/nowhere")
TOKENS = Tokens(10, 5, 4)


class Server:
    """An API server with services and pods, whose proxy asks the real page; a pod without a folder is gone.

    A pod whose folder is `NOWHERE` records nothing, as those of family deepspeed.
    """

    def __init__(self, pods: dict[str, dict[str, Path | None]]) -> None:
        self.pods, self.asked = pods, list[str]()

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if path.endswith("/llmservices"):
            items = [SERVICE | {"metadata": {"name": name, "namespace": "team"}} for name in self.pods]
            return httpx2.Response(200, json={"metadata": {}, "items": items})
        if "/llmservices/" in path and path.rsplit("/", 1)[-1] in self.pods:
            return httpx2.Response(200, json=SERVICE | {"metadata": {"name": "demo", "namespace": "team"}})
        if path.endswith("/pods"):
            name = request.url.params["labelSelector"].split("=", 1)[1].split(",")[0]
            rows = [{"metadata": {"name": pod}, "status": {"phase": "Running"}} for pod in self.pods[name]]
            return httpx2.Response(200, json={"metadata": {}, "items": rows})
        if path.endswith(":8502/proxy/windlass/usage"):
            self.asked.append(request.url.query.decode())
            pod = path.split("/")[6].removesuffix(":8502")
            root = next(roots[pod] for roots in self.pods.values() if pod in roots)
            if root is None:
                return httpx2.Response(503, json={"kind": "Status", "message": "no route to the pod"})
            status, _, text = page.answer(None if root == NOWHERE else root, request.url.query.decode())
            return httpx2.Response(status, text=text)
        return httpx2.Response(404, json={"kind": "Status", "reason": "NotFound", "message": "not found"})


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """`await ask(server, "usage", …)` is the exit code."""

    async def go(server: Server, *words: str) -> int:
        access = token_access("https://api", "t", namespace="team")
        monkeypatch.setattr("windlass_kubectl.session.find_access", lambda **_: access)
        monkeypatch.setattr(Session, "now", staticmethod(lambda: NOW))
        options: Namespace = parser().parse_args(["usage", *words])
        async with Session(options) as session:
            session.client.api._http._transport = httpx2.MockTransport(server.handle)
            return await usage.run(session)

    return go


def record(root: Path, key: str, model: str, count: int, hours_ago: int = 0) -> None:
    """Requests of one process."""
    journals = Journals(root, (NOW - timedelta(hours=hours_ago)).timestamp)
    for _ in range(count):
        journals.add(key, model, TOKENS, estimated=False).result(HANG_S)


async def test_a_table_sums_services_keys_and_models(ask, tmp_path: Path, capsys) -> None:
    record(tmp_path / "a", "search", "poet", 3)
    record(tmp_path / "a", "search", "poet", 2, hours_ago=23)
    record(tmp_path / "a", "search", "poet", 9, hours_ago=24)
    record(tmp_path / "b", "batch", "other", 1)
    assert await ask(Server({"demo": {"demo-1": tmp_path / "a"}, "two": {"two-1": tmp_path / "b"}})) == 0
    assert capsys.readouterr().out.splitlines() == [
        "SERVICE  KEY     MODEL  REQUESTS  TOKENS IN  TOKENS OUT  TOKENS CACHED  ESTIMATED",
        "demo     search  poet   5         50         25          20             0",
        "two      batch   other  1         10         5           4              0",
    ]


async def test_pods_on_one_volume_count_once(ask, tmp_path: Path, capsys) -> None:
    """Both tell the same records."""
    record(tmp_path, "search", "poet", 3)
    assert await ask(Server({"demo": {"demo-1": tmp_path, "demo-2": tmp_path}}), "demo", "-o", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)["usage"]
    sums = {"requests": 3, "tokens_in": 30, "tokens_out": 15, "tokens_cached": 12, "estimated": 0}
    assert row == {"service": "demo", "key": "search", "model": "poet"} | sums


async def test_range_filters_and_csv(ask, tmp_path: Path, capsys) -> None:
    """A month is asked for a day at a time, and each hour once."""
    for hours_ago in (0, 30, 500):
        record(tmp_path, "search", "poet", 1, hours_ago)
        record(tmp_path, "batch", "base", 7, hours_ago)
    server = Server({"demo": {"demo-1": tmp_path}})
    words = ("--from", "2026-11-01", "--to", "2026-11-24", "--key", "batch", "--model", "base", "--by", "key,hour")
    assert await ask(server, "demo", *words, "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["hour"], row["key"], row["requests"]) for row in rows] == [
        ("2026-11-04T16", "batch", "7"),
        ("2026-11-24T06", "batch", "7"),
    ]
    assert len(server.asked) == 24
    assert server.asked[1] == "from=2026-11-02T00&to=2026-11-02T23"


async def test_a_pod_without_records_is_named(ask, tmp_path: Path, capsys) -> None:
    record(tmp_path, "search", "poet", 3)
    assert await ask(Server({"demo": {"demo-1": tmp_path, "demo-2": None}}), "demo") == 1
    said = capsys.readouterr()
    assert "search" in said.out
    assert "pod demo-2 is left out or incomplete: " in said.err


async def test_a_pod_that_records_nothing_is_no_failure(ask, tmp_path: Path, capsys) -> None:
    """Family deepspeed has no records; those of the other services are whole."""
    record(tmp_path, "search", "poet", 3)
    assert await ask(Server({"demo": {"demo-1": tmp_path}, "deep": {"deep-1": NOWHERE}})) == 0
    said = capsys.readouterr()
    assert "search" in said.out
    assert "pod deep-1 of service deep records no usage" in said.err
    assert "incomplete" not in said.err


async def test_no_service_no_usage(ask) -> None:
    with pytest.raises(NotFoundError):
        await ask(Server({}), "nobody")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "yesterday"), '"yesterday" is no time; write 2026-11-25 or 2026-11-25T14'),
        (("--to", "2026-13-01"), '"2026-13-01" is no time'),
        (("--by", "kye"), '"kye" is no column; write some of hour,service,key,model'),
    ],
)
def test_wrong_words_are_one_sentence(words: tuple[str, ...], said: str, capsys) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["usage", *words])
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("bent", [{"requests": -1}, {"requests": True}, {"key": 3}, {"hour": None}, {"tokens_in": "1"}])
def test_a_bent_record_is_refused(bent: dict[str, object]) -> None:
    """A pod is its tenant's."""
    row = dict.fromkeys(usage.NAMES, "a") | dict.fromkeys(usage.SUMS, 1)
    usage.merge({}, "demo", [row])
    with pytest.raises(usage.UnreadableError):
        usage.merge({}, "demo", [row | bent])
