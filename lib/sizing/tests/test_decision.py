"""What `--quantization` gives on each card and model, and the sentence when it cannot be."""

import pytest
from windlass_sizing.errors import SizingError
from windlass_sizing.quantization.decision import decide, default_dtype
from windlass_sizing.quantization.methods import ACCEPTED, METHODS, needs_of
from windlass_sizing.quantization.question import CPU, About, Architecture, Card, Checkpoint
from windlass_testbed.cases import every_case

QWEN = Architecture("qwen2")
PLAIN = (QWEN, Checkpoint())
GPTQ = (QWEN, Checkpoint(quantized_by="gptq"))
FP8 = (QWEN, Checkpoint(quantized_by="fp8"))
MXFP4 = (Architecture("gpt_oss", has_experts=True), Checkpoint("mxfp4"))
EXPERTS = (Architecture("mixtral", has_experts=True), Checkpoint())
GEMMA = (Architecture("gemma2"), Checkpoint())
FILE = (QWEN, Checkpoint(has_smoothquant_file=True))
ALONE = (QWEN, Checkpoint(has_smoothquant_file=True, has_plain_weights=False))
THOR = Card("NVIDIA Thor", (11, 0))
V100, T4, A100 = Card("Tesla V100", (7, 0)), Card("Tesla T4", (7, 5)), Card("NVIDIA A100", (8, 0))
L20 = Card("NVIDIA L20", (8, 9))
UNKNOWN = Card()


@pytest.mark.parametrize(
    ("name", "card", "asked", "model", "dtype"),
    [
        ("fp8", L20, "auto", PLAIN, None),
        ("fp8", L20, "bfloat16", EXPERTS, None),
        ("fp8", CPU, "float32", PLAIN, None),
        ("ifq", T4, "auto", PLAIN, "float16"),
        ("ifq", T4, "half", PLAIN, None),
        ("ifq", CPU, "bfloat16", PLAIN, None),
        ("ifq_nf4", A100, "float16", PLAIN, None),
        ("ifq_nf4", CPU, "auto", PLAIN, "float16"),
        ("ifq_nf4", UNKNOWN, "auto", PLAIN, "float16"),
        ("smoothquant", A100, "bfloat16", FILE, None),
    ],
)
def test_a_card_that_can_serves_the_method(name, card, asked, model, dtype):
    """With the number format that it needs, where the checkpoint's own was asked for."""
    decision = decide(name, asked, card, *model)
    assert decision.problem is None
    assert (name, dtype) == (decision.method, decision.dtype)


