"""One service as a line of the list. Pure."""

from __future__ import annotations

from typing_extensions import TypedDict
from windlass_api.crd.status import Condition
from windlass_client.values import LLMService

MESSAGE_MAX = 300  # characters
GOOD, WAIT, BAD, OFF = "good", "wait", "bad", "off"
# Reasons of Ready that pass by themselves. `tests/contract/test_console_reasons.py` holds them to the operator's table.
PASSING = frozenset(
    "Inspecting ModelFound Planning Planned Starting RollingOut PartlyReady Settled LicensePending RoutePending"
    " Downloading Downloaded".split()
)


class Row(TypedDict):
    """A service's row in the list; figures are those that serve, and null while there is no plan."""

    namespace: str
    name: str
    uid: str
    resourceVersion: str
    model: str
    status: str
    state: str
    message: str
    ready: str
    replicas: int
    readyReplicas: int
    gpus: int | None
    gpuType: str | None
    tp: int | None
    pp: int | None
    nodes: int | None
    maxModelLen: int | None
    dtype: str | None
    quantization: str | None
    family: str
    created: str | None
    suspend: bool
    deleting: bool
    generation: int
    observedGeneration: int | None


def row_of(service: LLMService) -> Row:
    """The line of a service."""
    meta, spec, status, plan = service.metadata, service.spec, service.status, service.status.plan
    ready, figures = service.condition("Ready"), status.in_force or plan
    return Row(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resourceVersion=meta.resource_version,
        model=spec.model.id,
        status=ready.reason if ready else "",
        state=state_of(service, ready),
        message=(ready.message if ready else "")[:MESSAGE_MAX],
        ready=status.ready or f"0/{spec.replicas}",
        replicas=spec.replicas,
        readyReplicas=status.ready_replicas or 0,
        gpus=figures.gpus if figures else None,
        gpuType=plan.gpu_type if plan else None,
        tp=figures.tp if figures else None,
        pp=plan.pp if plan else None,
        nodes=plan.nodes if plan else None,
        maxModelLen=figures.max_model_len if figures else None,
        dtype=plan.dtype if plan else None,
        quantization=figures.quantization if figures else None,
        family=spec.image.family,
        created=meta.creation_timestamp,
        suspend=spec.suspend,
        deleting=meta.deletion_timestamp is not None,
        generation=meta.generation,
        observedGeneration=status.observed_generation,
    )


def state_of(service: LLMService, ready: Condition | None) -> str:
    """One of four: serves, is on the way, needs somebody, is switched off."""
    if service.spec.suspend or service.spec.replicas == 0:
        return OFF
    if ready is None or ready.status == "Unknown":
        return WAIT
    if ready.status == "True":
        return GOOD
    return WAIT if ready.reason in PASSING else BAD
