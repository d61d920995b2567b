"""The offline API without an engine: what it would be called with, and that importing it is cheap."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import windlass
from windlass import offline
from windlass.engine.lookahead import settings
from windlass.engine.sampling.ngrams import PROCESSOR
from windlass.errors import UsageError

MODEL = str(Path(__file__).parents[2] / "models" / "demo")
CPU = {"WINDLASS_ENGINE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1"}


def test_importing_is_cheap() -> None:
    """`import windlass` loads nothing; the names are there all the same."""
    program = (
        "import sys, windlass\n"
        "assert not {'vllm', 'torch', 'httpx', 'typer'} & set(sys.modules)\n"
        "from windlass import LLM, SamplingParams\n"
        "sys.exit(bool({'vllm', 'torch'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_no_other_name() -> None:
    """A wrong name is an AttributeError, as everywhere."""
    with pytest.raises(AttributeError, match="no attribute 'LLMs'"):
        getattr(windlass, "LLMs")  # noqa: B009


@pytest.mark.parametrize("call", [lambda: windlass.LLM(MODEL), lambda: windlass.SamplingParams(temperature=0)])
def test_without_an_engine(call, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence that says what to install."""
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UsageError, match=r"vllm is not installed here; install windlass-server\[engine\]"):
        call()


def test_defaults_are_those_of_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the start command get its defaults; what only a server has is left out."""
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert offline.engine_options(MODEL, {}, CPU) == {
        "model": MODEL,
        "dtype": "float16",
        "max_model_len": 2048,
        "tensor_parallel_size": 1,
        "gpu_memory_utilization": 0.9,
        "enable_prefix_caching": True,
        "trust_remote_code": True,
        "enforce_eager": True,  # without a compiler
        "max_num_batched_tokens": 2304,  # on a CPU: a whole prompt beside every running request
        "max_num_seqs": 256,
        "enable_chunked_prefill": False,
        "logits_processors": [PROCESSOR],
    }


def test_given_words_win_and_the_rest_goes_on() -> None:
    """Our rows are checked and passed, other words reach the engine as they stand, variables do not count."""
    overrides = {"rope_theta": 1}
    said = {"dtype": "torch.float32", "max_model_len": "auto", "seed": None, "hf_overrides": overrides, "swap": 3}
    options = offline.engine_options(MODEL, said, CPU | {"DTYPE": "bfloat16", "SEED": "7"})
    assert (options["dtype"], options["max_model_len"], options["swap"]) == ("float32", -1, 3)
    assert options["hf_overrides"] is overrides
    assert "seed" not in options


def test_conflicts_are_reported() -> None:
    """The same sentences as on the command line."""
    with pytest.raises(UsageError, match="--max-model-len 9999 is longer than the model's own 2048 tokens"):
        offline.engine_options(MODEL, {"max_model_len": 9999}, CPU)
    with pytest.raises(UsageError, match="ifq_nf4 runs with float16 only"):
        offline.engine_options(MODEL, {"quantization": "ifq_nf4", "dtype": "bfloat16"}, CPU)


@pytest.mark.parametrize("name", ["port", "api_keys", "worker_num", "tool_call_parser", "disable_mem_cache"])
def test_what_only_a_server_has(name: str) -> None:
    """It is refused rather than forgotten."""
    with pytest.raises(UsageError, match=f"{name} is for a server, and LLM is none"):
        offline.engine_options(MODEL, {name: 1}, CPU)


def test_names_and_none() -> None:
    """Lists stay lists, and `none` means no quantization."""
    said = {"served_model_name": ["a", "b"], "quantization": "none"}
    options = offline.engine_options(MODEL, said, CPU)
    assert options["served_model_name"] == ["a", "b"]
    assert "quantization" not in options


@pytest.mark.parametrize(
    ("size", "sampling", "words"),
    [
        (None, {"temperature": 0}, {"temperature": 0}),
        (3, {}, {"extra_args": {"no_repeat_ngram_size": 3}}),
        (3, {"extra_args": {"a": 1}}, {"extra_args": {"a": 1, "no_repeat_ngram_size": 3}}),
    ],
)
def test_no_repeat_ngram_size(size: int | None, sampling: dict, words: dict) -> None:
    """It goes where the engine lets other parameters through, beside what is there."""
    assert offline.with_no_repeat(size, sampling) == words


@pytest.mark.parametrize("size", [-1, 129, 2.5, True, "3"])
def test_no_repeat_ngram_size_that_is_none(size: object) -> None:
    """Anything but a whole number is refused."""
    with pytest.raises(UsageError, match="it must be a whole number from 0 to 128"):
        offline.with_no_repeat(size, {})


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"logits_processors": ["a:B"]}, ["a:B", PROCESSOR]),
        ({"speculative_config": {"method": "ngram"}}, [PROCESSOR]),
        ({"runner": "pooling"}, None),
    ],
)
def test_our_rule_of_sampling_is_added_where_it_can_be(said: dict, found: list | None) -> None:
    """Beside the caller's own, and beside drafts; an engine that does not generate would not start with it."""
    assert offline.engine_options(MODEL, said, CPU).get("logits_processors") == found


