"""Why the engine takes an adapter's tensors from no adapter, or not on this base's class: by their names alone. Pure.

The rules are those of the pinned engine's loader (`parse_fine_tuned_lora_name` of `vllm.lora.utils`, and the check of
modules in `lora_model`), asked before a GPU is taken. `lora_config.py` judges the configuration beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from windlass_sizing.model.lora_config import BY_PEFT, CLASSIFIERS, MERGE_IT

MATRICES = (".lora_A.weight", ".lora_B.weight", ".lora_embedding_A", ".lora_embedding_B")
"""Ends of the names of tensors that the engine takes."""
PASSED_OVER = (".embed_tokens.base_layer.weight", ".lm_head.base_layer.weight")
"""Ends of names that it passes over: the base's own embedding and head, which peft keeps."""
TOKENS = ".trainable_tokens_delta"
EMBEDDINGS = ("embed_tokens", "lm_head", "wte", "word_embeddings", "embed_in", "embed_out", "tok_embeddings")
"""Names of a model's embedding and head, which few classes offer to adapters."""


def problems(names: Iterable[str], architecture: str, offered: Collection[str] | None) -> tuple[str, str]:
    """Why the adapter cannot be served by name on this class, and why it cannot be merged; empty where it can.

    `offered`: which of its embedding and head the class gives to adapters; None where that is not known.
    """
    listed = sorted(name for name in names if not name.endswith(PASSED_OVER))
    if token := next((name for name in listed if name.endswith(TOKENS)), ""):
        words = f"has trained single tokens ({_short(token)}), which the engine cannot serve; {BY_PEFT}"
        return words, words
    if whole := next((name for name in listed if not name.endswith(MATRICES) and not _is_classifier(name)), ""):
        return f"holds a whole tensor ({_short(whole)}) that the engine cannot take by name; {MERGE_IT}", ""
    changed = {module for name in listed if (module := _module(name)) in EMBEDDINGS}
    if offered is None or changed <= set(offered):
        return "", ""
    module = sorted(changed - set(offered))[0]
    return f"changes {module}, which the engine's {architecture} takes from no adapter; {MERGE_IT}", ""


def ignored(names: Collection[str], modules: Iterable[str]) -> str:
    """How many tensors the engine loads and then leaves alone, and of which modules; empty for none.

    `modules`: beginnings of the names of those that the class adapts for nobody.
    """
    found = {name: module for name in names for module in modules if f".{module}." in f".{name}."}
    parts = ", ".join(sorted(set(found.values())))
    return f"{len(found)} of {len(names)} tensors ({parts})" if found else ""


def _module(name: str) -> str:
    """The last part of a module's name, of a tensor that the engine takes."""
    end = next((end for end in MATRICES if name.endswith(end)), "")
    return name.removesuffix(end).rpartition(".")[2]


def _is_classifier(name: str) -> bool:
    parts = name.split(".")
    return len(parts) > 1 and parts[-1] in ("weight", "bias") and parts[-2] in CLASSIFIERS


def _short(name: str) -> str:
    return name.removeprefix("base_model.model.")[:80]
