"""What the checkpoint's marks add to a launch, and who goes first."""

from dataclasses import replace
from pathlib import Path

import pytest
from windlass.launch import probe
from windlass.launch.model import LaunchPlan, Machine
from windlass.launch.resolve import NATIVE, resolve
from windlass.launch.templates import DIRECTORY

CHECKPOINTS = Path(__file__).with_name("checkpoints")
CPU = Machine("cpu", has_compiler=False)
NAMES = ("tool-call-parser", "enable-auto-tool-choice", "reasoning-parser")


def launch(checkpoint: str, line: str = "", **variables: str) -> LaunchPlan:
    model = replace(probe.model_files(str(CHECKPOINTS / checkpoint)), path="/data/model")
    return resolve(tuple(line.split()), variables, model, CPU)


def settled(plan: LaunchPlan) -> dict[str, tuple[object, str]]:
    return {one.name: (one.value, one.source) for one in plan.settings if one.name in NAMES}


def told(plan: LaunchPlan) -> str:
    return "\n".join(sentence for sentence in plan.warnings if "VLLM_CPU_KVCACHE_SPACE" not in sentence)


def test_the_checkpoint_names_both_parsers() -> None:
    """Automatic tool choice is on, and each setting says where it came from and why."""
    plan = launch("qwen3")
    assert settled(plan) == {
        "tool-call-parser": ("hermes", "checkpoint"),
        "enable-auto-tool-choice": (True, "checkpoint"),
        "reasoning-parser": ("qwen3", "checkpoint"),
    }
    reasons = {one.name: one.why for one in plan.settings if one.name in NAMES}
    assert reasons == {
        "tool-call-parser": 'template <tool_call>{"name"',
        "enable-auto-tool-choice": "tool calls are in the form of hermes",
        "reasoning-parser": "architecture Qwen3ForCausalLM; generation prompt <think>",
    }
    words = " ".join(plan.engine_args)
    assert all(word in words for word in ("-parser hermes ", "--enable-auto-tool-choice ", "-parser qwen3 "))
    assert told(plan) == ""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            "--tool-call-parser xlam --reasoning-parser deepseek_r1",
            {
                "tool-call-parser": ("xlam", "flag"),
                "enable-auto-tool-choice": (True, "checkpoint"),
                "reasoning-parser": ("deepseek_r1", "flag"),
            },
            id="own parsers",
        ),
        pytest.param(
            "--no-enable-auto-tool-choice --reasoning-parser none",
            {"enable-auto-tool-choice": (False, "flag"), "reasoning-parser": ("none", "flag")},
            id="declined",
        ),
        pytest.param(
            "--enable-auto-tool-choice",
            {
                "tool-call-parser": ("hermes", "checkpoint"),
                "enable-auto-tool-choice": (True, "flag"),
                "reasoning-parser": ("qwen3", "checkpoint"),
            },
            id="asked for",
        ),
    ],
)
def test_own_flags_win(line: str, expected: dict[str, tuple[object, str]]) -> None:
    """S13: what the user said stays, and the checkpoint fills in the rest."""
    assert settled(launch("qwen3", line)) == expected


def test_none_keeps_the_engines_flag_out() -> None:
    """The engine knows no parser of that name."""
    assert "--reasoning-parser" not in launch("qwen3", "--reasoning-parser none").engine_args


def test_a_row_of_table_t_goes_first() -> None:
    """T names the parser of tools and keeps the model's template, so the marks name the other one."""
    plan = launch("qwq", MODEL_ID="Qwen2.5-QwQ-Instruct")
    assert settled(plan) == {
        "tool-call-parser": ("hermes", "match"),
        "enable-auto-tool-choice": (True, "match"),
        "reasoning-parser": ("deepseek_r1", "checkpoint"),
    }


