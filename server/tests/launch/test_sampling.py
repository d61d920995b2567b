"""Which engines get the rule, and what is told where they do not."""

import pytest
from windlass.engine.sampling.ngrams import PROCESSOR
from windlass.launch.model import ModelFiles
from windlass.launch.sampling import FLAG, arguments, missing
from windlass_testbed.cases import every_case

QWEN = ModelFiles("/m", architecture="Qwen2ForCausalLM")
GIVEN = (FLAG, PROCESSOR)


@every_case(
    "architecture, words, given",
    [
        ("Qwen2ForCausalLM", (), GIVEN),
        ("LlavaForConditionalGeneration", (), GIVEN),
        ("InternVLChatModel", (), GIVEN),
        ("ChatGLMModel", (), GIVEN),
        ("GPT2LMHeadModel", (), GIVEN),
        ("SomethingNew", (), GIVEN),
        ("", (), GIVEN),
        ("BertModel", (), ()),
        ("Qwen2ForRewardModel", (), ()),
        ("LlamaForSequenceClassification", (), ()),
        ("Qwen2ForCausalLM", ("--runner", "pooling"), ()),
        ("Qwen2ForCausalLM", ("--runner=pooling",), ()),
        ("BertModel", ("--runner", "generate"), GIVEN),
        ("Qwen2ForCausalLM", ("--convert", "embed"), ()),
        ("Qwen2ForCausalLM", ("--convert", "none"), GIVEN),
    ],
)
def test_models_that_generate(architecture: str, words: tuple[str, ...], given: tuple[str, ...]) -> None:
    """The engine refuses to start when it gives vectors and is told rules of sampling."""
    model = ModelFiles("/m", architecture=architecture)
    assert arguments(model, words) == given
    assert missing(model, words) == ("" if given else "the model does not generate")


def test_embedders_of_sentence_transformers() -> None:
    """Their architecture is a generator's; a file beside it tells."""
    assert arguments(ModelFiles("/m", architecture="Qwen3ForCausalLM", is_embedder=True), ()) == ()


@pytest.mark.parametrize(
    "words",
    [("--speculative-config", '{"method": "ngram"}'), ("-sc", "{}"), ("--spec-method", "ngram")],
)
def test_an_engine_that_speculates(words: tuple[str, ...]) -> None:
    """It gets the rules as any other: they are kept at each drafted place."""
    assert arguments(QWEN, words) == GIVEN
    assert not missing(QWEN, words)


def test_an_allow_list_of_plug_ins_that_leaves_ours_out() -> None:
    """An engine that drafts on a CPU refuses to start with the rules then; one that does not draft takes them."""
    drafts, others = ("--speculative-config", '{"method": "ngram"}'), "windlass-lookahead,windlass-steps"
    assert arguments(QWEN, drafts, others) == ()
    assert missing(QWEN, drafts, others) == "VLLM_PLUGINS leaves windlass-sampling out"
    assert arguments(QWEN, drafts, f"{others},windlass-sampling") == GIVEN
    assert arguments(QWEN, (), others) == GIVEN


def test_processors_of_the_user() -> None:
    """They are the user's; ours can be named among them."""
    assert arguments(QWEN, (FLAG, "a:B")) == ()
    assert missing(QWEN, (FLAG, "a:B")) == f"{FLAG} names others; add {PROCESSOR} to them"
    both = ("--logits_processors", "a:B", PROCESSOR)
    assert (arguments(QWEN, both), missing(QWEN, both)) == ((), "")
    former = (FLAG, "windlass.engine.sampling.no_repeat_ngram:NoRepeatNgram")
    assert (arguments(QWEN, former), missing(QWEN, former)) == ((), "")
