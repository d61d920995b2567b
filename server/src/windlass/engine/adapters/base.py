"""Where the base model of an adapter may lie: the places in their order, and the sentence when none holds it. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath

NEIGHBOURS = ("base_model", "base")
"""Folder names that people give to the base beside an adapter."""


def places(adapter: str, named: str) -> tuple[str, ...]:
    """Directories to look into; `named` is base_model_name_or_path: a path, or a name as `Qwen/Qwen2-7B-Instruct`."""
    here = PurePosixPath(adapter)
    wanted = PurePosixPath(named) if named else None
    found = [here / wanted] if wanted else []  # an absolute path stays itself
    for folder in (here, here.parent, here.parent.parent):
        if wanted and not wanted.is_absolute():
            found.append(folder / wanted)
        if wanted and wanted.name:
            found.append(folder / wanted.name)
        found += [folder / name for name in NEIGHBOURS]
    return tuple(dict.fromkeys(str(place) for place in found if place != here))


def missing(adapter: str, named: str, looked: tuple[str, ...]) -> str:
    """What is missing, where it was looked for, and what to do."""
    of = f'of "{named}"' if named else "that does not name its base (base_model_name_or_path)"
    return (
        f"model directory {adapter} is a LoRA adapter {of}, and that base model is not there "
        f"(looked in {', '.join(looked)}); mount the base model and name its directory with --base-model or BASE_MODEL"
    )
