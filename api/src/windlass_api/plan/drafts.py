"""What drafts by `spec.engine` and the user's words together, held to what the server takes. Pure.

The server reads the engine's flags for drafts by `windlass_sizing.model.draft_words`, and so does the plan.
"""

from __future__ import annotations

from windlass_sizing.model import context_length, draft_words, drafter
from windlass_sizing.model.facts import ModelFacts

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.args import speculative_config
from windlass_api.plan.beside import ON_HOST
from windlass_api.plan.model import Refusal
from windlass_api.plan.offload import drafts_on_cpu, looks_ahead
from windlass_api.plan.overrides import VLLM, last_given, names, runs_windlass, words

DRAFT = "DraftUnusable"
CONFIG, OLD_MODEL = "--speculative-config", "--speculative-model"
TOKENS, TOKENS_VARIABLE = "--num-speculative-tokens", "NUM_SPECULATIVE_TOKENS"
LENGTH, LENGTH_VARIABLE = "--max-model-len", "MAX_MODEL_LEN"
MOST_DIGITS = 15  # of a whole number that the server reads


def drafting(spec: LLMServiceSpec) -> tuple[str, str] | None:
    """What drafts by our integration, and how it is left out; None where nothing does."""
    if looks_ahead(spec):
        return "lookahead", "switch lookahead off"
    return (ON_HOST, "let the draft model run on the GPU") if drafts_on_cpu(spec) else None


def requested(spec: LLMServiceSpec) -> draft_words.Requested | None:
    """The engine's speculative configuration in force; None where there is none, or none that can be read."""
    field, old = spec.engine.speculation, last_given(spec, OLD_MODEL)
    given = (CONFIG, speculative_config(field)) if field else ()
    older: tuple[str, ...] = ()
    if old:
        is_lookup = old == draft_words.PROMPT_LOOKUP
        older = (f"{CONFIG}.method", draft_words.NGRAM) if is_lookup else (f"{CONFIG}.model", old)
    try:
        return draft_words.requested((*given, *words(spec), *older))
    except ValueError:
        return None  # the server refuses it with a sentence of its own


def captures_draft_model(spec: LLMServiceSpec, facts: ModelFacts, gpus: int, engines: int) -> bool:
    """Whether a draft model on the card runs by our integration without the cache, as the server decides."""
    config = requested(spec)
    if config is None or not config.directory or (gpus, engines) != (1, 1) or not runs_windlass(spec):
        return False
    if spec.image.family != VLLM or drafting(spec):
        return False
    by_files = facts.draft.drafts_by if facts.draft else ""
    is_greedy = config.config.get("draft_sample_method", "greedy") == "greedy"
    return is_greedy and (config.method or by_files or drafter.DRAFT_MODEL) == drafter.DRAFT_MODEL


def other_drafter(spec: LLMServiceSpec) -> drafter.Unfit | None:
    """Flags of the engine for drafts that do not go with our integration; what a directory holds is seen later."""
    who, asked = drafting(spec), requested(spec)
    flag = next((flag for flag in (*drafter.FLAGS, OLD_MODEL) if names(spec, flag)), "")
    if who is None or asked is None or not flag:
        return None
    takes = (drafter.DRAFT_MODEL,) if drafts_on_cpu(spec) else drafter.BESIDE_LOOKAHEAD
    on_cpus = spec.resources.gpus == 0
    if asked.directory and asked.method in ("", *takes) and not on_cpus:
        return None
    method, where = f" (method {asked.method})" if asked.method else "", " on CPUs" if on_cpus else ""
    return f"{who[0]} and {flag}{method} exclude each other{where}", f"leave {flag} out, or {who[1]}"


def too_many(spec: LLMServiceSpec, length: int) -> Refusal | None:
    """Why the drafts of our integration do not fit into a context of so many tokens; None where they do."""
    who, tokens = drafting(spec), _tokens(spec)
    if who is None or tokens is None or spec.image.family != VLLM or not runs_windlass(spec):
        return None
    context = None if last_given(spec, LENGTH) in context_length.ENGINE_DECIDES else length
    most = draft_words.drafted_most(context)
    if 1 <= tokens <= most:
        return None
    is_short = context is not None and tokens > most and most < draft_words.DRAFTED_MAX
    found = f", and the context (maxModelLen) has {context}" if is_short else f", and 1 to {most} can be"
    fewer = f"set {_counted_by(spec)} to a number from 1 to {most}, " if most else ""
    longer = f"raise {_measured_by(spec)}, " if is_short else ""
    return Refusal(DRAFT, f"{tokens} tokens are to be drafted at a time{found}", f"{fewer}{longer}or {who[1]}")


def _tokens(spec: LLMServiceSpec) -> int | None:
    """The most tokens of a draft, as the server counts them; None for a text that it refuses itself."""
    asked, ahead = requested(spec), spec.engine.lookahead
    own = asked.config.get(draft_words.TOKENS) if asked else None
    if own is not None:
        return own if isinstance(own, int) and not isinstance(own, bool) else None
    field = ahead.speculative_tokens if ahead.enabled else None
    text = last_given(spec, TOKENS) or (str(field) if field else last_given(spec, TOKENS, TOKENS_VARIABLE))
    if not text:
        return draft_words.TOKENS_DEFAULT if asked else draft_words.LOOKAHEAD_TOKENS
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


def _counted_by(spec: LLMServiceSpec) -> str:
    """What says how many tokens are drafted, or may say it."""
    if flag := next((flag for flag in (TOKENS, *drafter.FLAGS) if names(spec, flag)), ""):
        return flag
    if spec.engine.speculation:
        return "spec.engine.speculation.tokens"
    if spec.engine.lookahead.enabled:
        return "spec.engine.lookahead.speculativeTokens"
    return TOKENS_VARIABLE if last_given(spec, TOKENS, TOKENS_VARIABLE) else TOKENS


def _measured_by(spec: LLMServiceSpec) -> str:
    """What says how long the context is, or may say it."""
    if names(spec, LENGTH):
        return LENGTH
    return LENGTH_VARIABLE if last_given(spec, LENGTH, LENGTH_VARIABLE) else "spec.engine.maxModelLen"
