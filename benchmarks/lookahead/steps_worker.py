"""The GPU's door with a clock at each of its steps, on the host and on the device, and with policies to choose from."""

from __future__ import annotations

import cProfile
import io
import itertools
import pstats
import statistics
import time
from collections import defaultdict
from typing import Any

import torch
from bench_worker import BenchWorker
from windlass.lookahead.promises import Promises

CLOCKED = ("get_num_tokens", "reallocate_drafts", "compact_batch", "record_confidences")
PROMISED = Promises.of
POLICIES = {"stock": lambda *_: True, "promises": PROMISED}
"""Whether a row is planned with drafts: always, as the engine does it, or where the drafter promises something."""


class StepsWorker(BenchWorker):  # type: ignore[misc]  # the engine has no types here
    """Named by `worker_cls`; its methods are called by `collective_rpc`."""

    def policy_of(self, name: str) -> None:
        """Which rows are planned with drafts from here on; the engine's scheduler is in this process."""
        Promises.of = POLICIES[name]

    def clock(self) -> None:
        """Wrap what is to be timed, once."""
        runner, self.rows, self.now = self.model_runner, [], {}
        execute, sample = runner.execute_model, runner.sample_tokens

        def executed(output: Any, *words: Any, **more: Any) -> Any:  # noqa: ANN401 - the engine has no types here
            start = torch.cuda.Event(enable_timing=True)
            self.now = {"planned": len(output.scheduled_spec_decode_tokens), "reqs": len(output.num_scheduled_tokens)}
            self.now |= {"tokens": output.total_num_scheduled_tokens, "start": start, "at": time.perf_counter()}
            start.record()
            found = execute(output, *words, **more)
            self.now["execute_us"] = 1e6 * (time.perf_counter() - self.now["at"])
            return found

        def sampled(*words: Any, **more: Any) -> Any:  # noqa: ANN401
            begun, row, end = time.perf_counter(), self.now, torch.cuda.Event(enable_timing=True)
            found = sample(*words, **more)
            end.record()
            row |= {"sample_us": 1e6 * (time.perf_counter() - begun), "end": end}
            self.rows.append(row)
            return found

        runner.execute_model, runner.sample_tokens = executed, sampled
        manager = runner.adaptive_verification
        for name in CLOCKED:
            self._wrap(manager, name)

    def _wrap(self, manager: Any, name: str) -> None:  # noqa: ANN401
        def clocked(*words: Any) -> Any:  # noqa: ANN401
            begun = time.perf_counter()
            found = getattr(type(manager), name)(manager, *words)
            self.now[f"{name}_us"] = 1e6 * (time.perf_counter() - begun)
            if name == "get_num_tokens":
                self.now["verified"] = found - self.now["reqs"]
            return found

        setattr(manager, name, clocked)

    def profiled(self, on: bool) -> str:
        """Start a profile of the engine's thread; or end it, and what it found."""
        if on:
            self.found = cProfile.Profile()
            self.found.enable()
            return ""
        self.found.disable()
        out = io.StringIO()
        pstats.Stats(self.found, stream=out).sort_stats("tottime").print_stats(45)
        return out.getvalue()

    def steps(self) -> list[dict[str, Any]]:
        """Means of each kind of step since the last call, in milliseconds on the device, microseconds on the host."""
        torch.cuda.synchronize()
        rows, self.rows = self.rows, []
        kinds: dict[Any, list[dict[str, float]]] = defaultdict(list)
        for before, row in itertools.pairwise(rows):
            if row["tokens"] > 8 * row["reqs"] or before["tokens"] > 8 * before["reqs"]:
                continue
            times = {key: row[key] for key in row if key.endswith("_us")}
            times["busy_ms"] = row["start"].elapsed_time(row["end"])
            times["idle_ms"] = before["end"].elapsed_time(row["start"])
            times["host_ms"] = 1e3 * (row["at"] - before["at"])
            kinds[row["planned"] > 0, row.get("verified", 0) > 0, before.get("verified", 0) > 0].append(times)
        named = ("planned", "verifying", "verified_before")
        return [dict(zip(named, kind, strict=True)) | _means(found) for kind, found in sorted(kinds.items())]


def _means(found: list[dict[str, float]]) -> dict[str, float]:
    names = sorted({name for row in found for name in row})
    means = {name: round(statistics.median(row.get(name, 0.0) for row in found), 3) for name in names}
    return {"steps": len(found), **means}
