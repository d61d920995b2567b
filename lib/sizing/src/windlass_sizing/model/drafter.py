"""What a directory drafts with, by its config.json and its tensors' names, and whether that fits a served model.

The inspect Job and the server's probe call `read`; the plan and `windlass run` ask `unfit` before anything starts. The
rules are rows, each with its sentence. The engine is vLLM: its speculative methods, the heads that it has, and what it
fills in for a Medusa head. No I/O here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from windlass_sizing.errors import FactsError
from windlass_sizing.model.dtypes import dtype_bytes
from windlass_sizing.model.facts import ModelFacts, from_config

DRAFT_MODEL, EAGLE, EAGLE3, MEDUSA = "draft_model", "eagle", "eagle3", "medusa"
METHODS = (DRAFT_MODEL, EAGLE, EAGLE3, MEDUSA)
BESIDE_LOOKAHEAD = (DRAFT_MODEL, EAGLE, EAGLE3)
"""Methods that draft beside the lookahead cache."""
FLAGS = ("--speculative-config", "-sc", "--spec-method", "--spec-model", "--spec-tokens")
"""The engine's own flags for what drafts."""
NAMES = {
    DRAFT_MODEL: "a complete model",
    EAGLE: "an Eagle head",
    EAGLE3: "an Eagle-3 head",
    MEDUSA: "Medusa heads",
}
HEADS = {EAGLE: "the Eagle head's", EAGLE3: "the Eagle-3 head's", MEDUSA: "the Medusa heads'"}
MEDUSA_HIDDEN = 4096
"""What the engine takes for a Medusa head whose config.json names no hidden size."""
HEAD_DIGITS_MAX = 3
"""Of a head's number in a tensor's name; published directories have five heads. `int` refuses 5,000 digits."""
UNKNOWN = "unknown"
"""In the place of a method: config.json says none, and the tensors' names cannot be read."""
ENGINE_HEADS: Mapping[str, tuple[str, ...]] = {
    EAGLE: (
        *(f"Eagle{name}ForCausalLM" for name in ("Llama", "Llama4", "MiniCPM", "Cohere", "Mistral", "MistralLarge3")),
        "EagleDeepSeekMTPModel",
    ),
    EAGLE3: (
        *(f"Eagle3{name}ForCausalLM" for name in ("Llama", "MiniMaxM2", "Qwen2_5vl", "Qwen3vl", "Qwen3")),
        *("Eagle3DeepseekV2ForCausalLM", "Eagle3DeepseekV3ForCausalLM", "LlamaForCausalLMEagle3"),
        *("PEagleDraftModel", "PeagleLlamaForCausalLM", "PeagleQwen3ForCausalLM"),
    ),
    MEDUSA: ("MedusaModel",),
}
"""Architectures of heads that the engine has; a test compares them with the engine's record."""
FRONTS = {EAGLE: "Eagle", EAGLE3: "Eagle3"}
"""What the engine puts before an architecture that does not have it."""
SPECULATORS = "speculators_model_type"
"""Names the method of a head that the speculators library wrote; its sizes are those of `transformer_layer_config`."""
SPECULATORS_METHODS = {EAGLE: EAGLE, EAGLE3: EAGLE3, "peagle": EAGLE3}
SPECULATORS_HEADS = {"llama": "Eagle3LlamaForCausalLM", "qwen3": "Eagle3Qwen3ForCausalLM"}
"""The engine's architecture for an Eagle-3 head of that library, by the kind of its layer."""
SPECULATORS_EAGLE = "EagleSpeculator"
"""The library's own architecture for an Eagle head. vLLM 0.32 has none for it."""
Unfit = tuple[str, str]
"""The end of a sentence, and what to do."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a draft directory's weight files say."""

    names: Collection[str] | None = ()
    """None where they cannot be read."""
    weights_bytes: int | None = None
    dtype: str | None = None


def read(config: Mapping[str, Any], stored: Stored) -> ModelFacts:
    """The facts of what drafts: a complete model's are those of any model, a head's say what it reads and how."""
    method = method_of(config, stored.names)
    if method == MEDUSA:
        return _medusa(config, stored)
    facts = from_config(_plain(config), weights_bytes=stored.weights_bytes, stored_dtype=stored.dtype)
    if method == DRAFT_MODEL:
        return facts
    reads = _whole(config, "target_hidden_size") or facts.hidden_size
    return replace(facts, drafts_by=method, reads_hidden=reads, deepest_layer=_deepest_layer(config))


