"""Journals and totals of hours on disk: each record once, whatever is cut short; bounds."""

import json
import urllib.request
from pathlib import Path

import pytest
from windlass.front.usage import hours, journal, page
from windlass.front.usage.hours import Hour, Journal
from windlass.front.usage.journal import Journals
from windlass.front.usage.read import Tokens
from windlass.supervisor.board import EngineFacts, FactsBoard, FactsServer
from windlass_testbed.waiting import HANG_S

NOON = 1_800_014_400.0
TOKENS = Tokens(7, 3, 2)
WRITER = "0" * 32


def total(root: Path, name: str = "requests") -> int:
    return sum(row[name] for row in hours.records(root))


def test_a_record_is_there_at_once_and_without_the_key(tmp_path: Path) -> None:
    Journals(tmp_path, lambda: NOON).add("search", "poet", TOKENS, estimated=True).result(HANG_S)
    (row,) = hours.records(tmp_path)
    row.pop("writer")
    used = {"requests": 1, "tokens_in": 7, "tokens_out": 3, "tokens_cached": 2, "estimated": 1}
    assert row == {"hour": hours.hour_of(NOON), "key": "search", "model": "poet"} | used


@pytest.mark.parametrize("cut", ["unlink", "replace"])
def test_a_fold_that_is_cut_short_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str) -> None:
    """Before the totals take their place, and before the journal goes."""
    writer, name = tmp_path / WRITER, Journal(1, "2026-11-25T12")
    writer.mkdir()
    (writer / name.name).write_bytes(hours.line("a", "m", TOKENS, estimated=False) * 5)

    def fail(*_: object, **__: object) -> None:
        raise OSError("cut short")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="cut short"):
        patch.setattr(Path, cut, fail)
        hours.fold(writer, name)
    assert (writer / name.name).exists()
    assert total(tmp_path) == 5
    hours.fold(writer, name)
    assert total(tmp_path) == 5
    assert not (writer / name.name).exists()


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path: Path) -> None:
    whole = hours.line("a", "m", TOKENS, estimated=False)
    for end in range(len(whole)):
        hour = Hour()
        hours.replay(whole + whole[:end] + whole, hour)
        assert hour.totals["a", "m"].requests == 2, end


def test_hours_and_restarts_are_apart(tmp_path: Path) -> None:
    """A second process has a folder of its own while the first lives; hours have rows of their own."""
    now = [NOON]
    first, second = Journals(tmp_path, lambda: now[0]), Journals(tmp_path, lambda: now[0])
    for time in (NOON, NOON + 3600, NOON):  # a clock may be set back
        now[0] = time
        for one in (first, second):
            one.add("a", "m", TOKENS, estimated=False).result(HANG_S)
    rows = list(hours.records(tmp_path))
    assert len({row["writer"] for row in rows}) == 2
    assert sorted((row["hour"], row["requests"]) for row in rows) == [
        *[(hours.hour_of(NOON), 2)] * 2,
        *[(hours.hour_of(NOON + 3600), 1)] * 2,
    ]
    assert [row["requests"] for row in hours.records(tmp_path, hours.hour_of(NOON + 1), hours.hour_of(NOON))] == [2, 2]


def test_many_names_are_bounded(tmp_path: Path) -> None:
    """Beyond the bound names share a row of their key, and nothing is left uncounted; old hours go."""
    hour = Hour()
    for number in range(hours.PLACES_MAX + 50):
        hour.add("a", f"{number:04}" * 100, TOKENS, estimated=False)
    assert len(hour.totals) == hours.PLACES_MAX + 1
    assert hour.totals["a", hours.OTHER].requests == 50
    assert max(len(model) for _, model in hour.totals) == hours.NAME_MAX
    for number in range(hours.HOURS_KEPT + 3):
        (tmp_path / f"{hours.hour_of(NOON + 3600 * number)}.json").write_text("{}")
    hours.prune(tmp_path)
    left = hours.hours(tmp_path)
    assert (len(left), left[0]) == (hours.HOURS_KEPT, hours.hour_of(NOON + 3 * 3600))


