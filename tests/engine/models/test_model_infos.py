"""The image brings the engine's descriptions of model classes, so that a start needs no second Python for its own."""

import pytest

OURS = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen2_5_VLForConditionalGeneration", "LlavaForConditionalGeneration"}


@pytest.fixture(scope="module")
def found(engine):
    """What the program in the image printed."""
    return engine.result("/repo/tests/engine/models/print_model_infos.py")


def test_four_of_five_classes_are_described(found):
    assert found["placed"] > 0.7 * found["names"] > 200
    assert len(found["missing"]) < 0.2 * found["names"], found["missing"]


def test_the_families_of_the_plan_are_among_them(found):
    assert not OURS & set(found["missing"])


def test_the_user_of_a_pod_may_read_them(found):
    """A pod's server runs as a user of its own; this test's program runs as root."""
    assert found["closed"] == []
