"""What `--quantization` gives on each card and checkpoint, and the sentence when it cannot be."""

import pytest
from windlass.quantization.methods import CPU, ENGINES_OWN, METHODS, NAMES, Card, Checkpoint, decide, unknown

PLAIN = Checkpoint()
GPTQ = Checkpoint(quantized_by="gptq")
EXPERTS = Checkpoint(has_experts=True)
GEMMA = Checkpoint(overflows="gemma2")
FILE = Checkpoint(has_smoothquant_file=True)
V100, T4, A100, L20 = Card("Tesla V100", 70), Card("Tesla T4", 75), Card("NVIDIA A100", 80), Card("NVIDIA L20", 89)
UNKNOWN = Card()


@pytest.mark.parametrize(
    ("name", "card", "asked", "checkpoint", "engine", "dtype"),
    [
        ("fp8", L20, "auto", PLAIN, "windlass_fp8", None),
        ("fp8", L20, "bfloat16", EXPERTS, "windlass_fp8", None),
        ("fp8", CPU, "float32", PLAIN, "windlass_fp8", None),
        ("ifq", T4, "auto", PLAIN, "ifq", "float16"),
        ("ifq", T4, "half", PLAIN, "ifq", None),
        ("ifq", CPU, "bfloat16", PLAIN, "ifq", None),
        ("ifq_nf4", A100, "float16", PLAIN, "ifq_nf4", None),
        ("ifq_nf4", CPU, "auto", PLAIN, "ifq_nf4", "float16"),
        ("ifq_nf4", UNKNOWN, "auto", PLAIN, "ifq_nf4", "float16"),
        ("smoothquant", T4, "bfloat16", FILE, "smoothquant", None),
    ],
)
def test_a_card_that_can_gets_the_engine_s_name(name, card, asked, checkpoint, engine, dtype):
    decision = decide(name, card, asked, checkpoint)
    assert decision.problem == ""
    assert (engine, dtype) == (decision.method.engine, decision.dtype)


@pytest.mark.parametrize(
    ("name", "card", "dtype", "checkpoint", "sentence"),
    [
        ("fp8", A100, "auto", PLAIN, "--quantization fp8 needs compute capability 8.9, and NVIDIA A100 has 8.0; take "
         "ifq or ifq_nf4, or leave --quantization out"),
        ("ifq", V100, "auto", PLAIN, "--quantization ifq needs compute capability 7.5, and Tesla V100 has 7.0, which "
         "CUDA 13 has no code for; serve the model on a newer card, or by the DeepSpeed image"),
        ("ifq_nf4", L20, "bfloat16", PLAIN, "--quantization ifq_nf4 runs with float16 only, not bfloat16; set --dtype "
         "float16, take fp8, or leave --quantization out"),
        ("ifq_nf4", CPU, "bfloat16", PLAIN, "--quantization ifq_nf4 runs with float16 only, not bfloat16; set --dtype "
         "float16, take fp8 or ifq, or leave --quantization out"),
        ("ifq", A100, "float", PLAIN, "--quantization ifq runs with float16 only, not float32; set --dtype float16, "
         "or leave --quantization out"),
        ("ifq", L20, "auto", GPTQ, "--quantization ifq cannot be put on a model that is gptq already; leave "
         "--quantization out"),
        ("fp8", L20, "auto", Checkpoint("fp8"), "--quantization fp8 cannot be put on a model that is fp8 already; "
         "leave --quantization out"),
        ("ifq", L20, "auto", EXPERTS, "--quantization ifq does not quantize mixture-of-experts layers, and the model "
         "has them; take fp8, or leave --quantization out"),
        ("ifq_nf4", L20, "auto", GEMMA, "--quantization ifq_nf4 runs with float16 only, in which gemma2 overflows; "
         "take fp8, or leave --quantization out"),
        ("smoothquant", L20, "auto", PLAIN, "--quantization smoothquant needs smoothq_model-8bit-auto.safetensors in "
         "the model directory; make it with `windlass quantize smoothquant MODEL --data FILE`, or take ifq"),
    ],
)  # fmt: skip
def test_a_conflict_is_one_sentence_with_the_remedy(name, card, dtype, checkpoint, sentence):
    decision = decide(name, card, dtype, checkpoint)
    assert decision.method is None
    assert sentence == decision.problem


@pytest.mark.parametrize(
    ("card", "dtype", "checkpoint", "method", "why"),
    [
        (L20, "auto", PLAIN, "ifq", "auto: there is no smoothq_model-8bit-auto.safetensors"),
        (CPU, "auto", PLAIN, "ifq", "auto: there is no smoothq_model-8bit-auto.safetensors"),
        (L20, "auto", FILE, "smoothquant", "auto: smoothq_model-8bit-auto.safetensors is there"),
        (V100, "auto", FILE, None, "auto: ifq needs compute capability 7.5, and Tesla V100 has 7.0, which CUDA 13 has "
         "no code for"),
        (L20, "auto", GPTQ, None, "auto: the model is gptq already"),
        (L20, "auto", EXPERTS, None, "auto: ifq does not quantize mixture-of-experts layers, and the model has them"),
        (L20, "bfloat16", PLAIN, None, "auto: ifq runs with float16 only, not bfloat16"),
    ],
)  # fmt: skip
def test_auto(card, dtype, checkpoint, method, why):
    decision = decide("auto", card, dtype, checkpoint)
    assert (method, why) == (decision.method and decision.method.name, decision.why)
    assert decision.problem == ""


def test_none_is_none_on_every_checkpoint():
    assert decide("none", L20, "auto", GPTQ).method is None


def test_an_unknown_name_is_told_with_those_that_are_known():
    sentence = unknown("awqq")
    assert sentence.startswith('--quantization is "awqq", which is no method; choose one of fp8, ifq, ifq_nf4')
    assert all(name in sentence for name in (*NAMES, *ENGINES_OWN))
    assert not any(map(unknown, (*NAMES, *ENGINES_OWN)))


def test_bytes_per_weight():
    found = {name: row.bytes_per_weight for name, row in METHODS.items()}
    assert found == {"fp8": 1.0, "ifq": 1.0, "ifq_nf4": 0.53125, "smoothquant": 1.0}
