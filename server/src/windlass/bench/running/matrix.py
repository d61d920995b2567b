"""The matrix of a benchmark: which servers, which loads, and in which order they are measured. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from windlass.errors import UsageError

LOAD_AXES = ("concurrency", "temperature", "request-rate")
"""The axes of the client's load; every other axis is a flag of the server."""
LOOKAHEAD = "lookahead"
SWITCHES = {"off": (), "on": ("--use-lookahead",)}
STOCK = "stock"
ARMS_MAX = 64
WORD = re.compile(r"[A-Za-z0-9][\w.,:+-]*")


@dataclass(frozen=True, slots=True)
class Arm:
    """A server: the flags of `windlass run --model DIR`, or of the engine's own `vllm serve DIR`."""

    name: str
    words: tuple[str, ...] = ()
    is_stock: bool = False

    @property
    def folder(self) -> str:
        """The name of its folder: `quantization=fp8 lookahead=on` becomes `quantization-fp8_lookahead-on`."""
        return re.sub(r"[^\w.-]", "_", self.name.replace("=", "-"))


@dataclass(frozen=True, slots=True)
class Asked:
    """The load that each server gets in each round."""

    concurrency: int | None = None
    temperature: float | None = None
    request_rate: str = "inf"

    @property
    def folder(self) -> str:
        """The name of its folder, such as concurrency-10_temperature-0.7."""
        many = "open" if self.concurrency is None else f"concurrency-{self.concurrency}"
        parts = [many]
        if self.temperature is not None:
            parts.append(f"temperature-{self.temperature:g}")
        if self.request_rate != "inf":
            parts.append(f"rate-{self.request_rate}")
        return "_".join(parts)


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement: a server, a load and a round."""

    round: int
    arm: Arm
    asked: Asked

    @property
    def folder(self) -> str:
        """The folder of the result; below the server's folder its name is the same for all servers, so runs pair."""
        return f"{self.arm.folder}/{self.asked.folder}/round-{self.round:02d}"


def axes(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read axes such as `quantization=none,fp8`: a flag of `windlass run` without dashes, or an axis of the load."""
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        name, _, text = word.partition("=")
        values = tuple(text.split(","))
        if not re.fullmatch(r"[a-z][a-z-]*", name) or not all(WORD.fullmatch(value) for value in values):
            raise UsageError(f'--matrix has "{word}"; write a name and values with commas, as quantization=none,fp8')
        if name in found or len(set(values)) != len(values):
            raise UsageError(f'--matrix says "{word}" and has it already; name each axis and each value once')
        found[name] = values
    bad = [value for value in found.get(LOOKAHEAD, ()) if value not in SWITCHES]
    if bad:
        raise UsageError(f"--matrix has lookahead={bad[0]}; write off, on or off,on")
    return found


def arms(found: Mapping[str, Sequence[str]], flags: Sequence[str], stock: Sequence[str] | None) -> list[Arm]:
    """A server for each combination, then the engine's own; `flags` go to all of ours, `stock` to the engine's own."""
    names = [name for name in found if name not in LOAD_AXES]
    made = []
    for values in product(*(found[name] for name in names)):
        pairs = list(zip(names, values, strict=True))
        words = [word for name, value in pairs for word in _words(name, value)]
        made.append(Arm(" ".join(f"{name}={value}" for name, value in pairs) or "windlass", (*words, *flags)))
    if stock is not None:
        made.append(Arm(STOCK, tuple(stock), is_stock=True))
    if len(made) > ARMS_MAX:
        raise UsageError(f"--matrix names {len(made)} servers; name {ARMS_MAX} at most")
    return made


def _words(name: str, value: str) -> tuple[str, ...]:
    return SWITCHES[value] if name == LOOKAHEAD else (f"--{name}", value)


def loads(found: Mapping[str, Sequence[str]]) -> list[Asked]:
    """A load for each combination of the load's axes."""
    many: list[int | None] = [_concurrency(text) for text in found.get("concurrency", ())] or [None]
    warm: list[float | None] = [_number("temperature", text) for text in found.get("temperature", ())] or [None]
    rates = [_rate(text) for text in found.get("request-rate", ())] or ["inf"]
    return [Asked(*values) for values in product(many, warm, rates)]


def _concurrency(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
        raise UsageError(f"--matrix has concurrency={text}; write whole numbers from 1 on, as concurrency=1,10,64")
    return int(text)


def _number(axis: str, text: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise UsageError(f"--matrix has {axis}={text}; write a number from 0 on")
    return float(text)


def _rate(text: str) -> str:
    if text != "inf" and not _number("request-rate", text) > 0:
        raise UsageError("--matrix has request-rate=0; write requests a second, or inf")
    return text


def steps(servers: Sequence[Arm], asked: Sequence[Asked], rounds: int, *, together: bool) -> list[Step]:
    """Every second round goes backwards, so that a drift of the machine meets all servers alike.

    Servers that live side by side take turns within each load. Servers that live one after the other are asked
    everything in their turn; the last one of a round is the first one of the next, and is not started again.
    """
    found = []
    for number in range(1, rounds + 1):
        order = list(servers) if number % 2 else list(reversed(servers))
        if together:
            found += [Step(number, arm, one) for one in asked for arm in order]
        else:
            found += [Step(number, arm, one) for arm in order for one in asked]
    return found


def seed(first: int, round_: int, place: int, many: int) -> int:
    """One seed for all servers of a round and load: they get the same prompts, and no server gets them twice."""
    return first + (round_ - 1) * many + place
