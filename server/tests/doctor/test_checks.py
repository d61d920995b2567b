"""The checks, each with what it answers to findings that differ in one thing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from windlass.doctor import checks, fits, reach
from windlass.doctor.findings import GIB, Card, Driver, Engine, Findings, Group, LicenseServer, LicenseView, Port
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu
from windlass_sizing.files.checkpoint import CheckpointReport
from windlass_sizing.model.facts import from_config
from windlass_testbed.cases import every_case

NOW = datetime(2026, 11, 21, tzinfo=UTC)
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
}
L20 = Card("GPU-a", "NVIDIA L20", 46068, 0, (8, 9))
T4 = Card("GPU-a", "Tesla T4", 15360, 0, (7, 5))


def planned(*words: str, engine: str = "cuda", gpus: int = 1) -> LaunchPlan:
    machine = Machine(engine, tuple(Gpu(f"GPU-{number}", "NVIDIA L20") for number in range(gpus)))
    return resolve(words, {}, ModelFiles("/m", "qwen2", 32768, attention_heads=28), machine)


def view(**days: int) -> LicenseView:
    return LicenseView("acme", 0, {f"GPU-{name}": NOW + timedelta(days=left) for name, left in days.items()})


HEALTHY = Findings(
    plan=planned(),
    refusal="",
    machine=Machine("cuda", (Gpu("GPU-a", "NVIDIA L20"),)),
    engine=Engine("0.32.0", (13, 0)),
    driver=Driver("580.159.04", (13, 0), (L20,)),
    checkpoint=CheckpointReport(facts=from_config(CONFIG, weights_bytes=15 * GIB)),
    ports=(Port(8501, "API", "--port"), Port(8502, "facts", "WINDLASS_FACTS_PORT")),
    shm_bytes=3 * GIB,
    shm_free_bytes=3 * GIB,
    host_free_bytes=64 * GIB,
    cpu_cache_gib=None,
    license=LicenseServer("http://ls", view(a=90)),
    group=None,
    now=NOW,
)
CPU = {"plan": planned(engine="cpu", gpus=0), "machine": Machine("cpu"), "driver": Driver()}
PAIR = {"plan": planned("-tp", "2", gpus=2), "driver": Driver("580.1", None, (L20, L20))}
OFFLOADING = planned("--kv-offloading-size", "16")
TWO_OFFLOADING = planned("-tp", "2", "--kv_offloading_size=4", gpus=2)
REMOTE = Group(2, 1, "head-0", 29501, "--nnodes")


def test_healthy() -> None:
    """Nothing fails on a machine where nothing is wrong, and what was not looked at says why."""
    rows = checks.examine(HEALTHY)
    assert checks.healthy(rows)
    assert {name: str(row.outcome) for name, row in rows if row.outcome != "ok"} == {
        "shared memory": "skip",
        "group": "skip",
    }
    assert [name for name, row in rows if not row.seen] == []


# fmt: off
CASES = [
    ("flags", {"plan": None, "refusal": "--dtype is wrong"}, "fail", "--dtype is wrong"),
    ("flags", {"plan": planned("--use-v2-block-manager")}, "warn", "--use-v2-block-manager has no effect"),
    ("engine", {"engine": Engine()}, "fail", "vLLM is not installed"),
    ("driver", {"driver": Driver()}, "fail", "nvidia-smi lists no GPU"),
    ("driver", {"driver": Driver("535.1", (12, 2), (L20,))}, "warn", "CUDA up to 12.2"),
    ("driver", CPU, "skip", "the CPU engine"),
    ("method", {"plan": planned("-q", "fp8", gpus=0), "driver": Driver("5", None, (T4,))}, "fail", "Tesla T4 has 7.5"),
    ("method", {"plan": planned("-q", "fp8")}, "ok", "NVIDIA L20 (8.9)"),
    ("method", {"plan": planned("-q", "fp8"), "driver": Driver()}, "ok", "NVIDIA L20 (8.9)"),
    ("method", {"plan": None}, "skip", "the flags are refused"),
    ("checkpoint", {"checkpoint": CheckpointReport(None, "ShardMissing", "1 of 4 is missing")}, "fail", "1 of 4"),
    ("memory", {"checkpoint": CheckpointReport(None, "ShardMissing", "")}, "skip", "not whole"),
    ("memory", {}, "ok", "on each of 1 GPUs"),
    ("memory", {"driver": Driver("5", None, (T4,))}, "fail", "of 15.00 GiB"),
    ("memory", {"driver": Driver("5", None, (replace(L20, used_mib=20480),))}, "fail", "20.00 of 44.99 GiB"),
    ("memory", {"driver": Driver("5", None, (replace(L20, used_mib=20480),)), "serving": True}, "warn", "are in use"),
    ("memory", CPU, "ok", "that are free"),
    ("memory", CPU | {"host_free_bytes": 8 * GIB}, "fail", "of 8.00 GiB"),
    ("memory", CPU | {"cpu_cache_gib": 0.1}, "fail", "cache 0.10"),
    ("shared memory", PAIR, "ok", "3.00 GiB"),
    ("shared memory", PAIR | {"shm_bytes": GIB, "shm_free_bytes": GIB}, "warn", "3 GiB are advised"),
    ("shared memory", PAIR | {"shm_free_bytes": 64 * 1024**2}, "fail", "0.5 at least"),
    ("shared memory", PAIR | {"shm_bytes": None, "shm_free_bytes": None}, "fail", "there is none"),
    ("shared memory", {"plan": OFFLOADING}, "fail", "16 GiB of offloaded KV cache need 16 at least"),
    ("shared memory", {"plan": OFFLOADING, "shm_bytes": 17 * GIB, "shm_free_bytes": 17 * GIB}, "ok", "17.00 GiB"),
    ("shared memory", {"plan": planned("--kv-offloading-s", "16")}, "fail", "16 GiB of offloaded KV cache need 16"),
    ("shared memory", PAIR | {"plan": TWO_OFFLOADING, "shm_free_bytes": 2 * GIB}, "fail",
     "2 GPUs and 4 GiB of offloaded KV cache need 4.5 at least"),
    ("shared memory", {"plan": planned("--kv-offloading-size", "16", "--kv-offloading-backend", "lmcache")}, "skip",
     "one GPU exchanges nothing"),
    ("port", {"ports": (Port(8501, "API", "--port", "Address already in use"),)}, "fail", "8501 (API): Address"),
    ("port", {"ports": (Port(8501, "API", "--port", "taken"),), "serving": True}, "warn", "taken"),
    ("license", {"license": None}, "skip", "WINDLASS_LICENSE_REQUIRED=false"),
    ("license", {"machine": Machine("cpu")}, "skip", "needs no license"),
    ("license", {"license": LicenseServer(why="no license server answers")}, "fail", "no license server answers"),
    ("license", {"license": LicenseServer("http://ls", None, "no license is in force")}, "fail", "no license is in"),
    ("license", {"license": LicenseServer("http://ls", view(b=90))}, "fail", "GPU-a is not in the license of acme"),
    ("license", {"license": LicenseServer("http://ls", view(a=-1))}, "fail", "which is over"),
    ("license", {"license": LicenseServer("http://ls", view(a=3))}, "warn", "until 2026-11-24"),
    ("license", {"machine": Machine("cuda", (Gpu("GPU-a"), Gpu("GPU-b"))),
                 "license": LicenseServer("http://ls", replace(view(a=90, b=90), limit=1))}, "fail", "allows 1 at a"),
    ("license", {"machine": Machine("cuda", (Gpu("MIG-x"),))}, "ok", "slices"),
    ("group", {"group": REMOTE}, "ok", "the head head-0:29501 (--nnodes) answers"),
    ("group", {"group": replace(REMOTE, why="no answer in 3 s")}, "fail", "out of reach: no answer in 3 s"),
    ("group", {"group": replace(REMOTE, rank=0)}, "ok", "this is the head of 2 machines"),
    ("group", {"group": replace(REMOTE, missing_interfaces=("NCCL_SOCKET_IFNAME=ib0",))}, "fail", "ib0"),
]
# fmt: on


@every_case("name, changes, outcome, seen", CASES, ids=[f"{c[0]}-{c[3][:20]}" for c in CASES])
def test_check(name: str, changes: dict, outcome: str, seen: str) -> None:
    """Outcome and sentence; whatever is not well says what to do, and a fail makes the whole fail."""
    rows = checks.examine(replace(HEALTHY, **changes))
    row = dict(rows)[name]
    assert (str(row.outcome), seen) == (outcome, seen if seen in row.seen else row.seen)
    assert bool(row.fix) == (outcome in ("warn", "fail"))
    assert checks.healthy(rows) <= (outcome != "fail")


def test_memory_advice_names_a_way_out() -> None:
    """A model that does not fit is told what would."""
    row = fits.memory(replace(HEALTHY, driver=Driver("5", None, (T4,))))
    assert "more or larger GPUs" in row.fix


def test_a_whole_prompt_s_step_is_counted() -> None:
    """The engine takes a long prompt in one step unless it is told otherwise, and that takes room beside the cache."""
    whole, split = (planned("--max-model-len", "32768", *more) for more in ((), ("--max-num-batched-tokens", "4096")))
    facts = HEALTHY.checkpoint.facts
    assert (fits.serving(whole, facts).tokens_a_step, fits.serving(split, facts).tokens_a_step) == (32768, 4096)


def test_stages_requests_and_the_cache_s_format_are_counted() -> None:
    """As the plan counts them: each card holds one stage."""
    words = ("--tp", "1", "--pp", "2", "--max-num-seqs", "8", "--kv_cache_dtype=fp8")
    found = fits.serving(planned(*words, gpus=2), HEALTHY.checkpoint.facts)
    assert (found.tp, found.pp, found.sequences, found.kv_cache_dtype) == (1, 2, 8, "fp8")
    assert fits.serving(planned(), HEALTHY.checkpoint.facts).kv_cache_dtype == "auto"
    staged = replace(HEALTHY, plan=planned(*words, gpus=2), driver=Driver("5", None, (L20, L20)))
    assert "on each of 2 GPUs" in fits.memory(staged).seen


def test_the_cards_of_all_stages_are_looked_at() -> None:
    """The second one is in use."""
    cards = (L20, replace(L20, uuid="GPU-b", used_mib=40000))
    plan = planned("--tp", "1", "--pp", "2", gpus=2)
    row = fits.memory(replace(HEALTHY, plan=plan, driver=Driver("5", None, cards)))
    assert "GPU-b are in use" in row.seen


def test_free_share_is_advised() -> None:
    """The share that a used card still has is named, rounded down."""
    row = fits.memory(replace(HEALTHY, driver=Driver("5", None, (replace(L20, used_mib=20480),))))
    assert row.fix == "end the process that holds it, or set --gpu-memory-utilization 0.55"


def test_document() -> None:
    """The JSON has the same rows."""
    rows = checks.examine(replace(HEALTHY, engine=Engine()))
    whole = checks.document(rows)
    assert whole["ok"] is False
    assert whole["checks"][1]["outcome"] == "fail"
    assert [row["name"] for row in whole["checks"]] == [check.name for check in checks.CHECKS]


@pytest.mark.parametrize(
    ("words", "environment", "told"),
    [
        ((), {}, None),
        (("--nnodes", "1"), {}, None),
        (("--nnodes", "2", "--node-rank=1", "--master-addr", "h"), {}, Group(2, 1, "h", 29501, "--nnodes")),
        (("--nnodes=3", "--master_port=7"), {}, Group(3, 0, "127.0.0.1", 7, "--nnodes")),
        ((), {"RAY_ADDRESS": "auto"}, None),
        ((), {"RAY_ADDRESS": "h:6380"}, Group(0, 1, "h", 6380, "RAY_ADDRESS")),
        ((), {"WINDLASS_GROUP_HEAD": "h", "WINDLASS_GROUP_SIZE": "4"}, Group(4, 1, "h", 8503, "WINDLASS_GROUP_HEAD")),
        (
            (),
            {"WINDLASS_GROUP_HEAD": "h", "WINDLASS_GROUP_PORT": "7", "HOSTNAME": "qwen-0"},
            Group(0, 0, "h", 7, "WINDLASS_GROUP_HEAD"),
        ),
    ],
)
def test_group_of(words: tuple[str, ...], environment: dict[str, str], told: Group | None) -> None:
    """A group is told by the engine's flags or by the environment."""
    assert reach.group_of(words, environment) == told


@pytest.mark.parametrize(
    ("said", "missing"),
    [("eth", ()), ("ib0,eth0", ()), ("=eth", ("NCCL_SOCKET_IFNAME==eth",)), ("^lo", ()), ("", ()),
     ("ib0", ("NCCL_SOCKET_IFNAME=ib0",))],
)  # fmt: skip
def test_missing_interfaces(said: str, missing: tuple[str, ...]) -> None:
    """NCCL takes prefixes, exact names and exclusions."""
    assert reach.missing_interfaces({"NCCL_SOCKET_IFNAME": said}, ["lo", "eth0"]) == missing


@pytest.mark.parametrize("text", ["", "hello", "customer: a\naccesslimit: x\n", "customer: a\naccesslimit: 1\n"
                                  "gpuinfos:\n- uuid: G\n  expiredtime: soon\n"])  # fmt: skip
def test_what_is_no_license_view(text: str) -> None:
    """Anything else that answers is not taken for a license."""
    assert reach.parse_view(text) is None


def test_every_check_has_a_case() -> None:
    """A new check comes with a row above."""
    assert {check.name for check in checks.CHECKS} == {case[0] for case in CASES}
