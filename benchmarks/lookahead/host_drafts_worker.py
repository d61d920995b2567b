"""The GPU integration whose model on the host drafts recorded text, rightly with a chosen acceptance.

The decoder beneath has the shape of a real draft model and random weights. Each draft takes its time, and its tokens
are thrown away. Named by `worker_cls` in `host_drafts_on_device`.
"""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import Any

import torch
from host_draft import CONFIGS, random_weights
from windlass.engine.lookahead import settings
from windlass.engine.lookahead.host_model import settings_of
from windlass.engine.lookahead.verification import Verification
from windlass.engine.lookahead.vllm_gpu import DeviceWorker
from windlass_lookahead._core import HostDrafter, model_drafter, recorded_drafter
from windlass_lookahead.draft_model import shape_of
from windlass_lookahead.round_trip import RoundTrip

Exchange = tuple[list[int], list[int]]


class HostDraftsWorker(DeviceWorker):  # type: ignore[misc]  # the engine has no types here
    """Its methods are called by `collective_rpc`, while no request runs."""

    _model: HostDrafter | None = None
    _off: RoundTrip | None = None
    _on: RoundTrip | None = None

    def load_draft(self, shape: str, bits: int) -> str:
        """Make the draft model on the host, in place of the one before; what the card is called."""
        drafter = self.model_runner.lookahead._drafter
        drafter.rest()
        if self._on is not None:
            self._use(self._off)
            self._on.close()
        self._on = self._model = None  # before the next one takes memory and cores
        self._off = drafter.trip
        rows = self.model_runner.lookahead._drafts.tokens.shape[0]
        known = replace(settings.read(os.environ) or settings.LookaheadSettings(), draft_bits=bits)
        chosen = settings_of(known, rows)
        self._model = model_drafter(random_weights(shape_of(CONFIGS[shape]), chosen), chosen.rows)
        return str(torch.cuda.get_device_name(self.device))

    def learn_anew(self, acceptance: float, texts: list[Exchange], seed: int) -> None:
        """A policy that knows nothing, and drafts that are right with this probability."""
        drafter = self.model_runner.lookahead._drafter
        drafter.rest()
        if self._on is not None:
            self._use(self._off)
            self._on.close()
        rows, most = drafter._drafts.tokens.shape
        self._on = RoundTrip(drafter._drafting.cache, drafter._places, rows, most, most + 1)
        vocabulary = self.vllm_config.model_config.get_vocab_size()
        self._on.add_host_model(recorded_drafter(self._model, acceptance, seed, texts), most, vocabulary)

    def drafting(self, is_on: bool) -> None:
        """Whether the next requests have drafts of the host."""
        self.model_runner.lookahead._drafter.rest()
        self._use(self._on if is_on else self._off)

    def figures(self) -> dict[str, Any]:
        """The counts of the round trip that drafts."""
        return asdict(self._on.counts()) if self._on else {}

    def forecast_ms(self, rows: int) -> list[float]:
        """What the policy expects of a draft of 1, 2, … tokens for each of these rows; no request may run."""
        self.model_runner.lookahead._drafter.rest()
        most = self.model_runner.lookahead._drafter._drafts.tokens.shape[1]
        return [self._model.draft_ms(rows, k) for k in range(1, most + 1)] if self._model else []

    def _use(self, trip: RoundTrip | None) -> None:
        self.model_runner.lookahead._drafter.trip = trip
        manager = self.model_runner.adaptive_verification
        if isinstance(manager, Verification):
            manager._trip = trip
