"""Reading ahead, with real files."""

import os
from pathlib import Path

import pytest
from windlass.engine.startup.files import WeightFile
from windlass.engine.startup.preread import GIB, Block, Preread, Progress, blocks
from windlass_testbed.waiting import HANG_S

PLENTY = 1 << 60


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.engine.startup.preread.BLOCK_BYTES", 1000)
    monkeypatch.setattr("windlass.engine.startup.preread.blocks", lambda files: blocks(files, 1000))


@pytest.fixture
def weights(tmp_path: Path) -> list[WeightFile]:
    found = []
    for name, size in (("a.bin", 2500), ("b.bin", 1000)):
        (tmp_path / name).write_bytes(os.urandom(size))
        found.append(WeightFile(tmp_path / name, size))
    return found


def run(reader: Preread) -> Progress:
    reader.start()
    return reader.join(HANG_S)


def test_blocks() -> None:
    """Files in order, in pieces, the last one short."""
    files = [WeightFile(Path("a"), 2500), WeightFile(Path("b"), 1)]
    assert list(blocks(files, 1000)) == [
        Block(Path("a"), 0, 1000),
        Block(Path("a"), 1000, 1000),
        Block(Path("a"), 2000, 500),
        Block(Path("b"), 0, 1),
    ]


def test_reads_every_byte(weights: list[WeightFile], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block is read once, by whichever thread, and the end is reported."""
    seen, told, real = [], [], os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, to, at: seen.append((len(to[0]), at)) or real(fd, to, at))
    progress = run(Preread(weights, told.append, free_bytes=lambda: PLENTY, threads=3))
    assert sorted(seen) == [(500, 2000), (1000, 0), (1000, 0), (1000, 1000)]
    assert (progress.state, progress.bytes_read, progress.why) == ("done", 3500, "")
    assert told[-1] == progress


def test_stops_when_memory_is_short(weights: list[WeightFile]) -> None:
    """What does not fit beside the reserve is left to the engine; what it says tells what to do."""
    progress = run(Preread(weights, lambda _: None, free_bytes=lambda: 2100, reserve_bytes=100, threads=2))
    assert (progress.state, progress.bytes_read) == ("stopped", 2000)
    assert "does not fit into free memory" in progress.why


def test_memory_is_asked_again(weights: list[WeightFile]) -> None:
    """Memory that the engine takes meanwhile ends the reading too."""
    free = iter((PLENTY, PLENTY, 0, 0, 0))
    progress = run(Preread(weights, lambda _: None, free_bytes=lambda: next(free), threads=1))
    assert (progress.state, progress.bytes_read) == ("stopped", 2000)


def test_cancelled_before_the_end(weights: list[WeightFile]) -> None:
    """The first reason counts, and nothing is read after it."""
    reader = Preread(weights, lambda _: None, free_bytes=lambda: PLENTY)
    reader.cancel("the engine is up")
    reader.cancel("told to stop")
    progress = run(reader)
    assert (progress.state, progress.bytes_read, progress.why) == ("stopped", 0, "the engine is up")


def test_cancelled_after_the_end(weights: list[WeightFile]) -> None:
    """A reading that is over stays done."""
    reader = Preread(weights, lambda _: None, free_bytes=lambda: PLENTY)
    run(reader)
    reader.cancel("the engine is up")
    assert reader.join(HANG_S).state == "done"


def test_file_that_cannot_be_read(weights: list[WeightFile]) -> None:
    """The engine will tell of it; reading ahead only stops."""
    weights[0].path.unlink()
    progress = run(Preread(weights, lambda _: None, free_bytes=lambda: PLENTY, threads=1))
    assert progress.state == "stopped"
    assert "a.bin cannot be read: No such file or directory" in progress.why


def test_file_that_became_shorter(weights: list[WeightFile]) -> None:
    """A file that is cut meanwhile ends its blocks early instead of being waited for."""
    os.truncate(weights[0].path, 100)
    progress = run(Preread(weights, lambda _: None, free_bytes=lambda: PLENTY, threads=1))
    assert (progress.state, progress.bytes_read) == ("stopped", 1100)


def test_progress_line() -> None:
    """GiB, seconds and GiB/s; and why it is not everything."""
    progress = Progress("stopped", 2, 4 * GIB, 3 * GIB, 2.0, "the engine is up")
    assert progress.line() == "weights read ahead: 3.00 of 4.00 GiB in 2.0 s, 1.50 GiB/s; the engine is up"
