"""On which interface the engine's processes listen for each other."""

import pytest
from windlass.group.contract import NATIVE
from windlass.group.plan import GroupPlan, group_plan
from windlass.launch.loopback import variables
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.resolve import resolve

ALONE = Machine("cuda")
INSIDE = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}


def group() -> GroupPlan:
    told = {"WINDLASS_GROUP_HEAD": "duo-0-0", "WINDLASS_GROUP_SIZE": "2", "WINDLASS_GROUP_ENGINE": NATIVE}
    found = group_plan(told, "duo-0-1", "cuda")
    assert found is not None
    return found


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id="nothing"),
        pytest.param(("--tensor-parallel-size", "8"), id="tensor-parallel"),
        pytest.param(("--data-parallel-size", "2"), id="workers"),
        pytest.param(("--served-model-name", "nnodes"), id="a-value-is-no-flag"),
    ],
)
def test_processes_of_one_machine_meet_on_loopback(words: tuple[str, ...]) -> None:
    assert variables(ALONE, words, {}) == INSIDE


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--nnodes", "2"), id="nnodes"),
        pytest.param(("--nnodes=2",), id="joined"),
        pytest.param(("--node_rank", "1"), id="underscores"),
        pytest.param(("--kv-transfer-config.kv_role", "kv_both"), id="a-part-of-a-config"),
        pytest.param(("--distributed-executor-backend", "ray"), id="ray"),
        pytest.param(("-dpa", "10.0.0.1"), id="short"),
        pytest.param(("--config", "engine.yaml"), id="a-file-of-flags"),
    ],
)
def test_an_engine_that_may_reach_other_machines_is_left_as_it_is(words: tuple[str, ...]) -> None:
    assert variables(ALONE, words, {}) == {}


def test_a_member_of_a_group_listens_for_the_others() -> None:
    assert variables(Machine("cuda", group=group()), (), {}) == {}


def test_the_users_interface_stands() -> None:
    assert variables(ALONE, (), {"NCCL_SOCKET_IFNAME": "eth1"}) == {"GLOO_SOCKET_IFNAME": "lo"}


def test_the_engine_is_started_with_it() -> None:
    plan = resolve((), {}, ModelFiles("/data/model", max_model_len=4096), ALONE)
    assert INSIDE.items() <= plan.variables.items()
