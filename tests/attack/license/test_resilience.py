"""Attacks on the license server process that need no key and no license: floods, sizes, halves, damaged state.

The server runs without tokens here (`--lease-auth none`), which is when anybody may ask for anything.
"""

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from siege import GPUS, Castle, ask, body, castle, gpu, post, send
from windlass_testbed.attacks import without_rows
from windlass_testbed.waiting import HANG_S, wait_until

HERE = Path(__file__).parent
INVENTED = [f"MIG-{gpu(0)}/invented-{number}/0" for number in range(1024)]
BIG = [f"GPU-{number:0123d}" for number in range(1000)]
"""1,000 names of 127 characters: a request of about 131 KB."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Castle:
    """One server for attacks that leave nothing behind."""
    with castle(tmp_path_factory.mktemp("shared")) as held:
        held.license()
        yield held


def test_invented_slices_are_refused_and_bounded(tmp_path: Path) -> None:
    """Finding 3: slices that no driver names are refused, and documented names of one GPU stop at the cap."""
    with castle(tmp_path, "--requests-per-peer", "0") as held:
        held.license()
        before = held.up.memory_mib()
        for number in range(100):
            assert ask(held.up, body(INVENTED, f"uid-{number}"))[0] in (413, 422)
        for names in (INVENTED[:1], [f"MIG-{gpu(0)}/16/0"], [f"MIG-{gpu(0)}/0/8"], [f"MIG-{gpu(0)}/01/0"]):
            assert ask(held.up, body(names))[0] == 422
        slices = [f"MIG-{gpu(0)}/{number % 15}/{number % 7}" for number in range(64)]
        answers = [ask(held.up, body(slices, f"pod-{number}"))[0] for number in range(60)]
        assert answers == [200] * 48 + [403] * 12
        assert held.up.memory_mib() - before < 32
        assert held.restart() < 60


def test_leases_of_the_healthy_survive_a_poisoned_state(tmp_path: Path) -> None:
    """Finding 3: a directory that an earlier version filled starts within bounds, and says what it dropped."""
    with castle(tmp_path) as held:
        held.license()
        assert ask(held.up, body([gpu(1)], "healthy"))[0] == 200
        held.stop()
        poison(tmp_path / "data" / "license.sqlite3", leases=2000)
        begun = held.start()
        assert held.up.memory_mib() < 256
        assert ask(held.up, body([gpu(1)], "healthy"))[1]["state"] == "renewed"
        records = held.up.get("/ls/audit?event=dropped").decode().splitlines()
        assert [json.loads(record)["count"] for record in records] == [2000]
        assert begun < 60


def poison(file: Path, leases: int) -> None:
    """Leases on 1,024 invented slices each, as version dde1513 stored them."""
    ends = int((time.time() + 86_400) * 1e6)
    with sqlite3.connect(file) as database:
        gpus = json.dumps(INVENTED)
        rows = [(f"id-{n}", f"uid-{n}", gpus, "ns", "pod", "", ends, ends, 0) for n in range(leases)]
        database.executemany("INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    database.close()


def test_refusals_push_nothing_out_of_the_audit(tmp_path: Path) -> None:
    """Finding 4: grants and uploads stay, whatever is refused, in whatever size."""
    with castle(tmp_path, "--audit-mib", "1", "--audit-records", "500", "--requests-per-peer", "0") as held:
        held.license()
        assert ask(held.up, body([gpu(0)], "healthy"))[0] == 200
        for number in range(60):
            ask(held.up, body(BIG, f"big-{number}"))
        for number in range(700):
            ask(held.up, body(["GPU-unlicensed"], f"{number}-{'x' * 200}"))
        events = held.events()
        assert (events.count("uploaded"), events.count("granted")) == (1, 1)
        assert events.count("refused") <= 100
        assert held.up.memory_mib() < 128


def test_leases_and_releases_push_no_grant_out(tmp_path: Path) -> None:
    """M1: the grants of live leases stay, and so do the records of other namespaces."""
    with castle(tmp_path, "--audit-records", "500", "--requests-per-peer", "0") as held:
        held.license()
        for number in range(8):
            assert ask(held.up, body([gpu(number)], f"healthy-{number}", namespace=f"team-{number}"))[0] == 200
        for _ in range(400):
            status, granted = ask(held.up, body([gpu(9)], "busy"))
            assert status == 200
            assert send(
                held.up,
                f"DELETE /v1/leases/{granted['lease']} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(),
            )
        namespaces = [record["namespace"] for record in held.records("event=granted&limit=10000")]
        assert [namespaces.count(f"team-{number}") for number in range(8)] == [1] * 8
        assert len(held.events()) <= 351


def test_half_connections_leave_room(tmp_path: Path) -> None:
    """Finding 12: with 256 descriptors and 1,000 half connections from ten addresses, another address is answered."""
    with castle(tmp_path, files=256) as held:
        held.license()
        lines = [half(held, f"127.0.2.{number % 10 + 1}", number) for number in range(1000)]
        try:
            assert ask(held.up, body([gpu(0)], "healthy"), "127.0.1.1")[0] == 200
        finally:
            for line in lines:
                line.close()


HALVES = (b"", b"POST /v1/leases HTTP/1.1\r\nX: ", post(b"x" * 9000)[:-1], post(b"x" * 255 * 1024)[:-100_000])


def half(held: Castle, source: str, number: int) -> socket.socket:
    """A connection that begins and does not go on."""
    line = socket.create_connection((held.up.host, held.up.port), HANG_S, source_address=(source, 0))
    line.settimeout(0.2)
    with contextlib.suppress(OSError):  # refused already, which is as good
        line.sendall(HALVES[number % len(HALVES)])
    return line


TRICKLES = {
    "nothing": (b"", b""),
    "header": (b"GET / HTTP/1.1\r\n", b"X: y\r\n"),
    "blank lines": (b"", b"\r\n"),
    "body": (post(b"x" * 9000)[:200], b"x"),
    "chunks": (b"POST /v1/leases HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
}


def test_a_trickle_ends(shared: Castle) -> None:
    """Finding 12: bytes that come one by one do not keep a connection; each state has a time of its own."""
    lines = {name: trickling(shared, begin) for name, (begin, _) in TRICKLES.items()}

    def trickle() -> bool:
        for name in [name for name, line in lines.items() if not still_open(line, TRICKLES[name][1])]:
            del lines[name]
        return not lines

    wait_until(trickle, "the end of every connection", look_s=0.2)


def trickling(held: Castle, begin: bytes) -> socket.socket:
    """A connection that has sent the beginning."""
    line = socket.create_connection((held.up.host, held.up.port), HANG_S, source_address=("127.0.2.1", 0))
    line.settimeout(0.05)
    line.sendall(begin)
    return line


def still_open(line: socket.socket, more: bytes) -> bool:
    """Send a little more; whether the server still has the connection."""
    try:
        line.sendall(more)
        alive = bool(line.recv(4096))
    except TimeoutError:
        return True
    except OSError:
        alive = False
    if not alive:
        line.close()
    return alive


SIZES = {
    "header without an end": (b"GET / HTTP/1.1\r\nX: " + b"x" * 300_000, b"431"),
    "long path": (b"GET /" + b"x" * 300_000, b"431"),
    "body of 17 KiB": (post(b"x" * 17 * 1024), b"413"),
    "body of 1 GiB, announced": (b"POST /v1/leases HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n", b"413"),
    "body on another path": (b"GET / HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n", b"413"),
}


@pytest.mark.parametrize(("data", "status"), SIZES.values(), ids=SIZES)
def test_sizes_are_refused_at_once(data: bytes, status: bytes, shared: Castle) -> None:
    """Nothing that is too large is read to its end, and the sender is told."""
    assert send(shared.up, data, "127.0.2.9")[9:12] == status


def test_one_address_cannot_ask_without_end(tmp_path: Path) -> None:
    """A peer beyond its rate is answered 429; another peer is not. The rate is one that any machine exceeds."""
    with castle(tmp_path, "--requests-per-peer", "1") as held:
        held.license()
        statuses = (ask(held.up, body(["GPU-x"]), "127.0.2.7")[0] for _ in range(300))
        assert any(status in (429, 0) for status in statuses)
        assert ask(held.up, body([gpu(2)], "healthy"), "127.0.1.2")[0] == 200


def test_log_lines_cannot_be_steered(tmp_path: Path) -> None:
    """Low: what others send reaches standard output as ASCII, one record a line."""
    with castle(tmp_path) as held:
        held.license()
        ask(held.up, body([gpu(0)], "u\x85\u2028\u2029\x9b31m", "pod\u202e\x07"))
        held.stop()
        out = (tmp_path / "audit.out").read_bytes()
        assert b"granted" in out
        assert all(byte == 10 or 32 <= byte < 127 for byte in out)
        assert all(json.loads(line) for line in out.splitlines())


DAMAGES = {"cut in the middle": lambda raw: raw[: len(raw) // 2], "overwritten": lambda raw: b"x" * len(raw)}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_database_is_one_sentence(damage, tmp_path: Path) -> None:
    """Low: no traceback; the file is named and what to do with it."""
    with castle(tmp_path) as held:
        held.license()
        for number in range(GPUS):
            ask(held.up, body([gpu(number)], f"uid-{number}"))
        held.up.process.terminate()  # a clean end: the write-ahead log is in the file
        held.up.process.wait(30)
        held.stop()
        file = tmp_path / "data" / "license.sqlite3"
        file.write_bytes(damage(file.read_bytes()))
        with pytest.raises(RuntimeError, match=r"license\.sqlite3 is damaged: .*; restore it from a backup") as caught:
            held.start()
        assert "Traceback" not in str(caught.value)


def test_a_damaged_record_hides_no_other(tmp_path: Path) -> None:
    """Low: one flipped byte in a record leaves `/ls/audit` readable, with every filter and in YAML."""
    with castle(tmp_path) as held:
        held.license()
        for number in range(4):
            ask(held.up, body([gpu(number)], f"uid-{number}"))
        held.up.process.terminate()
        held.up.process.wait(30)
        held.stop()
        file = tmp_path / "data" / "license.sqlite3"
        raw = file.read_bytes()
        for old, new in ((b'"uid-1"', b'"uid-1\xff'), (b'"uid-2"', b'{uid-2"')):
            assert raw.count(b'"uid": ' + old) == 1
            raw = raw.replace(b'"uid": ' + old, b'"uid": ' + new)
        file.write_bytes(raw)
        held.start()
        assert held.events() == ["uploaded", "granted", "unreadable", "unreadable", "granted"]
        for query in ("uid=uid-3", f"gpu={gpu(3)}", "event=granted&limit=1", "format=yaml"):
            assert b"uid-3" in held.up.get(f"/ls/audit?{query}")


def test_a_sample_of_the_floods() -> None:
    """Five seconds of `make attack-license`: renewals all answered, grants all in the audit, memory in its bound.

    How fast the answers are is for the long run on a machine that does nothing else.
    """
    command = [sys.executable, str(HERE / "floods.py"), "--seconds", "5"]
    environment = without_rows(os.environ)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, env=environment)
    missed = [line for line in done.stdout.splitlines() if line.startswith("missed") and " ms," not in line]
    assert [line for line in missed if "restart" not in line] == [], done.stdout + done.stderr
    assert "renewals p50" in done.stdout, done.stdout + done.stderr


def test_a_sample_of_the_fuzzer() -> None:
    """Hostile requests of all kinds; WINDLASS_FUZZ_EXAMPLES says how many."""
    examples = os.environ.get("WINDLASS_FUZZ_EXAMPLES", "60")
    environment = {**without_rows(os.environ), "WINDLASS_FUZZ_EXAMPLES": examples}
    command = [sys.executable, str(HERE / "fuzz_http.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280, env=environment)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["nothing wrong"]), done.stdout + done.stderr
