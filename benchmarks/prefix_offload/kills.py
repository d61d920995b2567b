"""Engines that are killed while a copy runs, and what the next ones answer."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engines import TOGETHER, Engine, started
from setting import EVERYTHING, Asked, Cache, Setting, documents, one_engine

KILLS, ANSWER = 20, 4
WORDS = {"dtype": "bfloat16", "max_model_len": 4352}
LENGTH, COUNT = 4096, 6
"""Tokens of a document (512 MiB in the cache), and documents: the card holds three."""
CARD_TOKENS, HOST_BYTES = 12_800, 4 << 30
WATCH_S, KILL_WITHIN_S, ROUND_S = 10.0, 0.004, 45
SHARED = Path("/dev/shm")  # noqa: S108 - where the engine keeps them


def kills(setting: Setting, done: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for what an engine answers, and one for its kill, and so on; a few engines at a time."""
    count = sum(row["what"] == "kill" for row in done)
    chance = random.Random(time.time_ns())  # noqa: S311 - no secret
    wanted = _wanted(setting) if count < KILLS else []
    while count < KILLS and setting.left_s() > ROUND_S:
        engines = started(_engine(setting, at) for at in range(min(TOGETHER, KILLS - count)))
        if not engines:
            yield {"what": "kills", "failed": True}
            return
        for engine in engines:
            yield _answers(engine, wanted, count)
        for engine in engines:
            yield {"what": "kill", "in flight": _kill(engine, chance, setting), "left": _left()}
        count += len(engines)
    if wanted:
        last = _engine(setting, 0)
        if started([last]):
            yield _answers(last, wanted, count)
        last.end()


def _answers(engine: Engine, wanted: list[list[list[int]]], count: int) -> dict[str, Any]:
    found = [[ids for ids, _ in engine.ask("answers", _asked(number), ANSWER)] for number in range(2)]
    pairs = [(one, two) for pair in zip(wanted, found, strict=True) for one, two in zip(*pair, strict=True)]
    differ = sum(one != two for one, two in pairs)
    return {"what": "answers", "kills before": count, "outputs": len(pairs), "differ": differ, **engine.ask("counted")}


def _wanted(setting: Setting) -> list[list[list[int]]]:
    """Of an engine without host memory."""
    plain = one_engine(setting, "without", WORDS, EVERYTHING)
    found = []
    if started([plain]):
        found = [[ids for ids, _ in plain.ask("answers", _asked(number), ANSWER)] for number in range(2)]
    plain.end()
    return found


def _engine(setting: Setting, at: int) -> Engine:
    watched = setting.work / f"in-flight-{at}"
    watched.write_bytes(bytes(mmap.PAGESIZE))
    return one_engine(setting, f"killed {at}", WORDS, Cache(CARD_TOKENS, HOST_BYTES, in_flight=str(watched)))


def _asked(number: int, seed: int = 50) -> list[Asked]:
    return [
        ({"prompt_token_ids": [*document, 100 + number, *range(1000, 1006)]}, "")
        for document in documents(COUNT, (LENGTH,), seed)
    ]


def _kill(engine: Engine, chance: random.Random, setting: Setting) -> int:
    """SIGKILL within a few ms after a copy was seen, of old documents or of new ones; how many ran then."""
    for number in range(2, 40):
        engine.send("answers", [*_asked(number)[::2], *_asked(number, seed=number)[::2]], 1)
    ran, until = 0, time.monotonic() + WATCH_S
    time.sleep(chance.random())
    with (setting.work / f"in-flight-{engine.name.rsplit(' ', 1)[-1]}").open("r+b") as file:
        shared = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        while time.monotonic() < until and not ran:
            if shared[0]:
                time.sleep(chance.random() * KILL_WITHIN_S)
                ran = shared[0]
            time.sleep(0)
    with contextlib.suppress(ProcessLookupError):
        os.kill(engine.process.pid, signal.SIGKILL)
    engine.process.join()
    return ran


def _left() -> list[str]:
    return [path.name for path in SHARED.glob("vllm_offload_*")]
