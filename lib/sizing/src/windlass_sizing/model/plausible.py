"""How large a number of a model may be: generous limits, so that no file makes a loop or a table of any length.

A config.json is written by whoever owns the volume, and every size in it ends up in arithmetic and in loops. `facts.py`
and `shape.py` compare what they read with these rows. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass_sizing.errors import FactsError

NUMBER_MAX = 2**53  # JSON readers keep whole numbers exact up to here
DIGITS_SHOWN = 24


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest plausible value of one fact, and the model that the limit leaves room above."""

    most: int
    because: str


LIMITS: dict[str, Limit] = {
    "params": Limit(2**50, "the largest published models have 2 × 10^12"),
    "hidden_size": Limit(131_072, "the largest published models have 32,768"),
    "num_hidden_layers": Limit(2_048, "the deepest published models have 160"),
    "num_attention_heads": Limit(65_536, "the largest published models have 256"),
    "num_key_value_heads": Limit(65_536, "the largest published models have 256"),
    "head_dim": Limit(65_536, "the largest published models have 576"),
    "vocab_size": Limit(16_777_216, "the largest published vocabularies have 262,400"),
    "intermediate_size": Limit(16_777_216, "the largest published models have 106,496"),
    "num_experts": Limit(65_536, "the largest published models have 512"),
    "max_model_len": Limit(2**30, "the longest published context is 10,485,760"),
    "window": Limit(2**30, "the longest published context is 10,485,760"),
    "kv_layers": Limit(65_536, "they are counted from the layers"),
    "window_layers": Limit(65_536, "they are counted from the layers"),
}
ANY = Limit(NUMBER_MAX, "no size of a model is larger")


def limit_of(fact: str) -> Limit:
    """The row of a fact; sizes without one of their own share the last."""
    return LIMITS.get(fact, ANY)


def must_be_plausible(fact: str, value: int | float) -> None:
    """FactsError (`ConfigImplausible`) when no model has such a size."""
    limit = limit_of(fact)
    if value > limit.most:
        raise FactsError(
            f"{fact} {shown(value)} is above {limit.most:,}; {limit.because}: correct it in config.json",
            reason="ConfigImplausible",
        )


def shown(value: object) -> str:
    """A value as a message shows it; Python refuses to write whole numbers of more than 4,300 digits."""
    if isinstance(value, int) and value.bit_length() > 3 * DIGITS_SHOWN:
        return f"(a number of about {round(value.bit_length() * 0.30103):,} digits)"
    return repr(value)[:40]
