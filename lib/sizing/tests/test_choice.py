"""What is chosen from the cards on offer, and properties that no choice may break."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass_sizing.model.facts import from_config
from windlass_sizing.placement.choice import Offer, alternatives, choose, default_length, placements
from windlass_sizing.placement.formula import Serving, demand, requests_at_once
from windlass_sizing.placement.parallel import divides
from windlass_sizing.placement.words import heads_over, warnings
from windlass_sizing.quantization.decision import decide, default_dtype, of_facts
from windlass_sizing.quantization.question import Card
from windlass_testbed.cases import every_case

MODELS = {
    model["name"]: from_config(model["config"])
    for model in json.loads((Path(__file__).parent / "data" / "models.json").read_text())
}
LLAMA_8B, QWEN_72B = MODELS["Meta-Llama-3.1-8B"], MODELS["Qwen2.5-72B"]
L20 = Offer("L20", 44.99, 48, (8, 9))
A10 = Offer("A10", 22.49, 24, (8, 6))


def test_the_smallest_card_that_fits_is_taken():
    """An 8B goes on one A10, not on one L20."""
    answer = choose(LLAMA_8B, [L20, A10], Serving(8192))
    assert answer
    assert (answer.fits, answer.choice.offer.name, answer.choice.gpus) == (True, "A10", 1)


def test_the_default_context_is_cut():
    """8192 of the model's own 131072; a shorter model keeps its own."""
    assert default_length(LLAMA_8B) == 8192
    assert default_length(replace(LLAMA_8B, max_model_len=4096)) == 4096


def test_a_long_context_says_how_long_a_step_may_be():
    """The server alone would make a step as long as the context, and its figure would be another."""
    told = choose(LLAMA_8B, [L20], Serving(32768)).because
    assert "prompts are read in steps of 8192: --max-num-batched-tokens 8192" in told
    assert not [line for line in choose(LLAMA_8B, [L20], Serving(8192)).because if "steps" in line]


def test_both_figures_must_fit():
    """The rule of thumb asks for 171.11 GiB: three of these four would do by our figure alone, it takes them all."""
    answer = choose(QWEN_72B, [L20], Serving(32768))
    assert answer
    assert (answer.choice.gpus, answer.choice.meets_rule) == (4, True)
    tight = replace(L20, nominal_gib=40)
    why = choose(QWEN_72B, [tight], Serving(32768))
    assert why
    rule = "the rule of thumb, (weights + KV cache of one context) / utilization, asks for 171.11 GiB in all"
    assert (why.choice.gpus, [line for line in why.because if "rule" in line]) == (8, [f"not 4 × L20: {rule}"])


WARNED = {
    "few requests": (LLAMA_8B, Serving(8192), Offer("X", 23, 24), None, "only 3 requests of 8192 tokens fit"),
    "one asked for": (LLAMA_8B, Serving(8192, sequences=1), Offer("X", 23, 24), None, ""),
    "many requests": (LLAMA_8B, Serving(8192), L20, None, ""),
    "GPUs without need": (MODELS["Qwen2.5-0.5B"], Serving(2048), L20, 2, "1 GPU suffices for an engine that has 2: "),
    "GPUs of use": (LLAMA_8B, Serving(8192), L20, 4, ""),
}


@pytest.mark.parametrize(("facts", "serving", "card", "tp", "words"), WARNED.values(), ids=WARNED.keys())
def test_a_plan_warns_in_words(facts, serving, card, tp, words):
    """Of a KV cache that holds few requests, and of GPUs that bring nothing."""
    answer = choose(facts, [card], serving, tp)
    assert answer
    assert answer.fits
    found = warnings(answer.because)
    assert [line.startswith(f"warning: {words}") for line in found] == [True] * bool(words), found


def test_a_tp_overrules_the_rule_of_thumb():
    """With less on the box than the formula asks for, but room for our figure, an explicit TP is served."""
    tight = Offer("X", 40, 36, None)
    assert [bool(answer and answer.fits) for answer in (
        choose(LLAMA_8B, [replace(tight, gpus_max=1, nominal_gib=17)], Serving(8192)),
        choose(LLAMA_8B, [replace(tight, gpus_max=1, nominal_gib=17)], Serving(8192), tp=1),
    )] == [False, True]  # fmt: skip


def test_nodes_are_taken_when_one_is_too_small():
    """Two nodes of four A10: TP over all eight."""
    answer = choose(QWEN_72B, [replace(A10, per_node=4, nodes=2)], Serving(4096))
    assert answer
    assert (answer.fits, answer.choice.nodes, answer.choice.serving.tp, answer.choice.serving.pp) == (True, 2, 8, 1)


def test_no_placement_at_all_is_no_answer():
    """A TP beyond the cards cannot be tried, nor a method on a card that cannot run it."""
    assert choose(LLAMA_8B, [replace(L20, gpus_max=2)], Serving(8192), tp=4) is None
    assert choose(LLAMA_8B, [A10], Serving(8192, quantization="fp8")) is None


def test_the_engines_limits_are_left_to_the_caller():
    """Who offers a card for a checkpoint that the engine does not read has set the limit aside."""
    answer = choose(MODELS["Molmo-7B-D-NF4"], [L20], Serving(2048))
    assert answer
    assert answer.fits


def test_reasons_and_alternatives_hold_figures():
    """What is printed says weights, cache and the other cards that would do."""
    answer = choose(LLAMA_8B, [L20], Serving(8192))
    assert answer
    assert answer.because[0].startswith("weights 14.96 GiB (8.03 B parameters")
    assert [one for one in answer.because if "heads" in one] == []
    others = alternatives(LLAMA_8B, [L20, A10], answer.choice)
    assert others[0].startswith("1 × A10: ")
    assert len(others) == 1


