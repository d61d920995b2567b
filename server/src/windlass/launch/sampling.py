"""Whether an engine gets our sampling rules, and by which words. Pure; imports nothing of the engine.

`launch.front` asks for a server, `offline` for a model in the process. Where the answer is no, the guard refuses the
field: a rule that is asked for and not kept would be worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from windlass_sizing.model import drafter

from windlass.engine.sampling.ngrams import PROCESSOR
from windlass.former_names import today
from windlass.launch.model import ModelFiles

FLAG = "--logits-processors"
PLUGIN, PLUGINS_VARIABLE = "windlass-sampling", "VLLM_PLUGINS"
"""Our entry point, which lets a CPU engine that drafts take the rules, and the engine's allow-list of entry points."""
SPECULATION = frozenset(drafter.FLAGS)
NO_CONVERSION = ("", "auto", "none")
POOLING_SUFFIXES = ("ForTextEncoding", "Classification", "ForRewardModeling", "Model")
GENERATE_SUFFIXES = ("ChatModel", "LMHeadModel", "ChatGLMModel")
"""Names that end in `Model` and generate all the same."""


def missing(model: ModelFiles, words: Sequence[str], plugins: str | None = None) -> str:
    """Why the engine does not get the rules, as the end of a sentence; empty when it does.

    `plugins` is the value of VLLM_PLUGINS. Without our plug-in an engine that drafts may refuse to start with them.
    """
    given = _flags(words)
    if plugins is not None and SPECULATION & given.keys() and PLUGIN not in plugins.split(","):
        return f"{PLUGINS_VARIABLE} leaves {PLUGIN} out"
    if FLAG in given:
        return "" if PROCESSOR in map(today, words) else f"{FLAG} names others; add {PROCESSOR} to them"
    return "" if generates(model, words) else "the model does not generate"


def arguments(model: ModelFiles, words: Sequence[str], plugins: str | None = None) -> tuple[str, ...]:
    """Words for the engine's command line; none when somebody named processors already."""
    return () if missing(model, words, plugins) or FLAG in _flags(words) else (FLAG, PROCESSOR)


def _flags(words: Sequence[str]) -> dict[str, str]:
    """The engine's flags by name, dashes for underscores, each with the word behind it."""
    found = {}
    for word, following in pairwise((*words, "")):
        name, equals, value = word.partition("=")
        if word.startswith("-"):
            found[name.partition(".")[0].replace("_", "-")] = value if equals else following
    return found


def generates(model: ModelFiles, words: Sequence[str]) -> bool:
    """What the engine will find; it refuses to start when a model that does not generate is given such rules."""
    given = _flags(words)
    runner = given.get("--runner", "auto")
    if runner != "auto":
        return runner == "generate"
    if given.get("--convert", "") not in NO_CONVERSION or model.is_embedder:
        return False
    name = model.architecture
    return name.endswith(GENERATE_SUFFIXES) or not name.endswith(POOLING_SUFFIXES)
