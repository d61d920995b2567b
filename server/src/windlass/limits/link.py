"""One connection between two replicas: a line of JSON for each message, begun by showing that both hold the same keys.

Neither side sends a secret: each sends a hash of both nonces under it. Who has one key of several cannot make the hash.
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

from windlass.limits.member import Identity

LINE_BYTES = 64 * 1024
"""The longest line that is read."""
ROWS_A_LINE = 200
UNSENT_BYTES = 4 * 1024**2
"""A replica that reads so little is given up."""
HANDSHAKE_S = 2.0


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
        """The next message; LinkError when there will be none."""
        return await _line(self._reader)

    def close(self) -> None:
        """End it now."""
        self._writer.transport.abort()


async def handshake(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], ours: Hello, keys: Iterable[bytes], *, dialled: bool
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
            mine = [_proof(key, sides[0], both) for key in keys]
            writer.write(json.dumps(mine).encode() + b"\n")
            theirs = await _line(reader)
            right = [_proof(key, sides[1], both) for key in keys]
            if not any(hmac.compare_digest(one, str(proof)) for one in right for proof in theirs):
                raise LinkError("it holds other keys")
    except (OSError, TimeoutError, LinkError, KeyError, TypeError, ValueError) as error:
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
    except (OSError, ValueError) as error:  # a line that is too long is a ValueError
        raise LinkError(str(error)) from error


def _pieces(message: Any) -> list[Any]:  # noqa: ANN401
    rows = message.get("rows") if isinstance(message, dict) else None
    if not rows or len(rows) <= ROWS_A_LINE:
        return [message]
    return [{**message, "rows": rows[at : at + ROWS_A_LINE]} for at in range(0, len(rows), ROWS_A_LINE)]
