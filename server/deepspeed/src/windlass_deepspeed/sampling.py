"""How the tokens of one request are drawn and when it ends. Values only; the engine and the API meet here."""

from __future__ import annotations

from dataclasses import dataclass

GREEDY_BELOW = 1e-5


@dataclass(frozen=True, slots=True)
class Sampling:
    """The fields of the API; `max_tokens` is already what the context leaves."""

    max_tokens: int
    temperature: float = 0.7
    top_p: float = 1.0
    top_k: int = -1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_p: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Tokens, each once, and what is added to their logits."""
    no_repeat_ngram_size: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken."""
        return self.temperature < GREEDY_BELOW

    @property
    def plain(self) -> bool:
        """Whether the likeliest token is taken as the model says it."""
        return self.greedy and not (self.penalized or self.logit_bias or self.no_repeat_ngram_size)

    @property
    def penalized(self) -> bool:
        """Whether what was said before changes what comes."""
        return bool(self.presence_penalty or self.frequency_penalty) or self.repetition_penalty != 1.0
