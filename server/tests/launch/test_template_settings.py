"""What a match of table T puts into a launch, and what it leaves alone."""

import json

import pytest
from windlass.errors import UsageError
from windlass.launch import templates
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu

MODEL = ModelFiles("/data/model", model_type="qwen2", max_model_len=32768, attention_heads=28)
TWO_L20 = Machine("cuda", (Gpu("GPU-a", "NVIDIA L20"), Gpu("GPU-b", "NVIDIA L20")))


def launch(line: str = "", *, model: ModelFiles = MODEL, machine: Machine = TWO_L20, **variables: str) -> LaunchPlan:
    return resolve(tuple(line.split()), variables, model, machine)


def engine_value(plan: LaunchPlan, flag: str) -> str | None:
    words = plan.engine_args
    return words[words.index(flag) + 1] if flag in words else None


LLAMA3 = ModelFiles("/m", max_model_len=8192, generation={"eos_token_id": 128001, "temperature": 0.6})


def from_match(plan: LaunchPlan) -> dict[str, object]:
    return {setting.name: setting.value for setting in plan.settings if setting.source == "match"}


def template(file: str) -> str:
    return str(templates.DIRECTORY / file)


def test_match_by_model_id() -> None:
    """T: an id adds template, parser and tool choice, each with its source and reason."""
    plan = launch(MODEL_ID="Meta-Llama-3.1-8B-Instruct")
    expected = {
        "conv-template": "llama-3.1",
        "chat-template": template("llama3.1_json.jinja"),
        "tool-call-parser": "llama3_json",
        "enable-auto-tool-choice": True,
    }
    assert expected == from_match(plan)
    reasons = {setting.name: setting.why for setting in plan.settings if setting.source == "match"}
    assert reasons["conv-template"] == "MODEL_ID is Meta-Llama-3.1-8B-Instruct"
    assert reasons["tool-call-parser"] == "conv-template llama-3.1"
    assert engine_value(plan, "--chat-template") == template("llama3.1_json.jinja")
    assert "--enable-auto-tool-choice" in plan.engine_args
    assert not {"--conv-template", "llama-3.1"} & set(plan.engine_args)


@pytest.mark.parametrize(
    ("line", "variables", "model", "expected"),
    [
        pytest.param("", {}, {"model_id": "Llama-2-7b-chat"}, "llama-2", id="file's id"),
        pytest.param("", {}, {"model_id": "Llama-2-7b-chat", "conv_template": "Qwen"}, "qwen", id="file's name"),
        pytest.param(
            "", {"MODEL_ID": "Qwen2-7B-Instruct"}, {"model_id": "Llama-2-7b-chat"}, "qwen", id="variable's id"
        ),
        pytest.param("", {"MODEL_ID": "base"}, {"model_id": "Llama-2-7b-chat"}, "", id="variable's id fits nothing"),
        pytest.param("", {"CONV_TEMPLATE": "chatglm2"}, {"conv_template": "qwen"}, "chatglm2", id="variable's name"),
        pytest.param("", {"CONV_TEMPLATE": "qwen", "MODEL_ID": "Llama-3.1-chat"}, {}, "qwen", id="name before id"),
        pytest.param("--conv-template llama-2", {"CONV_TEMPLATE": "qwen"}, {}, "llama-2", id="flag"),
        pytest.param("", {}, {}, "", id="nothing"),
    ],
)
def test_what_is_matched(line: str, variables: dict[str, str], model: dict[str, str], expected: str) -> None:
    """S17, S27: flag, variable, file, and a name before an id."""
    plan = launch(line, model=ModelFiles("/m", max_model_len=4096, **model), **variables)
    file = templates.BY_NAME[expected].template if expected else ""
    assert (template(file) if file else None) == engine_value(plan, "--chat-template")


def test_nothing_matched_keeps_the_models_own() -> None:
    """T: without a match no template, parser or file is added."""
    plan = launch(MODEL_ID="my-model")
    assert (from_match(plan), plan.files) == ({}, ())


def test_own_flags_win_over_a_match() -> None:
    """S12, S13: what the user said stays; the rest is added."""
    plan = launch("--chat-template /mine.jinja --tool-call-parser hermes", MODEL_ID="Llama-3.2-3B-Instruct")
    assert engine_value(plan, "--chat-template") == "/mine.jinja"
    assert engine_value(plan, "--tool-call-parser") == "hermes"
    assert from_match(plan) == {"conv-template": "llama-3.2", "enable-auto-tool-choice": True}


def test_declined_tools_stay_declined() -> None:
    """S13: who switches tool choice off gets no parser either."""
    plan = launch("--no-enable-auto-tool-choice", MODEL_ID="Qwen2.5-7B-Instruct")
    assert "--enable-auto-tool-choice" not in plan.engine_args
    assert engine_value(plan, "--tool-call-parser") is None


