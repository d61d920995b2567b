"""docs/reference/start-command.md is printed from the tables of flags; WINDLASS_GOLDEN=write rewrites it."""

import os
from pathlib import Path

from windlass_sizing.settings import legacy
from windlass_sizing.settings.flags import FLAGS, Effect, Flag
from windlass_sizing.settings.parse import SHORT

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "start-command.md"
HEAD = """\
# The start command

<!-- Printed from flags.py and legacy.py: WINDLASS_GOLDEN=write pytest server/tests/launch/test_flags_page.py -->

`windlass run` serves a model directory; with no flags it serves `/data/model` on port 8501. `run` in the image is the
same. A flag wins over its variable, a variable over `ti_model_config.json` in the model directory, the file over what
is matched from the model's name, a match over what the checkpoint shows, the checkpoint over the default. Dashes and
underscores mean the same, `--flag value` and `--flag=value` too. Every other flag goes to the engine as it stands.
`windlass run --explain` prints each value and where it came from, and starts nothing.

A flag that neither windlass nor the engine knows, a word that belongs to no flag and a value that is missing end the
command with exit code 2 and the nearest flag. The engine's flags are a record of the release that windlass is built
for; `--allow-unknown-flags` passes everything on, as for a newer engine. The engine's own spellings keep working:
underscores, `--no-…`, unique beginnings, `--hf-overrides.key value`, `-O3`.

`vllm serve …` and `python3 -m vllm.entrypoints.openai.api_server …` take the same flags in the image. There the
defaults are the engine's own (port 8000), and variables do not count.

## Flags

| flag | variable | default | meaning |
| --- | --- | --- | --- |
"""
IDLE_HEAD = """
## Accepted without effect

Start commands of older engines keep working: these are taken, and one sentence says what became of each.

| flag | what became of it |
| --- | --- |
"""
MOVED_HEAD = """
## Moved

| flag | today |
| --- | --- |
"""
GONE_HEAD = """
## Refused

Nobody does their work any more, so serving without it would not be what was asked for. Exit code 2, and the remedy:

| flag | instead |
| --- | --- |
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|") or "–"


def row(flag: Flag) -> str:
    names = ", ".join(f"`-{name}`" if f"-{name}" in SHORT else f"`--{name}`" for name in (flag.name, *flag.aliases))
    variables = ", ".join(f"`{name}`" for name in flag.variables)
    choices = f" ({', '.join(flag.choices)})" if flag.choices else ""
    return f"| {names} | {cell(variables)} | {cell(flag.default or '')} | {cell(flag.help + choices)} |\n"


def pair(flag: Flag, text: str) -> str:
    return f"| `--{flag.name}` | {cell(text)} |\n"


def page() -> str:
    served = [flag for flag in FLAGS if flag.effect in {Effect.ENGINE, Effect.OURS}]
    idle = [flag for flag in (*FLAGS, *legacy.IDLE) if flag.effect is Effect.NONE]
    gone = [flag for flag in (*FLAGS, *legacy.GONE) if flag.effect is Effect.MISSING]
    parts = [HEAD, *map(row, served), IDLE_HEAD, *(pair(flag, flag.instead) for flag in idle)]
    parts += [MOVED_HEAD, *(pair(moved.flag, f"`--{moved.target}`, key `{moved.key}`") for moved in legacy.MOVED)]
    parts += ["| `--worker-use-ray` | `--distributed-executor-backend ray` |\n"]
    parts += [GONE_HEAD, *(pair(flag, flag.instead) for flag in gone)]
    return "".join(parts)


def test_page_is_current() -> None:
    """What is printed now is what is committed."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page())
    assert page() == PAGE.read_text()
