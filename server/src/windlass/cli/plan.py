"""`windlass plan`: what a model needs and how it is split, before any GPU is taken. A shell over the sizing package.

Ends with 0 and a plan, with 3 when the model is not there or fits nowhere, with 2 and one sentence when it was asked
something impossible.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli import hub_files, plan_answer
from windlass.cli.hub_files import HubName
from windlass.cli.plan_answer import Output
from windlass.errors import ModelError, UsageError

if TYPE_CHECKING:
    from windlass_sizing.model.facts import ModelFacts
    from windlass_sizing.placement.choice import Offer
    from windlass_sizing.placement.gpus import Gpu

DEFAULT_GPU = "L20"
NODE_GPUS = 8  # as servers come
DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")


def command(  # noqa: PLR0913, PLR0917  each option of the command line is a parameter
    model: Annotated[
        str, typer.Argument(help="Model directory, a config.json, or OWNER/NAME with --hub.")
    ] = "/data/model",
    gpu: Annotated[
        str | None, typer.Option(help="Cards by name, family or node label; this machine's, else L20.")
    ] = None,
    memory_gib: Annotated[
        float | None, typer.Option("--gpu-memory-gib", min=1, help="Memory of a card that is not known by name.")
    ] = None,
    available: Annotated[int | None, typer.Option("--gpus-available", min=1, help="Cards that may be taken.")] = None,
    per_node: Annotated[int | None, typer.Option("--gpus-per-node", min=1, help="Cards of a node; 8.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", min=1, help="Nodes that may form a group; 1.")] = None,
    tp: Annotated[
        int | None, typer.Option("--tensor-parallel-size", "-tp", min=1, help="Cards that share every layer.")
    ] = None,
    max_model_len: Annotated[int | None, typer.Option(min=1, help="Context; the model's own, cut to 8192.")] = None,
    quantization: Annotated[str, typer.Option("--quantization", "-q", help="Quantization method.")] = "none",
    dtype: Annotated[str | None, typer.Option(help="Number format; float16.")] = None,
    utilization: Annotated[float, typer.Option("--gpu-memory-utilization", min=0.01, max=1.0)] = 0.9,
    enforce_eager: Annotated[bool, typer.Option("--enforce-eager", help="Without CUDA graphs.")] = False,
    beyond_limits: Annotated[
        bool, typer.Option("--ignore-engine-limits", help="Plan what our record says the engine cannot run.")
    ] = False,
    hub: Annotated[
        HubName | None, typer.Option(help="Read the model's small files from a hub; nothing is kept.")
    ] = None,
    revision: Annotated[str, typer.Option(help="Branch, tag or commit on the hub; the hub's own.")] = "",
    endpoint: Annotated[str, typer.Option(help="Base URL of the hub or a mirror; the public one.")] = "",
    output: Annotated[Output, typer.Option("--output", "-o", help="table, json or yaml.")] = Output.TABLE,
) -> None:
    """Print what a model needs, on which cards, and how it is split over them."""
    from windlass_sizing.placement.choice import choose
    from windlass_sizing.placement.formula import Serving

    facts = _facts_on_hub(hub, model, revision, endpoint)
    length = _length(facts, max_model_len)
    method = quantization.lower() or "none"
    number_format = _dtype(facts, dtype, method)
    serving = Serving(
        length, dtype=number_format, quantization=method, utilization=utilization, enforce_eager=enforce_eager
    )
    there = _offers(gpu, memory_gib, (available, per_node, nodes))
    offers = _able(facts, there, (method, number_format), beyond_limits)
    _must_divide(facts, tp)
    answer = choose(facts, offers, serving, tp)
    if answer is None:
        raise UsageError(
            f"--tensor-parallel-size {tp} is more than the cards that may be taken; raise --gpus-available"
        )
    plan_answer.show(plan_answer.document(facts, offers, answer), output)
    if not answer.fits:
        sys.exit(ModelError.exit_code)


def _facts_on_hub(hub: HubName | None, model: str, revision: str, endpoint: str) -> ModelFacts:
    """The facts of a directory or file; with a hub, of the small files that it has of the model."""
    if hub is None and (revision or endpoint):
        raise UsageError("--revision and --endpoint speak of a model on a hub; add --hub, or leave them out")
    if hub is None:
        return _facts(Path(model))
    asked = hub_files.named(hub, model, revision, endpoint)
    with TemporaryDirectory() as folder:
        hub_files.fetch(asked, Path(folder), os.environ)
        return _facts(Path(folder))


def _facts(model: Path) -> ModelFacts:
    from windlass_sizing.errors import SizingError
    from windlass_sizing.files.source import read_facts

    try:
        return read_facts(model)
    except SizingError as error:
        raise ModelError(str(error)) from error


def _length(facts: ModelFacts, asked: int | None) -> int:
    from windlass_sizing.placement.choice import default_length

    if asked and not facts.takes(asked):
        own = facts.max_model_len
        raise UsageError(f"--max-model-len {asked} is longer than the model's own {own} tokens; set at most {own}")
    return asked or default_length(facts)


def _dtype(facts: ModelFacts, asked: str | None, method: str) -> str:
    from windlass_sizing.quantization.decision import default_dtype, of_facts

    if asked and asked not in DTYPES:
        raise UsageError(f'--dtype "{asked}" is not known; choose one of {", ".join(DTYPES)}')
    return asked or default_dtype(method, *of_facts(facts))[0]


def _offers(
    gpu: str | None, memory_gib: float | None, counts: tuple[int | None, int | None, int | None]
) -> list[Offer]:
    """The kinds of card that may be taken, as named, as measured, or as this machine has."""
    from windlass_sizing.placement.choice import Offer

    if gpu and memory_gib:
        raise UsageError("--gpu and --gpu-memory-gib say the same thing twice; give one of them")
    here = [] if gpu or memory_gib else _of_this_machine()
    available, per_node, nodes = counts
    per_node = per_node or (len(here) or None) or min(available or NODE_GPUS, NODE_GPUS)
    nodes = nodes or max(1, (available or 0) // per_node)
    if memory_gib:
        return [Offer(f"{memory_gib:g} GiB GPU", memory_gib, memory_gib, None, per_node, nodes, available)]
    found: dict[str, Offer] = {}
    for name in (part.strip() for part in (gpu or ",".join(here) or DEFAULT_GPU).split(",")):
        for card in _cards(name):
            # A slice is taken alone: slices of a card exchange nothing with one another.
            most, places, in_all = (1, 1, 1) if card.alone else (per_node, nodes, available)
            sizes = (card.name, card.real_gib, card.memory_gib, card.capability)
            found[card.name] = Offer(*sizes, most, places, in_all, card.alone)
    return list(found.values())


def _cards(name: str) -> tuple[Gpu, ...]:
    """What one name of --gpu means; a usage error with the reason when it is nothing that can be planned on."""
    from windlass_sizing.placement import gpus

    if problem := gpus.refusal(name):
        raise UsageError(f"--gpu: {problem}; name one of {gpus.known_names()}")
    cards = gpus.named(name) if name else ()
    if not cards:
        raise UsageError(f'--gpu "{name}" is not known; give --gpu-memory-gib, or one of {gpus.known_names()}')
    return cards


def _of_this_machine() -> list[str]:
    from windlass_sizing.placement import gpus

    from windlass.license import nvml

    return [card.name for found in nvml.gpus() if (card := gpus.find(found.name))]


def _able(facts: ModelFacts, offers: list[Offer], served: tuple[str, str], beyond_limits: bool) -> list[Offer]:
    """The cards that can run the method in the number format; UsageError with the first one's problem when none can."""
    from windlass_sizing.quantization.decision import decide, of_facts
    from windlass_sizing.quantization.question import Card

    model = of_facts(facts)
    found = [
        (offer, decide(*served, Card(offer.name, offer.capability), *model, beyond_limits=beyond_limits))
        for offer in offers
    ]
    able = [offer for offer, decision in found if decision.problem is None]
    problem = found[0][1].problem
    if not able and problem:
        raise UsageError(problem.sentence())
    for beyond in dict.fromkeys(decision.beyond for _, decision in found if decision.beyond):
        print(f"windlass: --ignore-engine-limits sets aside: {beyond}", file=sys.stderr)
    return able


def _must_divide(facts: ModelFacts, tp: int | None) -> None:
    from windlass_sizing.placement.parallel import divides

    if tp is None or divides(facts, tp):
        return
    fitting = ", ".join(str(size) for size in range(1, facts.num_attention_heads + 1) if divides(facts, size))
    heads = f"{facts.num_attention_heads} heads and {facts.num_key_value_heads} KV heads"
    raise UsageError(f"--tensor-parallel-size {tp} does not split the model's {heads}; set one of {fitting}")
