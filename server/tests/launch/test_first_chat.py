"""Which questions a start command leads to."""

import json
from pathlib import Path

import pytest
from windlass.engine.startup.first_chat import Question
from windlass.launch import exec as launch

from .test_paths import CONFIG

SOUND = "{{ messages[0].content }}"
TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model that has no template yet."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def asked(*words: str) -> tuple[Question, ...]:
    plan, _ = launch.plan(("model", *words), {"WINDLASS_ENGINE": "cpu"})
    return plan.questions


def test_a_chat_and_one_with_a_tool_where_calls_are_on(model: Path) -> None:
    """By the model's own template, which it is held against when the engine fails."""
    (model / "chat_template.jinja").write_text(SOUND)
    assert [one.name for one in asked()] == ["a chat"]
    plain, with_tool = asked(*TOOLS)
    assert (plain.name, with_tool.name) == ("a chat", "a chat with a tool")
    assert (plain.template.text, plain.has_template, plain.is_refused) == (SOUND, True, False)
    assert with_tool.tools == tuple(with_tool.body["tools"])


def test_the_template_of_the_flag_counts(model: Path) -> None:
    """It is the one that the engine renders."""
    (question,) = asked("--chat-template", SOUND + "!")
    assert question.template.text == SOUND + "!"


def test_a_base_model_may_refuse_a_chat(model: Path) -> None:
    """The engine knows whether its tokenizer has a template of its own."""
    (question,) = asked()
    assert (question.template, question.has_template) == (None, False)


def test_a_tokenizer_of_mistral_common_has_a_template(model: Path) -> None:
    """It lies in no file, and a chat has to work all the same."""
    (model / "tekken.json").write_text("{}")
    (model / "consolidated.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    question = asked()[0]
    assert (question.template, question.has_template) == (None, True)


def test_a_template_that_refuses_a_word_may_be_refused(model: Path) -> None:
    """In the plain chat only, where the tool makes it another one."""
    (model / "chat_template.jinja").write_text("{% if not tools %}{{ raise_exception('pictures') }}{% endif %}")
    assert [one.is_refused for one in asked(*TOOLS)] == [True, False]


def test_each_engine_is_asked(model: Path) -> None:
    """The tool once: all of them have the same parser, in one API process."""
    (model / "chat_template.jinja").write_text(SOUND)
    assert [one.engines for one in asked("--worker-num", "3", *TOOLS)] == [3, 1]


@pytest.mark.parametrize(
    "words",
    [
        ("--skip-tokenizer-init",),
        ("--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}'),
        ("--ec-transfer-config", '{"ec_connector":"x","ec_role":"ec_producer"}'),
    ],
    ids=lambda words: words[0],
)
def test_nothing_is_asked_of_an_engine_that_takes_no_text(model: Path, words: tuple[str, ...]) -> None:
    """Or that makes a part of each answer only."""
    assert asked(*words) == ()


def test_an_offloaded_cache_is_no_part(model: Path) -> None:
    """The role of both sides is a whole engine."""
    assert asked("--kv-transfer-config", '{"kv_connector":"OffloadingConnector","kv_role":"kv_both"}')
