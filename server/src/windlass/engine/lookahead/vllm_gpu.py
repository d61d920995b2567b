"""The integration with vLLM on GPUs: a worker whose runner drafts with our cache.

The runner is the one with all sequences on the device. The start command names the engine's own n-gram method, so that
the engine keeps scheduling ahead; the drafter behind it is ours. Of several tensor-parallel ranks the first drafts and
sends its drafts to the others, on the stream.

Where the start command names a draft model or a head, the engine's own speculator drafts with it beside the cache
(`beside`), and each row has the better drafts.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from vllm.distributed.parallel_state import get_tp_group
from vllm.v1.worker.gpu.attn_utils import (
    get_query_lens_mismatch_unsupported_backend,
    get_varlen_cudagraph_unsupported_backend,
)
from vllm.v1.worker.gpu.model_runner import GPUModelRunner
from vllm.v1.worker.gpu.spec_decode.adaptive_verification import AdaptiveVerificationManager
from vllm.v1.worker.gpu.spec_decode.speculator import BaseSpeculator, DraftModelSpeculator
from vllm.v1.worker.gpu.spec_decode.standalone_ar.speculator import StandaloneARSpeculator
from vllm.v1.worker.gpu_worker import Worker

from windlass.engine.dry_run.worker import ConservativeDryRun
from windlass.engine.lookahead.beside import ModelBeside
from windlass.engine.lookahead.doorbell import Drafter
from windlass.engine.lookahead.draft_graphs import GraphedDraftModel
from windlass.engine.lookahead.draft_timer import DraftTimer
from windlass.engine.lookahead.first_steps import FirstSteps
from windlass.engine.lookahead.kernels import Drafts
from windlass.engine.lookahead.verification import COPIES_COUNTS, Verification

if TYPE_CHECKING:
    from vllm.config import VllmConfig

logger = logging.getLogger("windlass.lookahead")


class DeviceSpeculator(BaseSpeculator):  # type: ignore[misc]  # the engine has no types here
    """Called by the runner after each step for drafts."""

    supports_mm_inputs = False
    draft_logits = None

    def __init__(self, config: VllmConfig, device: torch.device, runner: Any) -> None:  # noqa: ANN401 - the engine has no types here
        most = config.speculative_config.num_speculative_tokens
        rows = config.scheduler_config.max_num_seqs
        self._config, self._runner = config, runner
        self._wants_lengths = bool(config.speculative_config.enable_adaptive_verification)
        self._group = get_tp_group()
        self._drafts = Drafts(
            tokens=torch.zeros((rows, most), dtype=torch.int64, device=device),
            sure=torch.zeros((rows, most), dtype=torch.float32, device=device),
            sure_by_place=torch.zeros((rows, most), dtype=torch.float32, device=device),
            source=torch.zeros(rows, dtype=torch.int32, device=device),
        )
        self._drafter = Drafter(config, rows, most, self._drafts) if self._group.is_first_rank else None
        self._takes_later = False  # when the next step knows that it verifies any
        self.is_serving = False  # before it is, all requests are the engine's own warm-up, whose text is not kept

    @property
    def draft_token_confidence_probs(self) -> Tensor:
        """By row, as the engine asks for them."""
        return self._drafts.sure

    def verification(self, stock: AdaptiveVerificationManager) -> AdaptiveVerificationManager:
        """The manager that chooses the drafts to verify: ours for one rank whose sampler needs no counts.

        Else the engine's.
        """
        if self._drafter is None or self._group.world_size > 1 or getattr(stock, COPIES_COUNTS, False):
            return stock
        self._takes_later = True
        return Verification(stock, self._drafter.trip, self._drafter.take, self._drafts.sure_by_place)

    @property
    def enable_adaptive_verification(self) -> bool:
        """Whether each request's drafts may be of any length: asked once, when the attention of the model is known."""
        if not self._wants_lengths:
            return False
        groups, longest = self._runner.attn_groups, self._drafts.tokens.shape[1] + 1
        refuses = get_query_lens_mismatch_unsupported_backend(groups)
        refuses = refuses or get_varlen_cudagraph_unsupported_backend(groups, self._config, longest)
        if refuses:
            logger.warning("all drafts are verified in each step: the attention of %s takes one length only", refuses)
            self._wants_lengths = False
            # It was made with the flag set, and would not verify a large batch in parts.
            self._runner.rejection_sampler.enable_adaptive_verification = False
        return self._wants_lengths

    def init_cudagraph_manager(self, cudagraph_mode: object) -> None:
        """There is nothing to capture."""

    def serve(self) -> None:
        """The engine's warm-up is over; without graphs nothing was captured before."""
        self.capture()
        self.is_serving = True

    def capture(self) -> None:
        """There is nothing to capture; but kernels are compiled before the first request."""
        if self._drafter:
            self._drafter.warm(self._runner.req_states)
        if isinstance(self._runner.adaptive_verification, Verification):
            self._runner.adaptive_verification.warm()

    @torch.inference_mode()  # type: ignore[untyped-decorator]  # torch has no type for it
    def propose(  # noqa: PLR0913, PLR0917 - the engine's own signature
        self,
        input_batch: Any,  # noqa: ANN401 - the engine has no types here
        attn_metadata: object,
        slot_mappings: object,
        last_hidden_states: object,
        aux_hidden_states: object,
        num_sampled: Tensor,
        num_rejected: Tensor,
        *_: object,
        num_speculative_tokens: int | None = None,
        dummy_run: bool = False,
        **__: object,
    ) -> Tensor:
        """Drafts [requests, most] of this step, on the device; what lies there, where they are not taken now."""
        rows, wanted = input_batch.num_reqs, num_speculative_tokens != 0
        drafts = self._drafts.tokens[:rows]
        if dummy_run or not self.is_serving:
            return drafts
        if self._drafter:
            self._drafter.draft(input_batch, self._runner.req_states, num_sampled, num_rejected, wanted=wanted)
            if self._takes_now(input_batch):
                self._drafter.take()
        if not wanted and self._group.world_size > 1:
            self._drafts.sure[:rows].zero_()  # the engine's own manager keeps them, and these are of an earlier batch
        if wanted and self._group.world_size > 1:
            self._group.broadcast(drafts, src=0)
            self._group.broadcast(self._drafts.sure[:rows], src=0)
        return drafts

    def leaves_drafting_out(self, wanted: object) -> bool:
        """Whether a step needs `record` alone in the place of `propose`: nobody wants its drafts, on the one rank."""
        return wanted == 0 and self.is_serving and self._drafter is not None and self._group.world_size == 1

    def record(self, batch: Any, num_sampled: Tensor, num_rejected: Tensor) -> None:  # noqa: ANN401 - the engine has no types here
        """Queue what a step emitted; nobody wants its drafts."""
        if self._drafter:
            self._drafter.draft(batch, self._runner.req_states, num_sampled, num_rejected, wanted=False)

    def _takes_now(self, batch: Any) -> bool:  # noqa: ANN401 - the engine has no types here
        """Whether drafts are taken behind the step that they follow: the host asks for those of structured output."""
        return not self._takes_later or batch.has_structured_output_reqs

    def add_model(self, engines: DraftModelSpeculator) -> None:
        """Let the engine's own speculator draft beside the cache: the runner keeps it, and its calls come through us.

        Raises:
            RuntimeError: several ranks share the model; which drafts a row has is decided on one.
        """
        if self._drafter is None or self._group.world_size > 1:
            raise RuntimeError(
                "what drafts beside the lookahead cache, or alone as graphs, needs one GPU; leave --use-lookahead and "
                "--speculative-model out"
            )
        # A rank of several that share their requests would leave the others' collectives waiting.
        is_alone = self._config.parallel_config.data_parallel_size == 1
        timer = DraftTimer(partial(torch.cuda.Event, enable_timing=True)) if is_alone else None
        beside = ModelBeside(engines, self._drafter, self._drafting_ms, timer)
        engines.propose = partial(self.propose_beside, beside)

    def _of_any_length(self, batch: Any) -> Any:  # noqa: ANN401 - the engine has no types here
        """The batch for the engine's speculator, which reads what was accepted with the model's own attention metadata.

        A whole graph of a head is captured for rows of one length, padded in another way than the model's graph, whose
        metadata it would read. So it runs in pieces where rows are of any length.
        """
        is_any = isinstance(self._runner.adaptive_verification, Verification)
        return replace(batch, decode_graph_eligible=False) if is_any else batch

    def _drafting_ms(self, rows: int) -> float:
        """Milliseconds that all drafts of a model take; 0 where the engine has not timed them."""
        manager = self._runner.adaptive_verification
        return float(manager.cost_tables[0][rows]) if manager is not None and manager.cost_tables else 0.0

    @torch.inference_mode()  # type: ignore[untyped-decorator]  # torch has no type for it
    def propose_beside(  # noqa: PLR0913, PLR0917 - the engine's own signature
        self,
        beside: ModelBeside,
        input_batch: Any,  # noqa: ANN401 - the engine has no types here
        attn_metadata: object,
        slot_mappings: object,
        last_hidden_states: object,
        aux_hidden_states: object,
        num_sampled: Tensor,
        num_rejected: Tensor,
        *words: object,
        num_speculative_tokens: int | None = None,
        dummy_run: bool = False,
        **more: object,
    ) -> Tensor:
        """In the place of the engine's `propose`: drafts [requests, most] of the model; the cache's are taken later.

        The record is written first, so that the host drafts while the device does.
        """
        drafter = self._drafter
        hidden = attn_metadata, slot_mappings, last_hidden_states, aux_hidden_states
        step = (self._of_any_length(input_batch), *hidden, num_sampled, num_rejected, *words)
        if drafter is None or dummy_run or not self.is_serving:
            asked = {"num_speculative_tokens": num_speculative_tokens, "dummy_run": dummy_run}
            return beside.propose(*step, **asked, **more)
        wanted = num_speculative_tokens != 0
        drafter.draft(input_batch, self._runner.req_states, num_sampled, num_rejected, wanted=wanted)
        drafter.model = beside.draft(input_batch.req_ids, *step, wanted=wanted, **more)
        if not wanted or not self._takes_now(input_batch):
            return drafter.model.tokens
        drafter.take()
        return self._drafts.tokens[: input_batch.num_reqs]

    def note(self, finished: set[str], begun: list[tuple[str, list[int]]]) -> None:
        """Requests that ended or came, before the step that knows it."""
        if self._drafter and self.is_serving:
            self._drafter.note(finished, begun)

    def take(self) -> None:
        """Before requests come: one may get the place of another, whose drafts must not follow."""
        if self._drafter:
            self._drafter.take()

    def rest(self) -> None:
        """No step follows for now."""
        if self._drafter:
            self._drafter.rest()

    def close(self) -> None:
        """Keep what is to be kept."""
        if self._drafter:
            self._drafter.close()
            self._drafter = None


