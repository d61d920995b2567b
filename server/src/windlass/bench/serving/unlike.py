"""Whether a tokenizer keeps unlike tokens apart: random prompts are drawn as tokens and sent as text.

A tokenizer that the installed transformers reads wrongly turns every prompt into the same few tokens, and the prefix
cache answers nearly all of it. Without a prefix cache nothing would show it. Runs inside of the client's process.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

TOKENS = 256
SHARE_MIN = 0.5
"""Share of the drawn tokens that must come back as unlike ones; whole vocabularies give 0.8 or more."""


def share(
    decode: Callable[[Sequence[int]], str], encode: Callable[[str], Sequence[int]], usable: Sequence[int]
) -> float:
    """Unlike tokens that come back from the text of drawn ones, for each that was drawn."""
    drawn = random.Random(0).sample(list(usable), min(TOKENS, len(usable)))  # noqa: S311 - draws tokens, no secret
    return len(set(encode(decode(drawn)))) / len(drawn)


def of_directory(directory: str) -> float:
    """The share of a model directory's tokenizer, read as vLLM's client reads it."""
    from vllm.tokenizers import get_tokenizer

    tokenizer = get_tokenizer(directory)
    special = set(tokenizer.all_special_ids)
    usable = sorted(number for number in tokenizer.get_vocab().values() if number not in special)
    return share(tokenizer.decode, lambda text: tokenizer.encode(text, add_special_tokens=False), usable)
