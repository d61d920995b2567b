"""S2, S3, S24, S29, A1, A5: when lookahead runs, by which words, and what it is told not to run with."""

import json
from dataclasses import replace

import pytest
from windlass.engine.lookahead.settings import LookaheadSettings, read
from windlass.errors import UsageError
from windlass.launch.model import DraftFiles, LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import NATIVE, RUN, Style, resolve
from windlass.license.model import Gpu

L20 = Machine("cuda", (Gpu("GPU-0", "NVIDIA L20"),))
TWO = Machine("cuda", tuple(Gpu(f"GPU-{number}", "NVIDIA L20") for number in range(2)))
CPU = Machine("cpu")
QWEN = ModelFiles("/m", "qwen2", 4096, attention_heads=28, architecture="Qwen2ForCausalLM")
EMBEDDER = ModelFiles("/m", "bert", 512, attention_heads=12, architecture="BertModel")
HOST = {
    "method": "custom_class",
    "model": "windlass.engine.lookahead.vllm_cpu.HostProposer",
    "num_speculative_tokens": 6,
}
DEVICE = {"method": "ngram_gpu", "num_speculative_tokens": 6, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
ADAPTIVE = {**DEVICE, "enable_adaptive_verification": True}


def launch(
    line: str, machine: Machine = L20, model: ModelFiles = QWEN, style: Style = RUN, **environment: str
) -> LaunchPlan:
    return resolve(tuple(line.split()), {"HOME": "/cache", **environment}, model, machine, style)


def speculation(plan: LaunchPlan) -> object:
    words = plan.engine_args
    if "--speculative-config" not in words:
        return None
    return json.loads(words[words.index("--speculative-config") + 1])


def settings(plan: LaunchPlan) -> LookaheadSettings | None:
    return read(plan.variables)


@pytest.mark.parametrize(
    ("line", "environment", "expected"),
    [
        ("", {}, None),
        ("--use-lookahead", {}, ADAPTIVE),
        ("--use-lookahead 1", {}, ADAPTIVE),
        ("--use-lookahead --num-speculative-tokens 12", {}, ADAPTIVE | {"num_speculative_tokens": 12}),
        ("", {"USE_LOOKAHEAD": "1", "NUM_SPECULATIVE_TOKENS": "4"}, ADAPTIVE | {"num_speculative_tokens": 4}),
        ("--use-lookahead 0", {"USE_LOOKAHEAD": "1"}, None),
        ("--lookahead-cache-config-dir ./", {}, ADAPTIVE),
        ("--lookahead-cache-config-dir ./ --use-lookahead false", {}, None),
        ("--use-lookahead --enforce-eager", {}, DEVICE),
        ("--use-lookahead --enable-lora", {}, DEVICE),
    ],
)
def test_when_it_runs(line: str, environment: dict[str, str], expected: object) -> None:
    """By the switch, its variable, or a directory of its configuration; the switch wins."""
    plan = launch(line, **environment)
    assert speculation(plan) == expected
    assert ("windlass.engine.lookahead.vllm_gpu.DeviceWorker" in plan.engine_args) == (expected is not None)
    assert (settings(plan) is not None) == (expected is not None)


def test_who_plans_otherwise_keeps_the_engines_scheduler() -> None:
    ours = "windlass.engine.lookahead.scheduler.LookaheadScheduler"
    assert ours in launch("--use-lookahead").engine_args
    assert ours not in launch("--use-lookahead --no-async-scheduling").engine_args
    assert ours not in launch("--use-lookahead --scheduler-cls my.Own").engine_args
    assert ours not in launch("--use-lookahead --scheduler-c my.Own").engine_args


def test_on_a_cpu_by_its_own_integration() -> None:
    plan = launch("--use-lookahead", CPU)
    assert speculation(plan) == HOST
    assert "windlass.engine.lookahead.vllm_cpu.HostWorker" in plan.engine_args


@pytest.mark.parametrize("machine", [CPU, L20], ids=["cpu", "gpu"])
def test_every_rule_of_sampling_is_kept(machine: Machine) -> None:
    """Each of the engine's runners gets ours beside drafts, and no request is refused for one."""
    plan = launch("--use-lookahead", machine)
    assert "windlass.engine.sampling.no_repeat_ngram:NoRepeatNgram" in plan.engine_args
    assert json.loads(plan.variables["WINDLASS_API"])["no_repeat_missing"] == ""
    assert not any("refused" in warning for warning in plan.warnings)


def test_settings_reach_every_process_of_the_engine() -> None:
    line = "--use-lookahead --cpu-decoding-memory-utilization 0.3 --ignore-prompt-for-lookahead-cache"
    plan = launch(f"{line} --port 9000 --num-gpus 1 --worker-num 2", TWO, XDG_CACHE_HOME="/keep", TMPDIR="/t")
    assert settings(plan) == LookaheadSettings(
        memory_share=0.3,
        workers=2,
        ignore_prompt=True,
        cache_dir="/keep/windlass/lookahead",
        counts_dir="/t/windlass-lookahead-9000",
    )
    assert plan.variables["VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"] == "WINDLASS_LOOKAHEAD"


def test_the_cost_tables_count_no_context_for_a_draft() -> None:
    """The engine's cost tables count a context for each token; a variable of the start's own stays."""
    name = "VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN"
    assert launch("--use-lookahead").variables[name] == "16"
    assert name not in launch("").variables
    assert name not in launch("--use-lookahead", CPU).variables
    assert name not in launch("--use-lookahead", **{name: "512"}).variables


def test_the_engines_own_commands_take_it_too() -> None:
    """`vllm serve` and the module form: the engine's defaults, our flag."""
    plan = launch("/m --use-lookahead", style=NATIVE)
    assert speculation(plan) == ADAPTIVE
    assert settings(plan) == LookaheadSettings(
        cache_dir="/cache/.cache/windlass/lookahead", counts_dir="/tmp/windlass-lookahead-8000"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--num-scheduler-steps 8", "--use-lookahead and --num-scheduler-steps 8 exclude each other; leave one"),
        ("--enable-chunked-prefill", "--use-lookahead and --enable-chunked-prefill exclude each other; set"),
        ("--speculative-model /draft", "--use-lookahead and --speculative-config both draft; leave one"),
        ("--num-speculative-tokens 0", "--num-speculative-tokens 0 cannot be drafted; set 1 to 128"),
        ("--num-speculative-tokens 129", "--num-speculative-tokens 129 cannot be drafted; set 1 to 128"),
        (
            "--num-speculative-tokens 64 --max-model-len 64",
            "--num-speculative-tokens 64 cannot be drafted; set 1 to 63",
        ),
    ],
)
def test_contradictions(line: str, said: str) -> None:
    """S29: one sentence, and what to do."""
    with pytest.raises(UsageError) as error:
        launch(f"--use-lookahead {line}")
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    "words",
    [
        ["--speculative-conf", '{"method":"ngram"}'],
        ['--speculative_config={"method":"ngram"}'],
        ["--speculative-config.method", "ngram"],
        ["-sc.method", "ngram"],
        ["--spec-meth", "ngram"],
        ["--spec-method", "eagle"],
        ["--spec-method", "draft_model", "--spec-model", "ngram"],
    ],
)
def test_two_drafters_however_they_are_written(words: list[str]) -> None:
    """The engine would take the last of two configurations, and our worker would run beside it."""
    with pytest.raises(UsageError, match=r"--use-lookahead and -\S+ both draft; leave one"):
        resolve(("--use-lookahead", *words), {"HOME": "/cache"}, QWEN, L20)


