"""What a request's place costs when the owner of several API processes grants it: processor time on both sides.

    export PYTHONPATH=server/src:lib/base/src:lib/sizing/src
    python benchmarks/front/owner_alone.py [--requests N] [--at-once N]

A process of its own is the owner; this one asks for places and gives them back, so many at once, as an API process
does. The third line is the same with a gate in this process, as with one API process.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import time
from multiprocessing.connection import Connection

from windlass.front.gate import Gate
from windlass.front.processes.member import Link, SharedGate
from windlass.front.processes.owner import Owner
from windlass.front.settings import ApiSettings


async def own(pipe: Connection, settings: ApiSettings) -> None:
    """Be the owner until the other side has measured; tell the socket, then the processor time."""
    async with Owner.of({"WINDLASS_API": settings.to_json()}) as owner:
        pipe.send(owner.path)
        await asyncio.to_thread(pipe.recv)
        before = time.process_time()
        pipe.send("ready")
        await asyncio.to_thread(pipe.recv)
        pipe.send(time.process_time() - before)
        await asyncio.to_thread(pipe.recv)


def be_owner(pipe: Connection, settings: ApiSettings) -> None:
    """The process."""
    asyncio.run(own(pipe, settings))


async def ask(gate: Gate | SharedGate, requests: int, at_once: int) -> tuple[float, float]:
    """Processor time and seconds of so many places."""

    async def one() -> None:
        for _ in range(requests // at_once):
            place = gate.enter("key", shared=True)
            await place.wait(None)
            place.leave()

    spent, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*(one() for _ in range(at_once)))
    return time.process_time() - spent, time.perf_counter() - began


async def measure(pipe: Connection, requests: int, at_once: int, settings: ApiSettings) -> None:
    """Print a line for each side."""
    link = Link(pipe.recv())
    await link.start()
    await ask(SharedGate(link), at_once, at_once)
    pipe.send("begin")
    pipe.recv()
    spent, seconds = await ask(SharedGate(link), requests, at_once)
    pipe.send("end")
    owners = pipe.recv()
    alone, _ = await ask(Gate(settings.concurrency, settings.queue), requests, at_once)
    for name, value in (("API process", spent), ("owner", owners), ("a gate in this process", alone)):
        print(f"{name}: {1e6 * value / requests:.1f} µs of processor a place")
    print(f"{1e6 * seconds / requests:.1f} µs a place, {at_once} at once")
    link.stop()
    pipe.send("over")


def main() -> None:
    """Both processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--at-once", type=int, default=16)
    wanted = parser.parse_args()
    settings = ApiSettings(concurrency=128, processes=2)
    ours, theirs = multiprocessing.Pipe()
    owner = multiprocessing.get_context("spawn").Process(target=be_owner, args=(theirs, settings))
    owner.start()
    try:
        asyncio.run(measure(ours, wanted.requests, wanted.at_once, settings))
    finally:
        owner.join(5)
        owner.terminate()


if __name__ == "__main__":
    main()