@every_case(
    "name, card, dtype, model, sentence",
    [
        ("fp8", A100, "auto", PLAIN, "--quantization fp8 needs compute capability 8.9, and NVIDIA A100 has 8.0; take "
         "ifq or ifq_nf4, or leave --quantization out"),
        ("ifq", V100, "auto", PLAIN, "Tesla V100 has 7.0, and the engine is vLLM 0.32.0, whose code begins at 7.5; "
         "serve the model by the DeepSpeed image, or on a newer card"),
        ("none", THOR, "auto", PLAIN, "NVIDIA Thor has 11.0, and the engine is vLLM 0.32.0, which has no code for that "
         "generation; serve the model on another card"),
        ("ifq_nf4", L20, "bfloat16", PLAIN, "--quantization ifq_nf4 runs with float16 only, not bfloat16; set --dtype "
         "float16, take fp8, or leave --quantization out"),
        ("ifq_nf4", CPU, "bfloat16", PLAIN, "--quantization ifq_nf4 runs with float16 only, not bfloat16; set --dtype "
         "float16, take fp8 or ifq, or leave --quantization out"),
        ("ifq", A100, "float", PLAIN, "--quantization ifq runs with float16 only, not float32; set --dtype float16, "
         "or leave --quantization out"),
        ("ifq", L20, "auto", GPTQ, "--quantization ifq cannot be put on a model that is gptq already; leave "
         "--quantization out"),
        ("fp8", L20, "auto", FP8, "--quantization fp8 cannot be put on a model that is fp8 already; "
         "leave --quantization out"),
        ("ifq", L20, "auto", EXPERTS, "--quantization ifq does not quantize mixture-of-experts layers, and the model "
         "has them; take fp8, or leave --quantization out"),
        ("ifq_nf4", L20, "auto", GEMMA, "--quantization ifq_nf4 runs with float16 only, in which gemma2 overflows; "
         "take fp8, or leave --quantization out"),
        ("awq", L20, "auto", PLAIN, "--quantization awq reads awq checkpoints, and this one is not quantized; take "
         "fp8 or ifq or ifq_nf4, or leave --quantization out"),
        ("gpt_oss_mxfp4", L20, "bfloat16", (QWEN, Checkpoint("mxfp4")), "--quantization gpt_oss_mxfp4 cannot be put on "
         "a model that is mxfp4 already; leave --quantization out"),
        ("none", T4, "bfloat16", MXFP4, "a checkpoint quantized by mxfp4 needs compute capability 8.0, and Tesla "
         "T4 has 7.5; take a newer card, or the unquantized checkpoint"),
        ("none", L20, "half", MXFP4, "a checkpoint quantized by mxfp4 computes in bfloat16, not float16; set --dtype "
         "to bfloat16"),
        ("auto", V100, "float16", FP8, "Tesla V100 has 7.0, and the engine is vLLM 0.32.0, whose code begins at 7.5; "
         "serve the model by the DeepSpeed image, or on a newer card"),
        ("none", L20, "auto", (QWEN, Checkpoint("bitsandbytes")), "the checkpoint is quantized by bitsandbytes, which "
         "is a plug-in of the engine that no image installs; serve the unquantized checkpoint"),
        ("none", L20, "auto", (QWEN, Checkpoint("compressed_tensors")), "the checkpoint is quantized by "
         "compressed_tensors, which vLLM 0.32.0 does not read; the nearest that it reads is compressed-tensors; serve "
         "the unquantized checkpoint"),
        ("none", T4, "bfloat16", GEMMA, "--dtype bfloat16 needs compute capability 8.0, and Tesla T4 has 7.5; set "
         "--dtype to float32, or take a newer card"),
        ("none", L20, "float16", GEMMA, "--dtype float16 makes gemma2 overflow; set --dtype to bfloat16 or float32, "
         "or leave it out"),
        ("qqq", L20, "auto", PLAIN, "--quantization qqq is no longer in the engine; take smoothquant on the "
         "unquantized checkpoint"),
        ("smoothquant", L20, "auto", PLAIN, "--quantization smoothquant needs smoothq_model-8bit-auto.safetensors in "
         "the model directory; make it with `windlass quantize smoothquant MODEL --data FILE`, or take ifq"),
    ],
)  # fmt: skip
def test_a_conflict_is_one_sentence_with_the_remedy(name, card, dtype, model, sentence):
    """What cannot be, why, and what to do."""
    problem = decide(name, dtype, card, *model).problem
    assert problem is not None
    assert sentence == problem.sentence()


@pytest.mark.parametrize(
    ("card", "dtype", "model", "method", "why"),
    [
        (L20, "auto", PLAIN, "ifq", "auto: there is no smoothq_model-8bit-auto.safetensors"),
        (CPU, "auto", PLAIN, "ifq", "auto: there is no smoothq_model-8bit-auto.safetensors"),
        (L20, "auto", FILE, "smoothquant", "auto: smoothq_model-8bit-auto.safetensors is there"),
        (L20, "auto", GPTQ, "none", "auto: the model is gptq already"),
        (L20, "auto", EXPERTS, "none", "auto: ifq does not quantize mixture-of-experts layers, and the model has them"),
        (L20, "bfloat16", PLAIN, "none", "auto: ifq runs with float16 only, not bfloat16"),
    ],
)  # fmt: skip
def test_auto(card, dtype, model, method, why):
    """smoothquant where its file is, else ifq, else nothing; never a refusal."""
    decision = decide("auto", dtype, card, *model)
    assert (method, why) == (decision.method, decision.why)
    assert decision.problem is None


def test_none_is_none_on_every_checkpoint():
    """A quantized checkpoint is read as it is."""
    assert decide("none", "auto", L20, *GPTQ).method == "none"
    assert decide(None, "auto", L20, *GPTQ).quantization is None


def test_an_unknown_name_is_refused_with_the_nearest_and_all_that_are_known():
    """A misspelled name is one sentence."""
    problem = decide("awqq", "auto", L20, *PLAIN).problem
    assert problem is not None
    assert problem.sentence().startswith('--quantization is "awqq", which is no method; did you mean awq? Else choose')
    assert all(name in problem.remedy for name in ACCEPTED)