def test_two_drafters_on_a_cpu() -> None:
    """The engine's own words say how much it drafts; the batch of a CPU is planned before they are refused."""
    with pytest.raises(UsageError, match="--use-lookahead and --speculative-config both draft; leave one"):
        launch('--use-lookahead --speculative-config {"method":"ngram"}', CPU)


def test_steps_of_older_engines_without_lookahead_stay_idle() -> None:
    """S24: one step is what everybody has."""
    assert launch("--num-scheduler-steps 8")
    assert speculation(launch("--use-lookahead --num-scheduler-steps 1 --enable-chunked-prefill false"))


@pytest.mark.parametrize(
    ("line", "machine", "model", "why"),
    [
        ("--pipeline-parallel-size 2 -tp 1", TWO, QWEN, "the engine cannot draft over 2 stages"),
        ("--worker-cls my.Worker", L20, QWEN, "--worker-cls names another class"),
        ("--worker_cl my.Worker", L20, QWEN, "--worker-cls names another class"),
        ("", L20, EMBEDDER, "the model does not generate"),
    ],
)
def test_where_it_cannot_run_serving_goes_on(line: str, machine: Machine, model: ModelFiles, why: str) -> None:
    """It says so at start."""
    plan = launch(f"--use-lookahead {line}", machine, model)
    assert speculation(plan) is None
    assert settings(plan) is None
    assert any(note.startswith(f"--use-lookahead is off for this start: {why}") for note in plan.warnings)


