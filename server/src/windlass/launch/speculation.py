"""What the command line says about drafting by the engine's own methods, held to the files that draft. Pure.

A draft model, an Eagle head and Medusa heads are checked before the start, after `draft_files` has read them.
The engine guesses a method from the directory's name; here the files say it, where they can. What drafts by another
method of the engine's, as `ngram` or DFlash, passes as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from windlass_sizing.model import draft_words, drafter
from windlass_sizing.model.draft_words import TOKENS, Requested
from windlass_sizing.settings import legacy
from windlass_sizing.settings.parse import CommandLine
from windlass_sizing.settings.setting import DEFAULT, Setting

from windlass.errors import UsageError
from windlass.launch.model import DraftFiles, ModelFiles

ENGINES_ARCHITECTURES = ("DSpark", "MuseGlimmerAssistantModel")
"""Parts of an architecture by which the engine chooses a method of its own."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """The command line with a whole configuration, and what to tell."""

    line: CommandLine
    notes: tuple[str, ...] = ()
    is_asked: bool = True
    """Whether anything was asked for."""


def requested(words: Sequence[str]) -> Requested | None:
    """What the words say; None when they say nothing. UsageError for a configuration that is no JSON object."""
    try:
        return draft_words.requested(words)
    except ValueError as error:
        raise UsageError(str(error)) from None


def decide(line: CommandLine, tokens: Setting | None, model: ModelFiles, context: int | None) -> Speculation:
    """The line with method and tokens filled in; UsageError for what cannot draft for this model."""
    asked = requested(line.engine_words)
    if asked is None:
        return Speculation(line, is_asked=False)
    config = _counted(dict(asked.config), tokens)
    draft = model.draft
    if draft is None or not asked.directory or (not asked.method and _is_the_engines(draft)):
        return Speculation(_line(line, asked, config) if config != asked.config else line)
    method = asked.method or _method_of(draft)
    most = draft.facts.drafted_most if draft.facts else None
    config = {"method": method, TOKENS: min(draft_words.TOKENS_DEFAULT, most or draft_words.TOKENS_DEFAULT), **config}
    _must_fit(draft, method, config)
    return Speculation(_line(line, asked, config), tuple(_notes(draft, method, context)))


def _method_of(draft: DraftFiles) -> str:
    """By the files; where they do not tell, as the engine guesses."""
    if draft.facts is None or draft.facts.drafts_by == drafter.UNKNOWN:
        return draft_words.guessed(draft.path) or drafter.DRAFT_MODEL
    return draft.facts.drafts_by or drafter.DRAFT_MODEL


def _is_the_engines(draft: DraftFiles) -> bool:
    return draft.facts is not None and any(part in draft.facts.architecture for part in ENGINES_ARCHITECTURES)


def _must_fit(draft: DraftFiles, method: str, config: Mapping[str, object]) -> None:
    if draft.problem:
        raise UsageError(draft.problem)
    where = f"{draft.path} cannot draft for {draft.served_path}"
    count, part = config[TOKENS], next((part for part in draft_words.GUESSED if part in draft.path.lower()), "")
    if part and method not in (drafter.EAGLE, drafter.EAGLE3):
        raise UsageError(f'{where} by {method}: the engine takes a path with "{part}" for another method; rename it')
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise UsageError(f"--num-speculative-tokens {count} cannot be drafted; set at least 1")
    if draft.served is None or draft.facts is None:
        return  # a kind of model that the formula does not know: the engine decides
    mixes = method == drafter.DRAFT_MODEL and config.get("use_heterogeneous_vocab") is True
    served = replace(draft.served, vocab_size=draft.facts.vocab_size) if mixes else draft.served
    if found := drafter.unfit(served, draft.facts, method, count):
        raise UsageError(f"{where}: {found[0]}; {found[1]}")
    if method == drafter.DRAFT_MODEL and draft.has_same_vocabulary is False and not mixes:
        raise UsageError(f"{where}: its tokenizer.json has another vocabulary; take a draft model of the same family")


def _notes(draft: DraftFiles, method: str, context: int | None) -> Iterator[str]:
    if draft.facts and draft.facts.drafts_by == drafter.UNKNOWN:
        yield f"the tensors of {draft.path} have names that cannot be read: nothing shows that it drafts by {method}"
    reader = draft.facts if method == drafter.DRAFT_MODEL else None
    if reader and context and not reader.takes(context):
        own = reader.max_model_len
        yield (
            f"the draft model reads {own} tokens at most: longer texts of up to {context} are continued without drafts"
        )


def _counted(config: dict[str, object], tokens: Setting | None) -> dict[str, object]:
    """The configuration with the flag's or the variable's number of tokens, where it has none of its own."""
    if tokens is None or tokens.source == DEFAULT:
        return config
    own = config.get(TOKENS, tokens.value)
    if own != tokens.value and tokens.source == "flag":
        raise UsageError(
            f"--{legacy.SPECULATION} drafts {own} tokens, and --{legacy.TOKENS} says {tokens.value}; "
            "leave one of them out"
        )
    return {**config, TOKENS: own}


def _line(line: CommandLine, asked: Requested, config: Mapping[str, object]) -> CommandLine:
    return replace(line, engine_words=(*asked.others, f"--{legacy.SPECULATION}", json.dumps(config)))
