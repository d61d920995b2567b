"""What the client answers with: the resource's own models, and small values for events, pods, log lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import Field, ValidationError
from windlass_api.crd import v1alpha1
from windlass_api.crd.base import ApiModel
from windlass_api.crd.status import Condition
from windlass_api.names import DOWNLOAD, INSPECT, SERVER
from windlass_api.objects.reading import Object, dig, is_leaving, is_ready, name_of
from windlass_api.objects.records import listed, mapped
from windlass_base.kube.errors import FieldProblem, InvalidError, UnreadableError


class Metadata(v1alpha1.Metadata):
    """Kubernetes' object metadata as a console shows it."""

    creation_timestamp: str | None = None


class LLMService(v1alpha1.LLMService):
    """An LLMService as it was read; `spec` and `status` are the operator's own models."""

    metadata: Metadata = Field(default_factory=Metadata)

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type, or None."""
        return next((row for row in self.status.conditions if row.type == type_), None)

    def is_ready(self) -> bool:
        """Whether all replicas of the present spec answer, by the rule of `kubectl wait --for=condition=Ready`."""
        ready = self.condition("Ready")
        return ready is not None and ready.status == "True" and ready.observed_generation == self.metadata.generation


AnyService: TypeAlias = v1alpha1.LLMService | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change; of a deleted service the last that was known."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    service: LLMService


@dataclass(frozen=True, slots=True)
class ServiceEvent:
    """A Kubernetes Event about a service or one of its objects; times are RFC 3339."""

    type: str  # Normal or Warning
    reason: str
    message: str
    object: str  # for example Pod/qwen-7d9
    count: int
    first_time: str
    last_time: str


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a service: it serves, or it fetches or inspects the model."""

    name: str
    phase: str  # Pending, Running, Succeeded, Failed, Unknown
    ready: bool
    restarts: int
    node: str  # empty while it has none
    created: str
    containers: tuple[str, ...]
    state: str  # the first container's, in a word: Running, CrashLoopBackOff, ContainerCreating, …
    deleting: bool

    @property
    def container(self) -> str:
        """The container that does the pod's work; others may be injected before it."""
        return next((one for one in (SERVER, DOWNLOAD, INSPECT) if one in self.containers), SERVER)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a container wrote, without its end."""

    pod: str
    container: str
    text: str
    time: str = ""  # RFC 3339; only of lines that are followed
    goes_on: bool = False  # the line is longer than a piece, and goes on with the next one


# A class that has a method `list` cannot write `list[…]` in what its other methods answer with.
Services: TypeAlias = list[LLMService]
Pods: TypeAlias = list[Pod]
ServiceEvents: TypeAlias = list[ServiceEvent]
Rows: TypeAlias = list[dict[str, Any]]


def service_of(raw: Mapping[str, Any]) -> LLMService:
    """A stored resource as our model; UnreadableError when it holds what the model does not know."""
    try:
        return LLMService.model_validate(raw)
    except ValidationError as error:
        who = f"{dig(raw, 'metadata', 'namespace')}/{dig(raw, 'metadata', 'name')}"
        raise UnreadableError(
            f"llmservice {who}: {problems_of(error, '')[0].message}; this client may be older than the CRD: upgrade it"
        ) from error


def spec_of(document: v1alpha1.LLMServiceSpec | AnyService) -> v1alpha1.LLMServiceSpec:
    """The spec in a document that a caller wrote; InvalidError names the fields that are wrong."""
    if isinstance(document, v1alpha1.LLMServiceSpec):
        return document
    if isinstance(document, v1alpha1.LLMService):
        return document.spec
    spec = document.get("spec", document)
    try:
        return v1alpha1.LLMServiceSpec.model_validate(spec)
    except ValidationError as error:
        problems = problems_of(error, "spec")
        raise InvalidError("; ".join(row.message for row in problems), problems) from error


def problems_of(error: ValidationError, root: str) -> tuple[FieldProblem, ...]:
    """Pydantic's findings, each with its field in front; `root` is where the validated part lies."""
    rows = ((".".join(part for part in (root, *map(str, row["loc"])) if part), row["msg"]) for row in error.errors())
    return tuple(FieldProblem(field, f"{field}: {words}") for field, words in rows)


