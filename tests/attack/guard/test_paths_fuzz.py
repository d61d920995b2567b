"""Every path, spelled in every way and asked by every method, gets the class that the table says, by the real router.

The application behind the guard says which of its routes was reached. A request may reach a route only when its decoded
path is that route's own, slashes aside, when its row is not closed, and when its key is right or the row open.
`WINDLASS_FUZZ_PATHS` is how many spellings are drawn (3,000 without it). With the sources of dde1513 in PYTHONPATH the
same file fails on the first `%0a`.
"""

import os
import random
import re
from urllib.parse import unquote

import pytest
from windlass.api import routes
from windlass.api.guard import Guard

from .engine_like import application, rows

DRAWS = int(os.environ.get("WINDLASS_FUZZ_PATHS", "3000"))
SEED = int(os.environ.get("WINDLASS_FUZZ_SEED", "1"))
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "FOO")
ADDED = (
    "",
    "/",
    "//",
    "%0a",
    "%0d",
    "%0d%0a",
    "%00",
    "%20",
    "%09",
    "%7f",
    "%c2%85",
    "%e2%80%a8",
    "%ff",
    "%2f",
    "%5c",
    "%23",
    "%3f",
    "%25",
    ";",
    ";x=1",
    ".",
    "..",
    "/.",
    "/..",
    "/../health",
    "/./",
    "a",
    "%61",
    "%EF%BC%8F",
    "%c0%af",
)
KEY = b"Bearer sk-right"


@pytest.fixture(scope="module")
def guarded():
    """The application, its guard's settings given by hand."""
    app = application()
    app.user_middleware.clear()
    app.add_middleware(Guard, environment={"WINDLASS_API_KEYS": "sk-right"})
    return app


async def asked(app, method: str, raw: str, key: bytes) -> tuple[int, str]:
    """Status, and the route that was reached; a server gives the path as uvicorn does."""
    out: list[dict] = []

    async def receive() -> dict:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: dict) -> None:
        out.append(message)

    headers = [(b"content-length", b"2"), (b"content-type", b"application/json"), (b"host", b"x")]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
             "path": unquote(raw), "raw_path": raw.encode(), "query_string": b"", "root_path": "",
             "headers": headers + ([(b"authorization", key)] if key else []), "state": {}}  # fmt: skip
    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in out)
    reached = body.decode().partition('"reached":"')[2].partition('"')[0] if b"reached" in body else ""
    return out[0]["status"], reached


def closed() -> set[str]:
    """Paths that nobody may reach."""
    return set(getattr(routes, "CLOSED", ())) | {
        row.path for row in getattr(routes, "ROWS", ()) if row.access is routes.Access.CLOSED
    }


def is_open(method: str, path: str) -> bool:
    """Whether a route that was reached needs no key."""
    return method in ("GET", "HEAD") and path in ("/health", "/ping", "/metrics")


def owns(route: str, raw: str) -> bool:
    """Whether a route is the one that a path names."""
    path = re.sub(r"/{2,}", "/", unquote(raw))
    pattern = "[^/\\s]+".join(map(re.escape, re.split(r"\{[a-z_]+\}", route)))
    return re.fullmatch(pattern, path.rstrip("/") or "/") is not None


def spelled(path: str, chance: random.Random) -> str:
    """The path with something added, doubled, encoded or turned to another case."""
    path = re.sub(r"\{[a-z_]+\}", "resp_1", path)
    at = chance.randrange(len(path) + 1)
    added = chance.choice(ADDED)
    ways = (
        lambda: path + added,
        lambda: added + path,
        lambda: path[:at] + added + path[at:],
        lambda: "".join(f"%{ord(letter):02x}" if chance.random() < 0.3 else letter for letter in path),
        path.swapcase,
        lambda: path.replace("/", chance.choice(("//", "/./", "%2f", "\\")), 1),
        lambda: path + added + chance.choice(ADDED),
    )
    return chance.choice(ways)()


async def test_a_spelling_reaches_no_more_than_the_table_says(guarded) -> None:
    """With the right key, a wrong one and none."""
    chance = random.Random(SEED)  # noqa: S311 — draws, no secrets
    known, reaches = rows(), 0
    for _ in range(DRAWS):
        path = chance.choice(list(known))
        raw = spelled(path, chance)
        method = chance.choice((*sorted(known[path]) * 4, *METHODS))
        key = chance.choice((KEY, KEY, b"Bearer sk-wrong", b""))
        status, reached = await asked(guarded, method, raw, key)
        says = f"{method} {raw!r} with {key!r}: {status}, reached {reached!r} (seed {SEED})"
        assert status < 500, says
        if reached:
            reaches += 1
            assert owns(reached, raw), says
            assert reached not in closed(), says
            assert key == KEY or is_open(method, reached), says
    assert reaches > DRAWS / 100  # else the draws show nothing


async def test_every_row_is_as_it_says(guarded) -> None:
    """Each path of the table with each method, without and with the key."""
    access = routes.Access
    for row in routes.ROWS:
        raw = re.sub(r"\{[a-z_]+\}", "resp_1", row.path)
        for method in row.methods:
            without, _ = await asked(guarded, method, raw, b"")
            status, reached = await asked(guarded, method, raw, KEY)
            is_open = row.access in (access.OPEN, access.METRICS)
            assert (without == 401) is not is_open, (method, raw, without)
            assert (status == 403) is (row.access is access.CLOSED), (method, raw, status)
            if row.access is access.KEY and row.path not in routes.OURS:
                assert method == "HEAD" or reached == row.path or raw == "/v1/models", (method, raw, status)
