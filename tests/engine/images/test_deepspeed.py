"""The DeepSpeed image: real `deepspeed.init_inference` behind the API, requests in shared batches, answers as alone."""

from dataclasses import replace
from functools import partial

import pytest
from windlass_testbed import serving

ENGINE = "deepspeed.inference.engine.InferenceEngine"


@pytest.fixture(scope="module")
def result(engine):
    """What `real.py` found with these flags of the server, in the image."""
    deepspeed = replace(engine, image=serving.ensure(engine.paths, "deepspeed"), forks=None)
    return partial(deepspeed.result, "/repo/server/deepspeed/tests_real/real.py", "/repo/models/demo")


@pytest.fixture(scope="module")
def found(result):
    return result()


def test_answers_of_a_batch_are_those_of_transformers_alone(found):
    """Eight chats of different lengths at once, streamed or not: each equals `generate` on its prompt alone."""
    assert len(found["together"]) == 8
    assert [said for said, _ in found["together"]] == [alone for _, alone in found["together"]]


def test_requests_join_and_leave_a_running_batch(found):
    """Long answers are the same when others come and go beside them, and so are the others'."""
    assert [said for said, _ in found["joined"]] == [alone for _, alone in found["joined"]]


def test_each_row_is_drawn_by_its_own_request(found):
    """Ten ways of drawing share a batch: n-grams as in transformers, `min_p` and a bias among them."""
    assert len(found["drawn"]) == 11
    for name, (said, should) in found["drawn"].items():
        assert said == should, name


def test_batches_are_above_one_in_deepspeeds_engine(found):
    """The figures say that requests shared passes, and what computed them."""
    figures = found["figures"]
    assert figures["passes_above_4"] > 0
    assert 0 < figures["passes_above_1"] < figures["passes"]
    assert (figures["engine"]["class"], figures["engine"]["device"]) == (ENGINE, "cpu")


def test_a_client_that_leaves_frees_its_row(found):
    """Its row is gone long before its answer would be over."""
    assert found["gone"] == {"running": 0.0, "gone": 1.0}


def test_weights_in_bytes_are_split_over_processes(result):
    """`--ds-dtype int8` with tensor parallelism answers at least half of the questions as float32 does."""
    int8 = result("--ds-dtype", "int8", "--num-gpus", "2")
    engine = int8["figures"]["engine"]
    assert (engine["dtype"], engine["tensor_parallel"]) == ("int8 weights, float32", "2")
    same = [said == alone for said, alone in int8["together"]]
    assert sum(same) >= len(same) / 2


def test_two_workers_share_the_requests(result):
    """Two engines behind one port: the same answers, both at work, and an end without an error."""
    two = result("--worker-num", "2")
    for part in ("together", "joined"):
        assert [said for said, _ in two[part]] == [alone for _, alone in two[part]]
    assert two["figures"]["engine"]["workers"] == "2"
    assert min(two["figures"]["joined"]) >= 8
    assert two["exit_code"] == 0
