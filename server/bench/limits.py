"""What two replicas serve of what each key offers: requests, tokens and concurrency, over one connection and many.

    python server/bench/limits.py [--seconds 244]

The replicas are processes of the real guard before a scripted engine, which find each other over the loopback. Each way
has a key of its own for each limit and offers more than the limit in an open loop: twice a limit by the minute, and
six times the concurrency, because a place stays empty until the next request comes. The limits hold for 61 s each (60
whole seconds and the running one), so a measurement of four such spans has four times the limit at most.
Exits with 1 when a key got more than 10 % above its limit, or less than 10 % below it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from windlass.front.settings import ApiSettings
from windlass_testbed.ports import free_ports

SPAN_S = 61.0
TOLERANCE = 0.1
REPLICAS = 2
TOKENS = (40, 160)
"""In and out together, of one request."""
WAYS = {
    "one connection at a time": (1, 1),
    "32 connections to one replica": (32, 1),
    "32 connections to both replicas": (32, 2),
}
"""Connections, and the replicas that they go to. After some refusals the server ends a connection."""


@dataclass(frozen=True)
class Limit:
    """A limit, what is offered to it, and how long an answer takes."""

    field: str
    most: int
    per_second: float
    answer_s: float


LIMITS = (
    Limit("requestsPerMinute", 120, 4.0, 0.05),
    Limit("tokensPerMinute", 12_000, 4.0, 0.05),
    Limit("concurrency", 4, 8.0, 3.1),
)


@dataclass
class Row:
    """One key's load and what came of it."""

    limit: Limit
    way: str
    number: int
    offered: int = 0
    offered_tokens: int = 0
    refused: int = 0
    failed: int = 0
    reset: int = 0
    """Connections that ended before an answer; the request was sent again, as clients' libraries do."""
    connections: int = 0
    served: list[tuple[float, float, int]] = field(default_factory=list)
    """Begin, end and tokens of each answer."""

    @property
    def key(self) -> str:
        """What the clients send."""
        return f"sk-limited-{self.number}"

    def used(self, seconds: float) -> tuple[float, float]:
        """What is limited: offered and got; by the minute, or at once on average."""
        minutes = seconds / 60
        if self.limit.field == "requestsPerMinute":
            return self.offered / minutes, len(self.served) / minutes
        if self.limit.field == "tokensPerMinute":
            return self.offered_tokens / minutes, sum(tokens for *_, tokens in self.served) / minutes
        busy = sum(ended - began for began, ended, _ in self.served)
        return self.offered * self.limit.answer_s / seconds, busy / seconds

    def peak(self) -> float:
        """The most in any minute that began with an answer; of concurrency the most at once."""
        if self.limit.field == "concurrency":
            edges = sorted([(at, 1) for at, *_ in self.served] + [(at, -1) for _, at, _ in self.served])
            now = most = 0
            for _, step in edges:
                now += step
                most = max(most, now)
            return most
        weights = sorted((at, tokens if "tokens" in self.limit.field else 1) for at, _, tokens in self.served)
        return max((sum(w for at, w in weights if first <= at < first + 60) for first, _ in weights), default=0)


def rows() -> list[Row]:
    """A key for each limit and way; concurrency is no limit for one connection of HTTP/1.1."""
    found = [(one, way) for way in WAYS for one in LIMITS if one.field != "concurrency" or WAYS[way][0] > 1]
    return [Row(one, way, number) for number, (one, way) in enumerate(found)]


@contextmanager
def replicas(keys: Path) -> Iterator[list[str]]:
    """Two servers that know each other; gives their addresses."""
    ports = free_ports(REPLICAS)
    peers = ",".join(f"127.0.0.1:{port}" for port in ports)
    settings = ApiSettings(keys_file=str(keys)).to_json()
    running, addresses = [], []
    for port in ports:
        listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        addresses.append(f"http://127.0.0.1:{listening.getsockname()[1]}")
        named = {"WINDLASS_PEERS": peers, "WINDLASS_PEERS_PORT": str(port), "WINDLASS_PEERS_HOST": "127.0.0.1"}
        program = [sys.executable, str(Path(__file__).with_name("limited_server.py")), str(listening.fileno())]
        env = {**os.environ, **named, "WINDLASS_API": settings}
        running.append(subprocess.Popen(program, env=env, pass_fds=[listening.fileno()]))
    try:
        yield addresses
    finally:
        for one in running:
            one.terminate()
        for one in running:
            one.wait(20)


async def connected(addresses: list[str]) -> None:
    """Until each replica hears the others."""
    async with aiohttp.ClientSession() as http:
        for address in addresses:
            while True:
                try:
                    async with http.get(f"{address}/windlass/metrics") as answer:
                        if f"windlass_limits_replicas {REPLICAS - 1}" in await answer.text():
                            break
                except aiohttp.ClientConnectionError:
                    pass
                await asyncio.sleep(0.2)


