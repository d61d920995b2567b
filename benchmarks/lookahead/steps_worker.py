"""Workers with a clock at each of their steps, on the host and on the device: the GPU integration.

And the engine's own.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections import defaultdict
from operator import attrgetter
from typing import Any

import torch
from bench_worker import BenchWorker
from vllm.v1.worker.gpu_worker import Worker
from windlass.lookahead.draft_budgets import UNKNOWN, DraftBudgets

CLOCKED = (
    "adaptive_verification.compact_batch",
    "adaptive_verification.get_num_tokens",
    "adaptive_verification.reallocate_drafts",
    "adaptive_verification.record_confidences",
    "cudagraph_manager.run_fullgraph",
    "draft_tokens_handler.set_draft_tokens",
    "gather_batch_req_state",
    "lookahead.record",
    "model_state.prepare_attn",
    "postprocess_sampled",
    "prepare_attn",
    "prepare_inputs",
    "sample",
    "speculator.propose",
)
"""Methods by their path from the runner. Some are within others."""
VERIFIED = "adaptive_verification.get_num_tokens"
POLICIES = {"stock": lambda _, ids: (UNKNOWN,) * len([*ids]), "budgets": DraftBudgets.of}
"""Whether a row is planned with drafts: always, as the engine does it, or by its draft budget."""


class Clocked:
    """What both have; its methods are called by `collective_rpc`."""

    model_runner: Any

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
            self.now["execute_model_us"] = 1e6 * (time.perf_counter() - self.now["at"])
            return found

        def sampled(*words: Any, **more: Any) -> Any:  # noqa: ANN401
            begun, row, end = time.perf_counter(), self.now, torch.cuda.Event(enable_timing=True)
            found = sample(*words, **more)
            end.record()
            row |= {"sample_tokens_us": 1e6 * (time.perf_counter() - begun), "end": end}
            self.rows.append(row)
            return found

        runner.execute_model, runner.sample_tokens = executed, sampled
        for path in CLOCKED:
            self._wrap(path)

    def trace(self, path: str | None) -> None:
        """Record the device's kernels from here on; with a path, end it and write what Chrome's tracing reads."""
        if path is None:
            self.recorder = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            self.recorder.start()
        else:
            self.recorder.stop()
            self.recorder.export_chrome_trace(path)

    def _wrap(self, path: str) -> None:
        owner, _, name = f"model_runner.{path}".rpartition(".")
        try:
            of = attrgetter(owner)(self)
        except AttributeError:
            return  # an engine without lookahead has not all of them
        if of is None:
            return
        method = getattr(of, name)

        def clocked(*words: Any, **more: Any) -> Any:  # noqa: ANN401
            begun = time.perf_counter()
            found = method(*words, **more)
            self.now[f"{path}_us"] = 1e6 * (time.perf_counter() - begun)
            if path == VERIFIED:
                self.now["verified"] = found - self.now["reqs"]
            return found

        setattr(of, name, clocked)

    def steps(self) -> list[dict[str, Any]]:
        """Means of each kind of step since the last call, in milliseconds on the device, microseconds on the host."""
        torch.cuda.synchronize()
        rows, self.rows = self.rows, []
        self.last = [_described(before, row) for before, row in itertools.pairwise(rows)]
        kinds: dict[Any, list[dict[str, float]]] = defaultdict(list)
        read: list[dict[str, float]] = []
        for before, row in itertools.pairwise(rows):
            if row["tokens"] > 8 * row["reqs"] or before["tokens"] > 8 * before["reqs"]:
                read.append(_prompts(before, row))
                continue
            times = {key: row[key] for key in row if key.endswith("_us")}
            times["busy_ms"] = row["start"].elapsed_time(row["end"])
            times["idle_ms"] = before["end"].elapsed_time(row["start"])
            times["host_ms"] = 1e3 * (row["at"] - before["at"])
            kinds[row["planned"] > 0, row.get("verified", 0) > 0, before.get("verified", 0) > 0].append(times)
        named = ("planned", "verifying", "verified_before")
        decoding = [dict(zip(named, kind, strict=True)) | _means(found) for kind, found in sorted(kinds.items())]
        return [*decoding, {"prompts": read}]

    def each(self) -> list[dict[str, Any]]:
        """The steps that the last call of `steps` was about, one by one."""
        return self.last


def _described(before: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """One step: what it read, and the device's time from the end of the one before, milliseconds."""
    found = {key: row[key] for key in ("reqs", "tokens", "planned")} | {"verified": row.get("verified", 0)}
    device_ms = before["end"].elapsed_time(row["end"])
    return found | {"device_ms": round(device_ms, 3), "host_ms": round(1e3 * (row["at"] - before["at"]), 3)}


def _prompts(before: dict[str, Any], row: dict[str, Any]) -> dict[str, float]:
    """A step in which prompts are read, or the one after it."""
    found = {key: row[key] for key in ("planned", "reqs", "tokens")} | {"verified": row.get("verified", 0)}
    busy_ms = row["start"].elapsed_time(row["end"])
    return found | {"busy_ms": round(busy_ms, 2), "host_ms": round(1e3 * (row["at"] - before["at"]), 2)}


def _means(found: list[dict[str, float]]) -> dict[str, float]:
    names = sorted({name for row in found for name in row})
    means = {name: round(statistics.median(row.get(name, 0.0) for row in found), 3) for name in names}
    return {"steps": len(found), **means}


class StepsWorker(Clocked, BenchWorker):  # type: ignore[misc]  # the engine has no types here
    """Named by `worker_cls`: with lookahead, and with policies to choose from."""

    def policy_of(self, name: str) -> None:
        """Which rows are planned with drafts from here on; the engine's scheduler is in this process."""
        DraftBudgets.of = POLICIES[name]


class PlainWorker(Clocked, Worker):  # type: ignore[misc]  # the engine has no types here
    """Named by `worker_cls`: without lookahead."""
