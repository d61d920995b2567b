"""Flags of older engines: start commands written for them keep working, or are told what to write instead. Pure.

Three tables: flags that became a key of one of today's JSON flags, flags that have nothing left to do, and flags whose
work nobody does any more. Those of the third are refused, because serving without them would not be what was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from windlass_sizing.errors import SettingsError
from windlass_sizing.model.draft_words import NGRAM, PROMPT_LOOKUP
from windlass_sizing.settings import values
from windlass_sizing.settings.flags import ROW, Effect, Flag, Kind
from windlass_sizing.settings.parse import CommandLine, split
from windlass_sizing.settings.values import Value

DRAFT = "speculative-model"
TOKENS = "num-speculative-tokens"
SPECULATION = "speculative-config"
PROMPT_LOOKUP_TOKENS = 6
"""Drafted at a time when nobody says how many; a draft model's own configuration may say it, the prompt cannot."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A flag that is now the key of a JSON flag."""

    flag: Flag
    target: str
    key: str


def _moved(name: str, kind: Kind, target: str, key: str, *aliases: str) -> Moved:
    return Moved(Flag(name, kind, f"now --{target}, key {key}", aliases=aliases), target, key)


MOVED: tuple[Moved, ...] = (
    _moved(DRAFT, Kind.TEXT, SPECULATION, "model"),
    _moved("speculative-model-quantization", Kind.TEXT, SPECULATION, "quantization"),
    _moved("speculative-draft-tensor-parallel-size", Kind.WHOLE, SPECULATION, "draft_tensor_parallel_size",
           "spec-draft-tp"),
    _moved("speculative-max-model-len", Kind.WHOLE, SPECULATION, "max_model_len"),
    _moved("ngram-prompt-lookup-max", Kind.WHOLE, SPECULATION, "prompt_lookup_max"),
    _moved("ngram-prompt-lookup-min", Kind.WHOLE, SPECULATION, "prompt_lookup_min"),
    _moved("guided-decoding-backend", Kind.TEXT, "structured-outputs-config", "backend"),
)  # fmt: skip


def _idle(name: str, kind: Kind, instead: str, *aliases: str) -> Flag:
    return Flag(name, kind, "of older engines", aliases=aliases, effect=Effect.NONE, instead=instead)


POOL = "this engine has no tokenizer pool"
GRAPHS = "graphs are captured by batch size; --max-cudagraph-capture-size is their limit"
ACCEPTANCE = "drafted tokens are accepted by rejection sampling, which keeps the model's own distribution"
IDLE: tuple[Flag, ...] = (
    _idle("device", Kind.TEXT, "the image decides between GPU and CPU"),
    _idle("swap-space", Kind.TEXT, "this engine computes again instead of swapping out"),
    _idle("preemption-mode", Kind.TEXT, "this engine computes again instead of swapping out"),
    _idle("max-context-len-to-capture", Kind.WHOLE, GRAPHS),
    _idle("max-seq-len-to-capture", Kind.WHOLE, GRAPHS),
    _idle("num-lookahead-slots", Kind.WHOLE, "this engine reserves the slots by itself"),
    _idle("scheduler-delay-factor", Kind.TEXT, "this engine starts a prompt as soon as there is room"),
    _idle("disable-async-output-proc", Kind.SWITCH, "--no-async-scheduling is today's nearest flag"),
    _idle("disable-frontend-multiprocessing", Kind.SWITCH, "the API is a process of its own"),
    _idle("ray-workers-use-nsight", Kind.SWITCH, "profile with --profiler-config", "ray-workers-use-nslight"),
    _idle("lora-extra-vocab-size", Kind.WHOLE, "adapters that add tokens are not served"),
    _idle("tokenizer-pool-size", Kind.WHOLE, POOL),
    _idle("tokenizer-pool-type", Kind.TEXT, POOL),
    _idle("tokenizer-pool-extra-config", Kind.TEXT, POOL),
    _idle("spec-decoding-acceptance-method", Kind.TEXT, ACCEPTANCE),
    _idle("typical-acceptance-sampler-posterior-threshold", Kind.TEXT, ACCEPTANCE),
    _idle("typical-acceptance-sampler-posterior-alpha", Kind.TEXT, ACCEPTANCE),
    _idle("disable-logprobs-during-spec-decoding", Kind.SWITCH, "log-probabilities are given to who asks for them"),
    _idle("speculative-disable-by-batch-size", Kind.WHOLE, "--speculative-config has "
          "num_speculative_tokens_per_batch_size for it"),
)  # fmt: skip


def _gone(name: str, kind: Kind, instead: str) -> Flag:
    return Flag(name, kind, "of older engines", effect=Effect.MISSING, instead=instead)


