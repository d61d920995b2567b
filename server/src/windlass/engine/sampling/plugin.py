"""vLLM's entry point `vllm.general_plugins`: the rules of sampling that vLLM refuses while it speculates.

vLLM calls `register` in every process. Its front end then lets `min_p` and `logit_bias` through. The V2 runner applies
them to drafts by itself; the V1 runner (every CPU; on GPUs Medusa, suffixes and P-Eagle) gets `DraftRules` and the
sampler that applies them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windlass.engine.sampling.ngrams import PROCESSOR
from windlass.former_names import today

if TYPE_CHECKING:
    import torch
    from vllm.config import VllmConfig
    from vllm.v1.sample.logits_processor import LogitsProcessors

V1_RUNNER = "vllm.v1.worker.gpu_model_runner"
"""It binds the function's name when it is imported, which may be before us."""


@functools.cache
def register() -> None:
    """Replace the engine's refusal and the V1 runner's choice of rules, once a process."""
    from vllm import sampling_params
    from vllm.v1.sample import logits_processor

    sampling_params.SamplingParams._validate_spec_decode = _allow
    build = functools.partial(rules, logits_processor.build_logitsprocs)
    logits_processor.build_logitsprocs = build
    if runner := sys.modules.get(V1_RUNNER):
        runner.build_logitsprocs = build  # type: ignore[attr-defined]


def _allow(params: object, speculation: object) -> None:
    """Every rule is kept."""


def rules(
    engines_own: Any,  # noqa: ANN401 - the engine has no types here
    config: VllmConfig,
    device: torch.device,
    is_pin_memory: bool,
    is_pooling_model: bool,
    custom_logitsprocs: Sequence[str | type] = (),
) -> LogitsProcessors:
    """The V1 runner's rules: ours while it speculates, the engine's otherwise.

    The engine still refuses other processors beside speculation: they know no drafts.
    """
    from windlass.engine.sampling.no_repeat_ngram import NoRepeatNgram

    ours = [
        one for one in custom_logitsprocs if one is NoRepeatNgram or (isinstance(one, str) and today(one) == PROCESSOR)
    ]
    if not config.speculative_config or is_pooling_model or len(ours) < len(custom_logitsprocs):
        return engines_own(config, device, is_pin_memory, is_pooling_model, custom_logitsprocs)
    from windlass.engine.sampling import draft_rules

    draft_rules.install(device)
    return draft_rules.DraftRules(config, device, is_pin_memory)
