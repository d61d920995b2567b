"""The table of parsers: what each checkpoint's marks give. `checkpoints` holds real configurations and short templates.

The templates are ours, around the marks of the models' own; tests/engine/launch/test_parsers.py asks the
engine's parsers.
"""

import re
from pathlib import Path

import pytest
from windlass.engine.integrations import release
from windlass.launch import parsers, probe
from windlass.launch.marks import Marks, compact
from windlass.launch.parsers import REASONING, TOOLS, Row, Rule
from windlass_testbed.cases import every_case

CHECKPOINTS = Path(__file__).with_name("checkpoints")
ARCHITECTURES = Path(__file__).parents[3] / "docs/reference/architectures.md"

FOUND = {
    "apertus": ("apertus", ""),
    "deepseek-r1": ("deepseek_v3", "deepseek_r1"),
    "deepseek-r1-distill": ("", "deepseek_r1"),
    "deepseek-v3": ("deepseek_v3", ""),
    "deepseek-v3.1": ("deepseek_v31", "deepseek_v3"),
    "deepseek-v3.2": ("deepseek_v32", "deepseek_v3"),
    "deepseek-v4": ("deepseek_v4", "deepseek_v4"),
    "devstral": ("mistral", ""),
    "ernie-4.5-thinking": ("ernie45", "ernie45"),
    "gemma-4": ("gemma4", "gemma4"),
    "glm-4.6": ("glm45", "glm45"),
    "gpt-oss": ("openai", "openai_gptoss"),
    "granite-20b-fc": ("granite-20b-fc", ""),
    "granite-3.3": ("granite", ""),
    "granite-4": ("granite4", ""),
    "granite-4.2": ("qwen3_coder", "granite_thinking_parser"),
    "hermes-2-pro": ("hermes", ""),
    "internlm-2.5": ("internlm", ""),
    "kimi-k2": ("kimi_k2", ""),
    "kimi-k2-thinking": ("kimi_k2", "kimi_k2"),
    "lfm2": ("lfm2", ""),
    "ling-3": ("ling3", "ling3"),
    "llama-3.1": ("llama3_json", ""),
    "llama-3.2-pythonic": ("pythonic", ""),
    "llama-4": ("llama4_pythonic", ""),
    "llama-4-pythonic": ("llama4_pythonic", ""),
    "longcat-flash": ("longcat", ""),
    "magistral": ("mistral", "mistral"),
    "mimo-v2": ("mimo", "mimo"),
    "minimax-m2": ("minimax_m2", "minimax_m2"),
    "minimax-m3": ("minimax_m3", "minimax_m3"),
    "mistral-small-3.1": ("mistral", ""),
    "nemotron-3": ("qwen3_coder", "nemotron_v3"),
    "olmo-3-instruct": ("olmo3", ""),
    "olmo-3-think": ("olmo3", ""),
    "phi-4-reasoning": ("", "deepseek_r1"),
    "plain-chatml": ("", ""),
    "qwen2.5": ("hermes", ""),
    "qwen3": ("hermes", "qwen3"),
    "qwen3-coder": ("qwen3_coder", ""),
    "qwen3-instruct-2507": ("hermes", ""),
    "qwen3-thinking-2507": ("hermes", "qwen3"),
    "qwen3-vl-instruct": ("hermes", ""),
    "qwen3.5": ("qwen3_coder", "qwen3"),
    "qwq": ("hermes", "deepseek_r1"),
    "seed-oss": ("seed_oss", "seed_oss"),
    "step-3": ("step3", "step3"),
    "step-3.5": ("step3p5", "step3p5"),
}
TOOL_FLAGS = "--enable-auto-tool-choice --tool-call-parser"
UNTAKEN = {
    "functiongemma": f"leaves out arguments that are numbers; to take it, set {TOOL_FLAGS} functiongemma",
    "hunyuan-a13b": f"streamed answers hold its mark <tool_calls> as text; to take it, set {TOOL_FLAGS} hunyuan_a13b",
    "jamba": f"streamed answers lose characters of the arguments; to take it, set {TOOL_FLAGS} jamba",
    "phi-4-mini": f"streamed answers lose their tool calls; to take it, set {TOOL_FLAGS} phi4_mini_json",
    "phi-4-mini-own": f"no known parser reads the chat template's form of tool calls; name one with {TOOL_FLAGS}",
    "mistral-without-token": "the tokenizer lacks [TOOL_CALLS], which parser mistral needs; name another with "
    + TOOL_FLAGS,
    "two-forms": f"the checkpoint's marks fit the parsers hermes and qwen3_coder; choose one with {TOOL_FLAGS}",
    "hybrid-of-nobody": "the generation prompt has <think>, and no known parser is for it; name one: "
    "--reasoning-parser",
}
ROWS = [*((row, parsers.tools) for row in TOOLS), *((row, parsers.reasoning) for row in REASONING)]