def test_what_drafts_is_read_as_for_a_server() -> None:
    """Method and number of tokens are filled in; an n-gram drafter goes on as it was written."""
    found = offline.engine_options(MODEL, {"speculative_config": {"model": MODEL}}, CPU)["speculative_config"]
    assert found == {"method": "draft_model", "num_speculative_tokens": 4, "model": MODEL}
    ngram = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    assert offline.engine_options(MODEL, {"speculative_config": ngram}, CPU)["speculative_config"] == ngram
    with pytest.raises(UsageError, match="cannot be drafted; set at least 1"):
        offline.engine_options(MODEL, {"speculative_config": {"model": MODEL, "num_speculative_tokens": 0}}, CPU)


def test_a_rule_that_would_not_be_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone and in a list of parameters; without the rule, and with 0 for off, the call goes on."""
    engine = SimpleNamespace(generate=lambda *_: ["answer"], chat=lambda *_: ["answer"])
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=lambda **_: engine))
    monkeypatch.setattr("os.environ", CPU)
    model = windlass.LLM(MODEL, runner="pooling")
    asks, off = (SimpleNamespace(extra_args={"no_repeat_ngram_size": size}) for size in (3, 0))
    for params in (asks, [off, asks]):
        for call in (model.generate, model.chat):
            with pytest.raises(UsageError, match="no_repeat_ngram_size is not there: this model does not generate"):
                call("x", params)
    assert model.generate("x", [off, SimpleNamespace(extra_args=None)]) == ["answer"]
    assert windlass.LLM(MODEL).generate("x", asks) == ["answer"]


def test_calls_reach_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What our class does not name is the engine's."""

    class Engine:
        def __init__(self, **options: object) -> None:
            self.options = options

        def chat(self, *words: object, **more: object) -> tuple:
            return words, more

        def get_tokenizer(self) -> str:
            return "tokenizer"

    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=Engine))
    monkeypatch.setattr("os.environ", CPU)
    model = windlass.LLM(Path(MODEL), dtype="float32")
    assert model.options["dtype"] == "float32"
    assert model.chat([{"role": "user"}], use_tqdm=False) == (([{"role": "user"}], None), {"use_tqdm": False})
    assert model.get_tokenizer() == "tokenizer"


def host_drafts(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], **more: object) -> dict[str, object]:
    """What the engine is called with where the demo model drafts for itself on the host."""
    monkeypatch.setattr("windlass.engine.lookahead.ready.check", lambda *_: ())
    words = {"speculative_model": MODEL, "cpu_draft_worker": True, "num_speculative_tokens": 3, **more}
    return offline.engine_options(MODEL, words, environment)


def test_a_draft_model_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine gets our classes and no draft model; its processes learn of it by a variable."""
    environment = {"WINDLASS_ENGINE": "cuda"}
    words = host_drafts(monkeypatch, environment)
    assert words["worker_cls"] == "windlass.engine.lookahead.vllm_gpu.DeviceWorker"
    assert words["scheduler_cls"] == "windlass.engine.lookahead.scheduler.LookaheadScheduler"
    assert words["speculative_config"]["num_speculative_tokens"] == 3
    assert not {"cpu_draft_worker", "speculative_model", "num_speculative_tokens"} & set(words)
    known = settings.read(environment)
    assert known is not None
    assert (known.draft_model, known.has_cache) == (MODEL, False)
    assert known.counts_dir.endswith(f"-{os.getpid()}")


def test_a_draft_model_on_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs by the same classes as for a server, and keeps no text."""
    monkeypatch.setattr("windlass.engine.lookahead.ready.check", lambda *_: ())
    environment = {"WINDLASS_ENGINE": "cuda"}
    words = offline.engine_options(MODEL, {"speculative_config": {"model": MODEL}}, environment)
    assert words["worker_cls"] == "windlass.engine.lookahead.vllm_gpu.DeviceWorker"
    assert words["speculative_config"]["enable_adaptive_verification"] is True
    assert (known := settings.read(environment)) is not None
    assert (known.draft_model, known.has_cache) == ("", False)
    assert environment["VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN"] == "16"


def test_a_draft_model_on_the_host_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU image the engine has the cores itself."""
    with pytest.raises(UsageError, match="drafts beside a GPU"):
        host_drafts(monkeypatch, dict(CPU))


def test_other_drafts_are_for_a_server_still() -> None:
    with pytest.raises(UsageError, match="num_speculative_tokens is for a server"):
        offline.engine_options(MODEL, {"num_speculative_tokens": 3}, dict(CPU))
