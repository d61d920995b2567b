"""Totals of usage by key and model, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from windlass.front.usage.read import Tokens

NO_KEY = "-"
"""The key's name in records of a server without keys; no key file may use it."""


@dataclass(slots=True)
class Total:
    """The usage of one key and one model."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    estimated: int = 0
    """Requests whose tokens the engine did not count."""

    def add(self, tokens: Tokens, *, estimated: bool) -> None:
        """Count one more request."""
        self.requests += 1
        self.tokens_in += tokens.in_
        self.tokens_out += tokens.out
        self.tokens_cached += tokens.cached
        self.estimated += estimated


NAMES = {
    "requests": ("windlass_usage_requests_total", "answered requests"),
    "tokens_in": ("windlass_usage_prompt_tokens_total", "tokens of prompts"),
    "tokens_out": ("windlass_usage_completion_tokens_total", "tokens of answers"),
    "tokens_cached": (
        "windlass_usage_cached_tokens_total",
        "tokens of prompts that the engine had in its prefix cache",
    ),
    "estimated": ("windlass_usage_estimated_requests_total", "answered requests whose tokens are estimated"),
}
Place = tuple[str, str]
"""Key and model."""


def lines(service: str, totals: dict[Place, Total]) -> Iterator[str]:
    """The totals in Prometheus' text format."""
    for field in fields(Total):
        name, meaning = NAMES[field.name]
        yield f"# HELP {name} {meaning}"
        yield f"# TYPE {name} counter"
        for (key, model), total in sorted(totals.items()):
            labels = f'llmservice="{escaped(service)}",key="{escaped(key)}",model="{escaped(model)}"'
            yield f"{name}{{{labels}}} {getattr(total, field.name)}"


def escaped(text: str) -> str:
    """A label's value."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