def marks(checkpoint: str) -> Marks:
    return probe.model_files(str(CHECKPOINTS / checkpoint)).marks


def test_every_checkpoint_is_asked() -> None:
    """A folder that nothing asks would show nothing."""
    assert {path.name for path in CHECKPOINTS.iterdir()} == {*FOUND, *UNTAKEN}


@every_case("checkpoint", FOUND)
def test_marks_name_the_parsers(checkpoint: str) -> None:
    """One parser of each kind, or none."""
    found = marks(checkpoint)
    assert FOUND[checkpoint] == (parsers.tools(found).parser, parsers.reasoning(found).parser)


@pytest.mark.parametrize("checkpoint", UNTAKEN)
def test_no_parser_is_guessed(checkpoint: str) -> None:
    """Where the marks do not decide, or the engine reads them wrongly, a sentence names the flag."""
    found = marks(checkpoint)
    tools, reasoning = parsers.tools(found), parsers.reasoning(found)
    assert (tools.parser, reasoning.parser) == ("", "")
    assert UNTAKEN[checkpoint] in tools.why + reasoning.why


@every_case("row, find", ROWS, ids=[f"{find.__name__} {row.models}" for row, find in ROWS])
def test_a_row_has_a_checkpoint(row: Row, find: object) -> None:
    """Each row fits a folder; without its marks it fits none."""
    fitting = [path.name for path in CHECKPOINTS.iterdir() if row.rule.fits(marks(path.name))]
    assert fitting != []
    assert not row.rule.fits(Marks())


@every_case("family", sorted({name for row, _ in ROWS for name in row.rule.family + row.rule.others}))
def test_a_family_is_one_of_the_engine(family: str) -> None:
    """The beginning of an architecture that the engine serves."""
    names = re.findall(r"\| `(\w+)`", ARCHITECTURES.read_text(encoding="utf-8"))
    assert [name for name in names if name.startswith(family)] != []


def test_names_are_registered_in_the_engine() -> None:
    """The record of the engine's release has them: `python -m windlass.engine.integrations.release FOLDER RELEASE`."""
    known = release.record().parsers
    assert {row.parser for row in TOOLS} - set(known["tools"]) == set()
    assert {row.parser for row in REASONING} - set(known["reasoning"]) == set()


def test_a_reason_names_the_marks() -> None:
    """What `--explain` shows."""
    assert parsers.tools(marks("qwen3")).why == 'template <tool_call>{"name"'
    assert parsers.tools(marks("gpt-oss")).why == "architecture GptOssForCausalLM"
    assert parsers.reasoning(marks("qwq")).why == "architecture Qwen2ForCausalLM; generation prompt <think>"


def test_a_mark_is_found_however_it_is_written() -> None:
    """Blanks, line ends and quotes of Jinja do not count."""
    rule = Rule(says=('<tool_call>{"name"',))
    for text in (
        r"""{{ '<tool_call>\n{"name": "' }}""",
        r"""{{ "<tool_call>\n{\"name\": " }}""",
        '<tool_call>\n{"name": ',
    ):
        assert rule.fits(Marks(template=text))
    assert compact(r'a \n "b"') == 'a"b"'
    assert not rule.fits(Marks(template="<tool_call>{name}"))


def test_the_demo_model_needs_no_row_of_its_own() -> None:
    """Its template asks for the hermes form."""
    demo = probe.model_files(str(Path(__file__).parents[3] / "models/demo")).marks
    assert (parsers.tools(demo).parser, parsers.reasoning(demo).parser) == ("hermes", "")
