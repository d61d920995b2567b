"""What the environment makes of a machine: a member with its place, none, or one sentence that says what is wrong."""

import pytest
from windlass.errors import UsageError
from windlass.group.plan import GroupPlan, group_plan
from windlass_testbed.cases import every_case

HEAD, SIZE, INDEX = "WINDLASS_GROUP_HEAD", "WINDLASS_GROUP_SIZE", "WINDLASS_GROUP_INDEX"
TWO = {HEAD: "qwen-0.qwen", SIZE: "2"}


@pytest.mark.parametrize(
    ("environment", "hostname", "engine", "expected"),
    [
        pytest.param({}, "qwen-0", "cuda", None, id="nothing is said"),
        pytest.param({SIZE: "1"}, "qwen-0", "cuda", None, id="one machine"),
        pytest.param({HEAD: "h", SIZE: "1"}, "qwen-0", "cuda", None, id="one machine, with a head"),
        pytest.param(TWO, "qwen-0", "cuda", GroupPlan("qwen-0.qwen", 2, 0, "ray"), id="the host name's number"),
        pytest.param(TWO, "qwen-1.qwen.ns.svc", "cpu", GroupPlan("qwen-0.qwen", 2, 1, "native"), id="a full host name"),
        pytest.param(TWO | {INDEX: "1"}, "gpu-7", "cpu", GroupPlan("qwen-0.qwen", 2, 1, "native"), id="the index wins"),
        pytest.param(
            TWO | {"WINDLASS_GROUP_ENGINE": "native"}, "q-0", "cuda", GroupPlan("qwen-0.qwen", 2, 0, "native"),
            id="vLLM's own group on GPUs",
        ),
        pytest.param({HEAD: "fd00::7", SIZE: "2"}, "q-1", "cuda", GroupPlan("fd00::7", 2, 1, "ray"), id="an address"),
        pytest.param(
            TWO
            | {
                "WINDLASS_GROUP_TIMEOUT": "0",
                "WINDLASS_GROUP_LOST_AFTER": "5",
                "WINDLASS_GROUP_PORT": "1",
                "WINDLASS_GROUP_ENGINE_PORT": "2",
                "WINDLASS_GROUP_RAY_PORT": "3",
                "VLLM_HOST_IP": "10.0.0.1",
                "WINDLASS_GROUP_REVISION": "7f3a",
            },
            "q-1",
            "cpu",
            GroupPlan("qwen-0.qwen", 2, 1, "native", None, 5, 1, 2, 3, "10.0.0.1", "7f3a"),
            id="everything is said",
        ),
    ],
)  # fmt: skip
def test_a_place_in_the_group(
    environment: dict[str, str], hostname: str, engine: str, expected: GroupPlan | None
) -> None:
    assert expected == group_plan(environment, hostname, engine)


@every_case(
    "environment, hostname, said",
    [
        ({HEAD: "h"}, "q-0", "WINDLASS_GROUP_HEAD is set and WINDLASS_GROUP_SIZE is not; set both, or neither"),
        ({SIZE: "2"}, "q-0", "WINDLASS_GROUP_SIZE is set and WINDLASS_GROUP_HEAD is not"),
        ({HEAD: "h", SIZE: "two"}, "q-0", 'WINDLASS_GROUP_SIZE is "two"; write a whole number, at least 1'),
        ({HEAD: "h", SIZE: "0"}, "q-0", 'WINDLASS_GROUP_SIZE is "0"; write a whole number, at least 1'),
        ({HEAD: "h:6379", SIZE: "2"}, "q-0", "is no host name or address; its port is WINDLASS_GROUP_PORT"),
        ({HEAD: "a b", SIZE: "2"}, "q-0", 'WINDLASS_GROUP_HEAD is "a b", which is no host name or address'),
        (TWO, "worker", "host name worker ends with no number; set it to 0 … 1"),
        (TWO, "q-2", "host name q-2 makes this member 2, and the group has 2 members; number them 0 … 1"),
        (TWO | {INDEX: "9"}, "q-0", "variable WINDLASS_GROUP_INDEX makes this member 9"),
        (TWO | {INDEX: "-1"}, "q-0", 'WINDLASS_GROUP_INDEX is "-1"; write a whole number'),
        (TWO | {"WINDLASS_GROUP_ENGINE": "mpi"}, "q-0", 'is "mpi"; choose one of ray, native'),
        (TWO | {"WINDLASS_GROUP_ENGINE": "ray"}, "q-0", "the engine for CPUs refuses Ray; set native"),
        (TWO | {"WINDLASS_GROUP_PORT": "70000"}, "q-0", "is 70000, which is no port"),
        (TWO | {"WINDLASS_GROUP_TIMEOUT": "10m"}, "q-0", 'is "10m"; write a whole number, at least 0, as 1800'),
        (TWO | {"WINDLASS_GROUP_LOST_AFTER": "0"}, "q-0", 'is "0"; write a whole number, at least 1, as 60'),
    ],
)
def test_what_cannot_be(environment: dict[str, str], hostname: str, said: str) -> None:
    """One sentence: which variable, what is wrong, what to set."""
    with pytest.raises(UsageError) as error:
        group_plan(environment, hostname, "cpu")
    assert said in str(error.value)
