"""docs/reference/chat-templates.md is printed from table T; WINDLASS_GOLDEN=write rewrites it."""

import os
from pathlib import Path

from windlass.launch import templates
from windlass.launch.templates import ROWS, IdRule, Row
from windlass_sizing.engine import ENGINE
from windlass_sizing.limits import instead_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "chat-templates.md"

HEAD = """\
# Chat templates and tool parsers

<!-- Printed from the rows of templates.py: WINDLASS_GOLDEN=write pytest server/tests/launch/test_template_page.py -->

`windlass run` picks a chat template, a tool parser and stop tokens by the model's name. It asks, in this order:

1. `CONV_TEMPLATE` (or `--conv-template`): a name of the first column, in capital or small letters.
   Another name ends the command with exit code 2.
2. `conv_template_name` of `ti_model_config.json` in the model directory. A name that is not in the table is told, and
   passed over.
3. `MODEL_ID`, else `model_id` of that file: the first row whose words it contains, in capital or small letters.

When no row fits, the model's own template is used. What you say yourself wins: a row adds a flag only where neither you
nor a variable set it, and `--no-enable-auto-tool-choice` keeps the tool parser away too. `windlass run --explain` shows
each addition with `match` as its source.

| CONV_TEMPLATE | models | MODEL_ID contains | adds | stop tokens |
| --- | --- | --- | --- | --- |
"""
TAIL = """
Templates are files of the package, under `windlass/templates`. `generate` joins the contents as they are. The format of
Shennong models is not published: theirs is plain `User:` and `Assistant:` turns, and only for a model that brings no
template of its own. ChatGLM2 starts each prompt with two tokens that its tokenizer adds only when a request says
`"add_special_tokens": true`.

Stop tokens come beside the model's own: the start command writes a `generation_config.json` with both to a directory
under `TMPDIR` (`/tmp`), and names it with `--generation-config`. Who gives `--generation-config` keeps theirs, and is
told so. The engine's `--override-generation-config` does not reach stop tokens.

## Models that the engine no longer has

A start with one of these ends with exit code 2.

| architecture | last vLLM | serve instead |
| --- | --- | --- |
"""


def _code(words: tuple[str, ...]) -> str:
    return " or ".join(f"`{word}`" for word in words)


def _words(rule: IdRule) -> str:
    parts = [f"`{word}`" for word in rule.every]
    parts += [f"({_code(rule.some)})" if rule.every else _code(rule.some)] if rule.some else []
    parts += [f"no `{word}`" for word in rule.none]
    return ", ".join(parts) or "–"


def _adds(row: Row) -> str:
    if row.instead:
        return f"refused: serve {row.instead}"
    words = [f"template `{row.template}`"] if row.template else []
    words += [f"`--enable-auto-tool-choice --tool-call-parser {row.parser}`"] if row.parser else []
    return ", ".join(words)


def page() -> str:
    """The reference page."""
    rows = [
        f"| {_code((row.name, *row.aliases))} | {row.models} | {_words(row.ids)} | {_adds(row)} "
        f"| {', '.join(map(str, row.stops)) or '–'} |\n"
        for row in ROWS
    ]
    gone = [f"| `{name}` | {ENGINE.gone[name]} | {instead_of(name)} |\n" for name in templates.GONE]
    return "".join((HEAD, *rows, TAIL, *gone))


def test_page_is_current() -> None:
    """The docs say what the rows say; WINDLASS_GOLDEN=write rewrites the page."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
