"""Invented listings and headers for the parsers of both hubs: an error of ours, or files that are safe to store.

`WINDLASS_FUZZ_EXAMPLES` is the number of listings for each hub (default 150), `WINDLASS_FUZZ_SEED` where they begin.
"""

from __future__ import annotations

import json
import os
import random
import unicodedata
from pathlib import PurePosixPath

import pytest
from hostile_hub import COMMIT, FILES, NAME, Hub, answer, row
from windlass_download.connection import Connection
from windlass_download.errors import DownloadError
from windlass_download.hubs import HUBS, wanted_from
from windlass_download.wanted import Listing

EXAMPLES = int(os.environ.get("WINDLASS_FUZZ_EXAMPLES", "150"))
SEED = int(os.environ.get("WINDLASS_FUZZ_SEED", "1"))
WORDS = [
    "..", ".", "", "/", "a/../b", "-rf", "\x1b[2J", "a\0", "\u202e", "\u2028", "\x9b", "x" * 4096, "d/" * 300 + "f",
    "config.json", "CONFIG.json", "\u00e9", "e\u0301", "\ud800", ".windlass-complete.json", ".Windlass-x", "a\\b",
]  # fmt: skip
NUMBERS = [-1, 0, 1, 2**31, 2**43, 2**63, 2**64, 10**400, 1.5, float("inf"), float("nan"), True, None, "7"]
LINKS = [
    '<http://[>; rel="next"', "<" * 4000, '<//evil/api/x>; rel=next', "<>;rel=next", '<file:///etc/passwd>; rel="next"',
    f'</api/models/{NAME}/tree/x?cursor=1>; rel="next"', '<http://127.0.0.1:1/x>; rel="next"', "<\\\\x>; rel=next",
]  # fmt: skip


def value(chance: random.Random, depth: int = 0) -> object:
    """Any JSON value, mostly of the kinds that hubs use."""
    kind = chance.randrange(6 if depth < 4 else 3)
    if kind == 0:
        return chance.choice(WORDS)
    if kind in (1, 2):
        return chance.choice(NUMBERS)
    if kind == 3:
        return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {
        chance.choice(["path", "size", "lfs", "oid", "type", "Files", "Data"]): value(chance, depth + 1) for _ in "12"
    }


def a_row(chance: random.Random, hub: str) -> object:
    """A row of a listing with something wrong in it."""
    path = chance.choice([*WORDS, *FILES, f"f{chance.random()}"])
    rows = {
        "huggingface": row(path, b"x"),
        "modelscope": {"Path": path, "Name": path, "Size": 1, "Sha256": "0" * 64, "Type": "blob", "Revision": COMMIT},
    }
    one: dict = rows[hub]
    if chance.random() < 0.5:
        one[chance.choice(list(one))] = value(chance)
    return one if chance.random() < 0.95 else value(chance)


def a_body(chance: random.Random, hub: str) -> bytes:
    """The JSON of a listing, or bytes that look like some."""
    rows = [a_row(chance, hub) for _ in range(chance.randrange(6))]
    whole: object = (
        rows if hub == "huggingface" else {"Code": 200, "Data": {"Files": rows, "LatestCommitter": value(chance)}}
    )
    text = json.dumps(whole if chance.random() < 0.9 else value(chance)).encode()
    if chance.random() < 0.1:
        text = chance.choice(
            [b"[" * 50_000, b'{"a":' * 50_000, b"[" * 900 + b"]" * 900, b"1" * 5000, b"\xff\xfe\x00", b""]
        )
    if chance.random() < 0.2:
        cut = chance.randrange(len(text) + 1)
        text = text[:cut] + chance.randbytes(3) + text[cut:]
    return text


def safe(path: str) -> bool:
    """Whether a path may become a file below a directory of ours, on every kind of volume."""
    parts = path.split("/")
    plain = not any(unicodedata.category(char).startswith(("C", "Zl", "Zp")) for char in path)
    inside = not PurePosixPath(path).is_absolute() and not {"", ".", ".."} & set(parts) and len(path.encode()) <= 1024
    return plain and inside and not any(part.lower().startswith((".windlass-", "-")) for part in parts)


@pytest.mark.parametrize("hub", HUBS)
def test_a_listing_is_safe_or_refused_with_a_sentence(hub):
    chance, kept = random.Random(f"{SEED} {hub}"), 0  # noqa: S311 - chance decides attacks here

    def act(connection, request):
        if request.kind == "revision":
            return False
        number[0] += 1
        link = chance.choice(LINKS) if chance.random() < 0.2 and number[0] < 4 else ""
        connection.sendall(answer(a_body(chance, hub), **({"Link": link} if link else {})))
        return True

    with Hub(act) as server:
        wanted = wanted_from(hub, NAME, "", server.url)
        connection = Connection(wanted, {}, 2.0, 2)
        try:
            for _ in range(EXAMPLES):
                number = [0]
                try:
                    found = HUBS[hub].listing(wanted, connection.ask)
                except DownloadError as error:
                    assert str(error).isascii() and str(error).isprintable() and len(str(error)) < 2000
                    continue
                kept += 1
                check(found)
        finally:
            connection.close()
    assert EXAMPLES < 100 or 0 < kept < EXAMPLES


def check(found: Listing) -> None:
    """What a listing promises to the code that stores its files."""
    assert all(safe(file.path) and 0 <= file.size < 2**44 for file in found.files)
    folded = [unicodedata.normalize("NFC", file.path).casefold() for file in found.files]
    assert len(set(folded)) == len(folded)
    assert found.commit == "" or len(found.commit) <= 64
