"""Makes a model of any weights follow recorded text: the recorded token of each row gets all the weight.

A logits processor of the engine's runner with all sequences on the device. Rows that verify drafts are forced too, each
by its own place in the text, so drafts are accepted as the recorded text has it, at the real cost of every step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsProcessor

TRACE = "trace"
LONGEST = 2048


class Forced(LogitsProcessor):  # type: ignore[misc]  # the engine has no types here
    """Requests bring their text as `extra_args["trace"]`; the last token repeats behind its end."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None:  # noqa: ANN401 - the engine's own signature
        self._states = req_states
        self._text = torch.zeros((req_states.max_num_reqs, LONGEST), dtype=torch.int64, device=req_states.device)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:  # noqa: ANN401 - the engine's own signature
        """Take the request's text."""
        trace = (sampling_params.extra_args or {}).get(TRACE)
        if not trace:
            return False
        padded = torch.tensor([*trace, *[trace[-1]] * (LONGEST - len(trace))])
        self._text[req_idx] = padded.to(self._text.device)
        return True

    def apply(self, logits: Tensor, ctx: Any) -> Tensor:  # noqa: ANN401 - the engine's own signature
        """One token of each row wins."""
        slots = ctx.expanded_idx_mapping
        place = ctx.pos + 1 - self._states.prompt_len.gpu[slots]
        wanted = self._text[slots, place.clamp(0, LONGEST - 1)]
        logits.scatter_(1, wanted[:, None], 1e30)
        return logits
