"""One connection between two replicas: a line of JSON for each message, begun by showing that both hold the same keys.

Neither side sends a secret: each sends a hash of both nonces under it. Who has one key of several cannot make the hash.
Who dials shows it first, so that a stranger at the port gets no hash to guess weak keys from.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from windlass.front.limits.member import STATE, Identity

LINE_BYTES = 64 * 1024
"""The longest line that is read."""
ROWS_A_LINE = 200
"""Cells, and counts of running requests."""
UNSENT_BYTES = 4 * 1024**2
"""A replica that reads so little is given up."""
HANDSHAKE_S = 2.0
SILENCE_S = 10.0
"""A connection on which nothing comes for so long is given up by who answers it; a ping goes each second."""
WRONG = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What a message of another shape raises where it is read."""


class LinkError(Exception):
    """The other side is no replica of this service, or it is gone."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What a replica says of itself."""

    identity: Identity
    port: int


class Link:
    """A connection whose other side is known."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, other: Hello) -> None:
        """After the handshake."""
        self._reader, self._writer, self.other = reader, writer, other

    @property
    def host(self) -> str:
        """The other side's address."""
        return str(self._writer.get_extra_info("peername")[0])

    def send(self, message: Any) -> None:  # noqa: ANN401  what JSON takes
        """Send; a long list of cells goes in several lines."""
        for piece in _pieces(message):
            self._writer.write(json.dumps(piece, separators=(",", ":")).encode() + b"\n")
        if self._writer.transport.get_write_buffer_size() > UNSENT_BYTES:
            self.close()

    async def receive(self) -> Any:  # noqa: ANN401
        """The next message; LinkError when there will be none, or none comes in time."""
        try:
            async with asyncio.timeout(SILENCE_S):
                return await _line(self._reader)
        except TimeoutError as error:
            raise LinkError("it is silent") from error

    def close(self) -> None:
        """End it now."""
        self._writer.transport.abort()


async def handshake(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], ours: Hello, keys: tuple[bytes, ...], *, dialled: bool
) -> Link:
    """The link, when both sides hold one of the keys in common."""
    reader, writer = streams
    nonce = secrets.token_hex(16)
    said = {"id": ours.identity.id, "born": ours.identity.born, "port": ours.port, "nonce": nonce}
    try:
        async with asyncio.timeout(HANDSHAKE_S):
            writer.write(json.dumps(said).encode() + b"\n")
            heard = await _line(reader)
            other = Hello(Identity(float(heard["born"]), str(heard["id"])), int(heard["port"]))
            both = (nonce, str(heard["nonce"])) if dialled else (str(heard["nonce"]), nonce)
            sides = ("dialled", "answered") if dialled else ("answered", "dialled")
            mine, right = ([_proof(key, side, both) for key in keys] for side in sides)
            if dialled:
                writer.write(json.dumps(mine).encode() + b"\n")
            theirs = await _line(reader)
            if not any(hmac.compare_digest(one, str(proof)) for one in right for proof in theirs):
                raise LinkError("it holds other keys")
            if not dialled:
                writer.write(json.dumps(mine).encode() + b"\n")
    except (OSError, TimeoutError, LinkError, *WRONG) as error:
        writer.transport.abort()
        raise LinkError(str(error) or type(error).__name__) from error
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
    return Link(reader, writer, other)


def key_of(digests: Iterable[bytes]) -> bytes:
    """What replicas prove to each other that they hold: all the keys together."""
    return hashlib.sha256(b"windlass-limits" + b"".join(sorted(digests))).digest()


def _proof(key: bytes, side: str, nonces: tuple[str, str]) -> str:
    return hmac.new(key, "|".join((side, *nonces)).encode(), hashlib.sha256).hexdigest()


async def _line(reader: asyncio.StreamReader) -> Any:  # noqa: ANN401
    try:
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise LinkError("it is gone")
        return json.loads(line)
    except (OSError, ValueError, RecursionError) as error:  # a line that is too long is a ValueError
        raise LinkError(str(error)) from error


def _pieces(message: Any) -> list[Any]:  # noqa: ANN401
    if message["is"] != STATE:
        return [message]
    rows, running = message["rows"], list(message["running"].items())
    whole = max(len(rows), len(running), 1)
    return [
        {"is": STATE, "rows": rows[at : at + ROWS_A_LINE], "running": dict(running[at : at + ROWS_A_LINE])}
        for at in range(0, whole, ROWS_A_LINE)
    ]
