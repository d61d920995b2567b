"""Many pods that lease one GPU each, from one event loop: a keep-alive connection a pod, requests as raw bytes.

Two ways to load. `paced`: each pod renews on its own schedule, as real ones do, and a late answer counts from the time
at which the request was due. `saturating`: a fixed number of requests is always under way; the most that can be had.
"""

import asyncio
import json
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import cast

CONNECTING_AT_ONCE = 50
STATES = (b'"granted"', b'"renewed"', b'"refused"')


@dataclass
class Tally:
    """What came back, and how long each answer took in seconds."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def quantile_ms(self, share: float) -> float:
        """The time below which `share` of the answers came."""
        ordered = sorted(self.seconds)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000


class Pod(asyncio.Protocol):
    """One pod's connection; one request at a time."""

    def __init__(self, number: int, host: str, tally: Tally) -> None:
        self._tally, self._buffer, self._due = tally, b"", 0.0
        self._answered: asyncio.Future[None] | None = None
        holder = {"namespace": "bench", "pod": f"pod-{number}", "uid": f"uid-{number}", "service": "load"}
        body = json.dumps({"gpus": [f"GPU-{number:08d}-bench"], "holder": holder}).encode()
        head = f"POST /v1/leases HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)

    def ask(self, due: float) -> asyncio.Future[None]:
        """Send the request that was due at `due`; done when its answer is in."""
        self._answered, self._due = asyncio.get_running_loop().create_future(), due
        self.transport.write(self._request)
        return self._answered

    def data_received(self, data: bytes) -> None:
        """Count an answer once it is whole."""
        self._buffer += data
        head, gap, body = self._buffer.partition(b"\r\n\r\n")
        if not gap or len(body) < int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return
        self._buffer = b""
        status = head[9:12].decode()
        state = next((name.decode().strip('"') for name in STATES if name in body[:30]), status)
        self._tally.outcomes[state] += 1
        self._tally.seconds.append(time.perf_counter() - self._due)
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error or ConnectionResetError("the server closed the connection"))


@dataclass
class Fleet:
    """All pods, connected."""

    pods: list[Pod]
    tally: Tally

    @classmethod
    async def connect(cls, host: str, port: int, count: int) -> "Fleet":
        """Open one connection a pod."""
        loop, tally, gate = asyncio.get_running_loop(), Tally(), asyncio.Semaphore(CONNECTING_AT_ONCE)

        async def one(number: int) -> Pod:
            async with gate:
                _, pod = await loop.create_connection(lambda: Pod(number, host, tally), host, port)
            return pod

        return cls(await asyncio.gather(*map(one, range(count))), tally)

    def reset(self) -> None:
        """Forget the answers so far."""
        self.tally.outcomes.clear()
        self.tally.seconds.clear()

    async def saturating(self, under_way: int, seconds: float) -> float:
        """Keep `under_way` requests under way; the seconds it took."""
        begun, waiting = time.perf_counter(), deque(self.pods)
        end = begun + seconds

        async def worker() -> None:
            while time.perf_counter() < end:
                pod = waiting.popleft()
                await pod.ask(time.perf_counter())
                waiting.append(pod)

        await asyncio.gather(*(worker() for _ in range(under_way)))
        return time.perf_counter() - begun

    async def paced(self, per_second: float, seconds: float) -> float:
        """Each pod asks every `len(pods) / per_second` seconds, all of them evenly spread; the seconds it took."""
        begun, period = time.perf_counter(), len(self.pods) / per_second

        async def pod_life(number: int) -> None:
            due = begun + number / per_second
            while due < begun + seconds:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                await self.pods[number].ask(due)
                due += period

        await asyncio.gather(*map(pod_life, range(len(self.pods))))
        return time.perf_counter() - begun

    def close(self) -> None:
        """Hang up."""
        for pod in self.pods:
            pod.transport.close()
