"""What `windlass plan` prints: the answer as one document, as a table, JSON or YAML. Pure but for the printing.

The keys are those of the resource's `status.plan`, so that both can be read by the same program; `prediction` is here
alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from windlass import table

if TYPE_CHECKING:
    from windlass_sizing.model.facts import ModelFacts
    from windlass_sizing.placement.choice import Answer, Offer

COMMON_CARDS = ("L20", "A10", "A100-40G", "A100-80G", "V100-32G", "H20", "H100")
ALTERNATIVES_MAX = 7


class Output(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def document(facts: ModelFacts, offers: Sequence[Offer], answer: Answer) -> dict[str, Any]:
    """The whole answer; with `error` where nothing fits, and then the placement that comes nearest."""
    choice, serving, need = answer.choice, answer.choice.serving, answer.choice.need
    error = {} if answer.fits else {"error": f"nothing fits; the nearest is {choice.sentence()}"}
    return {
        **error,
        "model": facts.architecture,
        "params": facts.params,
        "paramsHow": facts.params_how,
        "weightsGib": round(need.weights_gib, 2),
        "kvCacheGib": round(need.kv_gib, 2),
        "overheadPerGpuGib": round(need.overhead_gib, 2),
        "perGpuGib": round(need.per_gpu_gib, 2),
        "requiredGib": round(need.required_gib, 2),
        "seedRequiredGib": round(choice.seed_gib, 2),
        "requestsAtOnce": choice.requests,
        "fits": answer.fits,
        "gpuType": choice.offer.name,
        "gpuMemoryGib": round(choice.offer.real_gib, 2),
        "gpus": choice.gpus,
        "tp": serving.tp,
        "pp": serving.pp,
        "nodes": choice.nodes,
        "maxModelLen": serving.max_model_len,
        "dtype": serving.dtype,
        "quantization": serving.quantization or facts.quantization or "none",
        "gpuMemoryUtilization": serving.utilization,
        "alternatives": _alternatives(facts, offers, answer),
        "advice": list(answer.advice),
        "because": list(answer.because),
        **_prediction(facts, answer),
    }


def _prediction(facts: ModelFacts, answer: Answer) -> dict[str, Any]:
    """How fast it would be; nothing where it does not fit."""
    from windlass_sizing.speed import words

    choice = answer.choice
    if not answer.fits:
        return {}
    return {"prediction": words.document(facts, choice.serving, choice.offer.name, choice.offer.real_gib)}


def _alternatives(facts: ModelFacts, offers: Sequence[Offer], answer: Answer) -> list[str]:
    """What other cards would do: those that were offered, then the common ones, in as many nodes."""
    from windlass_sizing.placement import gpus
    from windlass_sizing.placement.choice import Offer, alternatives

    first = offers[0]
    common = [
        Offer(card.name, card.real_gib, card.memory_gib, card.capability, first.per_node, first.nodes, first.gpus_max)
        for card in (gpus.GPUS[name] for name in COMMON_CARDS)
        if card.name not in {offer.name for offer in offers}
    ]
    return list(alternatives(facts, [*offers, *common], answer.choice))[-ALTERNATIVES_MAX:]


def show(found: dict[str, Any], output: Output) -> None:
    """Print the document."""
    if output is Output.JSON:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    elif output is Output.YAML:
        print("\n".join(_yaml(found)))
    else:
        _table(found)


def _yaml(found: dict[str, Any]) -> list[str]:
    """One level of keys, values as JSON writes them, which YAML reads."""
    lines: list[str] = []
    for key, value in found.items():
        if isinstance(value, list) and value:
            lines += [f"{key}:", *(f"- {json.dumps(one, ensure_ascii=False)}" for one in value)]
        else:
            lines.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
    return lines


def _table(found: dict[str, Any]) -> None:
    from windlass_sizing.placement import words
    from windlass_sizing.speed import words as speed_words

    predicted = speed_words.lines(found["prediction"]) if "prediction" in found else []
    verdict = "fits" if found["fits"] else "does not fit"
    rows = [
        ("model", f"{found['model']}, {_in_billions(found['params'])} parameters ({found['paramsHow']})"),
        ("context", f"{found['maxModelLen']} tokens"),
        ("weights", f"{found['weightsGib']:.2f} GiB ({found['quantization']}, {found['dtype']})"),
        ("KV cache", f"{found['kvCacheGib']:.2f} GiB for one full context"),
        ("beside", f"{found['overheadPerGpuGib']:.2f} GiB a GPU for runtime, graphs and activations"),
        ("needed", f"{found['requiredGib']:.2f} GiB in all, {found['perGpuGib']:.2f} GiB on each GPU"),
        ("placement", f"{found['gpus']} × {found['gpuType']}, {found['gpuMemoryGib']:.2f} GiB each: {verdict}"),
        ("split", f"TP {found['tp']}, PP {found['pp']}, {found['nodes']} node{'s' if found['nodes'] > 1 else ''}"),
        *(("at once", line) for line in found["because"] if words.AT_ONCE in line),
        *(("", line) for line in words.warnings(found["because"]) if words.AT_ONCE not in line),
        *(("speed" if not at else "", line) for at, line in enumerate(predicted)),
    ]
    table.show(("WHAT", "HOW MUCH"), rows)
    sections = {"alternatives": found["alternatives"], "advice": found["advice"]}
    for name, lines in sections.items():
        for number, line in enumerate(lines):
            print(f"{'' if number else name + ':':13} {line}")


def _in_billions(params: int) -> str:
    return f"{params / 1e9:.2f} B" if params >= 10**8 else f"{params / 1e6:.1f} M"
