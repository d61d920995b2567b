"""The disk of the license server is full for a while: nothing is promised that is not kept, and it goes on by itself.

The data lie on a file system of four mebibytes that only the server's process sees; a file beside them takes the rest.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from siege import Castle, ask, body, castle, gpu
from windlass_testbed.waiting import wait_until

WAYS = (("unshare", "--user", "--map-root-user", "--mount"), ("unshare", "--mount"))
"""Ways to a file system of one process: as any user where the kernel lets it, else as root."""
MOUNT = 'mkdir -p "$0" && mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"'
MIB = 1024**2
TRIES_MAX = 1_000
"""More than the room that SQLite keeps in its log."""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Castle]:
    """A server on a small disk, with a license."""
    trials = ((way, (*way, "sh", "-c", MOUNT, str(tmp_path / "trial"), "true")) for way in WAYS)
    way = next((way for way, trial in trials if not subprocess.run(trial, check=False).returncode), None)
    assert way, "this machine gives a process no file system of its own; run as root, as the README says"
    before = (*way, "sh", "-c", MOUNT, str(tmp_path / "data"))
    with castle(tmp_path, "--requests-per-peer", "0", before=before) as one:
        one.license()
        yield one


def ballast(held: Castle) -> Path:
    """The file that takes the rest of the server's disk, by its own view of the folders."""
    return Path(f"/proc/{held.up.process.pid}/root{held.folder}/data/ballast")


def fill(file: Path) -> None:
    """Write until the disk takes no byte more."""
    with file.open("wb", buffering=0) as rest:
        for size in (MIB, 4096, 1):
            try:
                while rest.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


def test_a_full_disk_grants_nothing_and_loses_nothing(held: Castle) -> None:
    """Refusals say so; probes answer; every answered grant has its record; renewals go on when there is room again."""
    assert ask(held.up, body([gpu(0)], "healthy"))[0] == 200
    fill(ballast(held))
    granted, answer = 1, (200, {})
    for number in range(TRIES_MAX):
        answer = ask(held.up, body([gpu(1)], f"uid-{number}", "x" * 200))
        if answer[0] != 200:
            break
        granted += 1
    status, refused = answer
    assert (status, refused["reason"]) == (503, "StoreFailed")
    assert "disk" in str(refused["message"])
    assert held.up.get("/healthz")
    ballast(held).unlink()
    wait_until(lambda: ask(held.up, body([gpu(0)], "healthy"))[1].get("state") == "renewed", "a renewal")
    assert held.events().count("granted") == granted
    assert "Traceback" not in (held.folder / "server.log").read_text()
