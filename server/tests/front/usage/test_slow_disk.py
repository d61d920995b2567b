"""A disk that takes its time holds up the end of one answer, and neither the event loop nor other requests for long."""

import asyncio
import json
import os
import threading
import time
from pathlib import Path

import pytest
from windlass.front.usage import hours, journal
from windlass.front.usage.journal import Journals
from windlass.front.usage.meter import Meter
from windlass.front.usage.read import Tokens
from windlass_testbed.simulated_time import await_thread, elapse, passed_s
from windlass_testbed.waiting import HANG_S, wait_until

TOKENS = Tokens(7, 3, 2)
USAGE = b'{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}'


class Disk:
    """The module `os`, whose `write` waits until it is told to go on."""

    def __init__(self) -> None:
        self.free = threading.Event()

    def __getattr__(self, name: str):
        return getattr(os, name)

    def write(self, file: int, line: bytes) -> int:
        assert self.free.wait(HANG_S)
        return os.write(file, line)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch):
    found = Disk()
    monkeypatch.setattr(journal, "os", found)
    yield found
    found.free.set()


def metered(journals: Journals, sent: list[bytes]) -> Meter:
    """The `send` of one request."""

    async def send(message) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"])

    return Meter(send, lambda _: journals.add("a", "m", TOKENS, estimated=False), hides_usage=False)


def recorded(place: Path) -> int:
    return sum(row["requests"] for row in hours.records(place))


async def answer(meter: Meter) -> None:
    await meter({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await meter({"type": "http.response.body", "body": USAGE})


@pytest.mark.simulated_time
async def test_the_end_of_an_answer_waits_for_its_record(tmp_path: Path, disk: Disk) -> None:
    """The client has nothing of it before; the loop goes on meanwhile."""
    sent: list[bytes] = []
    waits = asyncio.create_task(answer(metered(Journals(tmp_path), sent)))
    await elapse(journal.WAIT_S / 2)
    assert (sent, waits.done()) == ([], False)
    disk.free.set()
    await await_thread(waits)
    assert (sent, recorded(tmp_path)) == ([USAGE], 1)
    assert passed_s() == pytest.approx(journal.WAIT_S / 2)


@pytest.mark.simulated_time
async def test_a_disk_that_takes_nothing_holds_nobody_for_long(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer ends after WAIT_S, and what cannot wait for the disk is counted; what waited is written in the end."""
    monkeypatch.setattr(journal, "UNWRITTEN_MAX", 3)
    journals, sent = Journals(tmp_path), list[bytes]()
    await asyncio.gather(*(answer(metered(journals, sent)) for _ in range(5)))
    assert passed_s() == pytest.approx(journal.WAIT_S)
    assert (len(sent), journals.unrecorded) == (5, 2)
    disk.free.set()
    journals.add("a", "m", TOKENS, estimated=False)
    wait_until(lambda: recorded(tmp_path) >= 3, "the records that waited")


def test_records_are_written_in_the_order_of_answers(tmp_path: Path) -> None:
    """By one thread."""
    journals = Journals(tmp_path)
    records = [journals.add("a", f"m-{number}", TOKENS, estimated=False) for number in range(200)]
    records[-1].result(HANG_S)
    (file,) = tmp_path.glob("*/*.log")
    assert [json.loads(line)[1] for line in file.read_text().split()] == [f"m-{number}" for number in range(200)]


def test_records_that_come_while_the_disk_writes_are_one_write(tmp_path: Path, disk: Disk) -> None:
    """The first is being written; the others are its next batch, and share what their answers wait for."""
    writes: list[bytes] = []
    taken, write = threading.Event(), disk.write

    def counted(file: int, line: bytes) -> int:
        writes.append(line)
        taken.set()
        return write(file, line)

    disk.write = counted  # type: ignore[method-assign]
    journals = Journals(tmp_path)
    first = journals.add("a", "m", TOKENS, estimated=False)
    assert taken.wait(HANG_S)
    others = [journals.add("a", f"m-{number}", TOKENS, estimated=False) for number in range(5)]
    assert len({id(one) for one in others}) == 1
    assert first is not others[0]
    disk.free.set()
    others[0].result(HANG_S)
    assert [len(one.split()) for one in writes] == [1, 5]
    assert recorded(tmp_path) == 6


def test_of_a_batch_that_a_full_disk_cuts_short_the_cut_lines_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole lines count as recorded, and the next batch is not spoiled."""
    journals = Journals(tmp_path)
    lines = [hours.line("a", f"m-{number}", TOKENS, estimated=False) for number in range(3)]
    cut = len(lines[0]) + 5

    class Full(Disk):
        def write(self, file: int, line: bytes) -> int:
            return os.write(file, line[:cut])

    monkeypatch.setattr(journal, "os", Full())
    journals._write(tmp_path, hours.hour_of(time.time()), lines)
    assert journals.unrecorded == 2
    monkeypatch.setattr(journal, "os", os)
    journals.add("a", "m", TOKENS, estimated=False).result(HANG_S)
    assert recorded(tmp_path) == 2


def test_a_writer_that_fails_in_whatever_way_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are counted as lost, and the next are written."""
    journals = Journals(tmp_path)
    journals.add("a", "m", TOKENS, estimated=False).result(HANG_S)

    def broken(*_: object) -> int:
        raise RuntimeError("no more threads")

    with monkeypatch.context() as patched:
        patched.setattr(journal._Writer, "write", broken)
        journals.add("a", "m", TOKENS, estimated=False).result(HANG_S)
    assert (journals.unrecorded, journals._unwritten) == (1, 0)
    journals.add("a", "m", TOKENS, estimated=False).result(HANG_S)
    assert recorded(tmp_path) == 2


def test_without_a_thread_the_record_is_counted_and_the_answer_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container at its limit of processes."""
    journals = Journals(tmp_path)

    def full(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(journals._writing, "submit", full)
        assert journals.add("a", "m", TOKENS, estimated=False) is None
    assert (journals.unrecorded, journals._unwritten) == (1, 0)
    journals.add("a", "m", TOKENS, estimated=False).result(HANG_S)
