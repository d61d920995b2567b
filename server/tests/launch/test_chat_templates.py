"""Which chat templates a start compiles, and that a broken one ends it before the engine is started."""

import json
import os
import urllib.request
from pathlib import Path

import pytest
from windlass.engine.adapters.model import Asked
from windlass.errors import ChatTemplateError, ModelError
from windlass.launch import exec as launch
from windlass.launch import probe
from windlass.launch.model import ModelFiles

from .test_paths import CONFIG

BROKEN = "{% for m in messages %}\n{{ m.content"
SOUND = "{{ messages[0].content }}"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model that has no template yet."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


NO_TENSORS = b"\x02\0\0\0\0\0\0\0{}"


def start(*words: str) -> None:
    """Decide as `run` does, up to the engine's start."""
    launch.plan(("model", *words), {"WINDLASS_ENGINE": "cpu"})


def write(path: Path, content: object) -> None:
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.mark.parametrize(
    ("name", "content", "source"),
    [
        ("chat_template.jinja", BROKEN, "chat_template.jinja"),
        ("chat_template.json", {"chat_template": BROKEN}, "chat_template.json"),
        ("tokenizer_config.json", {"chat_template": BROKEN}, "tokenizer_config.json"),
        (
            "tokenizer_config.json",
            {"chat_template": [{"name": "default", "template": BROKEN}, {"name": "tool_use", "template": SOUND}]},
            "tokenizer_config.json",
        ),
        (
            "tokenizer_config.json",
            {"chat_template": [{"name": "default", "template": SOUND}, {"name": "tool_use", "template": BROKEN}]},
            "tokenizer_config.json",
        ),
        ("additional_chat_templates/default.jinja", BROKEN, "additional_chat_templates/default.jinja"),
    ],
)
def test_a_broken_template_of_the_model_ends_the_start(model: Path, name: str, content: object, source: str) -> None:
    """Wherever it lies, with or without tools."""
    (model / name).parent.mkdir(exist_ok=True)
    write(model / name, content)
    with pytest.raises(ChatTemplateError, match=rf"^line 2 of the chat template (in )?model/{source} cannot be"):
        start()


FOR_TOOLS = {"chat_template": [{"name": "tool_use", "template": SOUND}, {"name": "rag", "template": SOUND}]}


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({"additional_chat_templates/tool_use.jinja": SOUND}, "tool_use"),
        (
            {"additional_chat_templates/tool_use.jinja": SOUND, "tokenizer_config.json": {"chat_template": SOUND}},
            "tool_use",
        ),
        ({"tokenizer_config.json": FOR_TOOLS}, "rag, tool_use"),
    ],
    ids=["folder", "folder beside another template", "list"],
)
def test_templates_without_a_default_end_the_start(model: Path, files: dict[str, object], names: str) -> None:
    """The engine would refuse every chat without tools; a flag names another template, and a file is the default."""
    (model / "additional_chat_templates").mkdir()
    for name, content in files.items():
        write(model / name, content)
    with pytest.raises(ChatTemplateError, match=f"^model has chat templates for {names} and no default, so that"):
        start()
    start("--chat-template", SOUND)
    if "tokenizer_config.json" not in files or len(files) > 1:
        write(model / "chat_template.jinja", SOUND)
        start()


def test_a_broken_template_for_tools_is_named_by_its_own_file(model: Path) -> None:
    """Beside a sound default."""
    (model / "additional_chat_templates").mkdir()
    write(model / "chat_template.jinja", SOUND)
    write(model / "additional_chat_templates/tool_use.jinja", BROKEN)
    with pytest.raises(
        ChatTemplateError, match=r"^line 2 of the chat template model/additional_chat_templates/tool_use"
    ):
        start()


