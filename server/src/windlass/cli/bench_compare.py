"""`windlass bench compare`: two folders of results beside each other. A thin face of `windlass.bench.comparing`."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.errors import UsageError

if TYPE_CHECKING:
    from windlass.bench.comparing.series import Run


class Output(StrEnum):
    """How the rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def command(
    a: Annotated[Path, typer.Argument(help="Folder of results: of bench serve, or of a server below bench run.")],
    b: Annotated[Path, typer.Argument(help="The folder that is held against it.")],
    margin: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Share up to which two figures count as the same.")
    ] = 0.02,
    output: Annotated[Output, typer.Option("--output", "-o", help="table, json or csv.")] = Output.TABLE,
) -> None:
    """Compare two series of runs by pairs: ratio, 95 % interval and a verdict for each figure."""
    from windlass import table
    from windlass.bench.comparing import show
    from windlass.bench.comparing.series import compare

    found = compare(_runs(a), _runs(b), margin)
    if not found.rows:
        raise UsageError(
            f"{a} and {b} have no two runs of the same place and load; name two folders of bench serve with the same "
            "--concurrency, or two servers' folders below one of bench run"
        )
    if output is Output.JSON:
        print(show.as_json(found), end="")
    elif output is Output.CSV:
        print(show.as_csv(found), end="")
    else:
        table.show(show.HEADINGS, [show.cells(row) for row in found.rows])
    for sentence in found.warnings if output is not Output.JSON else ():
        print(f"windlass: warning: {sentence}", file=sys.stderr)


def _runs(folder: Path) -> list[Run]:
    from windlass.bench.comparing.series import Run

    found = []
    for path in sorted(folder.rglob("result.json")):
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise UsageError(f"{path} is no result of a benchmark; take it away, or name another folder") from None
        if isinstance(fields, dict):
            found.append(Run(str(path.parent.relative_to(folder)), fields))
    if not found:
        raise UsageError(f"{folder} holds no result.json; name a folder of windlass bench serve or bench run")
    return found
