"""Every row of the start command that this version has, from flag, variable, file and default to the engine's words."""

import pytest
from windlass.errors import UsageError
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import model_directory, resolve
from windlass.license.model import Gpu
from windlass_testbed.cases import every_case

MODEL = ModelFiles("/data/model", model_type="qwen2", max_model_len=32768, attention_heads=28)
TWO_L20 = Machine("cuda", (Gpu("GPU-a", "NVIDIA L20"), Gpu("GPU-b", "NVIDIA L20")))
CPU = Machine("cpu", (Gpu("GPU-a", "NVIDIA L20"), Gpu("GPU-b", "NVIDIA L20")), has_compiler=False)


def launch(line: str = "", *, model: ModelFiles = MODEL, machine: Machine = TWO_L20, **variables: str) -> LaunchPlan:
    return resolve(tuple(line.split()), variables, model, machine)


def engine_value(plan: LaunchPlan, flag: str) -> str | None:
    words = plan.engine_args
    return words[words.index(flag) + 1] if flag in words else None


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        pytest.param("--model", "/data/model", id="S9"),
        pytest.param("--port", "8501", id="S10"),
        pytest.param("--dtype", "float16", id="S5"),
        pytest.param("--max-model-len", "8192", id="S4"),
        pytest.param("--tensor-parallel-size", "2", id="S7"),
        pytest.param("--gpu-memory-utilization", "0.9", id="S14"),
        pytest.param("--served-model-name", "model", id="S16"),
        pytest.param("--max-num-batched-tokens", "8192", id="S23-tokens"),
        pytest.param("--max-num-seqs", "256", id="S23-requests"),
        pytest.param("--quantization", None, id="S1"),
        pytest.param("--seed", None, id="S21"),
        pytest.param("--api-key", None, id="S22"),
    ],
)
def test_defaults(flag: str, expected: str | None) -> None:
    """Without a flag the engine gets the documented defaults."""
    assert expected == engine_value(launch(), flag)


def test_two_models_are_refused() -> None:
    """A word and a flag that name one directory are fine, whatever they stand beside."""
    with pytest.raises(UsageError, match=r"^two models are named, stray and --model /m; leave one of them out$"):
        launch("stray --model /m")
    assert engine_value(launch("/m --port 1 --model-path /m"), "--model") == "/m"


@pytest.mark.parametrize("switch", ["--enable-prefix-caching", "--trust-remote-code", "--no-enforce-eager"])
def test_default_switches(switch: str) -> None:
    """S6, S8, S15: prefix caching and trust are on, eager mode is off."""
    assert switch in launch().engine_args


@pytest.mark.parametrize(
    ("variable", "text", "flag", "expected"),
    [
        pytest.param("QUANTIZATION", "fp8", "--quantization", "windlass_fp8", id="S1"),
        pytest.param("MAX_MODEL_LEN", "16384", "--max-model-len", "16384", id="S4"),
        pytest.param("DTYPE", "bfloat16", "--dtype", "bfloat16", id="S5"),
        pytest.param("TP", "1", "--tensor-parallel-size", "1", id="S7"),
        pytest.param("MODEL", "/m", "--model", "/m", id="S9-model"),
        pytest.param("MODEL_PATH", "/m", "--model", "/m", id="S9-path"),
        pytest.param("GPU_MEMORY_UTILIZATION", "0.95", "--gpu-memory-utilization", "0.95", id="S14"),
        pytest.param("MODEL_ID", "Qwen2-7B-Instruct", "--served-model-name", "Qwen2-7B-Instruct", id="S16"),
        pytest.param("SEED", "7", "--seed", "7", id="S21"),
    ],
)
def test_variables(variable: str, text: str, flag: str, expected: str) -> None:
    """A variable sets its row, and its flag wins over it."""
    assert expected == engine_value(launch(**{variable: text}), flag)
    named = {"--model": "/flag", "--dtype": "auto", "--quantization": "ifq", "--gpu-memory-utilization": "0.5"}.get(
        flag, "1"
    )
    assert named == engine_value(launch(f"{flag} {named}", **{variable: text}), flag)


