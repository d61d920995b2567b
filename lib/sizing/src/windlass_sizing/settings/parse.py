"""Splits a command line into the flags of our table and what is the engine's own.

Not argparse: the engine has hundreds of flags, and each that we do not know passes through as it stands, once
`engine_words` has looked at it. Dashes and underscores mean the same, `--flag=value` and `--flag value` too, and the
last of two equal flags wins. A unique beginning of an engine's flag stands for the whole, as in the engine's parser.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from windlass_sizing.engine_flags import EngineFlags, record
from windlass_sizing.errors import SettingsError
from windlass_sizing.settings.flags import BY_NAME, Flag, Kind
from windlass_sizing.settings.values import is_switch_word

SHORT = ("-q", "-tp", "-pp", "-spec-draft-tp")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Texts of our flags by name, and the engine's words in their order."""

    texts: dict[str, str] = field(default_factory=dict)
    engine_words: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Sentences on flags that were left out because they cannot be read."""

    def checked(self) -> CommandLine:
        """Return the line itself; SettingsError for its first problem."""
        if self.problems:
            raise SettingsError(self.problems[0])
        return self


def parse(words: tuple[str, ...]) -> CommandLine:
    """Split the words; a first word that is no flag is the model directory, as with `vllm serve`.

    SettingsError where `--model` names another, and for a flag that cannot be read.
    """
    if words and not words[0].startswith("-"):
        line = split(words[1:], BY_NAME).checked()
        if (other := line.texts.get("model", words[0])) != words[0]:
            raise SettingsError(f"two models are named, {words[0]} and --model {other}; leave one of them out")
        return replace(line, texts={"model": words[0], **line.texts})
    return split(words, BY_NAME).checked()


def split(words: tuple[str, ...], flags: Mapping[str, Flag], engine: EngineFlags | None = None) -> CommandLine:
    """Split the words by a table of flags and their other names; `engine` knows which names may be shortened."""
    texts: dict[str, str] = {}
    others: list[str] = []
    problems: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, joined, value = _split(word)
        flag, negated = _find(name, flags, engine or record()) if _is_flag(word) else (None, False)
        if flag is None:
            others.append(word)
            continue
        try:
            texts[flag.name] = _negated(flag, joined) if negated else value if joined else _take(flag, rest)
        except SettingsError as error:
            problems.append(str(error))
    return CommandLine(texts, tuple(others), tuple(problems))


def _is_flag(word: str) -> bool:
    return word.startswith("--") or word.partition("=")[0] in SHORT


def _split(word: str) -> tuple[str, bool, str]:
    name, equals, value = word.lstrip("-").partition("=")
    return name.replace("_", "-"), bool(equals), value


def _find(written: str, flags: Mapping[str, Flag], engine: EngineFlags) -> tuple[Flag | None, bool]:
    if written in flags:
        return flags[written], False
    name = engine.meant(f"--{written}").removeprefix("--")  # a shortened flag of the engine may be one of ours
    if name in flags:
        return flags[name], False
    flag = flags.get(name.removeprefix("no-")) if name.startswith("no-") else None
    return (flag, True) if flag and flag.kind is Kind.SWITCH else (None, False)


def _negated(flag: Flag, joined: bool) -> str:
    if joined:
        raise SettingsError(f"--no-{flag.name} takes no value; write --{flag.name}=false or --no-{flag.name}")
    return "false"


def _take(flag: Flag, rest: list[str]) -> str:
    """The words that follow a flag and are its value."""
    if flag.kind is Kind.SWITCH:
        return rest.pop(0) if rest and is_switch_word(rest[0]) else "true"
    if not rest or rest[0].startswith("--"):
        raise SettingsError(f"--{flag.name} needs a value: {flag.help}")
    values = [rest.pop(0)]
    while flag.kind in (Kind.NAMES, Kind.ADAPTERS) and rest and not rest[0].startswith("-"):
        values.append(rest.pop(0))
    return _joined(values) if flag.kind is Kind.ADAPTERS else ",".join(values)


def _joined(words: list[str]) -> str:
    """Words that are adapters as one text; a list keeps them apart where a path holds a comma or a space."""
    return json.dumps(words) if any(set(word) & set(", ") for word in words) else " ".join(words)