def test_fixed_lengths_are_reported() -> None:
    assert "all --num-speculative-tokens are verified" in " ".join(launch("--use-lookahead --enable-lora").warnings)
    assert "all --num-speculative-tokens are verified" not in " ".join(launch("--use-lookahead").warnings)


def test_flags_without_lookahead_are_reported() -> None:
    plan = launch("--num-speculative-tokens 4")
    assert "--num-speculative-tokens has no effect: it counts with --use-lookahead" in plan.warnings
    assert not [note for note in launch("").warnings if "lookahead" in note]


ALONE = "--speculative-model /draft --num-speculative-tokens 3"
DRAFTED = replace(QWEN, draft=DraftFiles("/draft", QWEN.path))


def test_a_draft_model_alone_is_captured_and_may_rest() -> None:
    """Of one GPU: by our worker, without text that is kept for later requests."""
    plan = launch(ALONE, L20, DRAFTED)
    files = {"method": "draft_model", "num_speculative_tokens": 3, "model": "/draft"}
    assert speculation(plan) == {**files, "enable_adaptive_verification": True}
    assert "windlass.engine.lookahead.vllm_gpu.DeviceWorker" in plan.engine_args
    assert (known := settings(plan)) is not None
    assert (known.has_cache, known.draft_model) == (False, "")
    assert not any("CUDA graphs" in sentence for sentence in plan.warnings)


@pytest.mark.parametrize(
    ("line", "machine", "environment", "why"),
    [
        ("--tensor-parallel-size 2", TWO, {}, "--tensor-parallel-size is 2"),
        ("--num-gpus 1 --worker-num 2", TWO, {}, "--worker-num is 2"),
        ("--worker-cls my.Worker", L20, {}, "--worker-cls names another class"),
        ("--data-parallel-size 2 --num-gpus 1", TWO, {}, "--data-parallel-size 2 is set"),
        ("-dp 2 --num-gpus 1", TWO, {}, "-dp 2 is set"),
        ("-pcp 2 --num-gpus 1", TWO, {}, "-pcp 2 is set"),
        ("--nnodes 2", L20, {}, "--nnodes 2 is set"),
        ("--enable-dbo", L20, {}, "--enable-dbo is set"),
        ("", L20, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "VLLM_USE_V2_MODEL_RUNNER is 0"),
    ],
)
def test_a_draft_model_that_is_left_to_the_engine(
    line: str, machine: Machine, environment: dict[str, str], why: str
) -> None:
    plan = launch(f"{ALONE} {line}", machine, DRAFTED, **environment)
    assert settings(plan) is None
    assert "windlass.engine.lookahead.vllm_gpu.DeviceWorker" not in plan.engine_args
    sentence = f"the draft model never rests, and its steps run without CUDA graphs: {why}; it may make answers slower"
    assert sentence in plan.warnings


@pytest.mark.parametrize("more", [{"draft_sample_method": "probabilistic"}, {"parallel_drafting": True}])
def test_other_drafting_is_left_to_the_engine(more: dict[str, object]) -> None:
    config = {"model": "/draft", "method": "draft_model", "num_speculative_tokens": 3, **more}
    plan = resolve(("--speculative-config", json.dumps(config)), {"HOME": "/cache"}, DRAFTED, L20)
    assert settings(plan) is None
    assert any("its steps run without CUDA graphs" in sentence for sentence in plan.warnings)