@pytest.mark.parametrize(
    ("variable", "text", "switch"),
    [
        pytest.param("ENABLE_PREFIX_CACHING", "false", "--no-enable-prefix-caching", id="S6"),
        pytest.param("TRUST_REMOTE_CODE", "0", "--no-trust-remote-code", id="S8"),
        pytest.param("ENFORCE_EAGER", "true", "--enforce-eager", id="S15"),
    ],
)
def test_switch_variables(variable: str, text: str, switch: str) -> None:
    """A switch's variable says yes and no in several words; the flag wins."""
    assert switch in launch(**{variable: text}).engine_args
    name = switch.removeprefix("--").removeprefix("no-")
    assert f"--{name}" in launch(f"--{name}", **{variable: text}).engine_args
    assert f"--no-{name}" in launch(f"--no-{name}", **{variable: text}).engine_args


@pytest.mark.parametrize(
    ("line", "flag", "expected"),
    [
        pytest.param("--model-path /m", "--model", "/m", id="S9-alias"),
        pytest.param("/m --port 1", "--model", "/m", id="S9-positional"),
        pytest.param("--num-gpus 1", "--tensor-parallel-size", "1", id="S7-alias"),
        pytest.param("-tp 1", "--tensor-parallel-size", "1", id="S7-short"),
        pytest.param("--gpu_memory_utilization 0.5", "--gpu-memory-utilization", "0.5", id="S14-underscore"),
        pytest.param("--max_model_len=16K", "--max-model-len", "16384", id="S4-unit"),
        pytest.param("--max-model-len auto", "--max-model-len", "auto", id="S4-auto"),
        pytest.param("--chat-template /t.jinja", "--chat-template", "/t.jinja", id="S12"),
        pytest.param("--tool-call-parser hermes --enable-auto-tool-choice", "--tool-call-parser", "hermes", id="S13"),
        pytest.param("--served-model-name a --served-model-name b", "--served-model-name", "b", id="last-wins"),
        pytest.param("--max-num-seqs 8", "--max-num-seqs", "8", id="S23"),
    ],
)
def test_flags(line: str, flag: str, expected: str) -> None:
    """Other spellings of a flag mean the same."""
    assert expected == engine_value(launch(line), flag)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("--use-v2-block-manager", id="S11"),
        pytest.param("--disable-log-requests", id="S24-log"),
        pytest.param("--num-scheduler-steps 8", id="S24-steps"),
        pytest.param("--num-speculative-tokens 4", id="S3"),
    ],
)
def test_flags_without_effect(line: str) -> None:
    """A flag that today's engine lacks is accepted, told, and not passed on."""
    plan = launch(line)
    flag = line.split(maxsplit=1)[0]
    assert [sentence.startswith(f"{flag} has no effect: ") for sentence in plan.warnings] == [True]
    assert flag not in plan.engine_args


def test_file_names_the_model() -> None:
    """S27: ti_model_config.json gives the served name, and the variable wins over it."""
    named = ModelFiles("/data/model", max_model_len=4096, model_id="from-file")
    assert engine_value(launch(model=named), "--served-model-name") == "from-file"
    assert engine_value(launch(model=named, MODEL_ID="mine"), "--served-model-name") == "mine"


def test_short_context_is_kept() -> None:
    """S4: a model shorter than the cut keeps its own context; an unknown one is left to the engine."""
    assert engine_value(launch(model=ModelFiles("/m", max_model_len=4096)), "--max-model-len") == "4096"
    assert engine_value(launch(model=ModelFiles("/m")), "--max-model-len") is None


BEYOND = "--ignore-engine-limits"  # a V100 needs an engine of one's own


def test_no_prefix_caching_on_v100() -> None:
    """S6: off on a V100 unless asked for."""
    v100 = Machine("cuda", (Gpu("GPU-a", "Tesla V100-SXM2-32GB"),))
    assert "--no-enable-prefix-caching" in launch(BEYOND, machine=v100).engine_args
    assert "--enable-prefix-caching" in launch(f"{BEYOND} --enable-prefix-caching", machine=v100).engine_args


def test_dtype_of_models_that_overflow() -> None:
    """S5: a model that the engine refuses in float16 is served in bfloat16 by default."""
    gemma = ModelFiles("/m", model_type="gemma2", max_model_len=8192)
    assert engine_value(launch(model=gemma), "--dtype") == "bfloat16"


