"""The drafter of a device: the cache, its threads, and the host memory that the device sees. Made by `vllm_gpu`.

It queues step records and drafts on the current stream, and says on the host which step is meant.
"""

from __future__ import annotations

import ctypes
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from vllm.utils.torch_utils import get_accelerator_view_from_cpu_tensor as device_view
from windlass_lookahead.round_trip import RECORD_HEADER, RECORDS, RESTED, Places, RoundTrip

from windlass.engine.lookahead import settings
from windlass.engine.lookahead.draft_budgets import DraftBudgets
from windlass.engine.lookahead.drafting import Drafting
from windlass.engine.lookahead.engine_facts import engine_facts
from windlass.engine.lookahead.host_model import host_drafter
from windlass.engine.lookahead.kernels import Drafts, ModelDrafts, take_drafts, write_record
from windlass.engine.lookahead.stream import wait

if TYPE_CHECKING:
    from vllm.config import VllmConfig

logger = logging.getLogger("windlass.lookahead")
WORDS = 2**32
COMPLETED_AT = 32
"""Words between the two flags, so that each has a cache line of its own."""


class Pinned:
    """Host memory that the device sees as its own."""

    def __init__(self, rows: int, most: int, span: int) -> None:
        self.records = torch.zeros((RECORDS, rows, RECORD_HEADER + span), dtype=torch.int32).pin_memory()
        self.tokens = torch.zeros((rows, most), dtype=torch.int64).pin_memory()
        self.confidences = torch.zeros((rows, most), dtype=torch.float32).pin_memory()
        self.model = torch.zeros(most, dtype=torch.float32).pin_memory()
        self.flags = torch.zeros(2 * COMPLETED_AT, dtype=torch.int32).pin_memory()
        self.device_model = device_view(self.model)
        self.device_records = device_view(self.records).unbind()
        self.device_tokens, self.device_confidences = device_view(self.tokens), device_view(self.confidences)
        self.device_doorbell, self.device_completed = device_view(self.flags).split(COMPLETED_AT)

    @property
    def places(self) -> Places:
        """The addresses."""
        flags = self.flags.data_ptr()
        return Places(
            records=self.records.data_ptr(),
            tokens=self.tokens.data_ptr(),
            confidences=self.confidences.data_ptr(),
            doorbell=flags,
            completed=flags + COMPLETED_AT * 4,
            model=self.model.data_ptr(),
        )


def _address(budgets: DraftBudgets) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(budgets.memory))


class Drafter:
    """The cache of the first rank and its threads."""

    def __init__(self, config: VllmConfig, rows: int, most: int, drafts: Drafts) -> None:
        known = settings.read(os.environ) or settings.LookaheadSettings()
        facts = engine_facts(config)
        self._drafting = Drafting(known, facts)
        self._drafts = drafts
        span = most + 1
        self._pinned = Pinned(rows, most, span)
        self._budgets = DraftBudgets(known.counts_dir, facts.engine) if known.counts_dir else None
        if self._budgets:
            self._budgets.forget()
        self._places = places = replace(self._pinned.places, budgets=_address(self._budgets) if self._budgets else 0)
        self.trip = RoundTrip(self._drafting.cache, places, rows, most, span)
        if known.draft_model:
            self.trip.add_host_model(host_drafter(known, rows), most, facts.vocab_size)
        self._completed = self._pinned.flags.numpy()[COMPLETED_AT:]
        self._number = 0
        self._pending: tuple[Any, Tensor] | None = None  # what is needed to take the last step's drafts
        self.model: ModelDrafts | None = None  # what the model beside the cache drafted after the last step
        self._recorded: list[str] = []
        self._finished: list[str] = []
        self._begun: list[tuple[str, list[int]]] = []

    def note(self, finished: set[str], begun: list[tuple[str, list[int]]]) -> None:
        """Requests that ended, and requests with all their tokens, in the order of the engine's steps."""
        self._finished += sorted(finished)
        self._begun += begun

    def draft(
        self,
        batch: Any,  # noqa: ANN401 - the engine has no types here
        states: Any,  # noqa: ANN401
        emitted: Tensor,
        rejected: Tensor,
        *,
        wanted: bool,
    ) -> None:
        """Queue on the current stream what a step emitted; its drafts may be taken then, unless nobody wants them.

        Those of the step before are taken first, if they were not yet, where a request of it skips this one: it comes
        back with the drafts that it has.
        """
        if self._pending and not {*self._recorded} <= {*batch.req_ids, *self._finished}:
            self.take()
        self._number = (self._number + 1) % WORDS
        modelled = 0 if self.model is None else RESTED if self.model.has_rested else self.model.count
        self.trip.submit(self._number, self._finished, self._begun, batch.req_ids, wanted=wanted, modelled=modelled)
        self._finished, self._begun = [], []
        if (behind := self._record_in_use()) is not None:
            wait(self._places.completed, behind)
        self._write(states, batch.idx_mapping, emitted, rejected)
        self._pending, self._recorded = (states, batch.idx_mapping) if wanted else None, batch.req_ids

    def take(self) -> None:
        """Queue on the current stream: wait for the drafts of the last step, and take them."""
        if self._pending:
            self._take(*self._pending)
            self._pending = None

    def _record_in_use(self) -> int | None:
        """The step whose record this one reuses, where the host has not read it yet."""
        earlier, completed = self._number - RECORDS, int(self._completed[0])
        return None if 0 <= (completed - earlier) % WORDS < WORDS // 2 else earlier % WORDS

    @property
    def _signed(self) -> int:
        """The step's number as 32 bits with a sign have it."""
        return self._number - WORDS if self._number >= WORDS // 2 else self._number

    def _write(self, states: Any, places: Tensor, emitted: Tensor, rejected: Tensor) -> None:  # noqa: ANN401
        host = self._pinned.device_records[self._number % RECORDS], self._pinned.device_doorbell
        settled = states.all_token_ids.gpu, states.total_len.gpu
        write_record(self._signed, settled, places, (emitted, rejected), self._drafts.source, host)

    def _take(self, states: Any, places: Tensor) -> None:  # noqa: ANN401
        pinned = self._pinned
        answer = pinned.device_tokens, pinned.device_confidences
        by_place = states.draft_tokens
        completed, more_us = pinned.device_completed, self.trip.begin_wait()
        take_drafts(self._signed, completed, answer, places, self._drafts, by_place, self.model, more_us)

    def warm(self, states: Any) -> None:  # noqa: ANN401
        """Compile what the first request would wait for: an empty record is written and taken, as step 0, before all
        others.

        It also fails here where the driver has no stream memory operations: the first that is needed comes under load.
        """
        wait(self._places.completed, 0)
        none = torch.zeros(1, dtype=torch.int32, device=self._drafts.sure.device)
        place = torch.zeros(1, dtype=torch.int64, device=self._drafts.sure.device)
        self._write(states, place, none, none)
        self._take(states, place)

    def add_model(self) -> Tensor:
        """A model drafts beside the cache: how sure its drafts are by place, as the policy learns it."""
        self.trip.add_model()
        return self._pinned.device_model

    def rest(self) -> None:
        """Let go of what has ended though no step follows: the last texts before a pause serve the next."""
        self.trip.submit(self._number, self._finished, self._begun, [])
        self._finished, self._begun = [], []

    def close(self) -> None:
        """End the threads, and keep what is to be kept."""
        counts = self.trip.counts()
        logger.info("steps: %s", counts)
        self.trip.close()
        self._drafting.close()
