"""The load that a benchmark puts on a server: read from words, checked as a whole, cut into points. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import StrEnum

from windlass.errors import UsageError

GOODPUT = ("ttft", "tpot", "e2el")
"""The limits that vLLM's client knows, in milliseconds."""
CONCURRENCY_MAX = 65536


class Api(StrEnum):
    """The route of the API that gets the requests."""

    CHAT = "chat"
    COMPLETIONS = "completions"


class DataSet(StrEnum):
    """Where prompts come from."""

    RANDOM = "random"
    SHAREGPT = "sharegpt"
    JSONL = "jsonl"
    SHARED_PREFIX = "shared-prefix"
    MULTI_TURN = "multi-turn"
    TRACE = "trace"
    DEMO = "demo"


FROM_FILE = (DataSet.SHAREGPT, DataSet.JSONL, DataSet.MULTI_TURN, DataSet.TRACE)
"""Data sets that `--dataset-path` names."""
DRAWN = (DataSet.RANDOM, DataSet.SHARED_PREFIX, DataSet.TRACE)
"""Data sets whose prompts are drawn as tokens."""
TOKENS_ONLY = (DataSet.MULTI_TURN, DataSet.TRACE)
"""Data sets whose prompts are rendered or drawn already, so that the chat route's template would come on top."""


@dataclass(frozen=True, slots=True)
class Ramp:
    """A request rate that rises over a run, in requests a second."""

    shape: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Load:
    """The requests, their rate and number; lengths are in tokens. No model means the first that the server lists."""

    server: str
    tokenizer: str
    model: str = ""
    name: str = ""
    api: Api = Api.CHAT
    dataset: DataSet = DataSet.RANDOM
    dataset_path: str | None = None
    num_prompts: int = 200
    input_len: int = 128
    output_len: int | None = None
    prefix_len: int = 256
    num_prefixes: int = 10
    range_ratio: float = 0.0
    request_rate: float = math.inf
    burstiness: float = 1.0
    concurrency: tuple[int, ...] = ()
    warmup: int = 0
    seed: int = 0
    temperature: float | None = None
    goodput: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    ignore_eos: bool = False
    ramp: Ramp | None = None
    trace_speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Point:
    """One run of the load generator; with `concurrency` None it sends each request at its time, however many run."""

    folder: str
    seed: int
    concurrency: int | None = None


def points(load: Load) -> list[Point]:
    """A run for each concurrency; each has its own seed, or the prefix cache would hold the prompts already."""
    if not load.concurrency:
        return [Point("01-open", load.seed)]
    return [
        Point(f"{place:02d}-concurrency-{many}", load.seed + place - 1, many)
        for place, many in enumerate(load.concurrency, 1)
    ]


def concurrency(text: str | None) -> tuple[int, ...]:
    """Read `1,10,64`; an empty text means no limit."""
    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,5}", word) and 0 < int(word) <= CONCURRENCY_MAX for word in words):
        raise UsageError(f'--concurrency is "{text}"; write whole numbers from 1 on with commas between, as 1,10,64')
    return tuple(int(word) for word in words)


def request_rate(text: str) -> float:
    """Requests a second; `inf` sends all at once."""
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not rate > 0:
        raise UsageError(f'--request-rate is "{text}"; write requests a second, as 2.5, or inf for all at once')
    return rate


def ramp(text: str | None) -> Ramp | None:
    """Read `linear:1:20` or `exponential:1:20`; an empty text means no ramp."""
    if text is None:
        return None
    found = re.fullmatch(r"(linear|exponential):([0-9]{1,6}):([0-9]{1,6})", text)
    if not found or not 0 < int(found[2]) < int(found[3]):
        raise UsageError(f'--ramp is "{text}"; write linear or exponential and two rising rates, as linear:1:20')
    return Ramp(found[1], int(found[2]), int(found[3]))


def check(load: Load) -> None:
    """Raise UsageError for options that are valid alone and contradict each other."""
    _check_times(load)
    if load.dataset in FROM_FILE and load.dataset_path is None:
        raise UsageError(f"--dataset {load.dataset} needs its file; name it with --dataset-path")
    if load.dataset not in FROM_FILE and load.dataset_path is not None:
        kinds = " or ".join(FROM_FILE)
        raise UsageError(f"--dataset {load.dataset} reads no file; leave --dataset-path out, or give --dataset {kinds}")
    if load.dataset is DataSet.SHARED_PREFIX and load.num_prompts < load.num_prefixes:
        raise UsageError(
            f"--num-prompts {load.num_prompts} is less than --num-prefixes {load.num_prefixes}; give as many or more"
        )
    if load.burstiness != 1.0 and math.isinf(load.request_rate):
        raise UsageError("--burstiness shapes a rate, and there is none; give --request-rate too")
    for option, value in (("--name", load.name), ("--model", load.model)):
        if value.startswith("-") or not value.isprintable():
            raise UsageError(f'{option} is "{value}"; write a name that begins with no dash')
    _check_pairs(load)


def _check_times(load: Load) -> None:
    if load.dataset in TOKENS_ONLY and load.api is not Api.COMPLETIONS:
        raise UsageError(f"--dataset {load.dataset} makes whole prompts; give --api completions with it")
    is_rated = not math.isinf(load.request_rate)
    if load.ramp and is_rated:
        raise UsageError("--ramp and --request-rate both say how fast requests come; give one of them")
    if load.dataset is DataSet.TRACE and (load.ramp or is_rated):
        raise UsageError("--dataset trace has its own times; leave --request-rate and --ramp out")
    if load.trace_speed != 1.0 and load.dataset is not DataSet.TRACE:
        raise UsageError("--trace-speed is of --dataset trace; leave it out")


def named(load: Load, model: str, day: str) -> Load:
    """The load with its model and its name, which is day and model."""
    found = replace(load, model=model, name=load.name or f"{day}_{model.rpartition('/')[2]}")
    check(found)
    return found


def _check_pairs(load: Load) -> None:
    for pair in load.goodput:
        name, _, limit = pair.partition(":")
        if name not in GOODPUT or not re.fullmatch(r"[0-9]+(\.[0-9]+)?", limit):
            raise UsageError(f'--goodput is "{pair}"; write one of {", ".join(GOODPUT)} and milliseconds, as ttft:200')
    for pair in load.metadata:
        if not re.fullmatch(r"[A-Za-z][\w.-]*=.*", pair):
            raise UsageError(f'--metadata is "{pair}"; write a name and a value, as gpu=H100')
