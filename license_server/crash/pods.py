"""Pods that ask, renew and release over HTTP as fast as they can, and remember what they were promised."""

import asyncio
import json
import random
from dataclasses import dataclass, field

LIMIT, GPUS, PODS = 25, 40, 60
_Reply = tuple[int, dict[str, object]]


@dataclass
class Acknowledged:
    """Everything that was acknowledged, and what was under way when the line went dead."""

    held: dict[str, str] = field(default_factory=dict)
    """Pod → the lease it was granted."""
    unsure: set[str] = field(default_factory=set)
    """Pods whose last request was not answered."""
    granted: set[str] = field(default_factory=set)
    """Leases whose grant was acknowledged: their records must be in the audit log."""
    released: set[str] = field(default_factory=set)
    requests: int = 0


@dataclass(frozen=True)
class Pod:
    """One pod: its name and the GPUs it wants."""

    uid: str
    gpus: tuple[str, ...]

    def body(self) -> bytes:
        """What it sends."""
        holder = {"namespace": "crash", "pod": self.uid, "uid": self.uid, "service": "s"}
        return json.dumps({"gpus": self.gpus, "holder": holder}).encode()


def all_pods(seed: int) -> list[Pod]:
    """The pods of one history; the same in each of its lives."""
    chance = random.Random(seed)
    return [
        Pod(f"pod-{n}", tuple(f"GPU-{g:08d}-bench" for g in chance.sample(range(GPUS), chance.randint(1, 3))))
        for n in range(PODS)
    ]


class Line:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def call(self, method: str, path: str, body: bytes = b"") -> _Reply:
        """Status and JSON of one answer; OSError or EOFError when the server is gone."""
        head = f"{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        content = await self._reader.readexactly(length)
        return int(answer[9:12]), json.loads(content) if content else {}


async def live(line: Line, pod: Pod, acknowledged: Acknowledged, chance: random.Random) -> None:
    """Ask and release again and again until the server is gone."""
    while True:
        acknowledged.unsure.add(pod.uid)
        lease = acknowledged.held.get(pod.uid)
        if lease is not None and chance.random() < 0.4:
            await line.call("DELETE", f"/v1/leases/{lease}")
            del acknowledged.held[pod.uid]
            acknowledged.released.add(lease)
        else:
            status, answer = await line.call("POST", "/v1/leases", pod.body())
            if status == 200:
                acknowledged.held[pod.uid] = str(answer["lease"])
                acknowledged.granted.add(str(answer["lease"]))
        acknowledged.unsure.discard(pod.uid)
        acknowledged.requests += 1


async def check_held(line: Line, pods: list[Pod], acknowledged: Acknowledged) -> list[str]:
    """Ask again for every lease that was promised; the sentences about those that are lost."""
    wrong = []
    for pod in pods:
        status, answer = await line.call("POST", "/v1/leases", pod.body())
        granted = acknowledged.held.get(pod.uid)
        if pod.uid not in acknowledged.unsure and granted is not None and answer.get("lease") != granted:
            wrong.append(f"{pod.uid} held {granted} and was answered {status} {answer}")
        acknowledged.held.pop(pod.uid, None)
        if status == 200:
            acknowledged.held[pod.uid] = str(answer["lease"])
            acknowledged.granted.add(str(answer["lease"]))
    acknowledged.unsure.clear()
    return wrong
