"""docs/reference/chat-templates.md is printed from table T and the parsers' rows; WINDLASS_GOLDEN=write rewrites it."""

import os
from pathlib import Path

from windlass.launch import parsers, templates
from windlass.launch.templates import ROWS, IdRule, Row
from windlass_sizing.quantization.engine import ENGINE
from windlass_sizing.quantization.limits import instead_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "chat-templates.md"

HEAD = """\
# Chat templates and tool parsers

<!-- Printed from templates.py, parsers.py: WINDLASS_GOLDEN=write pytest server/tests/launch/test_template_page.py -->

`windlass run` picks a chat template, a tool parser and stop tokens by the model's name. It asks, in this order:

1. `CONV_TEMPLATE` (or `--conv-template`): a name of the first column, in capital or small letters.
   Another name ends the command with exit code 2.
2. `conv_template_name` of `ti_model_config.json` in the model directory. A name that is not in the table is told, and
   passed over.
3. `MODEL_ID`, else `model_id` of that file: the first row whose words it contains, in capital or small letters.

When no row fits, the model's own template is used, and [its marks](#parsers-by-the-checkpoint) name the parsers. What
you say yourself wins: a row adds a flag only where neither you nor a variable set it, and
`--no-enable-auto-tool-choice` keeps the tool parser away too. `windlass run --explain` shows each addition with `match`
as its source.

| CONV_TEMPLATE | models | MODEL_ID contains | adds | stop tokens |
| --- | --- | --- | --- | --- |
"""
TAIL = """
Templates are files of the package, under `windlass/templates`. `generate` joins the contents as they are. The format of
Shennong models is not published: theirs is plain `User:` and `Assistant:` turns, and only for a model that brings no
template of its own. The row `qwen` is for models that were published without tools: where the id alone leads to it and
the model's own template reads tools, as of Qwen3, that template stays; `CONV_TEMPLATE=qwen` still takes the row.
ChatGLM2 starts each prompt with two tokens that its tokenizer adds only when a request says
`"add_special_tokens": true`.

Stop tokens come beside the model's own: the start command writes a `generation_config.json` with both to a directory
under `TMPDIR` (`/tmp`), and names it with `--generation-config`. Who gives `--generation-config` keeps theirs, and is
told so. The engine's `--override-generation-config` does not reach stop tokens.

## Parsers by the checkpoint

Where table T and you name no parser, `windlass run` finds it from the checkpoint: `architectures` of config.json, the
chat template, and the tokenizer's added tokens. Each row below is a parser of vLLM and the marks that it wants. The
tool parser comes with `--enable-auto-tool-choice`. `windlass run --explain` shows the source `checkpoint`, and the
marks.

- The rows must name one parser alone. Where they name two, or the tokenizer lacks a token that the parser needs, none
  is taken; a note names the flag to set.
- vLLM's parser loses text in some forms. Such a row says "not by itself": a note names the parser and what it loses.
- The marks of the model's own template count only while that template is rendered. With another one, by table T or by
  `--chat-template`, a note names the parser that goes with the model's own.
- Llama 4's own template asks for JSON, which no parser of vLLM reads with its tokenizer. A template of this package
  takes its place; without tools both write the same.
- Some templates, as DeepSeek's, leave the tools of a request out. The parser is taken, and a note says so: describe the
  tools in the system prompt, or give a template that has them.
- `--no-enable-auto-tool-choice` declines the tool parser, and `--reasoning-parser none` the reasoning parser.
- With lookahead or a draft model, a step gives several tokens at once. In streamed answers vLLM's `deepseek_v31`
  then loses the end of arguments, `step3` adds `{}` to them, and `deepseek_r1` may keep a `<think>` in the reasoning.
- The engine's own commands, as `vllm serve`, leave parsers to you.

### Tool calls

| `--tool-call-parser` | models | marks |
| --- | --- | --- |
TOOL_ROWS
### Reasoning

| `--reasoning-parser` | models | marks |
| --- | --- | --- |
REASONING_ROWS
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


def _span(mark: str) -> str:
    return f"```` {mark} ````" if "`" in mark else f"`{mark}`".replace("|", "\\|")


def _parser(row: parsers.Row) -> str:
    rule = row.rule
    parts = [(name, values) for name, values in rule.named()]
    parts += [("without", rule.lacks + rule.prompt_lacks), ("not", tuple(f"{name}…" for name in rule.others))]
    parts += [("needs token", row.needs[:1])]
    marks = [f"{name} {' '.join(map(_span, values))}" for name, values in parts if values]
    marks += [f"with template `{row.template}` in place of its own"] if row.template else []
    marks += [f"not by itself: {row.loses.replace('<tool_calls>', '`<tool_calls>`')}"] if row.loses else []
    return f"| `{row.parser}` | {row.models} | {'; '.join(marks)} |\n"


def page() -> str:
    """The reference page."""
    rows = [
        f"| {_code((row.name, *row.aliases))} | {row.models} | {_words(row.ids)} | {_adds(row)} "
        f"| {', '.join(map(str, row.stops)) or '–'} |\n"
        for row in ROWS
    ]
    gone = [f"| `{name}` | {ENGINE.gone[name]} | {instead_of(name)} |\n" for name in templates.GONE]
    tail = TAIL.replace("REASONING_ROWS", "".join(map(_parser, parsers.REASONING)))
    tail = tail.replace("TOOL_ROWS", "".join(map(_parser, parsers.TOOLS)))
    return "".join((HEAD, *rows, tail, *gone))


def test_page_is_current() -> None:
    """The docs say what the rows say; WINDLASS_GOLDEN=write rewrites the page."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