class DeviceRunner(GPUModelRunner):  # type: ignore[misc]  # the engine has no types here
    """The engine's runner with our speculator, which it informs of requests that come and end."""

    adaptive_verification: AdaptiveVerificationManager | None
    speculator: Any  # the engine's: ours, or what drafts beside the cache

    def __init__(self, vllm_config: VllmConfig, device: torch.device) -> None:
        """The engine's own signature."""
        super().__init__(vllm_config, device)
        self._undrafted: Any = None  # the batch of a step whose drafts nobody wants
        self.lookahead = DeviceSpeculator(vllm_config, device, self)
        if type(self.speculator) is StandaloneARSpeculator:
            self.speculator = GraphedDraftModel(vllm_config, device)
        if isinstance(self.speculator, DraftModelSpeculator):
            self.lookahead.add_model(self.speculator)
        else:
            self.speculator = self.lookahead

    def initialize_kv_cache(self, *words: Any, **more: Any) -> None:  # noqa: ANN401 - the engine's own signature
        """The engine's own; it makes the manager of verification, which ours replaces."""
        super().initialize_kv_cache(*words, **more)
        if self.adaptive_verification is not None:
            self.adaptive_verification = self.lookahead.verification(self.adaptive_verification)

    def sample_tokens(self, grammar_output: Any) -> Any:  # noqa: ANN401 - the engine's own signature
        """The engine's own; where nobody wants drafts, without what it does for them on the host.

        It fills, scatters and gathers drafts in each step, which takes the time of the engine's one thread.
        """
        state, kept = self.execute_model_state, self.speculator
        wanted = getattr(state, "num_spec_tokens_to_schedule", None)
        if kept is self.lookahead and self.lookahead.leaves_drafting_out(wanted):
            self._undrafted = state.input_batch
        try:
            return super().sample_tokens(grammar_output)
        finally:
            self._undrafted, self.speculator = None, kept

    def postprocess_sampled(
        self,
        idx_mapping: Tensor,
        sampled_tokens: Tensor,
        num_sampled: Tensor,
        num_rejected: Tensor,
        *words: Any,  # noqa: ANN401 - the engine has no types here
        **more: Any,  # noqa: ANN401
    ) -> None:
        """The engine's own, and its last before it drafts: without a speculator it does not."""
        super().postprocess_sampled(idx_mapping, sampled_tokens, num_sampled, num_rejected, *words, **more)
        if self._undrafted is not None:
            self.lookahead.record(self._undrafted, num_sampled, num_rejected)
            self.speculator = None

    def finish_requests(self, scheduler_output: Any) -> None:  # noqa: ANN401 - the engine has no types here
        """A preempted request has not ended: it comes back with all its tokens."""
        super().finish_requests(scheduler_output)
        self.lookahead.note(scheduler_output.finished_req_ids, [])
        if not scheduler_output.total_num_scheduled_tokens:
            self.lookahead.rest()

    def add_requests(self, scheduler_output: Any) -> None:  # noqa: ANN401 - the engine has no types here
        """New ones, and preempted ones with what they had emitted."""
        if scheduler_output.scheduled_new_reqs:
            self.lookahead.take()
        super().add_requests(scheduler_output)
        came = [(new.req_id, new.prefill_token_ids) for new in scheduler_output.scheduled_new_reqs]
        self.lookahead.note(set(), came)


