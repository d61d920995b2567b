"""Makes served models of any weights answer as a ShareGPT-format file does: `--logits-processors forced_talks:Talks`.

`forced` takes its text from each request, which a load generator cannot give. This one finds it by the prompt: a
request whose prompt's tokens are those of a conversation's first turn gets the second turn's. Others keep their own
logits. FORCED_TALKS names the file; requests use the completions route, which puts no template around a prompt.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from forced import LONGEST, Forced
from tokenizers import Tokenizer
from torch import Tensor

FILE = "FORCED_TALKS"
WEIGHT = 1e30


def answers(file: Path, tokenizer: Tokenizer) -> dict[tuple[int, ...], list[int]]:
    """The tokens of each second turn by those of the first."""

    def encoded(text: str) -> list[int]:
        found: list[int] = tokenizer.encode(text).ids
        return found

    talks = [row["conversations"] for row in json.loads(file.read_text(encoding="utf-8"))]
    return {tuple(encoded(talk[0]["value"])): encoded(talk[1]["value"]) for talk in talks}


class Talks(Forced):
    """Looks a prompt up when its first token is drawn: its tokens are on the device by then."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None:  # noqa: ANN401 - the engine's own signature
        super().__init__(vllm_config, req_states)
        tokenizer = Tokenizer.from_file(str(Path(vllm_config.model_config.tokenizer) / "tokenizer.json"))
        self._answers = answers(Path(os.environ[FILE]), tokenizer)
        self._weight = torch.zeros(req_states.max_num_reqs, device=req_states.device)
        self._fresh: set[int] = set()

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:  # noqa: ANN401 - the engine's own signature
        """Look it up later."""
        self._fresh.add(req_idx)
        return True

    def apply(self, logits: Tensor, ctx: Any) -> Tensor:  # noqa: ANN401 - the engine's own signature
        """One token of each row wins where the prompt is of the file."""
        for slot in self._fresh.intersection(ctx.idx_mapping_np.tolist()):
            self._look_up(slot)
        slots = ctx.expanded_idx_mapping
        place = ctx.pos + 1 - self._states.prompt_len.gpu[slots]
        wanted = self._text[slots, place.clamp(0, LONGEST - 1)]
        logits.scatter_add_(1, wanted[:, None], self._weight[slots][:, None].to(logits.dtype))
        return logits

    def _look_up(self, slot: int) -> None:
        self._fresh.discard(slot)
        length = int(self._states.prompt_len.np[slot])
        found = self._answers.get(tuple(self._states.all_token_ids.gpu[slot, :length].tolist()))
        self._weight[slot] = WEIGHT if found else 0.0
        if found:
            padded = torch.tensor([*found, *[found[-1]] * (LONGEST - len(found))])
            self._text[slot] = padded.to(self._text.device)
