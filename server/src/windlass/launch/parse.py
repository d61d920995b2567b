"""Splits a command line into the flags of our table and what is the engine's own.

Not argparse: the engine has hundreds of flags, and each that we do not know passes through as it stands. Dashes and
underscores mean the same, `--flag=value` and `--flag value` too, and the last of two equal flags wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.errors import UsageError
from windlass.launch.flags import BY_NAME, Flag, Kind
from windlass.launch.values import is_switch_word

SHORT = ("-q", "-tp")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What was said: our flags by name, and the engine's words in their order."""

    said: dict[str, str] = field(default_factory=dict)
    engine_words: tuple[str, ...] = ()


def parse(words: tuple[str, ...]) -> CommandLine:
    """Split the words; a first word that is no flag is the model directory, as with `vllm serve`."""
    said: dict[str, str] = {}
    engine: list[str] = []
    rest = list(words)
    if rest and not rest[0].startswith("-"):
        said["model"] = rest.pop(0)
    while rest:
        word = rest.pop(0)
        name, joined, value = _split(word)
        flag, negated = _find(name) if _is_flag(word) else (None, False)
        if flag is None:
            engine.append(word)
        else:
            said[flag.name] = _negated(flag, joined) if negated else value if joined else _take(flag, rest)
    return CommandLine(said, tuple(engine))


def _is_flag(word: str) -> bool:
    return word.startswith("--") or word.partition("=")[0] in SHORT


def _split(word: str) -> tuple[str, bool, str]:
    name, equals, value = word.lstrip("-").partition("=")
    return name.replace("_", "-"), bool(equals), value


def _find(name: str) -> tuple[Flag | None, bool]:
    if name in BY_NAME:
        return BY_NAME[name], False
    flag = BY_NAME.get(name.removeprefix("no-")) if name.startswith("no-") else None
    return (flag, True) if flag and flag.kind is Kind.SWITCH else (None, False)


def _negated(flag: Flag, joined: bool) -> str:
    if joined:
        raise UsageError(f"--no-{flag.name} takes no value; write --{flag.name}=false or --no-{flag.name}")
    return "false"


def _take(flag: Flag, rest: list[str]) -> str:
    """The words that follow a flag and are its value."""
    if flag.kind is Kind.SWITCH:
        return rest.pop(0) if rest and is_switch_word(rest[0]) else "true"
    if not rest or rest[0].startswith("--"):
        raise UsageError(f"--{flag.name} needs a value: {flag.help}")
    values = [rest.pop(0)]
    while flag.kind is Kind.NAMES and rest and not rest[0].startswith("-"):
        values.append(rest.pop(0))
    return ",".join(values)
