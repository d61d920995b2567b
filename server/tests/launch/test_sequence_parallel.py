"""A11: when long prompts are split over GPUs, by which words of the engine, and what is refused."""

from dataclasses import replace

import pytest
from windlass.errors import UsageError
from windlass.group.plan import GroupPlan
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import NATIVE, RUN, Style, resolve
from windlass.license.model import Gpu

FOUR = Machine("cuda", tuple(Gpu(f"GPU-{n}", "NVIDIA L20") for n in range(4)))
CPU = Machine("cpu", FOUR.gpus)
LLAMA = ModelFiles("/m", "llama", 8192, attention_heads=32, architecture="LlamaForCausalLM")
ON = "--sequence-parallel-size 2"
WORDS = (
    "--prefill-context-parallel-size", "2", "--attention-backend", "CUSTOM",
    "--worker-cls", "windlass.engine.sequence_parallel.worker.SequenceParallelWorker",
)  # fmt: skip


def launch(
    words: str, machine: Machine = FOUR, model: ModelFiles = LLAMA, style: Style = RUN, **environment: str
) -> LaunchPlan:
    return resolve(tuple(words.split()), {"HOME": "/cache", **environment}, model, machine, style)


def refused(words: str, machine: Machine = FOUR, model: ModelFiles = LLAMA) -> str:
    with pytest.raises(UsageError) as why:
        launch(words, machine, model)
    return str(why.value)


def has_words(plan: LaunchPlan) -> bool:
    return any(plan.engine_args[at : at + len(WORDS)] == WORDS for at in range(len(plan.engine_args)))


@pytest.mark.parametrize(
    "words", [ON, "--sequence_parallel_size=2", f"{ON} --quantization fp8", f"{ON} --enforce-eager"]
)
def test_the_engine_gets_its_size_our_attention_and_our_worker(words: str) -> None:
    """With every quantization and without graphs too; our own flag does not reach the engine."""
    plan = launch(words)
    assert has_words(plan)
    assert not any(word.startswith("--sequence-parallel-size") for word in plan.engine_args)


def test_the_variable_says_it_too() -> None:
    """And the engine's own command takes the flag as well."""
    assert has_words(launch("", SEQUENCE_PARALLEL_SIZE="2"))
    assert has_words(launch(f"{ON} --tensor-parallel-size 1", style=NATIVE))


def test_off_by_default() -> None:
    """1 splits nothing, and the engine gets none of our words."""
    for words in ("", "--sequence-parallel-size 1"):
        assert not {*WORDS} & {*launch(words).engine_args}


@pytest.mark.parametrize(("words", "tp"), [(ON, 2), ("--sequence-parallel-size 4", 1), ("", 4)])
def test_tensor_parallelism_takes_the_rest(words: str, tp: int) -> None:
    """The container's GPUs are TP × this."""
    assert launch(words).value("tensor-parallel-size") == tp


def test_more_than_the_containers_gpus() -> None:
    """TP × this is counted."""
    assert "--tensor-parallel-size 4 × --sequence-parallel-size 2 is more than the 4 GPUs" in refused(
        f"{ON} --tensor-parallel-size 4"
    )


def test_the_cpu_image_serves_as_one() -> None:
    """Its GPUs are licensed and not computed on, so the start command stays valid there."""
    plan = launch(ON, CPU)
    assert not {*WORDS} & {*plan.engine_args}
    assert any("--sequence-parallel-size 2 is served as 1" in note for note in plan.warnings)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--sequence-parallel-size 0", "leaves no GPU"),
        (f"{ON} --use-lookahead", "and --use-lookahead exclude each other"),
        (f"{ON} --enable-lora", "and LoRA adapters exclude each other"),
        (f"{ON} --enable-prefix-cache-offload --prefix-offload-mib 64", "--enable-prefix-cache-offload exclude"),
        (f"{ON} --worker-num 2", "--worker-num 2 exclude each other"),
        (f"{ON} --attention-backend FLASHINFER", "and --attention-backend exclude each other"),
        (f"{ON} --prefill_context_parallel_size=2", "and --prefill-context-parallel-size exclude each other"),
        (f"{ON} -dcp 2", "and -dcp exclude each other"),
        (f"{ON} --worker-cls my.Worker", "and --worker-cls exclude each other"),
        (f'{ON} --speculative-config {{"method":"ngram"}}', "and --speculative-config exclude each other"),
        (f"{ON} --runner pooling", "does not generate"),
    ],
)
def test_what_cannot_go_together_is_refused(words: str, sentence: str) -> None:
    """Each in one sentence that names what to leave out."""
    machine = replace(FOUR, memory_bytes=2**36, shared_bytes=2**35)
    assert sentence in refused(words, machine)


def test_a_model_that_cannot_be_split() -> None:
    """The reason is sizing's, which the operator's plan gives too."""
    assert "latent attention" in refused(ON, model=replace(LLAMA, unsplit="the model has latent attention"))


def test_a_member_of_a_group() -> None:
    """The exchange has run over one machine's GPUs alone."""
    group = GroupPlan(head="a", size=2, index=0, engine="native")
    assert "member of a group" in refused(f"{ON} --tensor-parallel-size 4", replace(FOUR, group=group))