@pytest.mark.parametrize(
    ("line", "variables", "said"),
    [
        (
            "",
            {"CONV_TEMPLATE": "vicuna"},
            'variable CONV_TEMPLATE is "vicuna", which is no chat template; choose one of',
        ),
        (
            "--conv-template vicuna",
            {},
            '--conv-template is "vicuna", which is no chat template; choose one of generate, ',
        ),
    ],
)
def test_unknown_template(line: str, variables: dict[str, str], said: str) -> None:
    """S17: an unknown name is refused with the list of names."""
    with pytest.raises(UsageError) as error:
        launch(line, **variables)
    assert str(error.value).startswith(said)
    assert all(name in str(error.value) for name in templates.BY_NAME)


def test_unknown_template_of_the_file_is_reported() -> None:
    """S27: a file from elsewhere may name what we do not have; the id is asked then."""
    model = ModelFiles("/m", max_model_len=4096, model_id="Llama-2-7b-chat", conv_template="vicuna")
    plan = launch(model=model)
    assert plan.warnings[0].startswith('conv_template_name of ti_model_config.json is "vicuna", which is no chat')
    assert from_match(plan)["conv-template"] == "llama-2"


def test_stop_tokens_come_beside_the_models_own() -> None:
    """T: they reach the engine in a generation_config.json that keeps what the model says."""
    plan = launch(model=LLAMA3, MODEL_ID="Meta-Llama-3-8B-Instruct", TMPDIR="/scratch")
    directory = engine_value(plan, "--generation-config")
    assert directory is not None
    assert directory.startswith("/scratch/windlass-generation-")
    assert [f"{directory}/generation_config.json"] == [file.path for file in plan.files]
    assert json.loads(plan.files[0].text) == {"eos_token_id": [128001, 128009], "temperature": 0.6}
    why = next(setting.why for setting in plan.settings if setting.name == "generation-config")
    assert why == "conv-template llama-3 also stops at 128009"


def test_no_file_when_the_model_stops_there_anyway() -> None:
    """T: a model that has all the stop tokens needs nothing."""
    model = ModelFiles("/m", max_model_len=8192, generation={"eos_token_id": [128009, 128001]})
    plan = launch(model=model, MODEL_ID="Meta-Llama-3-8B-Instruct")
    assert (engine_value(plan, "--generation-config"), plan.files) == (None, ())


def test_own_generation_config_wins_and_is_reported() -> None:
    """T: who says where the generation config comes from keeps it."""
    plan = launch("--generation-config vllm", model=LLAMA3, MODEL_ID="Meta-Llama-3-8B-Instruct")
    assert (engine_value(plan, "--generation-config"), plan.files) == ("vllm", ())
    assert plan.warnings == ("stop tokens 128009 of llama-3 are not added: --generation-config is vllm",)


def test_stop_tokens_past_the_vocabulary_are_left_out() -> None:
    """T: a small model under a large one's name keeps running."""
    small = ModelFiles("/m", max_model_len=2048, vocab_size=128005, generation={"eos_token_id": 2})
    plan = launch(model=small, MODEL_ID="Meta-Llama-3-8B-Instruct")
    assert json.loads(plan.files[0].text) == {"eos_token_id": [2, 128001]}


@pytest.mark.parametrize(("own", "expected"), [(True, None), (False, template("shennong.jinja"))])
def test_guessed_format_goes_last(own: bool, expected: str | None) -> None:
    """T: for models whose format is not published the model's own template goes first, and ours is told."""
    plan = launch(model=ModelFiles("/m", max_model_len=4096, has_chat_template=own), CONV_TEMPLATE="shennong_chat")
    assert expected == engine_value(plan, "--chat-template")
    assert bool(plan.warnings) is not own


@pytest.mark.parametrize(
    ("model", "variables", "said"),
    [
        pytest.param(
            MODEL,
            {"MODEL_ID": "Llama-3.2-11B-Vision-Instruct"},
            "the engine no longer has the models of conv-template llama-3.2-vision (Llama 3.2 Vision Instruct); serve ",
            id="by id",
        ),
        pytest.param(
            MODEL,
            {"CONV_TEMPLATE": "Llama-3.2-Vision"},
            "the engine no longer has the models of conv-template llama-3.2-vision (Llama 3.2 Vision Instruct); serve ",
            id="by name",
        ),
        pytest.param(
            ModelFiles("/m", architecture="MllamaForConditionalGeneration"),
            {},
            "the model is a MllamaForConditionalGeneration, which vLLM 0.10.2 was the last to have; serve Qwen2.5-VL",
            id="by architecture",
        ),
    ],
)
def test_models_that_are_gone(model: ModelFiles, variables: dict[str, str], said: str) -> None:
    """T: Llama 3.2 Vision is matched, and refused with what to serve instead."""
    with pytest.raises(UsageError) as error:
        launch(model=model, **variables)
    assert str(error.value).startswith(said)
    assert error.value.exit_code == 2
