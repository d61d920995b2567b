"""A9: a draft model on the host's cores: which words the engine gets, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from windlass.errors import UsageError
from windlass.launch.model import DraftFiles
from windlass_sizing.model.facts import from_config

from .test_lookahead import ADAPTIVE, CPU, DEVICE, EMBEDDER, L20, QWEN, TWO, launch, settings, speculation
from .test_speculation import SMALL

DRAFTED = replace(QWEN, draft=DraftFiles("/draft", "/m"))
WORDS = "--speculative-model /draft --cpu-draft-worker"
DSPARK = from_config(SMALL | {"architectures": ["Qwen3DSparkModel"]})
FOUR = {"num_speculative_tokens": 4}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (WORDS, ADAPTIVE | FOUR),
        (f"{WORDS} --num-speculative-tokens 3", ADAPTIVE | {"num_speculative_tokens": 3}),
        (f"{WORDS} --use-lookahead", ADAPTIVE | FOUR),
        (f"{WORDS} --enforce-eager", DEVICE | FOUR),
        ("--spec-model /draft --cpu-draft-worker", ADAPTIVE | FOUR),
        (f"{WORDS} --tensor-parallel-size 2", ADAPTIVE | FOUR),
    ],
)
def test_the_engine_gets_our_worker_and_no_draft_model(line: str, expected: object) -> None:
    """The card has none of it: the method is the one that the lookahead integration stands in for."""
    plan = launch(line, TWO, DRAFTED)
    assert speculation(plan) == expected
    assert plan.engine_args.count("--speculative-config") == 1
    assert "windlass.engine.lookahead.vllm_gpu.DeviceWorker" in plan.engine_args
    assert "/draft" not in " ".join(plan.engine_args)
    assert (known := settings(plan)) is not None
    assert known.draft_model == "/draft"
    assert known.has_cache == ("--use-lookahead" in line)


def test_by_its_variable() -> None:
    plan = launch("--speculative-model /draft", L20, DRAFTED, CPU_DRAFT_WORKER="true")
    assert (known := settings(plan)) is not None
    assert known.draft_model == "/draft"


@pytest.mark.parametrize(("said", "bits"), [("", 8), ("--cpu-draft-bits 4", 4), ("--cpu-draft-bits=8", 8)])
def test_bits_of_a_weight(said: str, bits: int) -> None:
    assert (known := settings(launch(f"{WORDS} {said}", L20, DRAFTED))) is not None
    assert known.draft_bits == bits


def test_requests_and_cores_reach_the_drafter() -> None:
    """Left out, cores are chosen on the machine that drafts."""
    assert (known := settings(launch(f"{WORDS} --max-num-seqs 32", L20, DRAFTED))) is not None
    assert (known.draft_rows, known.draft_threads) == (32, 0)
    assert (known := settings(launch(f"{WORDS} --cpu-draft-threads 6", L20, DRAFTED))) is not None
    assert (known.draft_rows, known.draft_threads) == (256, 6)


def test_other_bits_are_refused() -> None:
    with pytest.raises(UsageError, match="--cpu-draft-bits"):
        launch(f"{WORDS} --cpu-draft-bits 3", L20, DRAFTED)


def test_without_the_switch_the_card_has_the_draft_model() -> None:
    plan = launch("--speculative-model /draft", L20, DRAFTED)
    assert (known := settings(plan)) is not None
    assert not known.draft_model
    assert "/draft" in " ".join(plan.engine_args)


@pytest.mark.parametrize(
    ("line", "environment", "sentence"),
    [
        ("--cpu-draft-worker", {}, "--speculative-model"),
        ("--cpu-draft-worker --speculative-model [ngram]", {}, "drafts by ngram"),
        (f"{WORDS} --spec-method eagle", {}, "drafts by eagle"),
        (f"{WORDS} --spec-method medusa", {}, "drafts by medusa"),
        (WORDS, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "V2 runner"),
        (f"{WORDS} --speculative-model-quantization fp8", {}, "quantization"),
        (f"{WORDS} --pipeline-parallel-size 2", {}, "over 2 stages"),
        (f"{WORDS} --worker-cls my.Worker", {}, "names another class"),
        (f"{WORDS} --enable-chunked-prefill", {}, "--cpu-draft-worker and --enable-chunked-prefill"),
        (f"{WORDS} --num-speculative-tokens 200", {}, "--num-speculative-tokens 200"),
    ],
)
def test_what_it_does_not_go_with(line: str, environment: dict[str, str], sentence: str) -> None:
    """Nothing is left out in silence: the draft model would be on the card."""
    with pytest.raises(UsageError, match=sentence.replace("-", r"\-")):
        launch(line, TWO, DRAFTED, **environment)


@pytest.mark.parametrize("draft", [None, DraftFiles("/draft", "/m", facts=DSPARK)], ids=["not read", "the engine's"])
def test_a_draft_model_that_the_rules_do_not_know_has_the_default_count(draft: DraftFiles | None) -> None:
    """Whether the decoder knows it, the check before the start says."""
    assert speculation(launch(WORDS, L20, replace(QWEN, draft=draft))) == ADAPTIVE | FOUR


def test_a_draft_model_of_a_shorter_context_drafts_for_the_end_of_a_text() -> None:
    """On the card it drafts no further than its own context, and the start says so."""
    draft = DraftFiles("/draft", "/m", facts=from_config(SMALL))
    card, host = (launch(words, L20, replace(QWEN, draft=draft)) for words in ("--speculative-model /draft", WORDS))
    assert [("reads 1024 tokens at most" in " ".join(plan.warnings)) for plan in (card, host)] == [True, False]


@pytest.mark.parametrize(
    ("line", "idle"),
    [("--cpu-draft-bits 4", ["bits"]), (f"{WORDS} --cpu-draft-bits 4", []), ("", []),
     ("--cpu-draft-threads 4", ["threads"]), ("--cpu-draft-bits 4 --cpu-draft-threads 4", ["bits", "threads"])],
)  # fmt: skip
def test_flags_of_no_draft_model_have_no_effect(line: str, idle: list[str]) -> None:
    """And the start says so."""
    warnings = launch(line, L20, DRAFTED).warnings
    assert [sentence for sentence in warnings if "--cpu-draft" in sentence] == [
        f"--cpu-draft-{one} has no effect: it counts with --cpu-draft-worker" for one in idle
    ]


def test_a_count_that_is_no_number_is_refused() -> None:
    config = json.dumps({"model": "/draft", "num_speculative_tokens": "many"}).replace(" ", "")
    with pytest.raises(UsageError, match="drafts a whole number of tokens, and num_speculative_tokens is 'many'"):
        launch(f"--speculative-config {config} --cpu-draft-worker", L20, QWEN)


def test_a_drawn_draft_is_refused() -> None:
    config = json.dumps({"model": "/draft", "draft_sample_method": "probabilistic"}).replace(" ", "")
    with pytest.raises(UsageError, match="drafts greedily"):
        launch(f"--speculative-config {config} --cpu-draft-worker", L20, DRAFTED)


def test_where_the_engine_has_the_processors_itself() -> None:
    with pytest.raises(UsageError, match="the engine itself has the CPU's cores"):
        launch(WORDS, CPU, DRAFTED)


def test_a_model_that_does_not_generate() -> None:
    with pytest.raises(UsageError, match="does not generate"):
        launch(WORDS, L20, replace(EMBEDDER, draft=DraftFiles("/draft", "/m")))
