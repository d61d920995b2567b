"""What drafts by `spec.engine` and the user's words together, held to what the server takes. Pure.

The server reads the engine's flags for drafts by `windlass_sizing.model.draft_words`, and so does the plan.
"""

from __future__ import annotations

from windlass_sizing.model import context_length, draft_words, drafter
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.words import WARNING
from windlass_sizing.settings.flags import ROW
from windlass_sizing.settings.in_force import Settings
from windlass_sizing.settings.setting import DEFAULT, FLAG

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.args import speculative_config
from windlass_api.plan.beside import ON_HOST
from windlass_api.plan.model import Refusal
from windlass_api.plan.offload import drafts_on_cpu, looks_ahead
from windlass_api.plan.overrides import VLLM, runs_windlass

DRAFT = "DraftUnusable"
CONFIG, OLD_MODEL = "--speculative-config", "--speculative-model"
TOKENS, LENGTH = "num-speculative-tokens", "max-model-len"


def drafting(spec: LLMServiceSpec, settings: Settings) -> tuple[str, str] | None:
    """What drafts by our integration, and how it is left out; None where nothing does."""
    if looks_ahead(settings):
        return "lookahead", "switch lookahead off"
    return (ON_HOST, "let the draft model run on the GPU") if drafts_on_cpu(spec, settings) else None


def requested(spec: LLMServiceSpec, settings: Settings) -> draft_words.Requested | None:
    """The engine's speculative configuration in force; None where there is none, or none that can be read."""
    field, old = spec.engine.speculation, settings.engine_value(OLD_MODEL)
    given = (CONFIG, speculative_config(field)) if field else ()
    older: tuple[str, ...] = ()
    if old:
        is_lookup = old == draft_words.PROMPT_LOOKUP
        older = (f"{CONFIG}.method", draft_words.NGRAM) if is_lookup else (f"{CONFIG}.model", old)
    try:
        return draft_words.requested((*given, *settings.engine_words, *older))
    except ValueError:
        return None  # the server refuses it with a sentence of its own


def captures_draft_model(spec: LLMServiceSpec, settings: Settings, facts: ModelFacts, gpus: int, engines: int) -> bool:
    """Whether a draft model on the card runs by our integration without the cache, as the server decides."""
    config = _draft_model_alone(spec, settings, facts)
    return config is not None and not _engines_why(config, gpus, engines)


def slow_draft_model(
    spec: LLMServiceSpec, settings: Settings, facts: ModelFacts, gpus: int, engines: int
) -> tuple[str, ...]:
    """Warning of a draft model that the engine's own speculator runs; empty where there is none."""
    config = _draft_model_alone(spec, settings, facts)
    why = _engines_why(config, gpus, engines) if config else ""
    return (WARNING + drafter.slow_steps(why),) if why else ()


def _draft_model_alone(spec: LLMServiceSpec, settings: Settings, facts: ModelFacts) -> draft_words.Requested | None:
    """The configuration of a draft model on the card without the lookahead cache, in our server; None otherwise."""
    config = requested(spec, settings)
    if config is None or not config.directory or not runs_windlass(spec):
        return None
    if spec.image.family != VLLM or spec.resources.gpus == 0 or drafting(spec, settings):
        return None
    by_files = facts.draft.drafts_by if facts.draft else ""
    return config if (config.method or by_files or drafter.DRAFT_MODEL) == drafter.DRAFT_MODEL else None


def _engines_why(config: draft_words.Requested, gpus: int, engines: int) -> str:
    """Why a draft model is left to the engine's own speculator; empty where it is not."""
    if engines > 1:
        return f"there are {engines} engines"
    if gpus > 1:
        return f"the engine has {gpus} GPUs"
    is_greedy = config.config.get("draft_sample_method", "greedy") == "greedy"
    return "" if is_greedy else "its drafts are drawn"


def other_drafter(spec: LLMServiceSpec, settings: Settings) -> drafter.Unfit | None:
    """Flags of the engine for drafts that do not go with our integration; what a directory holds is seen later."""
    who, config = drafting(spec, settings), requested(spec, settings)
    flag = next((flag for flag in (*drafter.FLAGS, OLD_MODEL) if settings.names(flag)), "")
    if who is None or config is None or not flag:
        return None
    takes = (drafter.DRAFT_MODEL,) if drafts_on_cpu(spec, settings) else drafter.BESIDE_LOOKAHEAD
    on_cpus = spec.resources.gpus == 0
    if config.directory and config.method in ("", *takes) and not on_cpus:
        return None
    method, where = f" (method {config.method})" if config.method else "", " on CPUs" if on_cpus else ""
    return f"{who[0]} and {flag}{method} exclude each other{where}", f"leave {flag} out, or {who[1]}"


def too_many(spec: LLMServiceSpec, settings: Settings, length: int) -> Refusal | None:
    """Why the drafts of our integration do not fit into a context of so many tokens; None where they do."""
    who, tokens = drafting(spec, settings), _tokens(spec, settings)
    if who is None or tokens is None or spec.image.family != VLLM or not runs_windlass(spec):
        return None
    is_open = settings.source(LENGTH) == FLAG and settings.value(LENGTH) in context_length.ENGINE_DECIDES
    context = None if is_open else length
    most = draft_words.drafted_most(context)
    if 1 <= tokens <= most:
        return None
    is_short = context is not None and tokens > most and most < draft_words.DRAFTED_MAX
    found = f", and the context (maxModelLen) has {context}" if is_short else f", and 1 to {most} can be"
    fewer = f"set {_counted_by(spec, settings)} to a number from 1 to {most}, " if most else ""
    longer = f"raise {_measured_by(settings)}, " if is_short else ""
    return Refusal(DRAFT, f"{tokens} tokens are to be drafted at a time{found}", f"{fewer}{longer}or {who[1]}")


def _tokens(spec: LLMServiceSpec, settings: Settings) -> int | None:
    """The most tokens of a draft, as the server counts them; None for a text that it refuses itself."""
    config = requested(spec, settings)
    own = config.config.get(draft_words.TOKENS) if config else None
    if own is not None:
        return own if isinstance(own, int) and not isinstance(own, bool) else None
    if settings.source(TOKENS) == DEFAULT:
        return draft_words.TOKENS_DEFAULT if config else draft_words.LOOKAHEAD_TOKENS
    return settings.whole(TOKENS)


def _counted_by(spec: LLMServiceSpec, settings: Settings) -> str:
    """What says how many tokens are drafted, or may say it."""
    if flag := next((flag for flag in (f"--{TOKENS}", *drafter.FLAGS) if settings.names(flag)), ""):
        return flag
    if spec.engine.speculation:
        return "spec.engine.speculation.tokens"
    if spec.engine.lookahead.enabled:
        return "spec.engine.lookahead.speculativeTokens"
    return ROW[TOKENS].variables[0] if settings.is_given(TOKENS) else f"--{TOKENS}"


def _measured_by(settings: Settings) -> str:
    """What says how long the context is, or may say it."""
    if settings.source(LENGTH) == FLAG:
        return f"--{LENGTH}"
    return ROW[LENGTH].variables[0] if settings.is_given(LENGTH) else "spec.engine.maxModelLen"
