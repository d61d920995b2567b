"""A draft model or a head that drafts beside the cache: the engine's own speculator, called through `vllm_gpu`.

Its key-value cache is filled in each step. Drafts take time, so the speculation policy asks for them where the cache is
not expected to have better ones. The policy also learns how sure they are, by place. Where the model cannot win, the
policy lets it rest: it reads nothing then, and has no drafts of the requests whose text it missed.

The engine's own estimator is left out: it fits one curve to the head's logits, and runs away where a head is as sure of
its wrong drafts as of its right ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from windlass_lookahead.round_trip import RESTED

from windlass.engine.lookahead.kernels import UNREAD, ModelDrafts

if TYPE_CHECKING:
    from vllm.v1.worker.gpu.spec_decode.speculator import DraftModelSpeculator

    from windlass.engine.lookahead.doorbell import Drafter
    from windlass.engine.lookahead.draft_timer import DraftTimer


class ModelBeside:
    """The engine's speculator of a draft model, an Eagle head or an Eagle-3 head."""

    def __init__(
        self,
        engines: DraftModelSpeculator,
        drafter: Drafter,
        drafting_ms: Callable[[int], float],
        timer: DraftTimer | None,
    ) -> None:
        """`drafting_ms` is what all drafts of a batch take. To be made before the engine loads its models.

        Without a timer the model never rests.
        """
        if engines.draft_logits is not None:
            raise RuntimeError("drafts beside the lookahead cache are greedy; leave draft_sample_method out")
        self._engines, self.propose = engines, engines.propose
        self._trip, self._drafting_ms, self._timer = drafter.trip, drafting_ms, timer
        self._sure, self._most = drafter.add_model(), engines.num_speculative_steps
        engines.use_acceptance_estimator = False

    def draft(self, ids: Sequence[str], batch: Any, *words: Any, wanted: bool, **more: Any) -> ModelDrafts:  # noqa: ANN401 - the engine has no types here
        """What the model drafts after a step; its cache is filled where no drafts are wanted, too, unless it rests."""
        drafting_ms = self._drafting_ms(len(ids))
        for rows, drafts, ms in self._timer.ended() if self._timer else ():
            self._trip.model_took(rows, drafts, ms, self._drafting_ms(rows))
        count = self._trip.model_drafts(ids, drafting_ms, wanted=wanted)
        drafted = self._engines.draft_tokens[: len(ids)]
        if count == RESTED:
            return ModelDrafts(drafted, self._sure, 0, has_rested=True)
        is_decoding = int(batch.num_scheduled_tokens.max()) <= 1 + self._most
        with self._timer.timing(len(ids), count) if self._timer and is_decoding else nullcontext():
            self._propose(count, batch, *words, **more)
        if count and (unread := self._trip.unread(ids)):
            rows_unread = torch.tensor(unread, pin_memory=drafted.is_cuda).to(drafted.device, non_blocking=True)
            drafted[:, 0].index_fill_(0, rows_unread, UNREAD)
        return ModelDrafts(drafted, self._sure, count)

    def _propose(self, count: int, *words: Any, **more: Any) -> None:  # noqa: ANN401 - the engine has no types here
        engines = self._engines
        engines.num_speculative_steps = max(1, count)  # the engine's draft model reads this instead of the argument
        if not count:
            engines.sample_draft = self._undrafted
        try:
            self.propose(*words, num_speculative_tokens=count, **more)
        finally:
            engines.num_speculative_steps = self._most
            if not count:
                del engines.sample_draft  # the class has its own

    def _undrafted(self, hidden_states: Tensor, *_: object, **__: object) -> Tensor:
        """In the place of the engine's `sample_draft` where no draft is wanted: what lies there, without logits."""
        drafted: Tensor = self._engines.draft_tokens[: hidden_states.shape[0], 0]
        return drafted
