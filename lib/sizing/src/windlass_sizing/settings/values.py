"""Reads one value of a row: from a word of the command line, a variable or a file, with a sentence when it is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeAlias

from windlass_sizing.errors import SettingsError
from windlass_sizing.model import context_length
from windlass_sizing.settings import lora_modules
from windlass_sizing.settings.flags import Flag, Kind

Value: TypeAlias = str | int | float | bool | tuple[str, ...]

SWITCH_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
PORT_MAX = 65535


def read(flag: Flag, text: str, origin: str) -> Value:
    """The value; `origin` names its source, for the sentence."""
    value = _READERS[flag.kind](text)
    if value is None:
        raise SettingsError(f'{origin} is "{text}", which is no {flag.kind.value}; {_example(flag)}')
    if flag.choices and value not in flag.choices:
        raise SettingsError(f'{origin} is "{text}"; choose one of {", ".join(flag.choices)}')
    return value


def is_switch_word(text: str) -> bool:
    """Whether a word says yes or no."""
    return text.lower() in SWITCH_WORDS


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,15}", text) else None


def _port(text: str) -> int | None:
    number = _whole(text)
    return number if number and number <= PORT_MAX else None


def _length(text: str) -> str | int | None:
    return text if text in context_length.ENGINE_DECIDES else context_length.tokens_of(text)


def _fraction(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 < value <= 1 else None


def _names(text: str) -> tuple[str, ...] | None:
    return tuple(name for part in text.split(",") if (name := part.strip())) or None


_READERS: dict[Kind, Callable[[str], Value | None]] = {
    Kind.TEXT: lambda text: text or None,
    Kind.WHOLE: _whole,
    Kind.LIMIT: lambda text: -1 if text == "-1" else _whole(text),
    Kind.PORT: _port,
    Kind.LENGTH: _length,
    Kind.FRACTION: _fraction,
    Kind.SWITCH: lambda text: SWITCH_WORDS.get(text.lower()),
    Kind.NAMES: _names,
    Kind.ADAPTERS: lora_modules.split,
}
_EXAMPLES = {
    Kind.TEXT: "give it a value",
    Kind.WHOLE: "write it as digits, as 2",
    Kind.LIMIT: "write it as digits, as 2000, or -1",
    Kind.PORT: f"write a number from 1 to {PORT_MAX}, as 8501",
    Kind.LENGTH: "write it as 8192, 8K or auto",
    Kind.FRACTION: "write a number above 0 and at most 1, as 0.9",
    Kind.SWITCH: "write true or false",
    Kind.NAMES: "give at least one, separated by commas",
    Kind.ADAPTERS: 'write name=path …, or {"name": "sql", "path": "lora/sql"}',
}


def _example(flag: Flag) -> str:
    return _EXAMPLES[flag.kind]
