"""What stands in front of the engine: the guard is always there, and told what the flags say."""

import json

import pytest
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu

FOUR = Machine("cuda", tuple(Gpu(f"GPU-{number}", "NVIDIA L20") for number in range(4)))
MODEL = ModelFiles("/data/model", max_model_len=4096, attention_heads=32, generation={"temperature": 0.6})


def launch(line: str = "", machine: Machine = FOUR, **environment: str) -> LaunchPlan:
    return resolve(tuple(line.split()), environment, MODEL, machine)


def told(plan: LaunchPlan) -> dict[str, object]:
    return json.loads(plan.variables["WINDLASS_API"])


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        pytest.param("", "served_names", ["model"], id="S16"),
        pytest.param("--served-model-name a b", "served_names", ["a", "b"], id="S24"),
        pytest.param("", "concurrency", 128, id="S20-default"),
        pytest.param("--limit-worker-concurrency 64", "concurrency", 64, id="S20"),
        pytest.param("--limit-worker-concurrency 64 --worker-num 2", "concurrency", 128, id="S19-each-worker"),
        pytest.param("--max-waiting-requests 5", "queue", 5, id="queue"),
        pytest.param("--max-request-mib 1", "max_body_bytes", 1048576, id="size"),
        pytest.param("--max-json-mib 1", "max_json_bytes", 1048576, id="json"),
        pytest.param("", "max_json_values", 262_144, id="values"),
        pytest.param("", "max_image_pixels", 268_435_456, id="pixels"),
        pytest.param("--allowed-hosts a.example", "allowed_hosts", ["a.example"], id="hosts"),
        pytest.param("--opened-routes /sleep", "opened_routes", ["/sleep"], id="routes"),
        pytest.param("--close-metrics", "metrics_closed", True, id="metrics"),
        pytest.param("--api-keys-file /etc/keys", "keys_file", "/etc/keys", id="S22-file"),
        pytest.param(
            "--allowed-media-domains a.example b.example", "image_domains", ["a.example", "b.example"], id="V2"
        ),
        pytest.param("", "generation_fields", ["temperature"], id="A14"),
    ],
)
def test_the_guard_gets_the_settings(line: str, field: str, expected: object) -> None:
    """Each flag of ours arrives in the guard's document."""
    plan = launch(line)
    assert told(plan)[field] == expected
    assert plan.engine_args[plan.engine_args.index("--middleware") + 1] == "windlass.api.guard.Guard"


def test_variables_count_and_flags_win() -> None:
    """S20, S22: MAX_CONCURRENCY and OPENAI_API_KEYS; a flag wins."""
    plan = launch("--limit-worker-concurrency 7", MAX_CONCURRENCY="9", OPENAI_API_KEYS="k1,k2")
    assert told(plan)["concurrency"] == 7
    assert plan.variables["WINDLASS_API_KEYS"] == "k1,k2"
    assert told(launch(MAX_CONCURRENCY="9"))["concurrency"] == 9


def test_no_keys_no_variable() -> None:
    """Without keys the server is open, and the engine's own check stays off."""
    plan = launch()
    assert "WINDLASS_API_KEYS" not in plan.variables
    assert plan.variables["VLLM_API_KEY"] == ""


def test_media_comes_from_nowhere_unless_allowed() -> None:
    """V2: the engine's own check is the second line."""
    assert "no-host-is-allowed.invalid" in launch().engine_args
    assert "a.example" in launch("--allowed-media-domains a.example").engine_args


@pytest.mark.parametrize(
    ("line", "tp", "workers"),
    [
        pytest.param("", "4", None, id="one-worker-takes-all"),
        pytest.param("--worker-num 2", "2", "2", id="two-workers-share"),
        pytest.param("--worker-num 2 -tp 1", "1", "2", id="said"),
        pytest.param("--pipeline-parallel-size 2", "2", None, id="two-stages-share"),
    ],
)
def test_workers_share_the_gpus(line: str, tp: str, workers: str | None) -> None:
    """S19: GPUs = TP × WORKER_NUM."""
    words = launch(line).engine_args
    assert words[words.index("--tensor-parallel-size") + 1] == tp
    found = words[words.index("--data-parallel-size") + 1] if "--data-parallel-size" in words else None
    assert found == workers


def test_more_workers_than_gpus_is_reported() -> None:
    """S29: the sentence names both flags."""
    from windlass.errors import UsageError

    with pytest.raises(UsageError, match=r"--tensor-parallel-size 2 for each of 4 workers .* 4 GPUs"):
        launch("--worker-num 4 -tp 2")
