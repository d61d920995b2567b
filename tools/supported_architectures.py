"""Prints docs/reference/architectures.md: what the installed vLLM serves, from its registry. Loads no weights.

    python tools/supported_architectures.py > docs/reference/architectures.md

Run it with the pinned engine. Each architecture's module is imported and its class is asked; one whose module needs a
package that is not installed is listed with that package's name.
"""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from dataclasses import dataclass

os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")

import vllm
from vllm.model_executor.models import registry
from vllm.model_executor.models.interfaces import supports_lora, supports_multimodal

MODALITIES = ("image", "video", "audio")
LIMITS = "get_supported_mm_limits"
GROUPS = (
    ("Text generation", "_TEXT_GENERATION_MODELS"),
    ("Text with images, video or sound", "_MULTIMODAL_MODELS"),
    ("Through transformers", "_TRANSFORMERS_SUPPORTED_MODELS"),
    ("Any other model of transformers", "_TRANSFORMERS_BACKEND_MODELS"),
    ("Embedding", "_EMBEDDING_MODELS"),
    ("Late interaction", "_LATE_INTERACTION_MODELS"),
    ("Reward", "_REWARD_MODELS"),
    ("Classification of tokens", "_TOKEN_CLASSIFICATION_MODELS"),
    ("Classification of texts", "_SEQUENCE_CLASSIFICATION_MODELS"),
    ("Drafts for speculative decoding", "_SPECULATIVE_DECODING_MODELS"),
)
HEAD = """\
# Architectures

<!-- Printed by tools/supported_architectures.py -->

What vLLM {version} serves: {count} names that may stand in `architectures` of a model's `config.json`. LoRA says
whether adapters can be loaded beside the model. Inputs are what a request may hold; "by processor" means that the
model's own processor decides. Where a module could not be looked at, the line says what it needs. A name may be in
several groups.
"""
GONE = """
## No longer served

| architecture | last vLLM with it |
| --- | --- |
"""


@dataclass(frozen=True)
class Facts:
    """What one architecture can do, as the page says it."""

    lora: str
    inputs: str


def look(architecture: str) -> Facts:
    """Import the architecture's class and ask it."""
    try:
        model = registry.ModelRegistry.models[architecture].load_model_cls()
    except ImportError as error:
        return Facts("–", _missing(error))
    return Facts("yes" if supports_lora(model) else "no", ", ".join(("text", *inputs(model))))


def inputs(model: type) -> list[str]:
    """The modalities beside text."""
    if not supports_multimodal(model):
        return []
    if model.__name__.startswith("Transformers"):
        return ["others by processor"]
    info = getattr(getattr(model, "_processor_factory", None), "info", None)
    named = _limited(info) if isinstance(info, type) else set()
    return [kind for kind in MODALITIES if kind in (named or _placed(model))]


def _limited(info: type) -> set[str]:
    """Modalities that the class limits: read from its source, because a call needs a model's configuration."""
    named: set[str] = set()
    for parent in info.__mro__:
        if LIMITS not in vars(parent):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(vars(parent)[LIMITS])))
        words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        named |= words & set(MODALITIES)
        if not any(isinstance(node, ast.Name) and node.id == "super" for node in ast.walk(tree)):
            break
    return named


def _placed(model: type) -> set[str]:
    """Modalities that the class has a placeholder for."""
    found = set()
    for kind in MODALITIES:
        try:
            placeholder = model.get_placeholder_str(kind, 1)
        except (ValueError, NotImplementedError):
            continue
        found |= {kind} if placeholder else set()
    return found


def _missing(error: ImportError) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"its module needs {error.name}"
    return "its module needs a GPU build"


def group(title: str, names: list[str]) -> str:
    """One table of the page."""
    rows = [(name, look(name)) for name in sorted(names)]
    lines = [f"| `{name}` | {facts.lora} | {facts.inputs} |" for name, facts in rows]
    return "\n".join((f"\n## {title}\n", "| architecture | LoRA | inputs |", "| --- | --- | --- |", *lines, ""))


def page() -> str:
    """The whole page."""
    version = vllm.__version__.partition("+")[0]
    head = HEAD.format(version=version, count=len(registry.ModelRegistry.models))
    groups = [group(title, list(getattr(registry, table))) for title, table in GROUPS]
    gone = [f"| `{name}` | {last} |\n" for name, last in sorted(registry._PREVIOUSLY_SUPPORTED_MODELS.items())]
    return "".join((head, *groups, GONE, *gone))


if __name__ == "__main__":
    print(page(), end="")
