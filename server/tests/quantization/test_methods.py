"""What `--quantization` gives on each card and checkpoint, and the sentence when it cannot be."""

import pytest
from windlass.quantization.methods import METHODS, Checkpoint, automatic, decide

PLAIN = Checkpoint()
GPTQ = Checkpoint(quantized_by="gptq")


@pytest.mark.parametrize(
    ("name", "capability", "engine", "dtype"),
    [
        ("fp8", 89, "fp8_per_channel", None),
        ("ifq", 75, "ifq", "float16"),
        ("ifq_nf4", 80, "ifq_nf4", "float16"),
        ("ifq_nf4", None, "ifq_nf4", "float16"),
    ],
)
def test_a_card_that_can_gets_the_engine_s_name(name, capability, engine, dtype):
    decision = decide(name, capability, "auto", PLAIN)
    assert (engine, dtype, "") == (decision.engine, decision.dtype, decision.problem)


@pytest.mark.parametrize(
    ("name", "capability", "dtype", "checkpoint", "words"),
    [
        ("fp8", 80, "auto", PLAIN, ("8.9", "8.0", "ifq or ifq_nf4")),
        ("ifq", 70, "auto", PLAIN, ("7.5", "7.0", "none of the methods")),
        ("ifq_nf4", 90, "bfloat16", PLAIN, ("float16", "bfloat16", "drop --dtype")),
        ("ifq", 90, "auto", GPTQ, ("quantized by gptq", "drop --quantization")),
    ],
)
def test_a_conflict_is_one_sentence_with_the_remedy(name, capability, dtype, checkpoint, words):
    decision = decide(name, capability, dtype, checkpoint)
    assert decision.engine is None
    assert all(word in decision.problem for word in (name, *words)), decision.problem


@pytest.mark.parametrize(
    ("capability", "checkpoint", "expected"),
    [
        (90, PLAIN, "ifq"),
        (None, PLAIN, "ifq"),
        (90, Checkpoint(has_smoothquant_file=True), "smoothquant"),
        (70, Checkpoint(has_smoothquant_file=True), None),
        (90, GPTQ, None),
    ],
)
def test_auto(capability, checkpoint, expected):
    assert expected == automatic(capability, checkpoint)


def test_bytes_per_weight():
    assert {name: row.bytes_per_weight for name, row in METHODS.items()} == {"fp8": 1.0, "ifq": 1.0, "ifq_nf4": 0.53125}
