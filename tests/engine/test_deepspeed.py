"""The DeepSpeed image: real `deepspeed.init_inference` behind the API, requests in shared batches, answers as alone."""

from dataclasses import replace

import pytest
from windlass_testbed import serving

ENGINE = "deepspeed.inference.engine.InferenceEngine"


@pytest.fixture(scope="module")
def found(engine):
    deepspeed = replace(engine, image=serving.ensure(engine.paths, "deepspeed"))
    return deepspeed.result("/repo/deepspeed_server/tests_real/real.py", "/repo/models/demo")


def test_answers_of_a_batch_are_those_of_transformers_alone(found):
    """Eight chats of different lengths at once, streamed or not: each equals `generate` on its prompt alone."""
    assert len(found["together"]) == 8
    assert [said for said, _ in found["together"]] == [alone for _, alone in found["together"]]


def test_requests_join_and_leave_a_running_batch(found):
    """Long answers are the same when others come and go beside them, and so are the others'."""
    assert [said for said, _ in found["joined"]] == [alone for _, alone in found["joined"]]


def test_batches_are_above_one_in_deepspeeds_engine(found):
    """The figures say that requests shared passes, and what computed them."""
    figures = found["figures"]
    assert figures["passes_above_4"] > 0
    assert 0 < figures["passes_above_1"] < figures["passes"]
    assert (figures["engine"]["class"], figures["engine"]["device"]) == (ENGINE, "cpu")


def test_a_client_that_leaves_frees_its_row(found):
    """Its row is gone long before its answer would be over."""
    assert found["gone"] == {"running": 0.0, "gone": 1.0}
