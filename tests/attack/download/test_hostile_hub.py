"""A malicious hub, mirror or CDN against the download command: it ends soon and small, with a reason."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import time
import zlib

import pytest
from hostile_hub import COMMIT, FILES, NAME, TOKEN, Hub, Request, answer, drip, on, row

BROKEN, AWAY, FAILED = "HubAnswerBroken", "HubUnreachable", "DownloadFailed"
SHA = b'{"sha": "' + COMMIT.encode() + b'"}'
ESCAPES = "\x1b]52;c;cm0gLXJm\x07\x1b[2J\u202e\u2028\x9b31m\n\rBAD"


def rows(*some: dict) -> bytes:
    return answer(json.dumps(list(some)).encode())


def bomb() -> bytes:
    """2 GiB of zeros, compressed twice: some kilobytes."""
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(bytes(32 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    inner = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + block * 64
    return answer(gzip.compress(inner, 9), Content_Encoding="gzip, gzip")


def endless(connection: socket.socket, head: bytes, piece: bytes) -> None:
    connection.sendall(head)
    for _ in range(40_000):  # 40 GB at most
        connection.sendall(piece)


def no_end_behind_the_part(connection: socket.socket, request: Request) -> None:
    """The right range, and then more than was asked for."""
    if request.path.endswith("config.json"):
        connection.sendall(answer(FILES["config.json"]))
        return
    start = request.headers["range"].removeprefix("bytes=").partition("-")[0]
    head = f"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-99/{len(FILES['model.safetensors'])}\r\n\r\n"
    endless(connection, head.encode(), b"x" * (1 << 20))


def a_byte_each_time(connection: socket.socket, request: Request) -> None:
    """Every try gains something, and the file would take for ever."""
    if request.path.endswith("config.json"):
        connection.sendall(answer(FILES["config.json"]))
        return
    start = request.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0]
    size = len(FILES["model.safetensors"])
    head = f"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-99/{size}\r\nContent-Length: 99\r\n\r\nx"
    connection.sendall(head.encode())


def a_body_byte_by_byte(connection: socket.socket, request: Request) -> None:
    if request.path.endswith("config.json"):
        connection.sendall(answer(FILES["config.json"]))
        return
    start = request.headers["range"].removeprefix("bytes=").partition("-")[0]
    head = f"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-99/{len(FILES['model.safetensors'])}\r\n\r\n"
    connection.sendall(head.encode())
    drip(connection, b" ")


def pages_without_end(connection: socket.socket, request: Request) -> None:
    cursor = int(request.path.rpartition("cursor=")[2] or 0) if "cursor=" in request.path else 0
    files = [row(f"f-{cursor + number}", b"") for number in range(1000)]
    link = f'<https://hub/api/models/{NAME}/tree/{COMMIT}?cursor={cursor + 1000}>; rel="next"'
    connection.sendall(answer(json.dumps(files).encode(), Link=link))


def at(path: str) -> dict:
    return row(path, b"x")


def deep_files() -> bytes:
    return rows(*(at("d/" * 500 + f"{number:05}") for number in range(15_000)))


# kind of request, what is answered, the reason that is expected
LISTINGS: dict[str, tuple[str, object, str]] = {
    "nested 100,000 deep": ("tree", answer(b"[" * 100_000), BROKEN),
    "a refusal nested 8,000 deep": ("revision", answer(b"[" * 8_000, "400 No"), BROKEN),
    "2 GiB in some KiB of gzip": ("tree", bomb, BROKEN),
    "gzip": ("revision", answer(gzip.compress(SHA), Content_Encoding="gzip"), BROKEN),
    "20 million empty objects": ("tree", answer(b"[" + b"{}," * 20_000_000 + b"{}]"), BROKEN),
    "5 million empty objects": ("tree", answer(b"[" + b"{}," * 5_000_000 + b"{}]"), BROKEN),
    "15,000 files 500 folders deep": ("tree", deep_files, BROKEN),
    "pages without end": ("tree", pages_without_end, BROKEN),
    "a Link of 60 KiB": ("tree", answer(b"[]", Link="<" * 60_000), "DownloadNotFound"),
    "a Link that is no URL": ("tree", answer(b"[]", Link='<http://[>; rel="next"'), BROKEN),
    "a Link to a file": ("tree", answer(b"[]", Link='<file:///etc/passwd>; rel="next"'), BROKEN),
    "headers of 2 MB": ("revision", answer(b"", X_Long="x" * 2_000_000), AWAY),
    "a byte now and then": ("revision", lambda c, _: drip(c, answer(b" " * 10_000)), AWAY),
    "a listing byte by byte": ("tree", lambda c, _: (c.sendall(answer(b"")[:17] + b"\r\n"), drip(c, b" ")), AWAY),
    "interim answers without end": ("tree", lambda c, _: endless(c, b"", b"HTTP/1.1 103 Hint\r\n\r\n" * 5000), AWAY),
    "a size below zero": ("tree", rows({**at("a"), "lfs": None, "size": -1}), BROKEN),
    "a size of 2^63": ("tree", rows({**at("a"), "lfs": None, "size": 2**63}), BROKEN),
    "a size of 4,000 digits": ("tree", answer(b'[{"type":"file","path":"a","size":' + b"9" * 4000 + b"}]"), BROKEN),
    "a size that is infinite": ("tree", answer(b'[{"type":"file","path":"a","size":Infinity}]'), BROKEN),
    "9 TiB": ("tree", rows({**at("a"), "lfs": None, "size": 9 << 40}), BROKEN),
    "a name with ..": ("tree", rows(at("../../evil")), BROKEN),
    "an absolute name": ("tree", rows(at("/etc/evil")), BROKEN),
    "a name that is an option": ("tree", rows(at("-rf")), BROKEN),
    "a name of 4,096 characters": ("tree", rows(at("x" * 4096)), BROKEN),
    "a name with a NUL": ("tree", rows(at("a\0b")), BROKEN),
    "a name with escapes": ("tree", rows(at("a\x1b[2J")), BROKEN),
    "names that differ in case": ("tree", rows(at("config.json"), at("Config.json")), BROKEN),
    "folders that differ in case": ("tree", rows(at("sub/a"), at("SUB/b")), BROKEN),
    "names that differ in form": ("tree", rows(at("\u00e9"), at("e\u0301")), BROKEN),
    "our marker in capitals": ("tree", rows(at(".WINDLASS-complete.json")), BROKEN),
    "a redirect to credentials": ("tree", answer(b"", "302 Go", Location="http://169.254.169.254/latest/"), BROKEN),
    "the same in IPv6": ("tree", answer(b"", "302 Go", Location="http://[::ffff:169.254.169.254]/x"), BROKEN),
    "a redirect to a file": ("tree", answer(b"", "302 Go", Location="file:///etc/passwd"), BROKEN),
    "a redirect with a user": ("tree", answer(b"", "302 Go", Location="http://a:b@127.0.0.1:1/"), BROKEN),
    "endless behind the part": ("resolve", no_end_behind_the_part, "DownloadCorrupt"),
    "a byte each time": ("resolve", a_byte_each_time, AWAY),
    "a body byte by byte": ("resolve", a_body_byte_by_byte, AWAY),
    "another range than asked": ("resolve", answer(b"x", "206 P", Content_Range="bytes 7-9/10"), FAILED),
    "a range that is no number": ("resolve", answer(b"x", "206 P", Content_Range="bytes " + "9" * 4000), FAILED),
}  # fmt: skip


SOON = ("--stall-s=0.5", "--give-up-s=1.5")  # for what is given up
MADE_LATE = (bomb, deep_files)  # each takes a second


@pytest.mark.parametrize(("kind", "reply", "reason"), LISTINGS.values(), ids=LISTINGS.keys())
def test_a_hostile_answer_ends_with_a_reason(runner, kind, reply, reason):
    reply = reply() if reply in MADE_LATE else reply
    with Hub(on(kind, reply)) as hub:
        outcome = runner.run(hub, *(SOON if reason == AWAY else ()))
    assert outcome.reason == reason, (outcome.reason, outcome.seconds, outcome.peak_mib)
    assert outcome.report["message"].isascii()
    assert len(outcome.text) <= 4096
    assert hub.asked("tree") <= 75  # 21 pages; a late answer on a busy machine begins the listing again
    assert not (runner.volume / "models/tiny").exists()


LATIN = ESCAPES.encode().decode("latin-1")
SAYS = {
    "header": lambda: answer(b"", "404 No", X_Error_Message=LATIN.replace("\n", " ").replace("\r", " ")),
    "body": lambda: answer(json.dumps({"error": ESCAPES * 300}).encode(), "404 No"),
    "raw body": lambda: answer(ESCAPES.encode() * 300, "400 No"),
}  # fmt: skip


@pytest.mark.parametrize("say", SAYS.values(), ids=SAYS.keys())
def test_words_of_a_hub_stay_on_one_line_of_ascii(runner, say):
    with Hub(on("tree", say())) as hub:
        outcome = runner.run(hub)
    assert outcome.report is not None
    assert outcome.report["message"].isprintable()
    assert outcome.report["message"].isascii()
    assert len(outcome.text) <= 4096


def test_names_that_no_pattern_chooses_are_shown_short(runner):
    names = [at("\u6a21" * 60 + "/" + "\u578b" * 60 + f"/{number}") for number in range(10)]
    with Hub(on("tree", rows(*names))) as hub:
        outcome = runner.run(hub, "--include=*.safetensors")
    assert outcome.reason == "DownloadNotFound"
    assert outcome.report["message"].isascii()
    assert len(outcome.report["message"]) < 1500


def test_a_commit_of_modelscope_is_a_commit_or_nothing(runner):
    """The termination message must be whole JSON for the operator."""
    commit = "1234567" + ESCAPES + "x" * 100_000
    files = [{"Path": "config.json", "Size": 1, "Sha256": "0" * 64, "Type": "blob", "Revision": commit}]
    data = {"Files": files, "LatestCommitter": {"ShortId": "1234567"}}
    config = b"{"
    files[0]["Sha256"] = hashlib.sha256(config).hexdigest()

    def act(connection, request):
        listed = "/repo/files" in request.path
        connection.sendall(answer(json.dumps({"Code": 200, "Data": data}).encode() if listed else config))
        return True

    with Hub(act) as hub:
        outcome = runner.run(hub, name="modelscope")
    assert outcome.reason == "done"
    assert len(outcome.text) <= 4096
    assert outcome.report["download"]["commit"] == ""


PLACES = [
    "{other}/x",
    "//{host}/x",
    "http://a@{host}/x",
    "http://{home}@{host}/",
    "http://{host}\\@{home}/x",
    "http:\\\\{host}\\x",
    "http://{host}#@{home}/",
    "http://{host}?@{home}/",
]


@pytest.mark.parametrize("place", PLACES)
def test_the_token_goes_to_the_endpoint_alone(runner, place):
    """Redirects that two parsers of URLs could read in two ways."""
    with Hub() as other, Hub() as hub:
        where = {"other": other.url, "host": other.url.removeprefix("http://"), "home": hub.url.removeprefix("http://")}
        hub.act = on("resolve", answer(b"", "302 Go", Location=place.format(**where)))
        outcome = runner.run(hub, *SOON)
    assert outcome.report is not None
    assert {one.headers.get("authorization") for one in hub.seen} == {f"Bearer {TOKEN}"}
    assert [one for one in other.seen if TOKEN in str(one)] == []
    assert TOKEN not in outcome.text


def test_a_neighbours_directory_at_the_root_of_a_volume_is_left_alone(runner):
    """A hub could put code or an index beside the weights of another model."""
    neighbour = runner.volume / "other-model"
    neighbour.mkdir()
    (neighbour / "config.json").write_text("{}")
    with Hub(on("tree", rows(row("config.json", FILES["config.json"]), at("other-model/modeling.py")))) as hub:
        outcome = runner.run(hub, path="")
    assert outcome.reason == "DownloadConflict"
    assert [entry.name for entry in neighbour.iterdir()] == ["config.json"]


def test_a_listing_that_changes_all_the_time_ends(runner):
    """Other digests in every listing: the file is never right, and never the same."""

    def act(connection, request):
        if request.kind == "tree":
            connection.sendall(rows(row("config.json", str(time.monotonic()).encode()[:11].ljust(11))))
            return True
        return False

    with Hub(act) as hub:
        outcome = runner.run(hub)
    assert outcome.reason == "DownloadFailed"
    assert hub.asked("resolve") <= 20