PROMPT_ADAPTERS = "the engine has no prompt adapters any more; serve a LoRA adapter with --lora-modules"
ROPE = """write it as --hf-overrides '{"rope_parameters": {"rope_type": …, "rope_theta": …}}'"""
GONE: tuple[Flag, ...] = (
    _gone("enable-prompt-adapter", Kind.SWITCH, PROMPT_ADAPTERS),
    _gone("prompt-adapters", Kind.NAMES, PROMPT_ADAPTERS),
    _gone("max-prompt-adapters", Kind.WHOLE, PROMPT_ADAPTERS),
    _gone("max-prompt-adapter-token", Kind.WHOLE, PROMPT_ADAPTERS),
    _gone("rope-scaling", Kind.TEXT, ROPE),
    _gone("rope-theta", Kind.TEXT, ROPE),
    _gone("long-lora-scaling-factors", Kind.TEXT, "the engine has no long LoRA any more; merge the adapter first"),
    _gone("qlora-adapter-name-or-path", Kind.TEXT, "serve the adapter with --lora-modules NAME=PATH"),
    _gone("quantization-param-path", Kind.TEXT, "the engine reads KV cache scales from the checkpoint; "
          "--kv-cache-dtype fp8 computes without them"),
    _gone("override-neuron-config", Kind.TEXT, "this image serves on NVIDIA GPUs or CPUs"),
)  # fmt: skip

_MOVED = {row.flag.name: row for row in MOVED}
_BY_NAME = {
    name: flag for flag in (*(row.flag for row in MOVED), *IDLE, *GONE) for name in (flag.name, *flag.aliases)
} | {"worker-use-ray": Flag("worker-use-ray", Kind.SWITCH, "now --distributed-executor-backend ray")}

NAMES = tuple(_BY_NAME)
"""Every name of the three tables."""


def modern(line: CommandLine, environment: Mapping[str, str]) -> tuple[CommandLine, list[str]]:
    """The command line in today's flags, and notes about it; SettingsError for work that nobody does any more."""
    old = split(line.engine_words, _BY_NAME).checked()
    for flag in GONE:
        text = old.texts.get(flag.name)
        if text is not None and _wants(values.read(flag, text, f"--{flag.name}")):
            raise SettingsError(f"--{flag.name} {text} is not in this version; {flag.instead}")
    notes = [f"--{flag.name} has no effect: {flag.instead}" for flag in IDLE if flag.name in old.texts]
    words = list(old.engine_words)
    for target, keys in _targets(old.texts, _tokens(line, environment)).items():
        _refuse_both(target, keys, words)
        words += [f"--{target}", json.dumps(keys)]
    if old.texts.get("worker-use-ray", "false").lower() == "true":
        words += ["--distributed-executor-backend", "ray"]
    return CommandLine(line.texts, tuple(words)), notes


def _wants(value: Value) -> bool:
    """Whether a value asks for the work: one card or no is what everybody has."""
    return value is True or (not isinstance(value, bool) and value not in {0, 1})


def _tokens(line: CommandLine, environment: Mapping[str, str]) -> Value | None:
    """How many tokens are drafted, where somebody says so."""
    row = ROW[TOKENS]
    given = [line.texts.get(TOKENS), *(environment.get(name) for name in row.variables)]
    text = next((word for word in given if word), None)
    return values.read(row, text, f"--{TOKENS}") if text else None


def _targets(texts: Mapping[str, str], tokens: Value | None) -> dict[str, dict[str, Value]]:
    found: dict[str, dict[str, Value]] = {}
    for name, row in _MOVED.items():
        if name in texts:
            found.setdefault(row.target, {})[row.key] = values.read(row.flag, texts[name], f"--{name}")
    if SPECULATION in found:
        found[SPECULATION] = _draft(found[SPECULATION], tokens)
    return found


def _draft(keys: dict[str, Value], tokens: Value | None) -> dict[str, Value]:
    if "model" not in keys:
        first = next(row.flag.name for row in MOVED if row.target == SPECULATION and row.key in keys)
        raise SettingsError(f"--{first} counts only with --{DRAFT}; name the draft model, or leave it out")
    counted: dict[str, Value] = {} if tokens is None else {TOKENS.replace("-", "_"): tokens}
    if keys["model"] != PROMPT_LOOKUP:
        return keys | counted
    lookup: dict[str, Value] = {"method": NGRAM, TOKENS.replace("-", "_"): PROMPT_LOOKUP_TOKENS}
    return lookup | {name: value for name, value in keys.items() if name != "model"} | counted


def _refuse_both(target: str, keys: Mapping[str, Value], words: list[str]) -> None:
    if any(word.partition("=")[0].replace("_", "-") == f"--{target}" for word in words):
        olds = ", ".join(f"--{row.flag.name}" for row in MOVED if row.target == target and row.key in keys)
        raise SettingsError(f"--{target} says already what {olds} says; leave one of the two out")