def test_cpu_image_serves_one_rank_and_says_so() -> None:
    """On the CPU image the GPUs are licensed, not computed on."""
    plan = launch("--tensor-parallel-size 2", machine=CPU, VLLM_CPU_KVCACHE_SPACE="1")
    assert engine_value(plan, "--tensor-parallel-size") == "1"
    assert plan.warnings[0].startswith("--tensor-parallel-size 2 (flag) is served as 1: ")
    assert "--enforce-eager" in plan.engine_args


def test_unknown_flags_pass_through_in_order() -> None:
    """What is not ours is the engine's, values and all."""
    plan = launch("--scheduling-policy fcfs --dtype auto --lora-target-modules a b --enable-log-requests")
    expected = ("--scheduling-policy", "fcfs", "--lora-target-modules", "a", "b", "--enable-log-requests")
    assert expected == plan.engine_args[-6:]


def test_keys_are_hidden_from_people() -> None:
    """S22: keys reach the engine, and no log, fact or table."""
    plan = launch("--api-keys k1,k2")
    assert plan.variables["WINDLASS_API_KEYS"] == "k1,k2"
    assert "k1" not in " ".join(plan.engine_args) + repr([setting.shown for setting in plan.settings])


@every_case(
    "line, said",
    [
        ("--dtype int3", '--dtype is "int3"; choose one of auto'),
        ("--port 99999", '--port is "99999", which is no port; write a number from 1 to 65535, as 8501'),
        ("--port 0", '--port is "0", which is no port'),
        ("--port eight", '--port is "eight", which is no port; write a number from 1 to 65535'),
        ("--gpu-memory-utilization 90", '--gpu-memory-utilization is "90", which is no fraction'),
        (
            "--max-model-len long",
            '--max-model-len is "long", which is no number of tokens; write it as 8192, 8K or auto',
        ),
        ("--max-model-len 0", '--max-model-len is "0"'),
        ("--enforce-eager=maybe", '--enforce-eager is "maybe", which is no true or false'),
        ("--model", "--model needs a value: model directory"),
        ("--dtype --port 1", "--dtype needs a value"),
        ("--no-enforce-eager=1", "--no-enforce-eager takes no value"),
        ("--api-keys ,", '--api-keys is ",", which is no list of names'),
        ("--use-lookahead --num-scheduler-steps 8", "--use-lookahead and --num-scheduler-steps 8 exclude each other"),
        ("--worker-num 0", "--worker-num 0 leaves no engine; set at least 1"),
    ],
)
def test_bad_values(line: str, said: str) -> None:
    """A bad value ends with a sentence that names the flag and what to write."""
    with pytest.raises(UsageError) as error:
        launch(line)
    assert str(error.value).startswith(said)


def test_bad_variable_names_the_variable() -> None:
    """The sentence says where the value was said."""
    with pytest.raises(UsageError, match=r'^variable DTYPE is "int3"; choose one of'):
        launch(DTYPE="int3")


@pytest.mark.parametrize("line", ["--use-lookahead 0", "--use-lookahead false", "--worker-num 1"])
def test_saying_no_to_what_is_missing(line: str) -> None:
    """S2, S19: a flag whose feature is not here may be switched off."""
    assert launch(line).warnings == ()


def test_model_directory_is_known_before_its_files() -> None:
    """Flag, variable, default, in this order."""
    assert model_directory((), {}) == "/data/model"
    assert model_directory((), {"MODEL": "/v"}) == "/v"
    assert model_directory(("--model=/f",), {"MODEL": "/v"}) == "/f"


PRESETS = {
    "minimum": "--enforce-eager --gpu-memory-utilization 0.95 --max-model-len 2048",
    "resume": "--dtype auto --quantization fp8 --max-model-len 32768 --enable-prefix-caching --disable-log-requests "
    "--api-keys mock_api_key --served-model-name model_123",
    "native": "/data/model --port 8501 -tp 2 --quantization fp8 --max-model-len 32768 --enable-prefix-caching "
    "--disable-log-requests --served-model-name model_123 --num-scheduler-steps 8",
}


@pytest.mark.parametrize("line", PRESETS.values(), ids=PRESETS)
def test_presets(line: str) -> None:
    """The documents' command lines work as written, as far as this version has their methods."""
    assert launch(line).model_path == "/data/model"