class DeviceWorker(Worker):  # type: ignore[misc]  # the engine has no types here
    """Named by `--worker-cls`."""

    def _make_model_runner(self) -> Any:  # noqa: ANN401 - the engine has no types here
        if not self.use_v2_model_runner:
            raise RuntimeError(
                "the engine took its runner without drafts on the device; leave --use-lookahead, --speculative-model "
                "and --cpu-draft-worker out"
            )
        return DeviceRunner(self.vllm_config, self.device)

    def compile_or_warm_up_model(self) -> Any:  # noqa: ANN401 - the engine's own
        """Its warm-up runs requests of its own through the runner."""
        done = super().compile_or_warm_up_model()
        self.model_runner.lookahead.serve()
        return done

    def _maybe_activate_jit_monitor(self) -> None:
        """The last of the warm-up: what compiles from here on, the engine reports as a fault."""
        if self.vllm_config.kernel_config.enable_jit_warmup:
            self.first_steps()
        super()._maybe_activate_jit_monitor()

    def first_steps(self) -> None:
        """Compile what the first requests would wait for."""
        processors = torch.cuda.get_device_properties(self.device).multi_processor_count
        FirstSteps(self.model_runner, self.execute_model, self.sample_tokens, processors).run()

    def shutdown(self) -> None:
        """Keep the cache."""
        if lookahead := getattr(self.model_runner, "lookahead", None):
            lookahead.close()
        super().shutdown()


class DryRunDeviceWorker(ConservativeDryRun, DeviceWorker):
    """With `--conservative-dry-run`."""
