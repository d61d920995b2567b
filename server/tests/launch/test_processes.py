"""How many API processes, by choice or by a flag: the engine's command, the guard's settings, what is refused."""

from dataclasses import replace

import pytest
from windlass.errors import UsageError
from windlass.front.settings import ApiSettings
from windlass.group.plan import GroupPlan
from windlass.launch import processes
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import NATIVE, RUN, Style, resolve
from windlass.license.model import Gpu
from windlass_testbed.cases import every_case

L20 = Machine("cuda", (Gpu("GPU-0", "NVIDIA L20"),))
PLAIN = ModelFiles("/data/model", model_type="qwen2", max_model_len=32768, attention_heads=28)
SEVERAL = "--api-server-count 4"
SIXTEEN = replace(L20, processors=16)
DRAFTS = "--speculative-model /data/draft --num-speculative-tokens 4 --cpu-draft-worker"


def launch(
    words: str, machine: Machine = L20, style: Style = RUN, model: ModelFiles = PLAIN, **environment: str
) -> LaunchPlan:
    return resolve(tuple(words.split()), environment, model, machine, style)


def command(plan: LaunchPlan) -> tuple[str, ...]:
    return processes.command(plan.value(processes.NAME), plan.engine_args)


def guards(plan: LaunchPlan) -> ApiSettings:
    return ApiSettings.from_json(plan.variables["WINDLASS_API"])


@pytest.mark.parametrize("words", ["", "--api-server-count 1"])
def test_one_is_the_engines_module(words: str) -> None:
    """The default; nothing of it reaches the engine's flags."""
    plan = launch(words)
    assert command(plan)[:2] == ("-m", "vllm.entrypoints.openai.api_server")
    assert "--api-server-count" not in command(plan)
    assert guards(plan).processes == 1


@pytest.mark.parametrize("style", [RUN, NATIVE])
def test_several_are_the_engines_serve(style: Style) -> None:
    """The module starts one whatever it is told; the guard knows how many share its bounds."""
    plan = launch(SEVERAL, style=style)
    assert command(plan)[:5] == ("-m", "vllm.entrypoints.cli.main", "serve", "--api-server-count", "4")
    assert command(plan)[5:] == plan.engine_args
    assert guards(plan).processes == 4


def test_the_variable_says_it_too() -> None:
    """For `windlass run` alone."""
    assert guards(launch("", API_SERVER_COUNT="3")).processes == 3
    assert guards(launch("", style=NATIVE, API_SERVER_COUNT="3")).processes == 1


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        ("--api-server-count 0", {}, "--api-server-count 0 leaves no API; set at least 1"),
        (SEVERAL, {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}, "an adapter would be loaded for one of the API processes"),
        (SEVERAL, {"VLLM_ENABLE_RESPONSES_API_STORE": "True"}, "a stored response would be known to one of the API"),
        (SEVERAL, {"VLLM_USE_RUST_FRONTEND": "1"}, "is one process and has no guard"),
    ],
)
def test_what_several_cannot_do(words: str, environment: dict[str, str], said: str) -> None:
    """Refused in one sentence before anything starts."""
    with pytest.raises(UsageError) as error:
        launch(words, **environment)
    assert said in str(error.value)
    assert ";" in str(error.value), "it says what to do"
    assert launch(words, **dict.fromkeys(environment, "0")) if environment else True


def test_a_group_has_one() -> None:
    """Its followers have no API, and its head waits for them in its own way."""
    machine = Machine("cuda", L20.gpus, group=GroupPlan("head", 2, 0, "native"))
    with pytest.raises(UsageError, match="--api-server-count 4 is for a server in one pod"):
        launch(SEVERAL, machine)


def test_running_answers_have_a_minute_at_the_end() -> None:
    """The engine's default is none, which its own commands keep; the operator says its own."""
    for words, expected in (("", 60.0), ("--shutdown-timeout 5", 5.0)):
        assert processes.drain_s(launch(words).value(processes.DRAIN)) == expected
    assert "--shutdown-timeout" in launch("").engine_args
    assert processes.drain_s(launch("", style=NATIVE).value(processes.DRAIN)) == 0.0


def reason(plan: LaunchPlan) -> str:
    return next(setting.why for setting in plan.settings if setting.name == processes.NAME)


@every_case(
    "words, processors, number",
    [
        ("", 16, 4),
        ("", 5, 3),
        ("", 2, 1),
        ("", 1, 1),
        ("--limit-worker-concurrency 64", 16, 2),
        ("--limit-worker-concurrency 16", 16, 1),
        ("--limit-worker-concurrency 64 --worker-num 2 --tensor-parallel-size 1", 16, 4),
        ("--worker-num 2 --tensor-parallel-size 4", 12, 2),
        ("--tensor-parallel-size 4", 8, 3),
        ("--tensor-parallel-size 2 --pipeline-parallel-size 2", 7, 2),
        ("--use-lookahead", 5, 2),
        (f"{DRAFTS} --cpu-draft-threads 11", 16, 2),
    ],
)
def test_cores_and_requests_at_a_time_choose(words: str, processors: int, number: int) -> None:
    """Engine and guard get the chosen number, as they get a user's."""
    gpus = L20.gpus * (8 if "parallel" in words else 1)
    plan = launch(words, replace(L20, gpus=gpus, processors=processors))
    assert plan.value(processes.NAME) == number
    assert guards(plan).processes == number
    assert ("serve" in command(plan)) == (number > 1)
    assert f" of {processors} cores beside GPUs, engines and drafts" in reason(plan)


@pytest.mark.parametrize(
    ("words", "changes", "environment", "why"),
    [
        ("", {"engine": "cpu"}, {}, "the CPU engine computes on the cores"),
        ("", {"group": GroupPlan("head", 2, 0, "native")}, {}, "a group of pods has one"),
        ("", {}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "in Kubernetes the service's plan gives the number"),
        ("", {}, {"VLLM_ENABLE_RESPONSES_API_STORE": "1"}, "VLLM_ENABLE_RESPONSES_API_STORE leaves one"),
        ("--data-parallel-rank 0", {}, {}, "--data-parallel-rank leaves one"),
        ("--enable-elastic", {}, {}, "--enable-elastic-ep leaves one"),
        (DRAFTS, {}, {}, "the draft model takes the host's cores"),
        ("", {"processors": 0}, {}, "the cores are not counted"),
    ],
)
def test_one_serves_where_several_do_not_fit(
    words: str, changes: dict[str, object], environment: dict[str, str], why: str
) -> None:
    """And the plan says why."""
    plan = launch(words, replace(SIXTEEN, **changes), **environment)
    assert (plan.value(processes.NAME), reason(plan)) == (1, why)


def test_a_model_of_images_has_one() -> None:
    """Each process would keep up to 4 GiB of them."""
    plan = launch("", SIXTEEN, model=replace(PLAIN, is_multimodal=True))
    assert (plan.value(processes.NAME), reason(plan)) == (1, "each would keep images and other media of its own")


def test_a_number_of_the_user_stays() -> None:
    """By flag or variable, in a pod too; the engine's own commands choose nothing."""
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert launch("--api-server-count 7", SIXTEEN).value(processes.NAME) == 7
    assert launch(SEVERAL, SIXTEEN, **pod).value(processes.NAME) == 4
    assert launch("", SIXTEEN, API_SERVER_COUNT="1").value(processes.NAME) == 1
    assert launch("", SIXTEEN, style=NATIVE).value(processes.NAME) is None
