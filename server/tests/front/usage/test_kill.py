"""The server is killed with -9 under load, again and again: records are what clients received, each once."""

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import httpx
from windlass.front.settings import ApiSettings
from windlass.front.usage.hours import records
from windlass_testbed.waiting import HANG_S

KILLS = int(os.environ.get("WINDLASS_KILLS") or 6)
CLIENTS = 8
KEYS = "keys:\n  - {name: first, key: sk-first-1}\n  - {name: second, key: sk-second-1}\n"
Used = tuple[int, int, int]


class Load:
    """Clients that always ask; each names another model after a request of its own failed."""

    def __init__(self, address: str) -> None:
        self.received: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        self.failed: dict[tuple[str, str], Used] = {}
        self.answers = Counter()
        self.is_over = False
        self._address = address
        self._more = asyncio.Condition()

    async def client(self, number: int, chance: random.Random) -> None:
        """Ask until the end."""
        key, life = ("first", "second")[number % 2], 0
        headers = {"Authorization": f"Bearer sk-{key}-1"}
        async with httpx.AsyncClient(base_url=self._address, headers=headers, timeout=60) as http:
            while not self.is_over:
                place = (key, f"m-{number}-{life}")
                in_, out = chance.randrange(1, 10_000), chance.randrange(1, 10_000)
                asked = {"model": place[1], "messages": [], "seed": in_, "max_tokens": out}
                asked |= {"stream": True, "stream_options": {"include_usage": True}} if chance.random() < 0.5 else {}
                try:
                    answer = await http.post("/v1/chat/completions", json=asked)
                except httpx.TransportError:
                    self.failed[place] = (1, in_, out)
                    life += 1
                    continue
                assert answer.status_code == 200, answer.text
                self._received(place, answer.text)
                async with self._more:
                    self.answers["all"] += 1
                    self._more.notify_all()

    async def more(self, number: int) -> None:
        """Until so many more answers came."""
        until = self.answers["all"] + number
        async with self._more:
            await self._more.wait_for(lambda: self.answers["all"] >= until)

    def _received(self, place: tuple[str, str], text: str) -> None:
        line = next(line for line in text.splitlines() if '"usage"' in line)
        usage = json.loads(line.removeprefix("data: "))["usage"]
        for at, value in enumerate((1, usage["prompt_tokens"], usage["completion_tokens"])):
            self.received[place][at] += value


def serve(listening: socket.socket, folder: Path) -> subprocess.Popen:
    settings = ApiSettings(keys_file=str(folder / "keys.yaml")).to_json()
    variables = {"WINDLASS_API": settings, "WINDLASS_USAGE_DIR": str(folder / "usage"), "WINDLASS_PEERS": ""}
    command = [sys.executable, str(Path(__file__).with_name("serving.py")), str(listening.fileno())]
    return subprocess.Popen(command, env=os.environ | variables, pass_fds=[listening.fileno()])


async def killed(load: Load, listening: socket.socket, folder: Path, chance: random.Random) -> None:
    for _ in range(KILLS):
        server = serve(listening, folder)
        try:
            await asyncio.wait_for(load.more(chance.randrange(1, 400)), HANG_S)
        finally:
            server.kill()
            server.wait()


async def test_records_are_what_clients_received(tmp_path: Path) -> None:
    """Of each client and life the records hold what was received, and at most the one request in flight besides."""
    (tmp_path / "keys.yaml").write_text(KEYS)
    chance = random.Random(29)  # noqa: S311
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        load = Load(f"http://127.0.0.1:{listening.getsockname()[1]}")
        clients = [asyncio.create_task(load.client(one, random.Random(one))) for one in range(CLIENTS)]  # noqa: S311
        await killed(load, listening, tmp_path, chance)
        load.is_over = True
        listening.close()  # who waits for an answer hears that none comes
        await asyncio.gather(*clients)
    recorded: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    rows = list(records(tmp_path / "usage"))
    for row in rows:
        for at, name in enumerate(("requests", "tokens_in", "tokens_out")):
            recorded[row["key"], row["model"]][at] += row[name]
        assert row["estimated"] == 0
    assert len({row["writer"] for row in rows}) == 1, "a killed process's folder is free for the next"
    beyond = 0
    for place in {*recorded, *load.received}:
        more = tuple(there - here for there, here in zip(recorded[place], load.received[place], strict=True))
        assert more in ((0, 0, 0), load.failed.get(place)), place
        beyond += more[0]
    answers = load.answers["all"]
    assert answers >= KILLS
    print(f"{KILLS} kills, {answers} answers, all recorded once; {beyond} recorded that no client received")
