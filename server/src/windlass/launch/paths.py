"""Looks whether the files that a start command names are there, before anything is opened. Part of the shell.

A file of keys is left out: the server takes a Secret that is mounted later, and refuses everybody until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from windlass.engine.integrations import release
from windlass.errors import UsageError
from windlass.launch.model import LaunchPlan

TEMPLATE, GENERATION, CONFIG = "chat-template", "generation-config", "config"
IN_A_TEMPLATE = frozenset("{}\n")
"""Text that has one of these is a template itself, as the engine reads it."""
ENGINES_TEMPLATES = "vllm/transformers_utils/chat_templates"


def check(plan: LaunchPlan) -> None:
    """UsageError for a file or directory that a flag names and that is not there."""
    written = {file.path for file in plan.files}
    template, generation = (str(plan.value(name) or "") for name in (TEMPLATE, GENERATION))
    if template and not IN_A_TEMPLATE & set(template) and not _is_template(template):
        raise UsageError(f"--{TEMPLATE} {template} is not there; name a file, or write the template itself")
    is_path = generation.startswith(("/", "."))
    if is_path and not Path(generation).is_dir() and not any(path.startswith(generation) for path in written):
        raise UsageError(f"--{GENERATION} {generation} is no directory; name one with a generation_config.json")
    config = _after(plan.engine_args, f"--{CONFIG}")
    if config and not Path(config).is_file():
        raise UsageError(f"--{CONFIG} {config} is not there; name a YAML file with flags of the engine")


def _is_template(text: str) -> bool:
    folder = release.installed()
    return Path(text).is_file() or (folder is not None and (folder / ENGINES_TEMPLATES / text).is_file())


def _after(words: Sequence[str], flag: str) -> str:
    for at, word in enumerate(words):
        name, joined, value = word.partition("=")
        if name == flag:
            return value if joined else "".join(words[at + 1 : at + 2])
    return ""
