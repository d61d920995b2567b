"""What the CPU engine is told beyond flags."""

import pytest
from windlass.launch.cpu import CORES, EXECUTOR, IN_PROCESS, UNBOUND, core_shares
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import NATIVE, resolve

MODEL = ModelFiles("/data/model", model_type="qwen2", max_model_len=4096)
CPU = Machine("cpu", has_compiler=False, cores=(0, 1, 2, 3))


def launch(line: str = "", machine: Machine = CPU, **environment: str) -> LaunchPlan:
    return resolve(tuple(line.split()), {"VLLM_CPU_KVCACHE_SPACE": "1", **environment}, MODEL, machine)


def test_prompts_stay_in_one_piece() -> None:
    """A whole context fits beside one token of each running request; a GPU's engine is left as it is."""
    plan = launch()
    assert (plan.value("enable-chunked-prefill"), plan.value("max-num-batched-tokens")) == (False, 4096 + 256)
    assert "--no-enable-chunked-prefill" in plan.engine_args
    assert not plan.warnings
    gpu = launch(machine=Machine("cuda"))
    assert (gpu.value("enable-chunked-prefill"), gpu.value("max-num-batched-tokens")) == (None, 4096)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--enable-chunked-prefill", "--enable-chunked-prefill (flag): a request with a seed whose prompt is split"),
        ("--max-num-batched-tokens 2048 --max-num-seqs 16", "raise it to the context"),
    ],
)
def test_the_risk_of_splitting_prompts_is_reported(line: str, said: str) -> None:
    """The user's word stands."""
    plan = launch(line)
    assert "--no-enable-chunked-prefill" not in plan.engine_args
    assert any(said in sentence for sentence in plan.warnings)


def test_the_engines_own_commands_keep_prompts_whole_too() -> None:
    """Nobody has said how large a batch is: the engine makes it as large as the context."""
    plan = resolve(("/data/model",), {}, MODEL, CPU, NATIVE)
    assert "--no-enable-chunked-prefill" in plan.engine_args
    assert "--max-num-batched-tokens" not in plan.engine_args


def test_a_larger_batch_of_the_user_stands() -> None:
    """Prompts stay whole, and the number is the user's."""
    plan = launch("--max-num-batched-tokens 8192")
    assert (plan.value("enable-chunked-prefill"), plan.value("max-num-batched-tokens")) == (False, 8192)


@pytest.mark.parametrize(
    ("cores", "workers", "expected"),
    [
        ((0, 1), 2, "0|1"),
        ((0, 1, 2, 3), 2, "0|2"),
        (tuple(range(8)), 2, "0,1,2|4,5,6"),
        ((2, 3, 8, 9, 10), 2, "2|8"),
        ((5,), 2, "5|5"),
        ((0, 1), 3, "0|1|0"),
    ],
)
def test_core_shares(cores: tuple[int, ...], workers: int, expected: str) -> None:
    """No core belongs to two workers while there are enough."""
    assert expected == core_shares(cores, workers)


def test_workers_have_cores_of_their_own() -> None:
    """Only on the CPU, only with several, and never against the user's variable."""
    assert launch("--worker-num 2").variables[CORES] == "0|2"
    assert CORES not in launch().variables
    assert CORES not in launch("--worker-num 2", **{CORES: "nobind"}).variables
    assert CORES not in launch("--worker-num 2", Machine("cuda", cores=(0, 1))).variables


def test_without_cores_to_bind_the_engine_computes_itself() -> None:
    """One rank, on the CPU; also with several workers, each of which is an engine."""
    words = (EXECUTOR, IN_PROCESS)
    for line in ("", "--worker-num 2", "--tensor-parallel-size 1"):
        assert shown(launch(line, **{CORES: UNBOUND})) == words
    assert not shown(launch())
    assert not shown(launch(**{CORES: "0,1"}))
    assert not shown(launch(machine=Machine("cuda"), **{CORES: UNBOUND}))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--distributed-executor-backend mp", "mp"),
        ("--distributed-executor mp", "mp"),
        ("--distributed_executor_backend=mp", ""),
        ("--nnodes 2", ""),
        ("--config a.yaml", ""),
    ],
)
def test_the_users_own_executor_stands(line: str, expected: str) -> None:
    """As does what may say that there are several ranks."""
    plan = launch(line, **{CORES: UNBOUND})
    assert IN_PROCESS not in plan.engine_args
    assert expected in plan.engine_args or not expected


def shown(plan: LaunchPlan) -> tuple[str, ...]:
    """The executor's words."""
    if EXECUTOR not in plan.engine_args:
        return ()
    at = plan.engine_args.index(EXECUTOR)
    return plan.engine_args[at : at + 2]
