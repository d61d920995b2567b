"""Shows what would be planned for a spec on this cluster, before anything is applied.

The decision itself is the operator's own (`plan.decide`), on the facts of the model and the GPUs that the nodes offer.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from windlass_api.crd.status import PlanStatus
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.names import JOB_ANNOTATION, RESULT_ANNOTATION
from windlass_api.objects.claims import FIELDS, Claims
from windlass_api.objects.inventory import inventory, usable
from windlass_api.objects.reading import annotation_of, newest_first, uid_of
from windlass_api.plan.model import Inventory, NodeGpus, Refusal
from windlass_api.plan.settings_table import settings_table
from windlass_base.kube.errors import ForbiddenError, NotFoundError
from windlass_base.kube.rest import Api
from windlass_sizing.errors import FactsError
from windlass_sizing.files.checkpoint import CheckpointReport, inspect
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_sizing.settings.setting import Setting

from windlass_client import in_force, paths, watching
from windlass_client.errors import NoFactsError
from windlass_client.in_force import InForce
from windlass_client.predicted import prediction
from windlass_client.values import AnyService, meta_of, service_of, spec_of

CONFIG = "config.json"
NOTHING = InForce()


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """What would be planned: a plan, or a refusal with its reason and remedy."""

    facts: ModelFacts
    inventory: Inventory  # the GPU nodes as they were read
    plan: PlanStatus | None
    reason: str  # Planned, or the refusal's word
    message: str
    remedy: str = ""
    in_force: bool = False  # the service has this plan already, and keeps it
    prediction: dict[str, Any] | None = None  # how fast it would be, predicted from measurements of other shapes
    settings: tuple[Setting, ...] = ()  # that the server starts with, without defaults

    @property
    def fits(self) -> bool:
        """Whether a plan was made."""
        return self.plan is not None

    def to_dict(self) -> dict[str, Any]:
        """For `-o json` and HTTP."""
        plan = self.plan.model_dump(mode="json", by_alias=True, exclude_none=True) if self.plan else None
        return {
            "fits": self.fits,
            "inForce": self.in_force,
            "reason": self.reason,
            "message": self.message,
            "remedy": self.remedy,
            "plan": plan,
            "settings": [{"setting": one.name, "value": one.shown, "from": one.source} for one in self.settings],
            "prediction": self.prediction,
            "model": self.facts.to_dict(),
            "gpus": [self._node(node) for node in self.inventory.nodes],
        }

    def _node(self, node: NodeGpus) -> dict[str, Any]:
        """One node; `free` is for this service, and null where nobody knows."""
        free = node.free if self.inventory.pods_listed else None
        return {"node": node.node, "product": node.product, "allocatable": node.allocatable, "free": free}


@dataclass(frozen=True, slots=True)
class Known:
    """Where the facts may come from."""

    namespace: str
    name: str
    model: Path | str | Mapping[str, Any] | ModelFacts | None


async def preview(api: Api, service: LLMServiceSpec | AnyService, known: Known) -> PlanPreview:
    """Plan the spec on the live cluster's nodes; InvalidError when the spec itself is wrong."""
    spec, name = spec_of(service), known.name or meta_of(service, "name")
    if known.model is None:
        facts = await _facts_of_service(api, spec, known.namespace, name)
    else:
        facts = facts_of(known.model)
    gpus = await read_inventory(api, known.namespace, name)
    return decided(spec, facts, gpus, await in_force.read(api, known.namespace, name))


def decided(spec: LLMServiceSpec, facts: ModelFacts, gpus: Inventory, now: InForce = NOTHING) -> PlanPreview:
    """Pure: the operator's decision as a preview; `now` is what the service goes by already."""
    answer, kept = in_force.decide_again(spec, facts, gpus, now)
    if isinstance(answer, Refusal):
        return PlanPreview(facts, gpus, None, answer.reason, answer.message, answer.remedy)
    plan = PlanStatus.model_validate(answer.to_status())
    speed = prediction(spec, facts, plan)
    table = settings_table(spec, answer)
    return PlanPreview(facts, gpus, plan, "Planned", answer.summary(), in_force=kept, prediction=speed, settings=table)


