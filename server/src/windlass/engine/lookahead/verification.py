"""How many drafts a step verifies, and which: the speculation policy chooses the number, one kernel places the drafts.

The engine's own manager chooses by its copy of the last confidences and places with a dozen small operations: half a
millisecond of the engine's one thread in each step. The policy knows each request's drafts before the device does.
Several tensor-parallel ranks must choose the same without communication, so they keep the engine's manager.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from vllm.utils.torch_utils import get_accelerator_view_from_cpu_tensor as device_view
from vllm.v1.worker.gpu.spec_decode.adaptive_verification import AdaptiveVerificationManager

from windlass.engine.lookahead.kernels import place_drafts
from windlass.engine.lookahead.step_costs import judging_ms, step_costs_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from windlass_lookahead.round_trip import RoundTrip

COPIES_COUNTS = "_copy_admitted_drafts_to_host"
"""The manager's attribute, from vLLM 0.33 on: whether the sampler needs each row's count on the host."""
UNDER_WAY = 8
"""Steps whose plans are kept: more than the engine ever has on the device."""


class Verification(AdaptiveVerificationManager):  # type: ignore[misc]  # the engine has no types here
    """In the place of the engine's own manager, with its cost tables."""

    _share: float | None = None
    """Of the planned drafts, while first steps are taken."""

    def __init__(
        self,
        stock: AdaptiveVerificationManager,
        trip: RoundTrip,
        take: Callable[[], None],
        sure_by_place: Tensor,
    ) -> None:
        """`take` brings the drafts; `sure_by_place` [requests, most] then holds their confidences, on the device."""
        most_logits = stock._max_total_logits
        super().__init__(stock.req_states, stock.query_start_loc, stock.num_bonus_tokens, most_logits)
        self._most_logits, self._sure_by_place = most_logits, sure_by_place
        self._trip, self._take = trip, take
        self._returns_counts = hasattr(stock, COPIES_COUNTS)
        rows, most, device = self.req_states.max_num_reqs, self.num_speculative_steps, self.req_states.device
        self._plans = torch.zeros((UNDER_WAY, 2, rows), dtype=torch.int32).pin_memory()
        self._device_plans, self._host_plans = device_view(self._plans), self._plans.numpy()
        self._plan = 0
        self._logits_from = torch.zeros(rows + 1, dtype=torch.int32, device=device)
        bonus = self.num_bonus_tokens
        self._no_drafts = torch.arange(rows + 1, dtype=torch.int32, device=device) * bonus
        # Each row 16 bytes from the next: kernels are compiled for the alignment of their arguments.
        one_row = [[0, bonus + number, 0, 0] for number in range(most + 1)]
        self._one_row = torch.tensor(one_row, dtype=torch.int32, device=device)
        self._judging_ms = judging_ms(self.req_states.vocab_size, most_logits)
        self._budget = 0
        self._planned = self._plain = np.zeros(0, dtype=np.int32)

    def add_request(self, req_idx: int) -> None:
        """Clear the confidences of the request that had this place before.

        The policy knows what to expect of the new one.
        """
        self._sure_by_place[req_idx].zero_()

    def record_confidences(self, confidence_probs: Tensor, input_batch: Any) -> None:  # noqa: ANN401 - the engine has no types here
        """The drafter has put them in their places."""

    def get_num_tokens(self, num_tokens_per_req: dict[str, int], draft_tokens: dict[str, list[int]]) -> int:
        """Tokens of the step, with the drafts that the policy verifies."""
        planned = [len(draft_tokens.get(request, ())) for request in num_tokens_per_req]
        rows, drafts = len(planned), sum(planned)
        plain = sum(num_tokens_per_req.values()) - drafts
        limit = min(drafts, max(0, self._most_logits - rows * self.num_bonus_tokens))
        drafting_ms, verifying_ms = self.cost_tables
        first = rows * self.num_bonus_tokens + 1
        costs = step_costs_ms(verifying_ms, drafting_ms[rows], self._judging_ms, plain, limit, first)
        decoding = plain == rows
        emitting = rows if decoding else self._emitting(num_tokens_per_req, planned)
        if self._share is None:
            self._budget = self._trip.choose(list(num_tokens_per_req), planned, costs, emitting, decoding=decoding)
        else:
            self._budget = math.ceil(self._share * limit)
        if self._budget:  # the device waits for drafts that are verified, and for no others
            self._take()
        return plain + self._budget

    def _emitting(self, num_tokens_per_req: dict[str, int], planned: list[int]) -> int:
        """Requests whose prompts end in this step, or ended before."""
        states = self.req_states
        places = [states.req_id_to_index[request] for request in num_tokens_per_req]
        plain = np.array([*num_tokens_per_req.values()]) - planned
        return int(np.count_nonzero(states.num_computed_tokens_np[places] + plain >= states.prefill_len.np[places]))

    def compact_batch(
        self,
        num_draft_tokens_per_req: NDArray[np.int32],
        num_scheduled_tokens: NDArray[np.int32],
        cu_num_logits_np: NDArray[np.int32],
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The batch of the host: drafts are spread evenly where only the device knows better."""
        self._planned, rows = num_draft_tokens_per_req, len(num_scheduled_tokens)
        plain = self._plain = num_scheduled_tokens - num_draft_tokens_per_req
        budget = self._budget
        if budget == 0:
            return plain, np.arange(rows + 1, dtype=cu_num_logits_np.dtype) * self.num_bonus_tokens
        if budget == int(num_draft_tokens_per_req.sum()):
            return num_scheduled_tokens, cu_num_logits_np
        verifying = int(np.count_nonzero(num_draft_tokens_per_req))  # the engine keeps these in front
        each, more = divmod(budget, verifying)
        spread = plain.copy()
        spread[:verifying] += each
        spread[:more] += 1
        return spread, cu_num_logits_np

    def reallocate_drafts(self, req_ids: list[str], idx_mapping: Tensor) -> tuple[Any, ...]:
        """Where each row's logits begin, where its tokens do, and how many drafts there are in all.

        From vLLM 0.33 on the engine also takes the counts of each row, None where it does not need them.
        """
        placed = self._placed(len(req_ids), idx_mapping)
        return (*placed, None) if self._returns_counts else placed

    def _placed(self, rows: int, idx_mapping: Tensor) -> tuple[Tensor, Tensor, int]:
        budget = self._budget
        if budget == 0:
            return self._no_drafts[: rows + 1], self.query_start_loc, 0
        if rows == 1:
            return self._one_row[budget, :2], self.query_start_loc, budget
        self._plan = (self._plan + 1) % UNDER_WAY
        host, plans = self._host_plans[self._plan], self._device_plans[self._plan]
        host[0, :rows], host[1, :rows] = self._planned, self._plain
        self._place(idx_mapping, plans, budget)
        return self._logits_from[: rows + 1], self.query_start_loc, budget

    def _place(self, places: Tensor, plans: Tensor, budget: int) -> None:
        starts = self._logits_from, self.query_start_loc
        place_drafts(self._sure_by_place, places, (plans[0], plans[1]), starts, budget, self.num_bonus_tokens)

    @contextmanager
    def verifying(self, share: float) -> Iterator[None]:
        """Verify this share of the planned drafts meanwhile, whatever the policy would choose."""
        self._share = share
        try:
            yield
        finally:
            self._share, self._budget = None, 0

    def warm(self) -> None:
        """Compile the kernel before the first request."""
        places = torch.zeros(2, dtype=torch.int64, device=self.req_states.device)
        self._place(places, self._device_plans[0], 0)
        self.query_start_loc.zero_()