def test_a_broken_template_of_the_flag_ends_the_start(model: Path) -> None:
    """As a file and as text; the model's own is then not looked at."""
    write(model / "chat_template.jinja", SOUND)
    write(model / "mine.jinja", BROKEN)
    for value, source in (("model/mine.jinja", "model/mine.jinja"), (BROKEN, "of --chat-template")):
        with pytest.raises(ChatTemplateError, match=f"^line 2 of the chat template {source} cannot be rendered"):
            start("--chat-template", value)
    write(model / "chat_template.jinja", BROKEN)
    start("--chat-template", SOUND)


def test_templates_that_nobody_renders_are_left_alone(model: Path) -> None:
    """A base model has none; an embedder and a tokenizer of mistral-common render without one."""
    start()
    write(model / "chat_template.jinja", BROKEN)
    write(model / "modules.json", [])
    start()
    (model / "modules.json").unlink()
    write(model / "tekken.json", {})
    (model / "consolidated.safetensors").write_bytes(NO_TENSORS)
    start()


def test_the_facts_name_the_phase_while_the_model_is_read(
    model: Path, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    """`windlass run` reads the model's files in the phase `model`, before the one of the license."""
    seen: list[object] = []

    def look(asked: Asked) -> ModelFiles:
        with urllib.request.urlopen(f"http://127.0.0.1:{free_port}/windlass/facts") as answer:
            seen.append(json.load(answer)["phase"])
        return probe.model_files(asked.model)

    write(model / "chat_template.jinja", BROKEN)
    monkeypatch.setattr("windlass.launch.exec.probe.look", look)
    with pytest.raises(ChatTemplateError):
        launch.run(("model",), {"WINDLASS_ENGINE": "cpu", "WINDLASS_FACTS_PORT": str(free_port)})
    assert seen == ["model"]


def test_the_process_ends_with_the_reason(model: Path, tmp_path: Path, free_port: int) -> None:
    """`windlass run` leaves the word, the file and the line for Kubernetes, and starts nothing."""
    write(model / "chat_template.jinja", BROKEN)
    log = tmp_path / "termination"
    environment = {
        "WINDLASS_ENGINE": "cpu",
        "WINDLASS_TERMINATION_LOG": str(log),
        "WINDLASS_FACTS_PORT": str(free_port),
    }
    with pytest.raises(ChatTemplateError):
        launch.run(("model",), environment)
    words = json.loads(log.read_text())
    assert (words["reason"], words["exitCode"]) == ("ChatTemplateBroken", 3)
    assert words["message"].startswith("line 2 of the chat template model/chat_template.jinja cannot be rendered: ")


def test_a_template_that_cannot_render_ends_the_start(model: Path) -> None:
    """It compiles; the part for tools counts where tool calls are on."""
    write(model / "chat_template.jinja", "{{ messages[0].content }}\n{{ messages[0].nothing.more }}")
    with pytest.raises(ChatTemplateError, match=r"^line 2 of the chat template model/chat_template\.jinja cannot"):
        start()
    write(model / "chat_template.jinja", SOUND + "{% if tools %}\n{{ tools[0].nothing.more }}{% endif %}")
    start()
    with pytest.raises(ChatTemplateError, match=r"^line 2 of the chat template"):
        start("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("{{ raise_exception('send a picture') }}", (), id="it refuses by itself"),
        pytest.param("{{ bos_token + messages[0].content }}", (), id="a token of the tokenizer's class"),
        pytest.param("{{ ours.more }}", ("--default-chat-template-kwargs", '{"ours": {}}'), id="values of a flag"),
    ],
)
def test_a_template_that_may_render_passes(model: Path, text: str, words: tuple[str, ...]) -> None:
    """What a plain word cannot decide is left to the engine."""
    write(model / "chat_template.jinja", text)
    start(*words)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "chat_template.jinja", "anything"])
def test_a_pipe_among_the_files_ends_the_start(model: Path, name: str) -> None:
    """Nobody waits for its writer, whichever of the files it is."""
    (model / name).unlink(missing_ok=True)
    os.mkfifo(model / name)
    with pytest.raises(ModelError) as refused:
        start()
    sentence = f"model/{name} is a named pipe, not a regular file; copy the model again without it"
    assert str(refused.value) == sentence