def facts_of(model: Path | str | Mapping[str, Any] | ModelFacts) -> ModelFacts:
    """Facts from a model directory, a config.json, or the content of one; NoFactsError says what is wrong."""
    if isinstance(model, ModelFacts):
        return model
    try:
        if isinstance(model, Mapping):
            return from_config(model)
        return _facts_on_disk(Path(model))
    except FactsError as error:
        raise NoFactsError(f"the model cannot be planned for: {error}") from error


def _facts_on_disk(path: Path) -> ModelFacts:
    """A whole directory is inspected as the operator does it; a lone config.json is enough for a preview."""
    if path.is_dir() and any(path.glob("*.safetensors")):
        report = inspect(path.absolute().parent, path.name, "this machine")
        if report.facts is None:
            raise NoFactsError(report.message)
        return report.facts
    file = path / CONFIG if path.is_dir() else path
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NoFactsError(f"{file} cannot be read as a model's config.json: {error}") from error
    if not isinstance(config, dict):
        raise NoFactsError(f"{file} is not a model's config.json: it holds no object")
    return from_config(config)


async def _facts_of_service(api: Api, spec: LLMServiceSpec, namespace: str, name: str) -> ModelFacts:
    """What the inspect Job of an existing service found, when that one reads the same source."""
    where = f"llmservice {namespace}/{name}"
    if not name:
        raise NoFactsError("nothing is known of the model: give its directory or config.json, or an existing service")
    try:
        raw = await api.call("GET", paths.services(namespace, name), where)
    except NotFoundError as error:
        raise NoFactsError(
            f"{where} does not exist yet, so nothing is known of the model: give its directory or config.json"
        ) from error
    if _looked_at(service_of(raw).spec) != _looked_at(spec):
        raise NoFactsError(f"{where} reads another source than this spec: give the model's directory or config.json")
    jobs = await watching.listing(
        api, watching.Collection(paths.jobs(namespace), "jobs", {"labelSelector": paths.inspection_of(name)})
    )
    for keeper in (*newest_first(jobs.rows), *await _keeper(api, namespace, name, {uid_of(job) for job in jobs.rows})):
        facts = _finding(annotation_of(keeper, RESULT_ANNOTATION))
        if facts is not None:
            return facts
    raise NoFactsError(f"{where}: its model has not been looked at yet; see condition ModelReady")


async def _keeper(api: Api, namespace: str, name: str, jobs: Collection[str]) -> tuple[Mapping[str, Any], ...]:
    """The Service, which keeps the finding once there is a plan, where that of one of these Jobs; `jobs` are uids."""
    try:
        service = await api.call("GET", paths.core(namespace, "services", name), f"service {namespace}/{name}")
    except (NotFoundError, ForbiddenError):
        return ()
    return (service,) if annotation_of(service, JOB_ANNOTATION) in jobs else ()


def _looked_at(spec: LLMServiceSpec) -> tuple[object, ...]:
    """What the inspect Job's facts come from."""
    model = spec.model
    return model.source, model.base, model.merge, tuple(model.adapters), spec.engine.speculation


def _finding(text: str) -> ModelFacts | None:
    """The facts in what an inspect Job wrote; None when it found none, or is of another version."""
    try:
        return CheckpointReport.from_dict(json.loads(text)).facts
    except (ValueError, AttributeError, FactsError):
        return None


async def read_inventory(api: Api, namespace: str, name: str) -> Inventory:
    """The cluster's GPUs; what the service's own pods hold counts as free for it.

    Without the right to list all pods nothing is known to be taken: no plan depends on it, only how pods are replaced.
    """
    nodes = await watching.listing(api, watching.Collection(paths.NODES, "nodes"))
    claims, pods = Claims(), watching.Collection(paths.PODS_EVERYWHERE, "pods", {"fieldSelector": FIELDS})
    listed = True
    try:
        for pod in (await watching.listing(api, pods)).rows:
            claims.put(pod)
    except ForbiddenError:
        listed = False
    return replace(inventory(usable(nodes.rows), claims.taken((namespace, name))), pods_listed=listed)
