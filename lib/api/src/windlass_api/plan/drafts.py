"""What drafts by `spec.engine` and the user's words together, held to what the server takes. Pure.

The server reads the engine's flags for drafts by `windlass_sizing.model.draft_words`, and so does the plan.
"""

from __future__ import annotations

from windlass_sizing.model import context_length, draft_words, drafter
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.words import WARNING
from windlass_sizing.settings.flags import ROW
from windlass_sizing.settings.setting import DEFAULT, FLAG

from windlass_api.plan.args import speculative_config
from windlass_api.plan.beside import ON_HOST
from windlass_api.plan.model import Refusal
from windlass_api.plan.start import Start

DRAFT = "DraftUnusable"
CONFIG, OLD_MODEL = "--speculative-config", "--speculative-model"
TOKENS, LENGTH = "num-speculative-tokens", "max-model-len"


def drafting(start: Start) -> tuple[str, str] | None:
    """What drafts by our integration, and how it is left out; None where nothing does."""
    if start.looks_ahead:
        return "lookahead", "switch lookahead off"
    return (ON_HOST, "let the draft model run on the GPU") if start.drafts_on_cpu else None


def requested(start: Start) -> draft_words.Requested | None:
    """The engine's speculative configuration in force; None where there is none, or none that can be read."""
    field, old = start.spec.engine.speculation, start.settings.engine_value(OLD_MODEL)
    given = (CONFIG, speculative_config(field)) if field else ()
    older: tuple[str, ...] = ()
    if old:
        is_lookup = old == draft_words.PROMPT_LOOKUP
        older = (f"{CONFIG}.method", draft_words.NGRAM) if is_lookup else (f"{CONFIG}.model", old)
    try:
        return draft_words.requested((*given, *start.settings.engine_words, *older))
    except ValueError:
        return None  # the server refuses it with a sentence of its own


def captures_draft_model(start: Start, facts: ModelFacts, gpus: int, engines: int) -> bool:
    """Whether a draft model on the card runs by our integration without the cache, as the server decides."""
    config = _draft_model_alone(start, facts)
    return config is not None and not _engines_why(config, gpus, engines)


def slow_draft_model(start: Start, facts: ModelFacts, gpus: int, engines: int) -> tuple[str, ...]:
    """Warning of a draft model that the engine's own speculator runs; empty where there is none."""
    config = _draft_model_alone(start, facts)
    why = _engines_why(config, gpus, engines) if config else ""
    return (WARNING + drafter.slow_steps(why),) if why else ()


def _draft_model_alone(start: Start, facts: ModelFacts) -> draft_words.Requested | None:
    """The configuration of a draft model on the card without the lookahead cache, in our server; None otherwise."""
    config = requested(start)
    if config is None or not config.directory or not start.is_ours:
        return None
    if not start.is_vllm or start.spec.resources.gpus == 0 or drafting(start):
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


def other_drafter(start: Start) -> drafter.Unfit | None:
    """Flags of the engine for drafts that do not go with our integration; what a directory holds is seen later."""
    who, config = drafting(start), requested(start)
    flag = next((flag for flag in (*drafter.FLAGS, OLD_MODEL) if start.settings.names(flag)), "")
    if who is None or config is None or not flag:
        return None
    takes = (drafter.DRAFT_MODEL,) if start.drafts_on_cpu else drafter.BESIDE_LOOKAHEAD
    on_cpus = start.spec.resources.gpus == 0
    if config.directory and config.method in ("", *takes) and not on_cpus:
        return None
    method, where = f" (method {config.method})" if config.method else "", " on CPUs" if on_cpus else ""
    return f"{who[0]} and {flag}{method} exclude each other{where}", f"leave {flag} out, or {who[1]}"


def too_many(start: Start, length: int) -> Refusal | None:
    """Why the drafts of our integration do not fit into a context of so many tokens; None where they do."""
    who, tokens = drafting(start), _tokens(start)
    if who is None or tokens is None or not start.is_vllm or not start.is_ours:
        return None
    is_open = start.settings.source(LENGTH) == FLAG and start.settings.value(LENGTH) in context_length.ENGINE_DECIDES
    context = None if is_open else length
    most = draft_words.drafted_most(context)
    if 1 <= tokens <= most:
        return None
    is_short = context is not None and tokens > most and most < draft_words.DRAFTED_MAX
    found = f", and the context (maxModelLen) has {context}" if is_short else f", and 1 to {most} can be"
    fewer = f"set {_counted_by(start)} to a number from 1 to {most}, " if most else ""
    longer = f"raise {start.of_field(LENGTH, 'spec.engine.maxModelLen')}, " if is_short else ""
    return Refusal(DRAFT, f"{tokens} tokens are to be drafted at a time{found}", f"{fewer}{longer}or {who[1]}")


def _tokens(start: Start) -> int | None:
    """The most tokens of a draft, as the server counts them; None for a text that it refuses itself."""
    config = requested(start)
    own = config.config.get(draft_words.TOKENS) if config else None
    if own is not None:
        return own if isinstance(own, int) and not isinstance(own, bool) else None
    if start.settings.source(TOKENS) == DEFAULT:
        return draft_words.TOKENS_DEFAULT if config else draft_words.LOOKAHEAD_TOKENS
    return start.settings.whole(TOKENS)


def _counted_by(start: Start) -> str:
    """What says how many tokens are drafted, or may say it."""
    if flag := next((flag for flag in (f"--{TOKENS}", *drafter.FLAGS) if start.settings.names(flag)), ""):
        return flag
    if start.spec.engine.speculation:
        return "spec.engine.speculation.tokens"
    if start.spec.engine.lookahead.enabled:
        return "spec.engine.lookahead.speculativeTokens"
    return ROW[TOKENS].variables[0] if start.settings.is_given(TOKENS) else f"--{TOKENS}"
