"""The CEL rules of `spec.engine`: which methods there are, and what does not go together. Rows, as in `rules.py`."""

from __future__ import annotations

from windlass_sizing.model import drafter
from windlass_sizing.quantization.methods import ACCEPTED, ENGINES, NAMES

from windlass_api.crd.quantization import FLOAT16_ONLY
from windlass_api.crd.rules import Rule, cel_list

# A rule and no `enum` beside it: an enum's own error comes first and would hide this sentence.
QUANTIZATION_RULES = (
    Rule(
        f"self in {cel_list(ACCEPTED)}",
        f"spec.engine.quantization must be one of {', '.join(NAMES)}, or a method of vLLM's own: {', '.join(ENGINES)}",
        f"'spec.engine.quantization \"' + self + '\" is not known; use one of {', '.join(NAMES)}, "
        f"or a method of vLLM\\'s own: {', '.join(ENGINES)}'",
    ),
)

_ALONE = "!has(self.speculation) || !has(self.lookahead) || !has(self.lookahead.enabled) || !self.lookahead.enabled"
_NOT_SPLIT = "!has(self.sequenceParallelSize) || self.sequenceParallelSize == 1"
ENGINE_RULES = (
    Rule(
        _NOT_SPLIT + " || !has(self.lookahead) || !has(self.lookahead.enabled) || !self.lookahead.enabled",
        "spec.engine.sequenceParallelSize does not go with lookahead: leave it out, or switch lookahead off",
    ),
    Rule(
        _NOT_SPLIT + " || !has(self.speculation)",
        "spec.engine.sequenceParallelSize does not go with speculation: leave one of them out",
    ),
    Rule(
        _NOT_SPLIT + " || !has(self.workers) || self.workers == 1",
        "spec.engine.sequenceParallelSize does not go with workers above 1: raise spec.replicas instead",
    ),
    Rule(
        _NOT_SPLIT + " || !has(self.prefixOffload) || !has(self.prefixOffload.enabled) || !self.prefixOffload.enabled",
        "spec.engine.sequenceParallelSize does not go with prefixOffload: leave it out, or switch prefixOffload off",
    ),
    Rule(
        _ALONE + " || !has(self.speculation.method) || self.speculation.method != 'medusa'",
        "spec.engine.speculation.method medusa does not go with lookahead: use eagle, eagle3 or draft_model, or switch "
        "lookahead off",
    ),
    Rule(
        _ALONE + " || !has(self.lookahead.speculativeTokens)",
        "spec.engine.lookahead.speculativeTokens does not go with speculation, whose tokens count for both: leave it "
        "out",
    ),
    Rule(
        "!has(self.speculation) || !has(self.schedulerSteps) || self.schedulerSteps == 1",
        "spec.engine.speculation does not go with schedulerSteps above 1: leave one of them out",
    ),
    *(
        Rule(
            f"!has(self.quantization) || self.quantization != '{name}' || !has(self.dtype)"
            " || self.dtype in ['float16', 'auto']",
            f"spec.engine.quantization {name} runs in float16 only: leave spec.engine.dtype out or set it to float16",
        )
        for name in FLOAT16_ONLY
    ),
    Rule(
        "!has(self.lookahead) || !has(self.lookahead.enabled) || !self.lookahead.enabled"
        " || !has(self.schedulerSteps) || self.schedulerSteps == 1",
        "spec.engine.lookahead does not go with schedulerSteps above 1: leave it out, or switch lookahead off",
    ),
    Rule(
        "!has(self.lookahead) || !has(self.lookahead.speculativeTokens) || !has(self.maxModelLen)"
        " || self.lookahead.speculativeTokens < self.maxModelLen",
        "spec.engine.lookahead.speculativeTokens must be smaller than spec.engine.maxModelLen",
    ),
    Rule(
        "!has(self.prefixOffload) || !has(self.prefixOffload.enabled) || !self.prefixOffload.enabled"
        " || !has(self.prefixCaching) || self.prefixCaching",
        "spec.engine.prefixOffload keeps what the prefix cache evicts: leave spec.engine.prefixCaching out, or set it "
        "to true",
    ),
)

PREFIX_OFFLOAD_RULES = (
    Rule(
        "!has(self.memory) || !has(self.memoryPercent)",
        "spec.engine.prefixOffload takes memory or memoryPercent: leave one of them out",
    ),
)

# The field is newer than any stored service, so no stored one breaks this.
SPECULATION_RULES = (
    Rule(
        "!has(self.runsOn) || self.runsOn != 'cpu' || !has(self.method) || self.method == 'draft_model'",
        "spec.engine.speculation.runsOn cpu takes method draft_model: leave runsOn out for heads, which run on the GPU",
    ),
)

_DRAFTED_BY = ", ".join(drafter.METHODS)
# A rule and no `enum`, as above.
SPECULATION_METHOD_RULES = (
    Rule(
        f"self in {cel_list(drafter.METHODS)}",
        f"spec.engine.speculation.method must be one of {_DRAFTED_BY}; lookahead is spec.engine.lookahead",
        f"'spec.engine.speculation.method \"' + self + '\" is not known: use one of {_DRAFTED_BY}; lookahead is "
        "spec.engine.lookahead, and the engine\\'s other methods go by spec.args: --speculative-config'",
    ),
)