@pytest.mark.parametrize(
    ("checkpoint", "model_id", "parser", "reasoning"),
    [
        ("qwen3", "Qwen3-8B-Chat", "hermes", "qwen3"),
        ("qwen3-instruct-2507", "Qwen3-30B-A3B-Instruct-2507", "hermes", None),
        ("qwen3-coder", "Qwen3-Coder-480B-A35B-Instruct", "qwen3_coder", None),
        ("qwen3.5", "Qwen3.5-35B-A3B-Instruct", "qwen3_coder", "qwen3"),
    ],
)
def test_a_newer_qwen_answers_tool_calls_by_its_own_template(
    checkpoint: str, model_id: str, parser: str, reasoning: str | None
) -> None:
    """Its id has the words of table T's row for Qwen, which knows no tools: the model's own template stays."""
    plan = launch(checkpoint, MODEL_ID=model_id)
    found = {name: value for name, (value, _) in settled(plan).items()}
    assert (parser, True, reasoning) == tuple(found.get(name) for name in NAMES)
    assert not {"conv-template", "chat-template", "generation-config"} & {one.name for one in plan.settings}
    assert told(plan) == ""


def test_a_qwen_without_tools_gets_its_row() -> None:
    """T: the models that the row was written for, with a template of their own or none."""
    plan = launch("plain-chatml", MODEL_ID="Qwen1.5-7B-Chat")
    assert {one.name: one.value for one in plan.settings}["chat-template"] == str(DIRECTORY / "qwen.jinja")
    assert settled(plan) == {}


@pytest.mark.parametrize(
    ("line", "variables", "by"),
    [
        ("", {"CONV_TEMPLATE": "qwen"}, "conv-template qwen"),
        ("--chat-template /t.jinja", {}, "--chat-template"),
    ],
)
def test_another_template_hides_the_marks(line: str, variables: dict[str, str], by: str) -> None:
    """A parser for a form that nothing asks the model for would be a guess; the note says how to have both."""
    plan = launch("qwen3-coder", line, **variables)
    assert settled(plan) == {}
    own = CHECKPOINTS / "qwen3-coder/chat_template.jinja"
    assert told(plan) == (
        f"{by} replaces the model's own template, which --tool-call-parser qwen3_coder would read; to render the "
        f"model's own template, set --chat-template {own}"
    )
    again = launch("qwen3-coder", f"{line} --chat-template {own}", **variables)
    assert settled(again)["tool-call-parser"] == ("qwen3_coder", "checkpoint")


def test_ambiguous_marks_give_a_note_with_the_flag() -> None:
    """No parser, no tool choice, and the flag that decides."""
    plan = launch("two-forms")
    assert settled(plan) == {}
    assert told(plan).startswith("the checkpoint's marks fit the parsers hermes and qwen3_coder; choose one with ")
    assert told(launch("two-forms", "--tool-call-parser hermes")) == ""
    assert told(launch("two-forms", "--no-enable-auto-tool-choice")) == ""


def test_a_template_without_tools_gives_a_note() -> None:
    """DeepSeek's own templates render calls, and not the tools of a request."""
    plan = launch("deepseek-v3.1")
    assert settled(plan)["tool-call-parser"] == ("deepseek_v31", "checkpoint")
    assert told(plan).startswith("the chat template leaves the tools of a request out; ")


def test_a_template_of_ours_replaces_one_that_no_parser_reads() -> None:
    """Llama 4; who names a template or a parser keeps the model's own."""
    plan = launch("llama-4")
    assert settled(plan)["tool-call-parser"] == ("llama4_pythonic", "checkpoint")
    assert plan.value("chat-template") == str(DIRECTORY / "llama4_pythonic.jinja")
    assert told(plan) == ""
    for line in ("--tool-call-parser pythonic", "--no-enable-auto-tool-choice"):
        assert launch("llama-4", line).value("chat-template") is None
    assert told(launch("llama-4", "--chat-template /mine.jinja")) == ""


def test_a_model_without_a_chat_form_gets_nothing() -> None:
    """Nor does an embedder, which answers no chat."""
    assert (settled(launch("plain-chatml")), told(launch("plain-chatml"))) == ({}, "")
    embedder = replace(probe.model_files(str(CHECKPOINTS / "qwen3")), is_embedder=True)
    assert settled(resolve((), {}, embedder, CPU)) == {}


def test_the_engines_own_commands_are_left_alone() -> None:
    """With `vllm serve` the defaults are the engine's."""
    model = probe.model_files(str(CHECKPOINTS / "qwen3"))
    assert settled(resolve((), {}, model, CPU, NATIVE)) == {}
