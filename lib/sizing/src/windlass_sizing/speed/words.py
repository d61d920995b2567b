"""A prediction as a document for programs and as lines for people: the same figures in both. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.formula import Serving, requests_at_once
from windlass_sizing.speed.predict import EXAMPLES, Load, origin, speed
from windlass_sizing.speed.table import Origin, Table

PREDICTED = "predicted, not measured"


def document(
    facts: ModelFacts, serving: Serving, card: str, card_gib: float, known: Table | None = None
) -> dict[str, Any]:
    """The example loads as far as the KV cache holds them, with the errors to expect; or why there is none."""
    found = speed(facts, serving, card, known)
    if isinstance(found, str):
        return {"note": found}
    loads = [shortened(load, serving.max_model_len) for load in EXAMPLES]
    length = loads[0].tokens_in + loads[0].tokens_out
    room = requests_at_once(facts, replace(serving, max_model_len=length), card_gib)
    answers = [found.under(load) for load in loads if load.requests <= max(1, room)]
    seen = origin(card, known)
    return {
        "note": f"{PREDICTED}; {basis(seen)}",
        "promptTokens": loads[0].tokens_in,
        "answerTokens": loads[0].tokens_out,
        "loads": [
            {
                "requestsAtOnce": one.load.requests,
                "ttftMs": round(one.ttft_ms, 1),
                "msPerToken": round(one.ms_per_token, 2),
                "requestsPerSecond": round(one.requests_per_s, 2),
            }
            for one in answers
        ],
        "error": {
            "ttft": seen.ttft_error,
            "msPerToken": seen.ms_per_token_error,
            "requestsPerSecond": seen.requests_error,
        },
    }


def shortened(load: Load, length: int) -> Load:
    """The load with prompt and answer that fit into the context."""
    whole = load.tokens_in + load.tokens_out
    if whole <= length:
        return load
    answer = max(1, load.tokens_out * length // whole)
    return Load(load.requests, max(1, length - answer), answer)


def basis(seen: Origin) -> str:
    """What the figures stand on."""
    known = "" if seen.ms_per_token_error is not None else ", the error on other shapes is not known"
    return f"fitted to {seen.rows} figures of {', '.join(seen.shapes)}{known}"


def lines(found: dict[str, Any]) -> list[str]:
    """For people: a line a load, then what it stands on."""
    if "loads" not in found:
        return [str(found["note"])]
    error = found["error"]
    rows = [
        f"{one['requestsAtOnce']} at once: first token {band(one['ttftMs'], error['ttft'])} ms, "
        f"{band(one['msPerToken'], error['msPerToken'])} ms a token, "
        f"{band(one['requestsPerSecond'], error['requestsPerSecond'])} requests/s"
        for one in found["loads"]
    ]
    return [*rows, f"{found['note']}; {found['promptTokens']} tokens in, {found['answerTokens']} out"]


def band(value: float, error: float | None) -> str:
    """A figure with the error that nine of ten figures of other shapes kept."""
    return f"{value:.4g}" if error is None else f"{value:.4g} ± {100 * error:.0f} %"
