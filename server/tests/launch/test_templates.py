"""Table T: which row a model gets, what it adds, and the files that carry stop tokens to the engine."""

import json
from pathlib import Path

import pytest
from windlass.errors import UsageError
from windlass.launch import parsers, planned, probe, templates
from windlass.launch.model import PlannedFile
from windlass.launch.templates import ROWS, IdRule
from windlass_testbed.cases import every_case


@every_case(
    "model_id, expected",
    [
        ("Tencent-Hunyuan-Large-Instruct", "hunyuan"),
        ("Hunyuan-A13B-Instruct", None),
        ("ShenNong-72B", "shennong_chat"),
        ("SN-13B-v2", "shennong_chat"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", "llama-3.2-vision"),
        ("Llama-3.2-11B-Vision-chat", "llama-3.2-vision"),
        ("Llama-3.2-11B-Vision", None),
        ("LLAMA-3.2-3B-INSTRUCT", "llama-3.2"),
        ("Llama-3.2-3B", None),
        ("Meta-Llama-3.1-8B-Instruct", "llama-3.1"),
        ("Meta-Llama-3.1-8B", None),
        ("Qwen2.5-7B-Instruct", "qwen2.5"),
        ("Qwen2.5-VL-7B-Instruct", "qwen2.5"),
        ("Qwen2.5-7B", None),
        ("Baichuan2-13B-Chat", "baichuan2-chat"),
        ("Baichuan-13B-Chat", None),
        ("Llama-2-7b-chat-hf", "llama-2"),
        ("Llama-2-7b-hf", None),
        ("Meta-Llama-3-8B-Instruct", "llama-3"),
        ("Llama-3.3-70B-Instruct", None),
        ("Qwen-7B-Chat", "qwen"),
        ("Qwen1.5-14B-Chat", "qwen"),
        ("Qwen2-72B-Instruct", "qwen"),
        ("Qwen-VL-Chat", None),
        ("Qwen2-VL-7B-Instruct", None),
        ("model", None),
        ("", None),
    ],
)
def test_ids(model_id: str, expected: str | None) -> None:
    """T: words of the id, in any case, in the order of the rows."""
    row = templates.match(model_id)
    assert expected == (row.name if row else None)


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [("Qwen3-8B-Instruct", None), ("Qwen-7B-Chat", None), ("Qwen2.5-7B-Instruct", "qwen2.5"),
     ("Llama-3.1-8B-Instruct", "llama-3.1"), ("Llama-2-7b-chat", "llama-2")],
)  # fmt: skip
def test_a_template_with_tools_of_its_own_leaves_qwens_row(model_id: str, expected: str | None) -> None:
    """T: the row of Qwen without tools is for the models it was written for; no other row asks for the template."""
    row = templates.match(model_id, shows_tools=True)
    assert expected == (row.name if row else None)


@every_case(
    "name, expected",
    [
        *((name, name) for name in ("generate", "hunyuan", "shennong_chat", "llama-3.2-vision", "llama-3.2")),
        *((name, name) for name in ("llama-3.1", "qwen2.5", "baichuan2-chat", "llama-2", "llama-3", "qwen")),
        *((name, name) for name in ("baichuan-chat", "chatglm3", "chatglm2")),
        ("qwen-7b-chat", "qwen"),
        ("LLaMA-3.1", "llama-3.1"),
        ("llama", None),
        ("", None),
    ],
)
def test_names(name: str, expected: str | None) -> None:
    """T: a name is a whole name, in any case."""
    row = templates.find(name)
    assert expected == (row.name if row else None)


@pytest.mark.parametrize(
    ("name", "template", "expected", "stops"),
    [
        ("generate", "generate.jinja", {}, ()),
        ("hunyuan", "hunyuan.jinja", {}, (127960, 127967)),
        ("shennong_chat", "shennong.jinja", {}, ()),
        (
            "llama-3.2-vision",
            "",
            {
                "enable-auto-tool-choice": True,
                "tool-call-parser": "llama3_json",
                "enforce-eager": True,
                "max-num-seqs": 8,
            },
            (),
        ),
        (
            "llama-3.2",
            "llama3.2_json.jinja",
            {"enable-auto-tool-choice": True, "tool-call-parser": "llama3_json"},
            (),
        ),
        (
            "llama-3.1",
            "llama3.1_json.jinja",
            {"enable-auto-tool-choice": True, "tool-call-parser": "llama3_json"},
            (),
        ),
        ("qwen2.5", "", {"enable-auto-tool-choice": True, "tool-call-parser": "hermes"}, ()),
        ("baichuan2-chat", "baichuan.jinja", {}, ()),
        ("llama-2", "llama2.jinja", {}, ()),
        ("llama-3", "llama3.jinja", {}, (128001, 128009)),
        ("qwen", "qwen.jinja", {}, (151643, 151644, 151645)),
    ],
)
def test_additions(name: str, template: str, expected: dict, stops: tuple[int, ...]) -> None:
    """T: what a row adds."""
    row = templates.BY_NAME[name]
    added = dict(row.additions)
    path = added.pop("chat-template", "")
    assert (template, expected, stops) == (Path(str(path)).name, added, row.stops)


