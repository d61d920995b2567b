"""On a GPU: the kernel that takes drafts, with a host that is played here: in time, late, and lost; and what it takes.

    python waiting.py

Exits 1 at the first answer that is not as it should be.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable

import torch
from vllm.triton_utils import triton
from windlass.lookahead.kernels import take
from windlass.lookahead.on_device import ANSWERED_AT, PATIENCE_NS, ROW_NS, Pinned
from windlass.lookahead.stream import ring, wait

MOST = 6
LATE_S = (PATIENCE_NS / 1e9) / 4
ROUNDS = 200


class Host:
    """Memory that both see, and the room where the device takes drafts to."""

    def __init__(self, rows: int) -> None:
        self.rows, self.pinned = rows, Pinned(rows, MOST, MOST + 1)
        self.flags = self.pinned.flags.numpy()
        self.pinned.tokens[:], self.pinned.confidences[:] = 7, 0.5
        self.places = torch.arange(rows, device="cuda").flip(0).contiguous()
        self.drafts, self.drafts_by_place = (
            torch.empty((rows, MOST), dtype=torch.int64, device="cuda") for _ in range(2)
        )
        self.sure, self.by_place = (torch.empty((rows, MOST), device="cuda") for _ in range(2))
        self.missed = torch.empty(rows, dtype=torch.int32, device="cuda")

    def take(self, step: int) -> None:
        """Queue it."""
        pinned = self.pinned
        take[(self.rows,)](
            pinned.device_answered, step, pinned.device_tokens, pinned.device_confidences, self.places,
            self.drafts, self.sure, self.drafts_by_place, MOST, self.by_place, self.missed,
            PATIENCE_NS, ROW_NS, MOST, triton.next_power_of_2(MOST), num_warps=1,
        )  # fmt: skip

    def answer(self, step: int) -> None:
        """As the native thread does, when all else is written."""
        self.flags[ANSWERED_AT] = step

    def taken_us(self, step: int) -> float:
        """Take, and wait for it."""
        self.drafts.fill_(-1)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        self.take(step)
        torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - begun)

    def check(self, what: str, came: bool) -> None:
        """Every row has its drafts, or none has."""
        sure, token = (0.5, 7) if came else (0.0, 0)
        tokens = torch.stack((self.drafts, self.drafts_by_place))
        held = (self.sure.eq(sure), self.by_place.eq(sure), tokens.eq(token), self.missed.eq(0 if came else 1))
        if not all(bool(one.all()) for one in held):
            raise AssertionError(f"{what}, {self.rows} rows: {self.drafts.tolist()}, {self.missed.tolist()}")


def check(rows: int) -> str:
    """Each kind of answer; a line of what the device waited."""
    host, said = Host(rows), []
    for what, answered, later, came in (
        ("before it was asked", 3, None, True),
        ("while it waits", 2, 3, True),
        ("never", 2, None, False),
        ("two steps behind", 1, None, False),
    ):
        host.answer(answered)
        host.taken_us(3)  # compiled, and the clock of the device is awake
        host.answer(answered)
        timer = threading.Timer(LATE_S, host.answer, [later]) if later else None
        if timer:
            timer.start()
        us = host.taken_us(3)
        if timer:
            timer.join()
        host.check(what, came)
        said.append(f"{what} {us:.0f}")
    for number in (2**31 - 1, -(2**31), -1, 0):  # numbers wrap
        host.answer(number)
        host.taken_us(number)
        host.check(f"step {number}", came=True)
    return f"{rows} rows, µs until taken when the host answers {', '.join(said)}"


def device_us(work: Callable[[], object]) -> float:
    """Median time on the device."""
    times = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(200_000)  # so that all is queued before it begins
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * start.elapsed_time(end))
    return statistics.median(times)


def timed(rows: int) -> str:
    """What ringing and taking take the device where the answer is there already."""
    host = Host(rows)
    flags = host.pinned.places
    host.answer(3)
    host.take(3)

    def alone() -> None:
        ring(flags.rung, 3)
        host.take(3)

    def by_the_stream() -> None:
        ring(flags.rung, 3)
        wait(flags.answered, 3)
        host.take(3)

    found = [device_us(work) for work in (alone, by_the_stream)]
    return f"{rows} rows, µs of the device: {found[0]:.1f}; waiting by the stream, too, {found[1]:.1f}"


def main() -> int:
    """Check, then time."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    for rows in (1, 10, 64, 256):
        print(check(rows), flush=True)
    for rows in (1, 10, 64, 256):
        print(timed(rows), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
