"""Our speculator in the engine's runner, in steps whose drafts nobody wants. Plain classes stand in for the engine."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest

GROUP = "vllm.distributed.parallel_state"
RUNNER = "vllm.v1.worker.gpu.model_runner"
SPECULATOR = "vllm.v1.worker.gpu.spec_decode.speculator"
NAMES = {
    "torch": ("Tensor", "inference_mode"),
    GROUP: ("get_tp_group",),
    "vllm.v1.worker.gpu.attn_utils": (
        "get_query_lens_mismatch_unsupported_backend",
        "get_varlen_cudagraph_unsupported_backend",
    ),
    RUNNER: ("GPUModelRunner",),
    "vllm.v1.worker.gpu.spec_decode.adaptive_verification": ("AdaptiveVerificationManager",),
    SPECULATOR: ("BaseSpeculator", "DraftModelSpeculator"),
    "vllm.v1.worker.gpu.spec_decode.standalone_ar.speculator": ("StandaloneARSpeculator",),
    "vllm.v1.worker.gpu_worker": ("Worker",),
    "windlass.engine.dry_run.worker": ("ConservativeDryRun",),
    "windlass.engine.lookahead.beside": ("ModelBeside",),
    "windlass.engine.lookahead.doorbell": ("Drafter",),
    "windlass.engine.lookahead.draft_graphs": ("GraphedDraftModel",),
    "windlass.engine.lookahead.first_steps": ("FirstSteps",),
    "windlass.engine.lookahead.kernels": ("Drafts",),
    "windlass.engine.lookahead.verification": ("COPIES_COUNTS", "Verification"),
}
"""What our module takes from modules that need the engine, by module."""


class EnginesRunner:
    """The engine's order of a step: what it sampled is settled, then it drafts if it has a speculator."""

    def sample_tokens(self, grammar_output):
        state, self.execute_model_state = self.execute_model_state, None
        if state is None:
            return None
        self.postprocess_sampled("places", "tokens", "sampled", "rejected", "starts")
        if grammar_output == "fails":
            raise RuntimeError(grammar_output)
        if self.speculator is not None:
            self.calls.append(("propose", state.num_spec_tokens_to_schedule))
        return "output"

    def postprocess_sampled(self, *words):
        self.calls.append(("settle", *words))


@pytest.fixture
def vllm_gpu(monkeypatch):
    for name, parts in NAMES.items():
        module = ModuleType(name)
        for part in parts:
            setattr(module, part, type(part, (), {}))
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["torch"].inference_mode = lambda: lambda function: function
    sys.modules[RUNNER].GPUModelRunner = EnginesRunner
    monkeypatch.delitem(sys.modules, "windlass.engine.lookahead.vllm_gpu", raising=False)
    yield importlib.import_module("windlass.engine.lookahead.vllm_gpu")
    sys.modules.pop("windlass.engine.lookahead.vllm_gpu", None)


@pytest.fixture
def runner(vllm_gpu):
    """One rank that serves; its calls in order."""
    made = object.__new__(vllm_gpu.DeviceRunner)
    ours = object.__new__(vllm_gpu.DeviceSpeculator)
    made.calls, made.req_states, made._undrafted = [], "states", None
    ours._runner, ours.is_serving, ours._group = made, True, SimpleNamespace(world_size=1)
    ours._drafter = SimpleNamespace(draft=lambda *words, wanted: made.calls.append(("record", *words, wanted)))
    made.lookahead = made.speculator = ours
    return made


def step(runner, wanted, grammar=None):
    runner.calls.clear()
    runner.execute_model_state = SimpleNamespace(input_batch="batch", num_spec_tokens_to_schedule=wanted)
    return runner.sample_tokens(grammar)


SETTLED = ("settle", "places", "tokens", "sampled", "rejected", "starts")
RECORDED = ("record", "batch", "states", "sampled", "rejected", False)


def test_a_step_whose_drafts_nobody_wants_is_recorded_and_not_drafted(runner):
    """Once it is settled, so that the record has its tokens; the next step is drafted again."""
    assert step(runner, 0) == "output"
    assert runner.calls == [SETTLED, RECORDED]
    assert runner.speculator is runner.lookahead
    step(runner, 3)
    assert runner.calls == [SETTLED, ("propose", 3)]


@pytest.mark.parametrize("wanted", [None, 1])
def test_drafts_that_are_wanted_are_the_engines_to_ask_for(runner, wanted):
    step(runner, wanted)
    assert runner.calls == [SETTLED, ("propose", wanted)]


def test_several_ranks_draft_in_each_step(runner):
    """They hand the drafts on in `propose`."""
    runner.lookahead._group.world_size = 2
    step(runner, 0)
    assert runner.calls == [SETTLED, ("propose", 0)]


def test_before_it_serves_nothing_is_recorded(runner):
    runner.lookahead.is_serving = False
    step(runner, 0)
    assert runner.calls == [SETTLED, ("propose", 0)]


def test_a_speculator_of_the_engines_own_drafts_in_each_step(runner):
    runner.speculator = "the engine's"
    step(runner, 0)
    assert runner.calls == [SETTLED, ("propose", 0)]
    assert runner.speculator == "the engine's"


def test_a_step_that_fails_leaves_the_speculator_in_place(runner):
    with pytest.raises(RuntimeError, match="fails"):
        step(runner, 0, "fails")
    assert runner.speculator is runner.lookahead
    step(runner, 3)
    assert runner.calls == [SETTLED, ("propose", 3)]


def test_without_a_step_there_is_nothing_to_sample(runner):
    """The engine's `execute_model` failed before."""
    runner.execute_model_state = None
    assert runner.sample_tokens(None) is None
    assert runner.calls == []
