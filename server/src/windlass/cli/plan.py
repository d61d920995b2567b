"""`windlass plan`: what a model needs, before any GPU is taken. A thin table over the sizing package."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli import table
from windlass.errors import ModelError, UsageError
from windlass.launch.flags import LENGTH_CUT_TOKENS

if TYPE_CHECKING:
    from windlass_sizing.facts import ModelFacts
    from windlass_sizing.formula import Serving
    from windlass_sizing.gpus import Gpu


class Output(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"


def command(  # noqa: PLR0913, PLR0917  each option of the command line is a parameter
    model: Annotated[Path, typer.Argument(help="Model directory.")] = Path("/data/model"),
    gpu: Annotated[str, typer.Option(help="Card, as L20 or NVIDIA-A100-SXM4-80GB.")] = "L20",
    tp: Annotated[int, typer.Option("--tensor-parallel-size", "-tp", min=1, help="GPUs that share the model.")] = 1,
    max_model_len: Annotated[int | None, typer.Option(min=1, help="Context in tokens.")] = None,
    quantization: Annotated[str, typer.Option("--quantization", "-q", help="Quantization method.")] = "none",
    utilization: Annotated[float, typer.Option("--gpu-memory-utilization", min=0.01, max=1.0)] = 0.9,
    output: Annotated[Output, typer.Option("--output", "-o", help="table or json.")] = Output.TABLE,
) -> None:
    """Print what a model directory needs on a card, and what would fit."""
    from windlass_sizing import checkpoint, gpus
    from windlass_sizing.formula import Serving

    report = checkpoint.inspect(model.absolute().parent, model.absolute().name, "this machine")
    if report.facts is None:
        raise ModelError(report.message)
    card = gpus.find(gpu)
    if card is None:
        raise UsageError(f'--gpu "{gpu}" is not known; choose one of {", ".join(gpus.GPUS)}')
    length = max_model_len or min(report.facts.max_model_len, LENGTH_CUT_TOKENS)
    method = None if quantization == "none" else quantization
    serving = Serving(length, tp=tp, quantization=method, utilization=utilization)
    if output is Output.JSON:
        print(json.dumps(_document(report.facts, serving, card), indent=2))
    else:
        _print(report.facts, serving, card)


def _document(facts: ModelFacts, serving: Serving, card: Gpu) -> dict[str, object]:
    from windlass_sizing import advice
    from windlass_sizing.formula import demand, seed_demand_gib

    need = demand(facts, serving)
    return {
        "model": facts.to_dict(),
        "serving": asdict(serving),
        "gpu": {"name": card.name, "memoryGib": round(card.real_gib, 2)},
        "quickFormulaGib": round(seed_demand_gib(facts, serving), 2),
        "demand": {name: round(value, 2) for name, value in asdict(need).items()},
        "fits": need.per_gpu_gib <= card.real_gib,
        "advice": list(advice.advise(facts, serving, card.real_gib, card.capability)),
    }


def _print(facts: ModelFacts, serving: Serving, card: Gpu) -> None:
    from windlass_sizing import advice
    from windlass_sizing.formula import demand, seed_demand_gib

    need = demand(facts, serving)
    fits = need.per_gpu_gib <= card.real_gib
    rows = [
        ("model", f"{facts.architecture}, {facts.params_text} parameters ({facts.params_how})"),
        ("context", f"{serving.max_model_len} tokens (the model's own: {facts.max_model_len})"),
        ("weights", f"{need.weights_gib:.2f} GiB"),
        ("KV cache", f"{need.kv_gib:.2f} GiB for one full context"),
        ("beside", f"{need.overhead_gib:.2f} GiB a GPU for runtime, graphs and activations"),
        ("quick formula", f"{seed_demand_gib(facts, serving):.2f} GiB in all"),
        ("needed", f"{need.per_gpu_gib:.2f} GiB on each of {serving.tp} GPUs"),
        (card.name, f"{card.real_gib:.2f} GiB: {'fits' if fits else 'does not fit'}"),
    ]
    table.show(("WHAT", "HOW MUCH"), rows)
    if not fits:
        for line in advice.advise(facts, serving, card.real_gib, card.capability):
            print(f"  {line}")