def test_every_template_is_a_file_of_a_row() -> None:
    """No row without its file, no file without its row."""
    named = {row.template for row in (*ROWS, *parsers.TOOLS) if row.template}
    assert named == {file.name for file in templates.DIRECTORY.glob("*")}


def test_a_rule_without_words_fits_nothing() -> None:
    """Rows that only a name finds are never matched by an id."""
    assert not IdRule().fits("anything")
    assert not IdRule(none=("x",)).fits("anything")


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param(
            {"eos_token_id": 7, "temperature": 0.5}, {"eos_token_id": [7, 1, 2], "temperature": 0.5}, id="one"
        ),
        pytest.param({"eos_token_id": [2, 9]}, {"eos_token_id": [2, 9, 1]}, id="several"),
        pytest.param({}, {"eos_token_id": [1, 2]}, id="none"),
        pytest.param({"eos_token_id": None}, {"eos_token_id": [1, 2]}, id="null"),
    ],
)
def test_generation_config(own: dict, expected: dict) -> None:
    """The model's own stop tokens and sampling defaults stay."""
    assert expected == json.loads(templates.generation_config(own, (1, 2)))


def test_planned_files_are_written(tmp_path: Path) -> None:
    """Directories are made, an older file is replaced, nothing else is left."""
    path = tmp_path / "a" / "b" / "generation_config.json"
    planned.write((PlannedFile(str(path), "old"),))
    planned.write((PlannedFile(str(path), "new"),))
    assert (path.read_text(), [entry.name for entry in path.parent.iterdir()]) == ("new", [path.name])


def test_planned_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The sentence names the file and the way out."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match=r"taken/x\.json cannot be written: .*; set TMPDIR to a writable directory"):
        planned.write((PlannedFile(str(tmp_path / "taken" / "x.json"), ""),))


def model_directory(path: Path, **files: object) -> str:
    for name, content in ({"config": {"architectures": ["NewForCausalLM"]}} | files).items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return str(path)


def test_what_is_read_of_the_model(tmp_path: Path) -> None:
    """S27: names, architecture, template and generation config of the model directory."""
    files = probe.model_files(
        model_directory(
            tmp_path,
            ti_model_config={"model_id": "Baichuan2-13B-Chat", "conv_template_name": "baichuan2-chat"},
            generation_config={"eos_token_id": [2], "top_k": 5},
            tokenizer_config={"chat_template": "{{ messages }}"},
        )
    )
    assert (files.model_id, files.conv_template) == ("Baichuan2-13B-Chat", "baichuan2-chat")
    assert (files.architecture, files.has_chat_template) == ("NewForCausalLM", True)
    assert files.generation == {"eos_token_id": [2], "top_k": 5}


def test_without_a_generation_config_the_models_config_speaks(tmp_path: Path) -> None:
    """The engine reads stop tokens and sampling defaults from config.json then."""
    config = {"eos_token_id": 2, "temperature": 0.5, "hidden_size": 8, "top_p": None}
    files = probe.model_files(model_directory(tmp_path, config=config))
    assert files.generation == {"eos_token_id": 2, "temperature": 0.5}
    assert (files.architecture, files.has_chat_template, files.conv_template) == ("", False, None)


@pytest.mark.parametrize("name", ["chat_template.jinja", "chat_template.json"])
def test_template_in_a_file_of_its_own(tmp_path: Path, name: str) -> None:
    """A template need not be in tokenizer_config.json."""
    path = model_directory(tmp_path)
    (tmp_path / name).write_text("{}")
    assert probe.model_files(path).has_chat_template
