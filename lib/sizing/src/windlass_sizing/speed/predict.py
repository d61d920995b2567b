"""Predicts time to first token, ms a token and requests a second of a planned model. Pure.

A decode step reads every weight but the embedding, and the KV cache of each request; each layer costs a fixed time, and
a little more for each request. A prompt costs its operations, or a fixed time for each layer where it is short. While
one request reads its prompt, the others wait for that step. `docs/explanation/predicting-speed.md` has the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.formula import GIB, Serving, kv_gib_per_gpu, serving_dtype_bytes, weights_gib
from windlass_sizing.speed.table import PLAIN, CardSpeed, MethodSpeed, Origin, Table, table

BEND = 1.5
"""How fixed time and operations of a prompt add up: 1 is a sum, large is the larger one; from 32 to 8,192 tokens."""
EXAMPLE_IN, EXAMPLE_OUT = 512, 256


@dataclass(frozen=True, slots=True)
class Load:
    """Requests at once, each client's next when it has its answer, and the tokens of each."""

    requests: int
    tokens_in: int = EXAMPLE_IN
    tokens_out: int = EXAMPLE_OUT


EXAMPLES = (Load(1), Load(10), Load(64))
"""What `windlass plan` predicts, as far as the KV cache holds them."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one load would see."""

    load: Load
    ttft_ms: float
    ms_per_token: float
    requests_per_s: float


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of one model on one card."""

    facts: ModelFacts
    serving: Serving
    card: CardSpeed
    method: MethodSpeed

    def step_ms(self, requests: float, context: float) -> float:
        """A step that gives each request a token; `context` tokens of each lie in the cache."""
        read = self._weight_bytes + requests * self._kv_bytes(context)
        layers = self.facts.num_hidden_layers
        fixed = self.card.layer_us * self.method.layer + requests * self.card.row_us * self.method.row
        return read / (self.card.read_gb_s * self.method.read * 1e6) + layers * fixed / 1e3

    def prompt_ms(self, tokens: float, length: float, context: float = 0.0) -> float:
        """Steps that read `tokens` of prompts, each `length` long, behind `context` tokens of others."""
        whole, left = 0.0, tokens
        while left > 0:
            chunk = min(left, self.serving.tokens_a_step)
            whole += self._chunk_ms(chunk, length)
            left -= chunk
        return whole + context * self._kv_bytes(1) / (self.card.read_gb_s * 1e6)

    def under(self, load: Load) -> Prediction:
        """What a load sees once all of its requests have begun."""
        context = load.tokens_in + load.tokens_out / 2
        step = self.step_ms(load.requests, context)
        others, steps = load.requests - 1, max(1, load.tokens_out - 1)
        together = max(1.0, others / steps)  # prompts that one step reads, where there are more of them than steps
        mixed = max(step, self.prompt_ms(together * load.tokens_in, load.tokens_in, others * context))
        token = step + min(1.0, others / steps) * (mixed - step)
        share = min(1.0, others / steps) * mixed / token  # of the time, for steps that read a prompt
        waits = (share * mixed + (1 - share) * step) / 2 if others else 0.0
        ttft = waits + self.card.request_ms + mixed
        return Prediction(load, ttft, token, 1e3 * load.requests / (ttft + steps * token))

    @property
    def _weight_bytes(self) -> float:
        """Of a step: an embedding of its own is looked up, not read."""
        table = self.facts.embedding_params - self.facts.head_params if self.facts.head_params else 0
        plain = serving_dtype_bytes(self.facts, self.serving.dtype)
        return weights_gib(self.facts, self.serving) * GIB - table * plain

    def _kv_bytes(self, context: float) -> float:
        """Of one request."""
        if context <= 0:
            return 0.0
        whole = kv_gib_per_gpu(self.facts, replace(self.serving, max_model_len=round(max(1.0, context)))) * GIB
        return whole * context / round(max(1.0, context))

    def _chunk_ms(self, tokens: float, length: float) -> float:
        """One step: weights times tokens, and each token with those before it, against a fixed time."""
        linear = self.facts.linear_params or self.facts.params - self.facts.embedding_params
        attention = 2 * tokens * length * self.facts.num_attention_heads * self.facts.head_dim
        operations = 2 * linear * tokens + attention * self.facts.num_hidden_layers
        flops_ms = operations / (self.card.prompt_tflops * self.method.prompt * 1e9)
        fixed_ms = self.card.prompt_layer_us * self.method.prompt_layer * self.facts.num_hidden_layers / 1e3
        return float((flops_ms**BEND + fixed_ms**BEND) ** (1 / BEND))


def speed(facts: ModelFacts, serving: Serving, card: str, known: Table | None = None) -> Speed | str:
    """The speed on a card of this name, or one sentence that says why nothing is predicted."""
    rows = known or table()
    method = (serving.quantization or facts.quantization or PLAIN).lower()
    if card not in rows.cards:
        return f"no prediction for {card}: it was not measured; measured are {', '.join(sorted(rows.cards))}"
    if serving.tp * serving.pp > 1:
        return "no prediction for a model on several GPUs: none was measured"
    if facts.num_experts or facts.state_bytes or facts.latent_kv_dim or facts.multimodal:
        return f"no prediction for {facts.architecture}: only plain decoders were measured"
    if method not in rows.methods or facts.quantization:
        return f"no prediction for {method}: measured are {', '.join(sorted(rows.methods))}"
    if serving.enforce_eager:
        return "no prediction without CUDA graphs: none was measured"
    return Speed(facts, serving, rows.cards[card], rows.methods[method])


def origin(card: str, known: Table | None = None) -> Origin:
    """Where the card's numbers come from."""
    return (known or table()).origins[card]
