"""On a GPU: the kernels that write step records and take drafts, with a simulated host.

It answers in time, late, and never; and with a model beside the cache each row has the better drafts.

    python tests/card/waiting.py

Exits 1 at the first answer that is not as it should be.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time

import torch
from windlass.engine.lookahead.doorbell import COMPLETED_AT, Pinned
from windlass.engine.lookahead.kernels import PATIENCE_NS, Drafts, ModelDrafts, take_drafts, write_record
from windlass_lookahead.round_trip import CACHE, LATE, MODEL

MOST = 6
LATE_S = (PATIENCE_NS / 1e9) / 4
TRIES, RECORD = 5, 3


class Host:
    """Memory that both see, and the room where the device takes drafts to."""

    def __init__(self, rows: int) -> None:
        self.rows, self.pinned = rows, Pinned(rows, MOST, MOST + 1)
        self.flags = self.pinned.flags.numpy()
        self.pinned.tokens[:] = torch.arange(self.pinned.tokens.numel()).view_as(self.pinned.tokens) + 7
        self.pinned.confidences[:] = 0.5
        self.places = torch.arange(rows, device="cuda").flip(0).contiguous()
        tokens, self.by_place = (torch.empty((rows, MOST), dtype=torch.int64, device="cuda") for _ in range(2))
        sure, sure_by_place = (torch.empty((rows, MOST), device="cuda") for _ in range(2))
        self.texts = torch.randint(0, 1000, (rows, 64), dtype=torch.int32, device="cuda")
        self.lengths, self.emitted, self.rejected = torch.randint(0, 40, (3, rows), dtype=torch.int32, device="cuda")
        self.drafts = Drafts(tokens, sure, sure_by_place, torch.empty(rows, dtype=torch.int32, device="cuda"))

    def take(self, step: int, model: ModelDrafts | None = None) -> None:
        """Queue it."""
        pinned = self.pinned
        answer = pinned.device_tokens, pinned.device_confidences
        take_drafts(step, pinned.device_completed, answer, self.places, self.drafts, self.by_place, model)

    def write(self, step: int) -> None:
        """Queue it: texts of 0 to 39 tokens."""
        host = self.pinned.device_records[RECORD], self.pinned.device_doorbell
        write_record(
            step, (self.texts, self.lengths), self.places, (self.emitted, self.rejected), self.drafts.source, host
        )

    def answer(self, step: int) -> None:
        """As the native thread does, when all else is written."""
        self.flags[COMPLETED_AT] = step

    def taken_us(self, step: int) -> float:
        """Take, and wait for it."""
        self.drafts.tokens.fill_(-1)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        self.take(step)
        torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - begun)

    def late_us(self) -> float:
        """The same where the answer comes while it is waited for; this thread may be put off its processor, too."""
        for _ in range(TRIES):
            self.answer(2)
            timer = threading.Timer(LATE_S, self.answer, [3])
            timer.start()
            us = self.taken_us(3)
            timer.join()
            if not self.drafts.source.any():
                break
        self.check("while it waits", came=True)
        return us

    def check(self, what: str, came: bool) -> None:
        """Every row has its drafts, or none has."""
        sure, tokens = (0.5, self.pinned.tokens[: self.rows].cuda()) if came else (0.0, torch.zeros_like(self.by_place))
        drafts = self.drafts
        held = (
            drafts.sure.eq(sure), drafts.sure_by_place.eq(sure), drafts.tokens.eq(tokens),
            self.by_place[self.places].eq(tokens), drafts.source.eq(0 if came else 1),
        )  # fmt: skip
        if not all(bool(one.all()) for one in held):
            raise AssertionError(f"{what}, {self.rows} rows: {drafts.tokens.tolist()}, {drafts.source.tolist()}")


def check(rows: int) -> str:
    """Each kind of answer; a line of what the device waited."""
    host, lines = Host(rows), []
    for what, completed, came in (
        ("before it was asked", 3, True),
        ("never", 2, False),
        ("two steps behind", 1, False),
    ):
        for _ in range(2):  # compiled then, and the device's clock is awake
            host.answer(completed)
            us = host.taken_us(3)
        host.check(what, came)
        lines.append(f"{what} {us:.0f}")
    lines.append(f"while it waits {host.late_us():.0f}")
    for number in (2**31 - 1, -(2**31), -1, 0):  # numbers wrap
        for behind in (0, 1, 2):
            host.answer((number - behind + 2**31) % 2**32 - 2**31)
            host.taken_us(number)
            host.check(f"step {number}, {behind} behind", came=behind == 0)
    return f"{rows} rows, µs until taken when the host answers {', '.join(lines)}"


def check_model(rows: int) -> None:
    """Rows of the model and rows of the cache, as torch chooses them; a late host leaves the model's."""
    host = Host(rows)
    host.pinned.confidences[:] = torch.rand(host.pinned.confidences.shape)
    tokens = torch.arange(rows * MOST, device="cuda").view(rows, MOST) + 10**6
    host.pinned.model[:] = torch.rand(MOST) / 2 + 0.25
    for count in range(MOST + 1):
        made = torch.arange(MOST, device="cuda") < count
        for came in (True, False):
            host.answer(3 if came else 1)
            host.take(3, ModelDrafts(tokens, host.pinned.device_model, count))
            own_tokens, own_sure = (one[:rows].cuda() * came for one in (host.pinned.tokens, host.pinned.confidences))
            model_tokens = tokens * made
            model_sure = (host.pinned.model.cuda() * made).expand(rows, MOST)
            is_models = model_sure.cumprod(1).sum(1) > own_sure.cumprod(1).sum(1)
            wanted = torch.where(is_models[:, None], model_tokens, own_tokens)
            wanted_sure = torch.where(is_models[:, None], model_sure, own_sure)
            source = torch.where(is_models, MODEL, CACHE if came else LATE)
            found = (
                host.drafts.tokens.eq(wanted), host.by_place[host.places].eq(wanted), host.drafts.sure.eq(wanted_sure),
                host.drafts.sure_by_place[host.places].eq(wanted_sure), host.drafts.source[host.places].eq(source),
            )  # fmt: skip
            if not all(bool(one.all()) for one in found):
                raise AssertionError(f"{rows} rows, {count} of the model, in time {came}: {host.drafts.tokens}")


def check_record(rows: int) -> None:
    """Every word of every row, and the doorbell."""
    host = Host(rows)
    host.drafts.source.copy_(torch.arange(rows) % 2)
    host.write(-5)
    torch.cuda.synchronize()
    places, texts, lengths = host.places.tolist(), host.texts.tolist(), host.lengths.tolist()
    for row, (place, emitted, rejected) in enumerate(
        zip(places, host.emitted.tolist(), host.rejected.tolist(), strict=True)
    ):
        newest = texts[place][: lengths[place]][: -MOST - 2 : -1]
        wanted = [-5, emitted, rejected, lengths[place], place % 2, *newest, *[0] * (MOST + 1 - len(newest))]
        if (found := host.pinned.records[RECORD, row].tolist()) != wanted:
            raise AssertionError(f"the record of row {row} of {rows} is {found} where {wanted} is so")
    if int(host.flags[0]) != -5 or host.drafts.source.any():
        raise AssertionError(
            f"{rows} rows: the doorbell has {int(host.flags[0])}, source {host.drafts.source.tolist()}"
        )


def main() -> int:
    """Check batches of each size."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    for rows in (1, 10, 40, 64, 256):
        check_record(rows)
        check_model(rows)
        print(check(rows), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
