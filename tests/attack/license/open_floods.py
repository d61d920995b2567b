"""`make attack-license`: floods of the long answers that anybody may read, beside probes and a pod that renews.

Ten addresses with eight connections each ask for one path as fast as answers come. Many GPUs are licensed and leased.
Prints the table's rows; exits 1 when a bound is missed.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from functools import partial
from pathlib import Path

import uvloop
from siege import Castle, Server, ask, body, castle, gpu
from windlass_testbed.attacks import record_at_most
from windlass_testbed.probing import probing

PATHS = ("/ls/view", "/metrics", "/openapi.json")
GPUS, AT_ONCE = 10_000, 50
ADDRESSES, CONNECTIONS = 10, 8
MEMORY_MIB = 512.0
"""The chart's limit of the license server's container."""
ANSWER_S = 30


async def reading(server: Server, path: str, source: str, end: float) -> None:
    """Ask on one connection, and open it again when it is ended."""
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    while time.monotonic() < end:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(server.host, server.port, local_addr=(source, 0))
            writer.write(request)
            while time.monotonic() < end and await reader.read(65536):
                writer.write(request)
            writer.transport.abort()


async def flood(server: Server, path: str, seconds: float) -> None:
    """All connections at once."""
    end, sources = time.monotonic() + seconds, [f"127.0.2.{number + 1}" for number in range(ADDRESSES)]
    await asyncio.wait_for(
        asyncio.gather(*(reading(server, path, source, end) for source in sources * CONNECTIONS)), seconds + ANSWER_S
    )


def attack(server: Server, path: str, seconds: float) -> None:
    """The attackers' process. It gets the processor last: real attackers have machines of their own."""
    os.nice(19)
    with suppress(TimeoutError):  # a connection without an answer
        uvloop.run(flood(server, path, seconds))


def is_well(server: Server, path: str) -> bool:
    """Whether a probe is answered."""
    with urllib.request.urlopen(f"http://{server.host}:{server.port}{path}", timeout=ANSWER_S) as answer:
        return bool(answer.status == 200)


def renews(server: Server) -> bool:
    """Whether a healthy pod renews."""
    return ask(server, body([gpu(n) for n in range(AT_ONCE)], "pod-0"), "127.0.1.1", ANSWER_S)[0] == 200


def judged(held: Castle, path: str, seconds: float) -> bool:
    """Whether all bounds of a flood held; each leaves its row."""
    name = f"H3, a flood of {path} with {GPUS:,} GPUs leased"
    attackers = multiprocessing.get_context("fork").Process(target=attack, args=(held.up, path, seconds))
    attackers.start()
    with (
        probing(partial(is_well, held.up, "/healthz")) as healthz,
        probing(partial(is_well, held.up, "/readyz")) as readyz,
        probing(partial(renews, held.up)) as renewals,
    ):
        attackers.join()
    rows = {"/healthz": healthz, "/readyz": readyz, "renewals": renewals}
    rights = [probe.record(__file__, f"{name}: {words}") for words, probe in rows.items()]
    print(name, *(f"{words} {probe.longest_s:.2f} s, {probe.failed} failed" for words, probe in rows.items()))
    return all(rights)


def main() -> int:
    """Flood each path and judge."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--seconds", type=float, default=15)
    options = words.parse_args()
    with tempfile.TemporaryDirectory() as folder, castle(Path(folder), "--requests-per-peer", "0") as held:
        held.license(gpus=GPUS)
        for first in range(0, GPUS, AT_ONCE):
            names = [gpu(first + number) for number in range(AT_ONCE)]
            if ask(held.up, body(names, f"pod-{first}"))[0] != 200:
                raise RuntimeError(f"the license server leases no {names[0]} and so on; see server.log")
        flags, held.flags = held.flags, ()
        print(f"restart without {flags}: {held.restart():.1f} s")
        rights = [judged(held, path, options.seconds) for path in PATHS]
        memory = held.up.memory_mib()
        rights.append(
            record_at_most(__file__, "H3, memory of the license server after all floods", MEMORY_MIB, memory, "MiB")
        )
    return int(not all(rights))


if __name__ == "__main__":
    sys.exit(main())
