"""The request's fields as rows: range, default and meaning. Checked and filled here, printed in the docs.

Precedence: the request, then the model's generation_config.json, then the default of the row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeGuard

from windlass.engine.sampling.ngrams import SIZE_MAX
from windlass.front.refusal import Refusal

INT64_MAX = 2**63 - 1
LONGEST_SHOWN = 60
LARGEST_SHOWN = 10**LONGEST_SHOWN
"""Python refuses to write numbers of more than 4,300 digits in decimal."""


class Kind(Enum):
    """What a value must be."""

    NUMBER = "number"
    WHOLE = "whole number"
    SWITCH = "true or false"
    TEXTS = "string or list of strings"


@dataclass(frozen=True, slots=True)
class Field:
    """One row. `default` is filled in; `otherwise` only says what the engine does without the field."""

    name: str
    kind: Kind
    meaning: str
    low: float | None = None
    high: float | None = None
    above_low: bool = False
    default: float | None = None
    otherwise: str = "none"
    unless: str = ""
    """Another field that, when true, lifts the range."""

    @property
    def interval(self) -> str:
        """The range as mathematicians write it; empty when there is none."""
        if self.low is None:
            return ""
        if self.high is None:
            return f"≥ {self.low:g}"
        return f"{'(' if self.above_low else '['}{self.low:g}, {self.high:g}]"

    @property
    def words(self) -> str:
        """What a right value is, for a sentence."""
        if self.low is None:
            return self.kind.value if self.kind is Kind.SWITCH else f"a {self.kind.value}"
        if self.high is None:
            return f"a {self.kind.value} of at least {self.low:g}"
        low = f"above {self.low:g} and at most" if self.above_low else f"from {self.low:g} to"
        return f"a {self.kind.value} {low} {self.high:g}"


FIELDS: tuple[Field, ...] = (
    Field("max_tokens", Kind.WHOLE, "most tokens to generate; prompt and answer share the context", 1,
          otherwise="what is left of the context (16 for `/v1/completions`)", unless="echo"),
    Field("max_completion_tokens", Kind.WHOLE, "newer name of `max_tokens` for chat", 1, otherwise="as `max_tokens`"),
    Field("stream", Kind.SWITCH, "answer piece by piece, as server-sent events", otherwise="false"),
    Field("temperature", Kind.NUMBER, "randomness of the choice; 0 always takes the likeliest token", 0, 2,
          default=0.7),
    Field("top_p", Kind.NUMBER, "choose among the likeliest tokens that together have this probability", 0, 1,
          above_low=True, default=1.0),
    Field("top_k", Kind.WHOLE, "choose among this many of the likeliest tokens; -1 and 0 are no limit", -1, default=-1),
    Field("min_p", Kind.NUMBER, "drop tokens less likely than this share of the likeliest one", 0, 1, otherwise="0"),
    Field("presence_penalty", Kind.NUMBER, "above 0: tokens that were generated once become less likely", -2, 2,
          default=0.0),
    Field("frequency_penalty", Kind.NUMBER, "above 0: the more often a token was generated, the less likely", -2, 2,
          default=0.0),
    Field("repetition_penalty", Kind.NUMBER, "above 1: tokens of prompt and answer become less likely", 1, 2,
          default=1.0),
    Field("no_repeat_ngram_size", Kind.WHOLE, "no run of this many tokens is generated twice; 0 is off", 0,
          SIZE_MAX, otherwise="0"),
    Field("stop", Kind.TEXTS, "texts that end the answer, besides the model's own end"),
    Field("ignore_eos", Kind.SWITCH, "go on after the model's end, up to `max_tokens`; for measuring",
          otherwise="false"),
    Field("seed", Kind.WHOLE, "repeats the same choices", otherwise="the server's `--seed`, or chance"),
    Field("n", Kind.WHOLE, "answers to one prompt", 1, 128, otherwise="1"),
    Field("min_tokens", Kind.WHOLE, "fewest tokens before an end counts", 0, otherwise="0"),
)  # fmt: skip


def check(document: Mapping[str, Any]) -> None:
    """Refuse the first value that no row allows; null counts as left out."""
    for field in FIELDS:
        value = document.get(field.name)
        lifted = field.unless and document.get(field.unless) is True
        if value is not None and not lifted and not _is_right(field, value):
            message = f"{field.name} is {_shown(value)}; it must be {field.words}"
            raise Refusal(400, message, param=field.name)


def defaults(document: Mapping[str, Any], set_by_model: Collection[str]) -> dict[str, float]:
    """Our defaults for what neither the request nor the model's own configuration sets."""
    return {
        field.name: field.default
        for field in FIELDS
        if field.default is not None and document.get(field.name) is None and field.name not in set_by_model
    }


def _is_right(field: Field, value: object) -> bool:
    match field.kind:
        case Kind.SWITCH:
            return isinstance(value, bool)
        case Kind.TEXTS:
            return isinstance(value, str) or (isinstance(value, list) and all(isinstance(part, str) for part in value))
        case Kind.WHOLE:
            return _is_whole(value) and _is_within(field, value)
        case Kind.NUMBER:
            return _is_number(value) and _is_within(field, value)


def _is_number(value: object) -> TypeGuard[float]:
    # A whole number is compared as it is: Python's have any length, and most of them have no float.
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_whole(value: object) -> TypeGuard[int]:
    return _is_int(value) and -INT64_MAX <= value <= INT64_MAX


def _is_within(field: Field, value: float) -> bool:
    if field.low is not None and (value < field.low or (field.above_low and value == field.low)):
        return False
    return field.high is None or value <= field.high


def _shown(value: object) -> str:
    text = hex(value) if _is_int(value) and abs(value) > LARGEST_SHOWN else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"
