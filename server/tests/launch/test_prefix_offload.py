"""A8: when evicted prefixes go to host memory, how much of it, and what is refused."""

import json
from dataclasses import replace

import pytest
from windlass.errors import UsageError
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import RUN, resolve
from windlass.license.model import Gpu

GIB = 2**30
TWO = Machine(
    "cuda", tuple(Gpu(f"GPU-{n}", "NVIDIA L20") for n in range(2)), memory_bytes=100 * GIB, shared_bytes=64 * GIB
)
CPU = Machine("cpu", memory_bytes=100 * GIB, shared_bytes=64 * GIB)
QWEN = ModelFiles("/m", "qwen2", 4096, attention_heads=28, architecture="Qwen2ForCausalLM")
ON = "--enable-prefix-cache-offload"


def launch(words: str, machine: Machine = TWO, **environment: str) -> LaunchPlan:
    return resolve(tuple(words.split()), {"HOME": "/cache", **environment}, QWEN, machine, RUN)


def connector(plan: LaunchPlan) -> dict[str, object] | None:
    words = plan.engine_args
    if "--kv-transfer-config" not in words:
        return None
    found = json.loads(words[words.index("--kv-transfer-config") + 1])
    assert found["kv_connector"] == "PrefixOffloadConnector"
    return found["kv_connector_extra_config"]


def extra(words: str, machine: Machine = TWO, **environment: str) -> dict[str, object]:
    found = connector(launch(words, machine, **environment))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("words", "environment", "gib"),
    [
        (ON, {}, 30.0),
        (f"{ON} --cpu-prefill-memory-utilization 0.5", {}, 50.0),
        (f"{ON} --worker-num 2", {}, 15.0),
        (f"{ON} --prefix-offload-mib 2048", {}, 2.0),
        ("", {"ENABLE_PREFIX_CACHE_OFFLOAD": "1", "PREFIX_OFFLOAD_MIB": "1024"}, 1.0),
    ],
)
def test_how_much_memory(words: str, environment: dict[str, str], gib: float) -> None:
    """The seed's share of this container's memory, or a size; engines of one container share it."""
    assert int(str(extra(words, **environment)["cpu_bytes_to_use"])) / GIB == pytest.approx(gib)


def test_off_unless_asked_for() -> None:
    """And a flag of it alone says that it has no effect."""
    assert connector(launch("")) is None
    plan = launch("--apc-offload-enable-hit-cnt")
    assert connector(plan) is None
    assert "--apc-offload-enable-hit-cnt has no effect: it counts with --enable-prefix-cache-offload" in plan.warnings


def test_the_seeds_other_flags() -> None:
    """Each reaches the connector; left out, none does."""
    plain = extra(ON)
    assert plain["store_threshold"] == 1
    assert {key for key in plain if key.startswith("windlass")} == {"windlass_counts", "windlass_in_step"}
    found = extra(
        f"{ON} --apc-offload-min-access-threshold 3 --apc-offload-enable-hit-cnt --apc-offload-not-lazy "
        "--apc-offload-gpu-evictor-limit 100"
    )
    assert found["store_threshold"] == 3
    assert (found["windlass_hit_count"], found["windlass_not_lazy"], found["windlass_card_limit"]) == (True, True, 100)
    assert "windlass_card_limit" not in extra(f"{ON} --apc-offload-gpu-evictor-limit -1")


def test_the_cpu_engine_does_without() -> None:
    """Its cache is in host memory; one sentence says so."""
    plan = launch(ON, CPU)
    assert connector(plan) is None
    assert any("off for this start" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    ("words", "machine", "sentence"),
    [
        (f"{ON} --enable-prefix-caching false", TWO, "--enable-prefix-caching is false"),
        (f"{ON} --kv-offloading-size 4", TWO, "--kv-offloading-size both choose"),
        (f"{ON} --kv_transfer_config={{}}", TWO, "--kv-transfer-config both choose"),
        (f"{ON} --kv-transfer {{}}", TWO, "--kv-transfer-config both choose"),
        (f"{ON} --kv-transfer-config.kv_connector X", TWO, "--kv-transfer-config both choose"),
        (f"{ON} --kv-offloading-s 4", TWO, "--kv-offloading-size both choose"),
        (ON, replace(TWO, memory_bytes=0), "set --prefix-offload-mib"),
        (f"{ON} --cpu-prefill-memory-utilization 0.7", TWO, "set --prefix-offload-mib to 65024 or less"),
        (f"{ON} --apc-offload-gpu-evictor-limit -2", TWO, "or -1"),
    ],
)
def test_what_cannot_be(words: str, machine: Machine, sentence: str) -> None:
    """Refused in one sentence, with the largest that fits."""
    with pytest.raises(UsageError, match=sentence):
        launch(words, machine)


def test_a_command_line_of_before_says_no() -> None:
    """The switch said no to before this version; it still does."""
    assert connector(launch("--enable-prefix-cache-offload false")) is None
