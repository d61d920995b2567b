"""`windlass doctor`: the checks of a start as a table or as JSON. Takes the words of `windlass run`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import typer

from windlass import table
from windlass.cli import run

USAGE = """\
Usage: windlass doctor [MODEL] [FLAGS OF `windlass run`] [-o table|json]
       windlass doctor --engine [FOLDER] [-o table|json]

Looks whether `windlass run` with the same words would start here. Takes no lease, no port and no GPU memory.
With --engine it looks whether the installed vLLM, or the one in a folder, has every place where our plug-ins enter it.
Ends with 0 when nothing failed, else with 1.
"""
OUTPUTS = ("table", "json")
ENGINE = "--engine"


def command(context: typer.Context) -> None:
    """Look whether a start would go well here, and say what to do."""
    from windlass.doctor import checks

    if run.asks_for_help(context.args):
        print(USAGE)
        table.show(("CHECK", "LOOKS WHETHER"), [(check.name, check.about) for check in checks.CHECKS])
        return
    words, output = split_output(tuple(context.args))
    if words[:1] == (ENGINE,):
        engine(words[1:], output)
        return
    from windlass.doctor.gather import gather

    rows = checks.examine(gather(words, os.environ))
    if output == "json":
        print(json.dumps(checks.document(rows), indent=2, ensure_ascii=False))
    else:
        table.show(("CHECK", "OUTCOME", "SEEN"), [(name, str(row.outcome), row.seen) for name, row in rows])
        for name, row in rows:
            if row.fix:
                print(f"{name}: {row.fix}")
    if not checks.healthy(rows):
        raise SystemExit(1)


def engine(words: tuple[str, ...], output: str) -> None:
    """Show every integration point and what became of it; exit code 1 when one is gone or changed."""
    from windlass.engine.integrations import release

    rows = release.verdicts(Path(words[0]) if words else None)
    if output == "json":
        document = [{"place": row.place, "used_by": row.used_by, "problem": row.problem} for row in rows]
        print(json.dumps({"built_for": release.record().release, "places": document}, indent=2))
    else:
        shown = [(row.place.replace(":", "."), row.used_by, row.problem or "as recorded") for row in rows]
        table.show(("PLACE IN VLLM", "USED BY", f"AGAINST {release.record().release}"), shown)
    if any(row.problem for row in rows):
        raise SystemExit(1)


def split_output(words: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The words of `run`, and how the answer is printed."""
    from windlass.errors import UsageError

    rest, output = list(words), OUTPUTS[0]
    for number, word in enumerate(words):
        name, joined, value = word.partition("=")
        if name in ("-o", "--output"):
            output = value if joined else "".join(words[number + 1 : number + 2])
            del rest[number : number + (1 if joined else 2)]
            break
    if output not in OUTPUTS:
        raise UsageError(f'--output is "{output}"; choose one of {", ".join(OUTPUTS)}')
    return tuple(rest), output
