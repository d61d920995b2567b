"""The CEL rules of the CRD, each with our own sentence, so that `kubectl apply` refuses in plain words.

They are rows: `v1alpha1.py` hangs each tuple on its field, `schema.py` writes them, and the API server runs them.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass_operator.api.quantization import OWN, QUANTIZATIONS, VLLM_OWN


@dataclass(frozen=True, slots=True)
class Rule:
    """One `x-kubernetes-validations` row; `message_expression` is CEL that may quote the bad value."""

    rule: str
    message: str
    message_expression: str = ""

    def to_dict(self) -> dict[str, str]:
        """The row as the CRD spells it."""
        out = {"rule": self.rule, "message": self.message}
        if self.message_expression:
            out["messageExpression"] = self.message_expression
        return out


def _cel_list(words: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


NAME_RULES = (
    Rule(
        "self.metadata.name.size() <= 50",
        "metadata.name must have at most 50 characters, so that the names of the pods made from it stay valid",
    ),
    Rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must be a DNS label: lower-case letters, digits and '-', beginning with a letter, no dots",
    ),
)

SOURCE_RULES = (
    Rule(
        "[has(self.pvc), has(self.nfs), has(self.hostPath)].filter(x, x).size() == 1",
        "spec.model.source needs exactly one of pvc, nfs, hostPath",
    ),
)

PATH_RULES = (
    Rule(
        "!self.split('/').exists(part, part == '..')",
        "path must not contain '..': write the directory's path without going up",
    ),
)

MODEL_ID_RULES = (
    Rule(
        "self.matches('^[A-Za-z0-9][A-Za-z0-9._/:@+-]*$')",
        "spec.model.id must begin with a letter or digit and hold only letters, digits and . _ / : @ + -",
    ),
)

# A rule and no `enum` beside it: an enum's own error comes first and would hide this sentence.
QUANTIZATION_RULES = (
    Rule(
        f"self in {_cel_list(QUANTIZATIONS)}",
        f"spec.engine.quantization must be one of {', '.join(OWN)}, or a method of vLLM's own: {', '.join(VLLM_OWN)}",
        f"'spec.engine.quantization \"' + self + '\" is not known; use one of {', '.join(OWN)}, "
        f"or a method of vLLM\\'s own: {', '.join(VLLM_OWN)}'",
    ),
)

ENGINE_RULES = (
    Rule(
        "!has(self.quantization) || self.quantization != 'ifq_nf4' || !has(self.dtype) || self.dtype == 'float16'",
        "spec.engine.quantization ifq_nf4 runs in float16 only: leave spec.engine.dtype out or set it to float16",
    ),
)