HEADS = {
    "one GPU": (1, ()),
    "even": (4, ("32 attention heads divide evenly over 4 GPUs",)),
    "odd heads": (5, ("32 attention heads do not divide evenly over 5 GPUs",)),
    "odd KV heads": (4, ("3 KV heads do not divide evenly over 4 GPUs",)),
}


@pytest.mark.parametrize(("tp", "sentences"), HEADS.values(), ids=HEADS.keys())
def test_how_heads_divide_is_a_sentence(tp, sentences):
    """Every number of heads divides over one GPU, which nobody has to read."""
    kv_heads = 3 if "KV" in "".join(sentences) else 8
    assert heads_over(replace(LLAMA_8B, num_key_value_heads=kv_heads), tp) == sentences


names = st.sampled_from(sorted(MODELS))
lengths = st.integers(1, 200_000)
shares = st.floats(0.3, 0.99)
cards = st.builds(
    lambda gib, slack, per_node, nodes: Offer("X", gib * slack, gib, None, per_node, nodes),
    st.floats(8, 288), st.floats(0.9, 1.0), st.integers(1, 8), st.integers(1, 3),
)  # fmt: skip


def is_served(name):
    """Whether the engine serves the model on any card."""
    return decide(None, "auto", Card(), *of_facts(MODELS[name])).problem is None


def served(name, length, share):
    """The model in the number format that it is served in by default."""
    dtype, _ = default_dtype(None, *of_facts(MODELS[name]))
    return Serving(length, dtype=dtype, utilization=share)


@given(
    st.sampled_from([name for name in MODELS if is_served(name)]),
    lengths,
    shares,
    cards,
)
def test_no_choice_contradicts_the_formula(name, length, share, card):
    """A fit that is claimed is one by `demand`, TP divides the heads, and nothing is taken that is not there."""
    facts = MODELS[name]
    answer = choose(facts, [card], served(name, length, share))
    assert answer
    choice = answer.choice
    assert facts.num_attention_heads % choice.serving.tp == 0
    assert divides(facts, choice.serving.tp)
    assert choice.gpus <= card.per_node * card.nodes
    assert choice.nodes <= card.nodes
    assert choice.serving.max_model_len == length
    need = demand(facts, choice.serving).per_gpu_gib
    if answer.fits:
        assert need <= card.real_gib
        assert choice.seed_gib <= card.nominal_gib * choice.gpus
    else:
        tried = placements(facts, card, served(name, length, share))
        assert not any(other.fits and other.meets_rule for other in tried)


@given(names, lengths, lengths, shares)
def test_more_context_never_needs_less_of_any_family(name, one, other, share):
    """Windows, states and latent caches included."""
    short, long = sorted((one, other))
    needs = [demand(MODELS[name], Serving(length, utilization=share)).required_gib for length in (short, long)]
    assert needs == sorted(needs)


@given(names, lengths, shares, shares)
def test_less_utilization_never_needs_less(name, length, one, other):
    """Monotone in one over utilization, for every family."""
    low, high = sorted((one, other))
    needs = [demand(MODELS[name], Serving(length, utilization=share)).required_gib for share in (high, low)]
    assert needs == sorted(needs)


@given(names, lengths, st.integers(0, 6))
def test_twice_the_ranks_never_need_larger_cards(name, length, power):
    """From two on: with the second card comes the room for talking to it."""
    facts = MODELS[name]
    few, many = 2 << power, 4 << power
    if not (divides(facts, few) and divides(facts, many)):
        return
    needs = [demand(facts, Serving(length, tp=tp)).per_gpu_gib for tp in (many, few)]
    assert needs[0] <= needs[1] + 1e-9


@every_case("method", ["fp8", "ifq_nf4"])
@every_case("name", [name for name, facts in MODELS.items() if not facts.quantization])
def test_a_method_saves_memory_on_every_family(name, method):
    """Fewer bytes than plain, and never fewer than the packed layers alone."""
    facts = MODELS[name]
    plain, packed = (demand(facts, Serving(1024, quantization=one)).weights_gib for one in (None, method))
    assert 0 < packed < plain


@every_case("pp", [1, 2])
@every_case("tp", [1, 2, 4])
@every_case("length", [512, 8192, 32768])
def test_a_card_that_just_holds_the_plan_holds_one_request(tp, pp, length):
    """The plan counts the cache of one context; each card more holds the more of them, and never fewer."""
    serving = Serving(length, tp=tp, pp=pp)
    least = demand(QWEN_72B, serving).per_gpu_gib
    counts = [requests_at_once(QWEN_72B, serving, least * factor) for factor in (0.5, 1, 1.1, 1.5, 100)]
    assert counts[0] == 0
    assert counts[1] == 1
    assert counts == sorted(counts)
    assert counts[-1] == serving.sequences


def test_requests_at_once_by_hand():
    """8 B in float16 on an L20: what is left of 0.9 × 44.99 GiB, by 1 GiB for each 8192 tokens."""
    serving, need = Serving(8192), demand(LLAMA_8B, Serving(8192))
    left = 44.99 * 0.9 - need.weights_gib - need.overhead_gib
    assert round(need.kv_gib, 6) == 1
    assert requests_at_once(LLAMA_8B, serving, 44.99) == int(left)


def test_a_plan_says_one_total_and_how_many_requests():
    """No second total beside it, where the rule of thumb decided nothing."""
    choice = choose(LLAMA_8B, [L20], Serving(8192))
    assert choice
    told = " ".join(choice.because)
    assert f"{choice.choice.requests} requests of 8192 tokens fit in the KV cache at once" in told
    assert "rule of thumb" not in told