def _plain(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with the sizes of its layer at the top, as the engine reads one of the speculators library."""
    sizes = config.get("transformer_layer_config")
    if not isinstance(sizes, Mapping):
        return config
    kind = str(sizes.get("model_type", "llama"))
    is_eagle = config.get(SPECULATORS) == EAGLE
    name = SPECULATORS_EAGLE if is_eagle else SPECULATORS_HEADS.get(kind, f"Eagle3 of {kind}")
    return {**config, **sizes, "architectures": [name]}


def method_of(config: Mapping[str, Any], names: Collection[str] | None = ()) -> str:
    """The one method that the files fit; UNKNOWN where config.json names none and the tensors' names are not known."""
    if found := SPECULATORS_METHODS.get(str(config.get(SPECULATORS))):
        return found
    architectures = config.get("architectures")
    own = [str(name) for name in architectures] if isinstance(architectures, list) else []
    kind = str(config.get("model_type", ""))
    if kind == MEDUSA or "MedusaModel" in own or any(str(key).startswith("medusa_num") for key in config):
        return MEDUSA
    if config.get("draft_vocab_size") is not None or any(_is_eagle3(name) for name in own):
        return EAGLE3
    if kind == EAGLE or any(name.startswith("Eagle") for name in own):
        return EAGLE
    if names is None:
        return UNKNOWN
    if any(name.startswith("midlayer.") or name in ("d2t", "t2d") for name in names):
        return EAGLE3
    return EAGLE if "fc.weight" in names else DRAFT_MODEL


def unfit(served: ModelFacts, draft: ModelFacts, method: str, tokens: int) -> Unfit | None:
    """Why this cannot draft for the served model, and what to do; None when it can, as far as the files tell."""
    rows = (_other_method, *RULES[method])
    return next((found for rule in rows if (found := rule(served, draft, method, tokens))), None)


def slow_steps(why: str) -> str:
    """Sentence on a draft model that the engine's own speculator runs, as plan and server say it."""
    return f"the draft model never rests, and its steps run without CUDA graphs: {why}; it may make answers slower"


def _is_eagle3(architecture: str) -> bool:
    return architecture.startswith(("Eagle3", "Peagle", "PEagle")) or architecture.endswith("Eagle3")


def _medusa(config: Mapping[str, Any], stored: Stored) -> ModelFacts:
    """A head is a residual block and an output head; the engine shares neither with the served model."""
    heads = _heads(config, stored.names or ())
    hidden = _whole(config, "hidden_size") or MEDUSA_HIDDEN
    vocabulary, blocks = (
        _whole(config, "vocab_size") or 0,
        (_whole(config, "num_hidden_layers", "medusa_num_layers") or 1),
    )
    linear = heads * blocks * hidden * hidden
    dtype = stored.dtype or "float16"
    params = (
        round(stored.weights_bytes / dtype_bytes(dtype))
        if stored.weights_bytes
        else linear + heads * vocabulary * hidden
    )
    said = {
        "architecture": "MedusaModel", "model_type": MEDUSA, "params": params, "params_how": "of Medusa heads",
        "weights_bytes": stored.weights_bytes, "stored_dtype": dtype, "quantization": None, "hidden_size": hidden,
        "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 1,
        "vocab_size": vocabulary or 1, "max_model_len": 2**20, "linear_params": min(linear, params),
        "embedding_params": max(0, params - linear), "drafts_by": MEDUSA, "reads_hidden": hidden, "drafted_most": heads,
    }  # fmt: skip
    return ModelFacts.from_dict(said)


def _heads(config: Mapping[str, Any], names: Collection[str]) -> int:
    """By the tensors, where their names have a form of Medusa's; else by config.json."""
    plain = (name.removeprefix("medusa_heads.").removeprefix("blocks.") for name in names if "lm_head" not in name)
    numbers = {name.partition(".")[0] for name in plain}
    there = {int(number) for number in numbers if number.isdecimal() and len(number) <= HEAD_DIGITS_MAX}
    count = max(there) + 1 if there else _whole(config, "num_heads", "medusa_num_heads")
    if not count:
        raise FactsError(
            "config.json of a Medusa head does not say num_heads; copy the head's own file", ("num_heads",)
        )
    return count


def _deepest_layer(config: Mapping[str, Any]) -> int | None:
    inner = config.get("eagle_config")
    listed = config.get("eagle_aux_hidden_state_layer_ids") or (
        inner.get("eagle_aux_hidden_state_layer_ids") if isinstance(inner, Mapping) else None
    )
    numbers = [one for one in listed if isinstance(one, int)] if isinstance(listed, list) else []
    return max(numbers) if numbers and min(numbers) >= 0 else None


def _whole(config: Mapping[str, Any], *names: str) -> int | None:
    return next((value for name in names if isinstance(value := config.get(name), int) and value > 0), None)


def _other_method(served: ModelFacts, draft: ModelFacts, method: str, tokens: int) -> Unfit | None:
    right = draft.drafts_by or DRAFT_MODEL
    if right in (method, UNKNOWN):
        return None
    return f"the draft directory holds {NAMES[right]}, and the method is {method}", f"set the method to {right}"


def _vocabulary(served: ModelFacts, draft: ModelFacts, method: str, tokens: int) -> Unfit | None:
    if draft.vocab_size == served.vocab_size:
        return None
    return (
        f"the draft model has a vocabulary of {draft.vocab_size} tokens, and the served one of {served.vocab_size}",
        "take a draft model of the same family",
    )


def _larger(served: ModelFacts, draft: ModelFacts, method: str, tokens: int) -> Unfit | None:
    if draft.params <= served.params:
        return None
    return (
        f"the draft model has {draft.params_text} parameters, and the served one {served.params_text}",
        "take a draft model that is smaller than the served one",
    )


def _hidden(served: ModelFacts, draft: ModelFacts, method: str, tokens: int) -> Unfit | None:
    if draft.reads_hidden == served.hidden_size:
        return None
    return (
        f"the head reads hidden states of {draft.reads_hidden} values, and the served model's have "
        f"{served.hidden_size}",
        "take a head that was trained for the served model",
    )


def _heads_vocabulary(served: ModelFacts, draft: ModelFacts, method: str, tokens: int) -> Unfit | None:
    # A Medusa head of the older form names no vocabulary: the engine takes the served model's.
    if draft.vocab_size in (served.vocab_size, 1):
        return None
    return (
        f"the head has a vocabulary of {draft.vocab_size} tokens, and the served model of {served.vocab_size}",
        "take a head that was trained for the served model",
    )


def _layers(served: ModelFacts, draft: ModelFacts, method: str, tokens: int) -> Unfit | None:
    if draft.deepest_layer is None or draft.deepest_layer <= served.num_hidden_layers:
        return None
    return (
        f"the head reads layer {draft.deepest_layer} of the served model, which has {served.num_hidden_layers} layers",
        "take a head that was trained for the served model",
    )


def _no_head(served: ModelFacts, draft: ModelFacts, method: str, tokens: int) -> Unfit | None:
    name = draft.architecture
    completed = name if name.startswith("Eagle") or _is_eagle3(name) else f"{FRONTS[method]}{name}"
    if completed in ENGINE_HEADS[method]:
        return None
    return (
        f"the engine has no {NAMES[method].removeprefix('an ')} of architecture {name}",
        f"take a head of one of {', '.join(ENGINE_HEADS[method])}",
    )


def _more_than_heads(served: ModelFacts, draft: ModelFacts, method: str, tokens: int) -> Unfit | None:
    if draft.drafted_most is None or tokens <= draft.drafted_most:
        return None
    return (
        f"{tokens} tokens are to be drafted, and the draft directory has {draft.drafted_most} Medusa heads",
        f"draft at most {draft.drafted_most}",
    )


RULES: Mapping[str, tuple[Callable[[ModelFacts, ModelFacts, str, int], Unfit | None], ...]] = {
    DRAFT_MODEL: (_vocabulary, _larger),
    EAGLE: (_no_head, _hidden, _heads_vocabulary),
    EAGLE3: (_no_head, _hidden, _heads_vocabulary, _layers),
    MEDUSA: (_hidden, _heads_vocabulary, _more_than_heads),
}
