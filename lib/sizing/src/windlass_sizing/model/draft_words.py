"""What the engine's flags say about drafting: which method, from which directory, and how many tokens at a time.

`windlass run` and the plan read the words by this, and hold the tokens of a draft to the same limits. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass_sizing import engine_flags
from windlass_sizing.model import drafter

CONFIG = frozenset({"--speculative-config", "-sc"})
KEYS = {"--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens"}
"""The engine's own short flags of three keys."""
TOKENS = "num_speculative_tokens"
TOKENS_DEFAULT = 4
"""Drafted at a time where nobody says how many; `spec.engine.speculation.tokens` has the same default."""
LOOKAHEAD_TOKENS, DRAFTED_MAX = 6, 128
"""What the lookahead cache drafts where nobody says how many, and the most that the engine verifies of a request in one
step.
"""
GUESSED = {"eagle-": drafter.EAGLE, "eagle3": drafter.EAGLE3, "dflash": "dflash", "dspark": "dspark"}
"""Parts of a path by which the engine chooses a method, unless one of these four is set; in the engine's order."""
NGRAM, PROMPT_LOOKUP = "ngram", "[ngram]"
"""Drafts from the prompt, and what older engines called that in place of a model's directory."""


@dataclass(frozen=True, slots=True)
class Requested:
    """The engine's speculative configuration as the words have it, and the words without it."""

    config: Mapping[str, object]
    others: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """The method that is set; empty when none is."""
        return str(self.config.get("method") or "")

    @property
    def directory(self) -> str:
        """Where what drafts lies; empty for a method that the rules do not know."""
        path = str(self.config.get("model") or "")
        known = (self.method or guessed(path) or drafter.DRAFT_MODEL) in drafter.METHODS
        if not known or path in ("", NGRAM, PROMPT_LOOKUP) or _is_class(path, self.method):
            return ""
        return path


def requested(words: Sequence[str]) -> Requested | None:
    """What the words say; None when they say nothing. ValueError for a configuration that is no JSON object."""
    config: dict[str, object] = {}
    others: list[str] = []
    waiting, is_set = list(words), False
    while waiting:
        word = waiting.pop(0)
        name, joined, value = word.partition("=")
        flag, _, key = name.partition(".")
        meant = engine_flags.record().meant(flag.replace("_", "-")) if word.startswith("-") else ""
        if meant not in CONFIG and meant not in KEYS:
            others.append(word)
            continue
        text, is_set = value if joined else (waiting.pop(0) if waiting else ""), True
        config |= {KEYS[meant]: _value(text)} if meant in KEYS else _keys(meant, key, text)
    return Requested(config, tuple(others)) if is_set else None


def guessed(path: str) -> str:
    """The method that the engine takes a path for; empty for none."""
    return next((method for part, method in GUESSED.items() if part in path.lower()), "")


def drafted_most(context: int | None) -> int:
    """The most tokens of a draft that our integration makes; None stands for a context that the engine chooses."""
    return DRAFTED_MAX if context is None else min(DRAFTED_MAX, context - 1)


def _is_class(path: str, method: str) -> bool:
    """Whether the engine takes the model for the path of a Python class."""
    return not method and "/" not in path and "." in path and all(part.isidentifier() for part in path.split("."))


def _keys(flag: str, key: str, text: str) -> dict[str, object]:
    """One key of the dotted form, or the keys of a JSON object."""
    if key:
        return {key.replace("-", "_"): _value(text)}
    found = _value(text)
    if not isinstance(found, dict):
        raise ValueError(f'{flag} is no JSON object: {text[:60]}; write {{"method": …, "model": …}}')
    return {str(name).replace("-", "_"): value for name, value in found.items()}


def _value(text: str) -> object:
    """The JSON value, or the text itself where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
