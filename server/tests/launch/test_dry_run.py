"""A12: `--conservative-dry-run`, which worker of the engine it names, and how torch's allocator is set."""

from dataclasses import replace

import pytest
from windlass.errors import UsageError
from windlass.group.plan import GroupPlan
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import NATIVE, RUN, Style, resolve
from windlass.license.model import Gpu
from windlass_testbed.cases import every_case

TWO = Machine("cuda", tuple(Gpu(f"GPU-{n}", "NVIDIA L20") for n in range(2)))
ONE = Machine("cuda", TWO.gpus[:1], memory_bytes=64 * 2**30)
CPU = Machine("cpu")
LLAMA = ModelFiles("/m", "llama", 8192, attention_heads=32, architecture="LlamaForCausalLM")
ON = "--conservative-dry-run"
CUDA = "PYTORCH_CUDA_ALLOC_CONF"
PLAIN = "windlass.engine.dry_run.worker.ConservativeDryRun"
DRAFTING = "windlass.engine.lookahead.vllm_gpu.DryRunDeviceWorker"
SPLITTING = "windlass.engine.sequence_parallel.worker.DryRunSequenceParallelWorker"


def launch(words: str, machine: Machine = TWO, style: Style = RUN, **environment: str) -> LaunchPlan:
    return resolve(tuple(words.split()), {"HOME": "/cache", **environment}, LLAMA, machine, style)


def allocator(plan: LaunchPlan) -> dict[str, str]:
    return {name: value for name, value in plan.variables.items() if name.endswith("ALLOC_CONF")}


def workers(plan: LaunchPlan) -> list[str]:
    words = plan.engine_args
    return [words[at + 1] for at, word in enumerate(words) if word == "--worker-cls"]


@pytest.mark.parametrize(
    ("words", "worker"),
    [
        (ON, PLAIN),
        ("--conservative_dry_run=true", PLAIN),
        (f"{ON} --quantization ifq --gpu-memory-utilization 0.95", PLAIN),
        (f"{ON} --enforce-eager", PLAIN),
        (f"{ON} --use-lookahead", DRAFTING),
        (f"{ON} --sequence-parallel-size 2", SPLITTING),
    ],
)
def test_the_engine_gets_one_worker(words: str, worker: str) -> None:
    """That of another feature does both; our own flag does not reach the engine."""
    plan = launch(words)
    assert workers(plan) == [worker]
    assert not any(word.startswith(ON) for word in plan.engine_args)
    assert not any(ON in note for note in plan.warnings)


def test_the_variable_and_the_engines_own_command() -> None:
    """Both take it."""
    assert workers(launch("", CONSERVATIVE_DRY_RUN="true")) == [PLAIN]
    assert workers(launch(ON, style=NATIVE)) == [PLAIN]


@pytest.mark.parametrize("words", ["", f"{ON} false"])
def test_off_by_default(words: str) -> None:
    """The engine keeps its own worker."""
    assert workers(launch(words)) == []


def test_lookahead_keeps_its_worker_without_it() -> None:
    """Without the flag nothing changes."""
    assert workers(launch("--use-lookahead")) == [DRAFTING.replace("DryRun", "")]


def test_the_cpu_image_says_that_it_has_no_effect() -> None:
    """In one sentence; the start goes on."""
    plan = launch(ON, CPU)
    assert workers(plan) == []
    assert [note for note in plan.warnings if ON in note] == [
        "--conservative-dry-run has no effect on the CPU: the engine's cache has a size of its own there"
    ]


@pytest.mark.parametrize(
    "words",
    [
        ON,
        f"{ON} --use-lookahead",
        f"{ON} --quantization ifq --tensor-parallel-size 1 --sequence-parallel-size 1",
        f"{ON} --speculative-config {{}}",
    ],
)
def test_one_rank_gets_expandable_segments(words: str) -> None:
    """By the variable that torch reads first and vLLM looks at; the engine's process gets it before torch starts."""
    assert allocator(launch(words, ONE)) == {CUDA: "expandable_segments:True"}


@every_case(
    "words, machine",
    [
        (ON, TWO),
        (f"{ON} --tensor-parallel-size 1 --pipeline-parallel-size 2", TWO),
        (f"{ON} --sequence-parallel-size 2", TWO),
        (f"{ON} --tensor-parallel-size 1 --prefill-context-parallel-size 2", TWO),
        (f"{ON} --worker-num 2", TWO),
        (f"{ON} --enable-sleep-mode", ONE),
        (f"{ON} --enable_cumem_allocator", ONE),
        (f"{ON} --kv-transfer-config.kv_connector NixlConnector", ONE),
        (f"{ON} --kv-offloading-size 8", ONE),
        (f"{ON} --enable-prefix-cache-offload", ONE),
        (f"{ON} --config engine.yaml", ONE),
        ("", ONE),
        (ON, CPU),
    ],
)
def test_torchs_allocator_stays_as_it_is(words: str, machine: Machine) -> None:
    """With several ranks, an allocator of the engine's own, a connector, without the flag and on a CPU."""
    assert allocator(launch(words, machine)) == {}


def test_a_member_of_a_group_keeps_torchs_allocator() -> None:
    """Its ranks are those of the group."""
    group = replace(ONE, group=GroupPlan("head-0", 2, 0, "native"))
    assert allocator(launch(ON, group)) == {}


@pytest.mark.parametrize("name", [CUDA, "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_the_users_own_setting_stands(name: str) -> None:
    """Whichever name it has: torch reads one of them only."""
    assert allocator(launch(ON, ONE, **{name: "max_split_size_mb:512"})) == {}


def test_an_empty_setting_is_none() -> None:
    """Torch would take the first name that is there, be it empty."""
    assert allocator(launch(ON, ONE, PYTORCH_ALLOC_CONF="")) == {CUDA: "expandable_segments:True"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--worker-cls my.Worker", "and --worker-cls both name the engine's worker"),
        ("--kv-cache-memory-bytes 1000", "and --kv-cache-memory-bytes both size the KV cache"),
        ("--kv_cache_memory=1000", "and --kv-cache-memory-bytes both size the KV cache"),
        ("--num-gpu-blocks-override 99", "and --num-gpu-blocks-override both size the KV cache"),
    ],
)
def test_what_cannot_go_together_is_refused(words: str, sentence: str) -> None:
    """Each in one sentence."""
    with pytest.raises(UsageError) as why:
        launch(f"{ON} {words}")
    assert sentence in str(why.value)