async def load(row: Row, addresses: list[str], until: float) -> None:
    """Offer the key's load at its rate; an answer that is late delays no request of many connections."""
    connections, several = WAYS[row.way]
    chance = random.Random(row.number)  # noqa: S311
    trace = aiohttp.TraceConfig()

    async def created(*_: object) -> None:
        row.connections += 1

    trace.on_connection_create_end.append(created)
    headers = {"Authorization": f"Bearer {row.key}"}
    async with AsyncExitStack() as stack:
        https = [
            await stack.enter_async_context(
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1), headers=headers, trace_configs=[trace])
            )
            for _ in range(connections)
        ]
        tasks: set[asyncio.Task[None]] = set()
        at = time.monotonic()
        while (at := at + 1 / row.limit.per_second) < until:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            tokens = chance.randint(*TOKENS)
            http, address = https[row.offered % connections], addresses[row.offered % several]
            row.offered += 1
            row.offered_tokens += tokens
            tasks.add(asyncio.create_task(ask(http, address, row, tokens)))
        await asyncio.gather(*tasks)


async def ask(http: aiohttp.ClientSession, address: str, row: Row, tokens: int) -> None:
    """One request."""
    body: dict[str, Any] = {"model": "m", "messages": [], "seed": tokens // 4, "max_tokens": tokens - tokens // 4}
    body["user"] = str(row.limit.answer_s)
    try:
        await send(http, f"{address}/v1/chat/completions", row, body)
    except aiohttp.ClientConnectionError:
        row.reset += 1
        await send(http, f"{address}/v1/chat/completions", row, body)


async def send(http: aiohttp.ClientSession, url: str, row: Row, body: dict[str, Any]) -> None:
    """Send it, and note what came."""
    async with http.post(url, json=body) as answer:
        if answer.status == 200:
            found = await answer.json()
            row.served.append((found["began"], found["ended"], body["seed"] + body["max_tokens"]))
        elif answer.status == 429 and "Retry-After" in answer.headers:
            row.refused += 1
        else:
            row.failed += 1


def table(found: list[Row], seconds: float) -> Iterator[str]:
    """For the docs, as Markdown."""
    headings = (
        "limit",
        "load",
        "connections made",
        "requests: offered, served, 429",
        "offered",
        "got",
        "share",
        "most",
    )
    yield "| " + " | ".join(headings) + " |"
    yield "| --- " * len(headings) + "|"
    for row in sorted(found, key=lambda one: LIMITS.index(one.limit)):
        offered, got = row.used(seconds)
        counts = f"{row.offered}, {len(row.served)}, {row.refused}"
        share = f"{100 * got / row.limit.most:.1f} %"
        limit = f"`{row.limit.field}: {row.limit.most}`"
        figures = f"{offered:,.1f} | {got:,.1f} | {share} | {row.peak():,.0f}"
        yield f"| {limit} | {row.way} | {row.connections} | {counts} | {figures} |"


def is_within(row: Row, seconds: float) -> bool:
    """Whether the key got its limit, to the tenth, and each request an answer or a refusal."""
    lowest, highest = (1 - TOLERANCE) * row.limit.most, (1 + TOLERANCE) * row.limit.most
    return lowest <= row.used(seconds)[1] and row.peak() <= highest and not row.failed


def written(file: Path, found: list[Row]) -> Path:
    """The key file."""
    document = [{"name": f"key-{row.number}", "key": row.key, row.limit.field: row.limit.most} for row in found]
    file.write_text(json.dumps({"keys": document}))
    return file


async def measure(seconds: float) -> list[Row]:
    """All loads at once."""
    found = rows()
    with tempfile.TemporaryDirectory() as folder, replicas(written(Path(folder, "keys.yaml"), found)) as addresses:
        await asyncio.wait_for(connected(addresses), 60)
        until = time.monotonic() + seconds
        await asyncio.gather(*(load(row, addresses, until) for row in found))
    return found


def main() -> int:
    """Measure, print, judge."""
    asked = argparse.ArgumentParser(description="offered and served by key, of two replicas")
    asked.add_argument("--seconds", type=float, default=4 * SPAN_S)
    seconds = asked.parse_args().seconds
    found = asyncio.run(measure(seconds))
    print("\n".join(table(found, seconds)))
    outside = [row.key for row in found if not is_within(row, seconds)]
    print(f"{sum(row.reset for row in found)} connections ended before an answer; those requests were sent again")
    print(f"{len(found) - len(outside)} of {len(found)} keys got their limit within {TOLERANCE:.0%}")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
