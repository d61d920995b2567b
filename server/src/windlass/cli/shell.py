"""What may stand at the cursor of `windlass`: `completion` prints the script for a shell, which asks this program.

`run`, `serve` and `doctor` read their words themselves, so their flags come from the table and the engine's record.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM, VARIABLE = "windlass", "_WINDLASS_COMPLETE"


class Shell(StrEnum):
    """Shells that a script can be printed for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def command(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print a shell's completion, for `source <(windlass completion bash)`."""
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))


def prepare() -> None:
    """Let typer answer a shell that asks; only then, because it costs time at each start."""
    from typer._completion_classes import completion_init

    completion_init()


class StartCommand(TyperCommand):
    """A command that takes the flags of `windlass run`, and with them the engine's."""

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:  # noqa: ANN401 - typer's own click
        """The flags that begin so."""
        from typer._click.shell_completion import CompletionItem

        return [CompletionItem(name, help=about) for name, about in flags() if name.startswith(incomplete or "--")]


def flags() -> Iterator[tuple[str, str]]:
    """Each long flag of the table and of the engine, with what the table says of it."""
    from windlass_sizing.engine_flags import record
    from windlass_sizing.settings.flags import BY_NAME

    ours = {f"--{name}": row.help for name, row in BY_NAME.items()}
    engine = {name: "of the engine" for name in record().takes if name.startswith("--")}
    yield from sorted({**engine, **ours, "--explain": "print the plan, and start nothing"}.items())
