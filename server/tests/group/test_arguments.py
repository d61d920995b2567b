"""What a group makes of the engine: cards, words and commands; and the whole way through `resolve`."""

import pytest
from windlass.errors import UsageError
from windlass.group import arguments
from windlass.group.plan import GroupPlan
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import NATIVE, RUN, Style, resolve
from windlass.license.model import Gpu

RAY_HEAD, RAY_FOLLOWER = (GroupPlan("h", 2, index, "ray") for index in (0, 1))
HEAD, FOLLOWER = (GroupPlan("h", 2, index, "native") for index in (0, 1))
EIGHT = tuple(Gpu(f"GPU-{number}", "L20") for number in range(8))
MODEL = ModelFiles("/data/model", "qwen2", max_model_len=4096, attention_heads=32)
PLACE = ("--nnodes", "2", "--node-rank", "1", "--master-addr", "h", "--master-port", "29501")


def launch(words: str, group: GroupPlan, engine: str = "cuda", style: Style = RUN) -> LaunchPlan:
    return resolve(tuple(words.split()), {}, MODEL, Machine(engine, EIGHT, group=group), style)


def test_words_of_each_member() -> None:
    """vLLM's own group is told by flags, and only followers are headless; with Ray only the head has an engine."""
    assert (*PLACE, "--headless") == arguments.engine_words(FOLLOWER)
    assert "--headless" not in arguments.engine_words(HEAD)
    assert arguments.engine_words(HEAD)[2:4] == ("--node-rank", "0")
    assert arguments.engine_words(RAY_HEAD) == ("--distributed-executor-backend", "ray")
    assert arguments.engine_variables(RAY_HEAD)["RAY_ADDRESS"] == "h:6379"
    assert "RAY_ADDRESS" not in arguments.engine_variables(RAY_FOLLOWER)
    assert arguments.engine_variables(HEAD) == {}


def test_commands() -> None:
    """A follower runs `vllm serve --headless`, or its part of the Ray cluster, which stays in front."""
    serve = ("python", "-m", "vllm.entrypoints.cli.main", "serve", "/m", "--port", "1")
    assert serve == arguments.follower_command(FOLLOWER, "python", ("--model", "/m", "--port", "1"), 8)
    assert (*serve[:4], "--port", "1") == arguments.follower_command(FOLLOWER, "python", ("--port", "1"), 8)
    joins = ("--address=h:6379", "--block", "--disable-usage-stats", "--num-gpus=8")
    assert joins == arguments.follower_command(RAY_FOLLOWER, "python", ("--model", "/m"), 8)[4:]
    head = ("--head", "--port=6379", "--block", "--disable-usage-stats", "--include-dashboard=false", "--num-gpus=8")
    assert ("python", "-m", "ray.scripts.scripts", "start", *head) == arguments.ray_command(RAY_HEAD, "python", 8)
    addressed = GroupPlan("fd00::1", 2, 1, "ray", host_ip="fd00::2")
    assert arguments.ray_command(addressed, "python", 0)[4:] == (
        "--address=[fd00::1]:6379", "--block", "--disable-usage-stats", "--node-ip-address=fd00::2"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "group", "engine", "tp"),
    [
        ("", RAY_HEAD, "cuda", 16),
        ("", HEAD, "cuda", 16),
        ("", FOLLOWER, "cpu", 2),
        ("--pipeline-parallel-size 2", RAY_HEAD, "cuda", 8),
        ("-pp 2", HEAD, "cuda", 8),
        ("--tp 4 --pp 2", RAY_HEAD, "cuda", 4),
        ("--tp 16", RAY_HEAD, "cuda", 16),
    ],
)
def test_all_cards_of_the_group(words: str, group: GroupPlan, engine: str, tp: int) -> None:
    """TP is all cards, or all cards ÷ PP; a CPU member is one card, whatever GPUs it is licensed for."""
    plan = launch(words, group, engine)
    assert tp == plan.value("tensor-parallel-size")
    at = plan.engine_args.index("--tensor-parallel-size")
    assert plan.engine_args[at + 1] == str(tp)


def test_the_engines_own_command_joins_too() -> None:
    """`vllm serve` in a member's pod gets the group's words and all its cards."""
    plan = launch("", FOLLOWER, style=NATIVE)
    assert (*PLACE, "--headless") == plan.engine_args[-len(PLACE) - 1 :]
    assert plan.value("tensor-parallel-size") == 16
    assert plan.shown_args == plan.engine_args


def test_what_the_cpu_cannot_is_reported() -> None:
    """The operator plans for GPUs that the CPU image does not compute on."""
    plan = launch("--tensor-parallel-size 16", HEAD, "cpu")
    assert plan.value("tensor-parallel-size") == 2
    assert any("--tensor-parallel-size 16 (flag) is served as 2" in sentence for sentence in plan.warnings)


@pytest.mark.parametrize(
    ("words", "group", "said"),
    [
        ("--pp 3", RAY_HEAD, "--pipeline-parallel-size 3 does not divide the 16 cards of the group (2 members × 8); "
                             "set it to one of 1, 2, 4, 8, 16"),
        ("--pp 0", HEAD, "--pipeline-parallel-size 0 does not divide"),
        ("--tp 32", RAY_HEAD, "--tensor-parallel-size 32 is more than the 16 cards of the group"),
        ("--tp 16 --pp 2", HEAD, "--tensor-parallel-size 16 × --pipeline-parallel-size 2 is more than the 16 cards"),
        ("--tp 1", HEAD, "--tensor-parallel-size 1 cannot be shared equally by 2 members; leave it out to take all 16"),
        ("--worker-num 2", HEAD, "--worker-num 2 and a group exclude each other"),
        ("--nnodes 2", HEAD, "--nnodes is set by the group that the environment tells of (head h, 2 members)"),
        ("--master_port=7", HEAD, "--master_port is set by the group"),
    ],
)  # fmt: skip
def test_what_cannot_run(words: str, group: GroupPlan, said: str) -> None:
    """Before anything starts, with what to do instead."""
    with pytest.raises(UsageError) as error:
        launch(words, group)
    assert said in str(error.value)


@pytest.mark.parametrize("group", [None, HEAD])
def test_stages_are_not_for_cpus(group: GroupPlan | None) -> None:
    """vLLM's CPU runner in eager mode makes no buffers for what one stage hands to the next."""
    with pytest.raises(UsageError, match="--pipeline-parallel-size 2 ends the engine for CPUs at its first request"):
        resolve(("--pp=2",), {}, MODEL, Machine("cpu", EIGHT, group=group))


def test_alone_nothing_changes() -> None:
    """Without a group there are no words of one, and a container takes its own GPUs."""
    plan = resolve((), {}, MODEL, Machine("cuda", EIGHT))
    assert plan.value("tensor-parallel-size") == 8
    assert not {"--nnodes", "--distributed-executor-backend"} & set(plan.engine_args)
