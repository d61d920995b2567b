"""The start command's flags as rows, and how they become `Settings`. Pure: words and variables in, values out.

A flag wins over its variable, a variable over the default. `--help` and the reference page print the same rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from windlass_deepspeed.errors import UsageError

PORT_MAX = 65535
DEFAULT = "default"


class Kind(Enum):
    """How a value is read."""

    TEXT = "text"
    WHOLE = "whole number"
    COUNT = "whole number above 0"
    PORT = "port"
    SECONDS = "number of seconds"
    NAMES = "list of names"


WRITE = {
    Kind.TEXT: "write at least one letter",
    Kind.WHOLE: "write digits, as 7",
    Kind.COUNT: "write digits, as 1",
    Kind.PORT: f"write a number from 1 to {PORT_MAX}",
    Kind.SECONDS: "write it as 0.1",
    Kind.NAMES: "write one name or several, separated by commas",
}


@dataclass(frozen=True, slots=True)
class Flag:
    """One row; without `spoken` it is a variable only."""

    name: str
    kind: Kind
    help: str
    variable: str = ""
    default: str | None = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    spoken: bool = True


FLAGS: tuple[Flag, ...] = (
    Flag("model-id", Kind.TEXT, "name that requests use; else of ti_model_config.json, else model", "MODEL_ID",
         spoken=False),
    Flag("conv-template", Kind.TEXT, "chat template by name; else of ti_model_config.json, else the model's own",
         "CONV_TEMPLATE", spoken=False),
    Flag("model-path", Kind.TEXT, "model directory", "MODEL_PATH", "/data/model", ("model",)),
    Flag("num-gpus", Kind.COUNT, "GPUs that share the model (tensor parallel)", "TP", "1", ("tensor-parallel-size",)),
    Flag("worker-num", Kind.COUNT, "engines in one container, each with --num-gpus GPUs",
         "WORKER_NUM", "1"),
    Flag("limit-worker-concurrency", Kind.COUNT, "requests in work at a time, for each engine; more wait",
         "MAX_CONCURRENCY", "32"),
    Flag("dtype", Kind.TEXT, "number format that the weights are loaded in", "DTYPE", "float16",
         choices=("auto", "float16", "bfloat16", "float32")),
    Flag("max-model-len", Kind.COUNT, "most tokens of a prompt and its answer; the model's own without it",
         "MAX_MODEL_LEN"),
    Flag("seed", Kind.WHOLE, "seed of the sampling; by chance without it", "SEED"),
    Flag("ds-dtype", Kind.TEXT, "number format that DeepSpeed computes in; --dtype's where only that is set",
         "DS_DTYPE", "float16", choices=("float16", "bfloat16", "float32", "int8")),
    Flag("max-batch-size", Kind.COUNT, "requests in one batch", "MAX_BATCH_SIZE", "16"),
    Flag("batch-wait-timeout", Kind.SECONDS, "how long the first request waits for others", "BATCH_WAIT_TIMEOUT",
         "0.1"),
    Flag("api-keys", Kind.NAMES, "bearer keys, separated by commas", "OPENAI_API_KEYS", aliases=("api-key",)),
    Flag("host", Kind.TEXT, "address to listen on", default="0.0.0.0"),  # noqa: S104 - a container's port
    Flag("port", Kind.PORT, "port of the API", default="8501"),
)  # fmt: skip

BY_NAME: dict[str, Flag] = {
    name: flag for flag in FLAGS if flag.spoken for name in (flag.name, *flag.aliases)
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """What was said, typed. `None` where nothing was: without `ds_dtype`, `dtype` is what is computed in."""

    model_path: str
    num_gpus: int
    worker_num: int
    limit_worker_concurrency: int
    dtype: str
    dtype_said: bool
    ds_dtype: str | None
    max_batch_size: int
    batch_wait_timeout_s: float
    host: str
    port: int
    max_model_len: int | None = None
    seed: int | None = None
    model_id: str | None = None
    conv_template: str | None = None
    api_keys: tuple[str, ...] = ()


def parse(argv: tuple[str, ...]) -> dict[str, str]:
    """The words as values by flag; dashes and underscores are the same, the last of equal flags wins."""
    said: dict[str, str] = {}
    rest = list(argv)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        flag = BY_NAME.get(name.removeprefix("--").replace("_", "-")) if name.startswith("--") else None
        if flag is None:
            raise UsageError(_unknown(name))
        if not equals and (not rest or rest[0].startswith("--")):
            raise UsageError(f"--{flag.name} needs a value: {flag.help}")
        said[flag.name] = value if equals else rest.pop(0)
    return said


def _unknown(name: str) -> str:
    known, plain = [f"--{row}" for row in BY_NAME], name.replace("_", "-")
    if variable := next((row.variable for row in FLAGS if plain == f"--{row.name}"), ""):
        return f"{name} is no flag of this image; set the variable {variable}"
    if near := get_close_matches(plain, known, 1):
        return f"there is no flag {name} of this image; write {near[0]}"
    return f'"{name}" is no flag of this image; it has: {", ".join(known)}'


def resolve(argv: tuple[str, ...], environment: Mapping[str, str]) -> Settings:
    """The settings, or a UsageError with what to do instead."""
    said = parse(argv)
    text = {flag.name: _origin(flag, said, environment) for flag in FLAGS}
    checked = {flag.name: _check(flag, *text[flag.name]) for flag in FLAGS}
    return _settings(checked, {name for name, (_, origin) in text.items() if origin != DEFAULT})


def _settings(value: Mapping[str, str | None], said: Collection[str]) -> Settings:
    """Only after every value was checked: a row with a default is never None."""
    one = {name: text or "" for name, text in value.items()}
    return Settings(
        model_path=one["model-path"],
        num_gpus=int(one["num-gpus"]),
        worker_num=int(one["worker-num"]),
        limit_worker_concurrency=int(one["limit-worker-concurrency"]),
        dtype=one["dtype"],
        dtype_said="dtype" in said,
        ds_dtype=value["ds-dtype"] if "ds-dtype" in said else None,
        max_batch_size=int(one["max-batch-size"]),
        batch_wait_timeout_s=float(one["batch-wait-timeout"]),
        host=one["host"],
        port=int(one["port"]),
        max_model_len=int(one["max-model-len"]) if value["max-model-len"] is not None else None,
        seed=int(one["seed"]) if value["seed"] is not None else None,
        model_id=value["model-id"],
        conv_template=value["conv-template"],
        api_keys=tuple(name for part in one["api-keys"].split(",") if (name := part.strip())),
    )


def _origin(flag: Flag, said: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str | None, str]:
    """The text, and where it was said. An empty variable says nothing."""
    if flag.name in said:
        return said[flag.name], f"--{flag.name}"
    if flag.variable and environment.get(flag.variable):
        return environment[flag.variable], f"variable {flag.variable}"
    return flag.default, DEFAULT


def _check(flag: Flag, text: str | None, origin: str) -> str | None:
    if text is None:
        return None
    if flag.choices and text not in flag.choices:
        raise UsageError(f'{origin} is "{text}"; choose one of {", ".join(flag.choices)}')
    if not _readable(flag.kind, text):
        raise UsageError(f'{origin} is "{text}", which is no {flag.kind.value}; {WRITE[flag.kind]}')
    return text


def _readable(kind: Kind, text: str) -> bool:
    if kind in (Kind.WHOLE, Kind.COUNT):
        return re.fullmatch(r"[0-9]{1,15}", text) is not None and (kind is Kind.WHOLE or int(text) > 0)
    if kind is Kind.PORT:
        return re.fullmatch(r"[0-9]{1,5}", text) is not None and 0 < int(text) <= PORT_MAX
    if kind is Kind.SECONDS:
        return _is_seconds(text)
    return bool(text.strip(" ,"))


def _is_seconds(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and float(text) >= 0
    except ValueError:
        return False