@pytest.mark.parametrize(
    ("method", "model", "usual", "dtype"),
    [
        (None, PLAIN, "float16", "float16"),
        (None, GEMMA, "float16", "bfloat16"),
        (None, MXFP4, "float16", "bfloat16"),
        ("ifq_nf4", PLAIN, "bfloat16", "float16"),
        ("ifq", PLAIN, "bfloat16", "bfloat16"),
        (None, PLAIN, "bfloat16", "bfloat16"),
    ],
)
def test_the_default_dtype_is_one_that_can_be_served(method, model, usual, dtype):
    """The usual one, unless the model, its checkpoint or the method computes in another."""
    assert default_dtype(method, *model, usual=usual)[0] == dtype


@pytest.mark.parametrize(
    ("name", "brings_code", "words"),
    [
        ("Qwen3ForCausalLM", False, ""),
        ("LlamaForSequenceClassification", False, ""),
        ("BambaForCausalLM", False, ""),  # by transformers
        ("MyOwnForCausalLM", True, ""),
        ("MyOwnForCausalLM", None, ""),
        ("", False, ""),
        ("Qwen33ForCausalLM", False, "which vLLM 0.32.0 does not have; the nearest that it has is Qwen3ForCausalLM; "),
        ("QWenLMHeadModel", True, "which vLLM 0.23.0 was the last to have; serve Qwen2.5-7B-Instruct"),
        ("MllamaForConditionalGeneration", False, "vLLM 0.10.2 was the last to have; serve Qwen2.5-VL-7B-Instruct"),
    ],
)
def test_an_architecture_that_the_engine_does_not_have_is_refused(name, brings_code, words):
    """Its own modules, those made for another task, and code of the checkpoint pass."""
    problem = decide(None, "float16", L20, Architecture("x", name=name, brings_code=brings_code), Checkpoint()).problem
    assert (problem is not None, words in problem.sentence() if problem else True) == (bool(words), True)
    assert problem is None or problem.about is About.ARCHITECTURE


@pytest.mark.parametrize(
    ("card", "dtype", "model"),
    [
        (T4, "bfloat16", MXFP4),
        (L20, "float16", MXFP4),
        (L20, "float16", GEMMA),
        (L20, "auto", (Architecture("qwen", name="QWenLMHeadModel"), Checkpoint("gptq"))),
    ],
)
def test_a_limit_of_the_engine_may_be_set_aside(card, dtype, model):
    """The decision is made, and holds what would have been refused; a rule of a method of ours stays."""
    problem = decide("none", dtype, card, *model).problem
    beyond = decide("none", dtype, card, *model, beyond_limits=True)
    assert problem is not None
    assert (beyond.problem, beyond.beyond) == (None, problem.message)
    assert decide("ifq", "float32", card, *model, beyond_limits=True).problem is not None


def test_bytes_per_weight():
    """With scales; the quick formula's figure is without."""
    found = {name: METHODS[name].real_bytes for name in ("fp8", "ifq", "ifq_nf4", "smoothquant")}
    assert found == {"fp8": 1 + 1 / 1024, "ifq": 1 + 1 / 1024, "ifq_nf4": 0.53125, "smoothquant": 1 + 1 / 1024}


@every_case("card", [A100, CPU, UNKNOWN])
@every_case("asked", [None, "none", "auto", "smoothquant"])
def test_smoothquants_file_alone_is_served_by_smoothquant(asked, card):
    """Nothing else reads it, so it need not be asked for."""
    decision = decide(asked, "auto", card, *ALONE)
    assert (decision.problem, decision.method) == (None, "smoothquant")
    assert decision.why == "smoothq_model-8bit-auto.safetensors is the model's only weight file"


@pytest.mark.parametrize(
    ("asked", "card", "sentence"),
    [
        ("ifq", L20, "--quantization ifq needs other weights: smoothq_model-8bit-auto.safetensors is the model's only "
         "weight file; take smoothquant, or put the model's own weight files beside it"),
        (None, V100, "Tesla V100 has 7.0, and the engine is vLLM 0.32.0, whose code begins at 7.5; "
         "serve the model by the DeepSpeed image, or on a newer card"),
    ],
)  # fmt: skip
def test_smoothquants_file_alone_serves_nothing_else(asked, card, sentence):
    """The remedy is the one that there is: other weights."""
    problem = decide(asked, "auto", card, *ALONE).problem
    assert problem is not None
    assert problem.sentence() == sentence


def test_a_method_that_the_record_lacks_is_named_with_what_to_do():
    """A row of a newer engine's method needs its record first."""
    with pytest.raises(SizingError, match=r"has no method mxfp6; write the record again by tools/engine_abilities\.py"):
        needs_of("mxfp6")