def test_what_cannot_be_written_is_counted(tmp_path: Path) -> None:
    """No request fails."""
    (tmp_path / "file").write_text("")
    one = Journals(tmp_path / "file", lambda: NOON)
    for _ in range(3):
        one.add("a", "m", TOKENS, estimated=False).result(HANG_S)
    assert one.unrecorded == 3


def test_where_records_are() -> None:
    pod = {"WINDLASS_SERVICE": "demo", "XDG_CACHE_HOME": "/cache"}
    assert journal.root(pod) == Path("/cache/windlass/usage/demo")
    assert journal.root(pod | {journal.VARIABLE: "/usage"}) == Path("/usage")
    assert journal.root({"XDG_CACHE_HOME": "/home/me/.cache"}) is None


def test_the_page(tmp_path: Path) -> None:
    """Range, no folder yet, no recording, and damage in a sentence."""
    Journals(tmp_path, lambda: NOON).add("a", "m", TOKENS, estimated=False).result(HANG_S)
    assert '"key": "a"' in page.answer(tmp_path, "")[2]
    assert page.answer(tmp_path, "from=2999-01-01T00")[::2] == (200, '{"version": 1, "records": []}')
    assert page.answer(tmp_path / "none", "")[0] == 200
    assert page.answer(None, "")[0] == 404
    (next(tmp_path.iterdir()) / "2026-11-25T12.json").write_text("{")
    assert page.answer(tmp_path, "")[0] == 500


def test_the_facts_port_shows_the_records(tmp_path: Path) -> None:
    """The supervisor's port, over HTTP, with the range of its query."""
    Journals(tmp_path, lambda: NOON).add("a", "m", TOKENS, estimated=False).result(HANG_S)
    board = FactsBoard("demo", EngineFacts("vllm", "", ()))
    with FactsServer(board, 0, "127.0.0.1", usage_in=tmp_path) as server:
        address = f"http://127.0.0.1:{server.port}{page.PATH}"
        for query, found in (("", 1), (f"?from={hours.hour_of(NOON)}", 1), ("?to=2000-01-01T00", 0)):
            with urllib.request.urlopen(address + query) as answer:
                assert len(json.load(answer)["records"]) == found


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """As `lost+found` at the root of a volume, which only root may open."""
    (tmp_path / "lost+found").mkdir(mode=0o700)
    writing = Journals(tmp_path, lambda: NOON)
    writing.add("a", "m", TOKENS, estimated=False).result(HANG_S)
    assert (writing.unrecorded, total(tmp_path)) == (0, 1)
    assert list((tmp_path / "lost+found").iterdir()) == []


def test_totals_that_cannot_be_read_are_put_aside(tmp_path: Path) -> None:
    """An empty file, as a power cut leaves it, stops no writer."""
    folder = tmp_path / WRITER
    folder.mkdir()
    (folder / "2026-01-01T00.json").touch()
    writing = Journals(tmp_path, lambda: NOON)
    writing.add("a", "m", TOKENS, estimated=False).result(HANG_S)
    assert (writing.unrecorded, total(tmp_path)) == (0, 1)
    assert (folder / "2026-01-01T00.broken").exists()


def test_a_volume_without_locks_gets_no_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(journal.fcntl, "flock", fail)
    writing = Journals(tmp_path, lambda: NOON)
    writing.add("a", "m", TOKENS, estimated=False).result(HANG_S)
    assert (writing.unrecorded, list(tmp_path.iterdir())) == (1, [])


@pytest.mark.parametrize("query", ["from=2026-11-25", "to=2026-11-25T1"])
def test_the_page_takes_whole_hours(tmp_path: Path, query: str) -> None:
    """A day would compare as less than each of its hours."""
    assert page.answer(tmp_path, query)[0] == 400
