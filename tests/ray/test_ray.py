"""A real Ray cluster of two members on this machine. `make test-ray` brings the package `ray`."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from windlass_testbed.ports import free_port

pytestmark = pytest.mark.timeout(900)
LIMIT_S = 600
MEMBER = Path(__file__).with_name("ray_member.py")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Head and follower, serving; what they print is in files of their index."""
    ports = [str(free_port()) for _ in range(3)]
    started = []
    for index in (0, 1):
        with (tmp_path / str(index)).open("wb") as log:
            command = [sys.executable, str(MEMBER), str(index), *ports]
            started.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
    try:
        deadline = time.monotonic() + LIMIT_S
        while not all("SERVING" in said(tmp_path, index) for index in (0, 1)):
            assert time.monotonic() < deadline, said(tmp_path, 0)[-4000:]  # clock: ends a hang; no test bed beside Ray
            assert [one.poll() for one in started] == [None, None], said(tmp_path, 0)[-4000:]
            time.sleep(0.5)  # clock: how often it looks
        yield started
    finally:
        for one in started:
            one.terminate()
        for one in started:
            with suppress(subprocess.TimeoutExpired):
                one.wait(60)
            one.kill()


def said(folder: Path, index: int) -> str:
    return (folder / str(index)).read_text(errors="replace")


def test_the_cluster_is_formed_and_ends_as_one(pair: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """Ray counts both machines, places a card on each; the follower ends with the head."""
    head, follower = pair
    assert "PLACED 2 2.0 2" in said(tmp_path, 0)
    head.terminate()
    assert follower.wait(LIMIT_S) == 100
    assert head.wait(LIMIT_S) == 0
    assert "ENDED the head 127.0.0.1 ended: it was told to stop" in said(tmp_path, 1)
