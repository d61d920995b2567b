"""What the server refuses beside `sequenceParallelSize`, known before any GPU is taken. Pure.

`windlass.launch.sequence_parallel` refuses the same at the start; a contract test holds both sides together.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass_sizing.model import drafter
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.sequence import obstacle
from windlass_sizing.settings.in_force import Settings

from windlass_api.plan.beside import merges_by_words
from windlass_api.plan.layout import Layout
from windlass_api.plan.model import Refusal
from windlass_api.plan.start import Start

ENGINES_OWN = frozenset(
    {
        *("--prefill-context-parallel-size", "-pcp", "--attention-backend", "--attention-config", "--worker-cls"),
        *("--decode-context-parallel-size", "-dcp", "--enable-expert-parallel", "--enable-dbo"),
        *drafter.FLAGS,
        *("--kv-transfer-config", "--kv-offloading-size", "--kv-offloading-backend"),
    }
)
"""The engine's flags that the split sets itself, or that the engine does not run beside it."""
NO_CONVERSION = ("", "auto", "none")
POOLING_SUFFIXES = ("ForTextEncoding", "Classification", "ForRewardModeling", "Model")
GENERATE_SUFFIXES = ("ChatModel", "LMHeadModel", "ChatGLMModel")
"""Ends of architectures' names: which do not generate, and which do all the same."""


def not_split(start: Start, facts: ModelFacts, layout: Layout) -> Refusal | None:
    """Why prompts are not shared by GPUs here, where that is asked for; on the CPU the GPUs are refused first."""
    if layout.sp == 1 or layout.gpus == 0:
        return None
    if not start.is_vllm:
        return Refusal(
            "BadParallelism",
            f"sequenceParallelSize is {layout.sp}, and spec.image.family {start.spec.image.family} has no such size",
            "take its flag or variable out, or use family vllm",
        )
    found = next(_obstacles(start, facts, layout), None)
    if found is None:
        return None
    why, remedy = found
    return Refusal("BadParallelism", f"sequenceParallelSize is {layout.sp}: {why}", f"leave it out, or {remedy}")


def can_be_split(start: Start, facts: ModelFacts, layout: Layout) -> bool:
    """Whether `sequenceParallelSize` would be taken for this service, as it is otherwise."""
    here = start.is_vllm and start.is_ours and layout.nodes_min == 1
    return here and next(_obstacles(start, facts, layout), None) is None


def _obstacles(start: Start, facts: ModelFacts, layout: Layout) -> Iterator[tuple[str, str]]:
    """Each with what mends it; a command of the user's own gets no flag of the plan and is not judged."""
    if why := obstacle(facts):
        yield why, "set spec.engine.tensorParallelSize instead"
    if not start.is_ours:
        return
    if layout.workers > 1:
        yield f"{layout.workers} engines in one pod have no split", "raise spec.replicas in the place of workers"
    if start.looks_ahead:
        yield "the engine does not split prompts beside lookahead", "switch lookahead off"
    if start.spec.engine.speculation is not None:
        yield "the engine does not split prompts beside a draft model", "leave spec.engine.speculation out"
    if _serves_adapters(start.settings, facts):
        yield "the engine does not split prompts beside adapters that are served by name", "merge the adapter"
    if start.keeps_prefixes:
        yield "each rank would keep evicted prefixes of its own", "switch prefix offload off"
    if flag := _engines_flag(start.settings):
        yield f"{flag} does not go with it", f"leave {flag} out"
    if _does_not_generate(start.settings, facts.architecture):
        yield "it splits prompts that are answered, and this model does not generate", "serve a model that does"


def _serves_adapters(settings: Settings, facts: ModelFacts) -> bool:
    if merges_by_words(settings):
        return False
    return bool(facts.lora_slots) or settings.value("enable-lora") is True or settings.is_given("lora-modules")


def _engines_flag(settings: Settings) -> str:
    names = (word.partition("=")[0].partition(".")[0] for word in settings.engine_words)
    return next((name for name in names if name in ENGINES_OWN), "")


def _does_not_generate(settings: Settings, architecture: str) -> bool:
    """As the server judges by flags and the architecture's name."""
    runner = settings.engine_value("--runner") or "auto"
    if runner != "auto":
        return runner != "generate"
    if (settings.engine_value("--convert") or "") not in NO_CONVERSION:
        return True
    return architecture.endswith(POOLING_SUFFIXES) and not architecture.endswith(GENERATE_SUFFIXES)