def plain(value: object) -> object:
    """What a caller gave, as JSON: of a model only the fields that were set."""
    if isinstance(value, ApiModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def meta_of(document: object, key: str) -> str:
    """A word of the document's metadata, be it a model or a mapping; empty when it is not there."""
    meta = document.get("metadata") if isinstance(document, Mapping) else getattr(document, "metadata", None)
    return str((meta.get(key) if isinstance(meta, Mapping) else getattr(meta, key, "")) or "")


def without_nulls(value: object) -> object:
    """A JSON value without the fields that are null: the API server drops them from a POST and refuses an apply."""
    if isinstance(value, Mapping):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


SENT = ("name", "namespace", "labels", "annotations")


def manifest_of(service: AnyService, namespace: str) -> dict[str, Any]:
    """The document to send: what the caller gave, in its namespace, without status and without the server's own."""
    given = without_nulls(plain(service))
    if not isinstance(given, dict):
        raise InvalidError("give an LLMService or a mapping with metadata and spec")
    for key, wanted in (("apiVersion", v1alpha1.API_VERSION), ("kind", v1alpha1.KIND)):
        if given.get(key, wanted) != wanted:
            raise InvalidError(f'{key} is "{given[key]}": this client writes {wanted}')
    meta = {key: value for key, value in (given.get("metadata") or {}).items() if key in SENT and value}
    if not meta.get("name"):
        raise InvalidError("metadata.name is missing", (FieldProblem("metadata.name", "missing"),))
    return {
        "apiVersion": v1alpha1.API_VERSION,
        "kind": v1alpha1.KIND,
        "metadata": {**meta, "namespace": namespace},
        "spec": given.get("spec") or {},
    }


def counted(value: object) -> int:
    """A count as Kubernetes sends it; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else 0


def container_names(pod: Object) -> tuple[str, ...]:
    """The names of a pod's containers."""
    return tuple(str(row.get("name")) for row in listed(dig(pod, "spec", "containers")))


def pod_of(raw: Object) -> Pod:
    """A pod in short."""
    rows = listed(dig(raw, "status", "containerStatuses"))
    return Pod(
        name=name_of(raw),
        phase=str(dig(raw, "status", "phase") or "Unknown"),
        ready=is_ready({"status": {"conditions": listed(dig(raw, "status", "conditions"))}}),
        restarts=sum(counted(row.get("restartCount")) for row in rows),
        node=str(dig(raw, "spec", "nodeName") or ""),
        created=str(dig(raw, "metadata", "creationTimestamp") or ""),
        containers=container_names(raw),
        state=_state(raw, rows),
        deleting=is_leaving(raw),
    )


def _state(raw: Object, rows: list[Object]) -> str:
    state = dig(rows[0], "state") if rows else None
    for kind in ("waiting", "terminated"):
        if dig(state, kind):
            return str(dig(state, kind, "reason") or kind)
    return (
        "Running" if dig(state, "running") else str(dig(raw, "status", "reason") or dig(raw, "status", "phase") or "")
    )


def event_of(raw: Object) -> ServiceEvent:
    """An Event in short; old and new spelling of its times."""
    first = str(raw.get("firstTimestamp") or raw.get("eventTime") or dig(raw, "metadata", "creationTimestamp") or "")
    about = mapped(raw.get("involvedObject"))
    return ServiceEvent(
        type=str(raw.get("type") or "Normal"),
        reason=str(raw.get("reason") or ""),
        message=str(raw.get("message") or ""),
        object=f"{about.get('kind')}/{about.get('name')}",
        count=counted(raw.get("count")) or counted(dig(raw, "series", "count")) or 1,
        first_time=first,
        last_time=str(raw.get("lastTimestamp") or dig(raw, "series", "lastObservedTime") or first),
    )
