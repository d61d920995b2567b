"""The server's command line for a plan: the one place where decisions become argv.

Every argv made here must be accepted by the server's own parser; a contract test holds both sides to it. Pure.
"""

from __future__ import annotations

from windlass_operator.api.v1alpha1 import LLMServiceSpec
from windlass_operator.plan.model import Plan
from windlass_operator.plan.overrides import RUN, runs_windlass

MODEL_DIRECTORY = "/data/model"
PROGRAM = "windlass"


def server_args(spec: LLMServiceSpec, plan: Plan) -> tuple[str, ...]:
    """The planned flags, then the user's own from `spec.command` after `run`, then `spec.args`: the last one wins."""
    return (*planned_flags(spec, plan), *spec.command[1:], *spec.args)


def planned_flags(spec: LLMServiceSpec, plan: Plan) -> tuple[str, ...]:
    """What the plan and `spec.engine` say, as flags."""
    flags: list[str] = [
        *("--model", MODEL_DIRECTORY),
        *("--served-model-name", spec.model.id),
        *("--tensor-parallel-size", str(plan.tp)),
        *("--max-model-len", str(plan.max_model_len)),
        *("--dtype", plan.dtype),
        *("--gpu-memory-utilization", f"{plan.gpu_memory_utilization_percent / 100:.2f}"),
    ]
    if plan.pp > 1:
        flags += ["--pipeline-parallel-size", str(plan.pp)]
    if plan.quantization:
        flags += ["--quantization", plan.quantization]
    if plan.enforce_eager:
        flags.append("--enforce-eager")
    return tuple(flags)


def container_command(spec: LLMServiceSpec, plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The container's command and args: `windlass run <flags>`, or the user's own command as it stands."""
    if runs_windlass(spec):
        return (PROGRAM,), (RUN, *server_args(spec, plan))
    return tuple(spec.command), tuple(spec.args)
