"""Pure glue above plan, manifests and status, which do not know each other: what one LLMService's objects shall be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError
from windlass_api.crd.model import ModelSource
from windlass_api.crd.v1alpha1 import ImageSpec, LLMService
from windlass_api.names import FINISHED_ANNOTATION, JOB_ANNOTATION, RESULT_ANNOTATION
from windlass_api.objects.records import mapped
from windlass_api.plan.args import DEEPSPEED, container_command, engine_variables
from windlass_api.plan.model import Plan
from windlass_api.plan.record import PLAN_ANNOTATION, PlanRecord, digest_of
from windlass_sizing.model.facts import ModelFacts

from windlass_operator.cluster.decode import UNREAD
from windlass_operator.errors import UserError
from windlass_operator.manifests.deployment import deployment
from windlass_operator.manifests.disruption import disruption_budget
from windlass_operator.manifests.group import GroupShape, group_objects
from windlass_operator.manifests.metadata import Manifest
from windlass_operator.manifests.overlay import judge
from windlass_operator.manifests.peers import has_peers, peer_objects, peers_variable
from windlass_operator.manifests.pod import PodShape, pod_template
from windlass_operator.manifests.route import http_route, ingress, judge_annotations
from windlass_operator.manifests.service import service as service_manifest
from windlass_operator.manifests.sources import serving_mounts, sources
from windlass_operator.manifests.volume import allowed_node_paths, judge_claims, model_volume, within
from windlass_operator.records.routes import expose_of
from windlass_operator.records.workloads import Job
from windlass_operator.settings import Settings
from windlass_operator.status.hold import HELD_ANNOTATION, Hold
from windlass_operator.status.inspection import Inspection
from windlass_operator.status.observe import Subject


def as_installed(raw: Manifest, settings: Settings) -> Manifest:
    """The resource as this installation takes it: where no service needs a license, its spec says so."""
    if settings.license_required or UNREAD in raw:
        return raw
    spec = mapped(raw.get("spec"))
    return {**raw, "spec": {**spec, "license": {**mapped(spec.get("license")), "required": False}}}


def parse_service(raw: Mapping[str, Any]) -> LLMService:
    """The resource as our model; UserError when it got past the API server and is still not usable."""
    if UNREAD in raw:
        raise UserError("SpecTooLarge", str(raw[UNREAD]))
    try:
        service = LLMService.model_validate(raw)
        for _, source in sources(service):
            model_volume(source)
        judge_claims(sources(service), service.spec.cache.claim)
    except ValidationError as error:
        raise UserError("Rejected", _first_of(error)) from error
    except ValueError as error:
        raise UserError("Rejected", str(error)) from error
    return service


def _first_of(error: ValidationError) -> str:
    """The first thing that is wrong, in a sentence that names its field."""
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return (
            f"{where} is not allowed, since it could raise the pod's privileges or break what the operator keeps; "
            "`kubectl explain llmservice.spec.podTemplate.spec --recursive` lists what is allowed"
        )
    return f"{where}: {first['msg']}"


def must_be_allowed(service: LLMService, settings: Settings) -> None:
    """UserError when the spec asks for what this installation does not allow."""
    try:
        places = [one.path for one in serving_mounts(service, "")]
        judge(service.spec.pod_template, settings.pod_annotations, places)
        judge_annotations(service.spec.expose.ingress, settings.ingress_annotations)
    except ValueError as error:
        raise UserError("Rejected", str(error)) from error
    for field, source in sources(service):
        _source_must_be_allowed(field, source, settings)


def _source_must_be_allowed(field: str, source: ModelSource, settings: Settings) -> None:
    volume = model_volume(source)
    path = volume.node_path
    if not path or within(path, settings.node_paths):
        return
    raise UserError(
        "NodePathForbidden",
        f"{field} points at {PurePosixPath(path, volume.path)} of the nodes, and the Job that looks at it "
        f"mounts {path}; {allowed_node_paths(settings.node_paths)}",
    )


def subject_of(raw: Mapping[str, Any]) -> Subject:
    """What the status needs of a resource, however broken it is."""
    meta, spec, status = (mapped(raw.get(part)) for part in ("metadata", "spec", "status"))
    replicas = _wanted_before(status) if UNREAD in raw else spec.get("replicas")
    return Subject(
        name=str(meta.get("name")),
        namespace=str(meta.get("namespace")),
        generation=int(meta.get("generation") or 0),
        replicas=replicas if isinstance(replicas, int) else 1,
        license_required=mapped(spec.get("license")).get("required") is not False,
        previous=status,
        suspended=spec.get("suspend") is True,
        expose=expose_of(spec.get("expose")),
        counts_hits=bool(mapped(mapped(spec.get("engine")).get("prefixOffload")).get("enabled")),
    )


def _wanted_before(status: Mapping[str, Any]) -> int | None:
    """How many replicas the last status wanted, of a resource whose spec was not read."""
    text = str(status.get("ready") or "").rpartition("/")[2]
    return int(text) if text.isdecimal() else None


def model_sentence(service: LLMService, facts: ModelFacts) -> str:
    """What was found, in one line for ModelReady."""
    size = f", {facts.weights_bytes / 1024**3:.2f} GiB of weights" if facts.weights_bytes else ""
    where = model_volume(service.spec.model.source).label
    adapter = f", base of the adapter{f' at {facts.base_path}' if facts.base_path else ''}" if facts.is_adapter else ""
    return f"{facts.architecture}, {facts.params_text} parameters{size}{adapter}, in {where}"


def workload(
    service: LLMService,
    record: PlanRecord,
    settings: Settings,
    held: Hold | None = None,
    finding: Mapping[str, str] | None = None,
) -> tuple[Manifest, ...]:
    """The objects that serve the model by this plan; a held service has no pods, and its Service remembers why.

    The Service comes first: it keeps the plan, so an operator that ends in between goes on with the same one. `finding`
    are the annotations that keep what the inspection found.
    """
    several = record.plan.nodes > 1
    front = _annotated(
        service_manifest(service, heads_only=several),
        {PLAN_ANNOTATION: record.to_text(), **({HELD_ANNOTATION: held.to_text()} if held else {}), **(finding or {})},
    )
    shape, spec = pod_shape(service, record.plan, settings), service.spec
    replicas = 0 if spec.suspend or held else spec.replicas
    pods = _replicas(service, record, shape, replicas, settings)
    routes = (
        *((ingress(service, spec.expose.ingress),) if spec.expose.ingress else ()),
        *((http_route(service, spec.expose.gateway),) if spec.expose.gateway else ()),
    )
    # The replicas' way to each other comes before them, and its policy before anybody could use it.
    peers = peer_objects(service, pods, heads_only=several, closed=settings.group_network_policy)
    return (front, *peers, *pods, disruption_budget(service), *routes)


def _replicas(
    service: LLMService, record: PlanRecord, shape: PodShape, replicas: int, settings: Settings
) -> tuple[Manifest, ...]:
    """One Deployment of replicas on one node each, or a group of pods for each replica."""
    plan = record.plan
    if plan.group is None:
        return (deployment(service, shape, record.rollout, {}, replicas),)
    group = GroupShape(shape, plan.nodes, plan.group, closed=settings.group_network_policy)
    return group_objects(service, group, replicas)


def pods_digest(service: LLMService, plan: Plan, settings: Settings) -> str:
    """Names the serving pods that a plan makes; it changes when they would be replaced."""
    return digest_of(pod_template(service, pod_shape(service, plan, settings)))


def with_rollout(record: PlanRecord, pods: str, rollout: str) -> PlanRecord:
    """The record of pods that are about to change in this way."""
    return replace(record, pods=pods, rollout=rollout)


def pod_shape(service: LLMService, plan: Plan, settings: Settings) -> PodShape:
    """The serving pod that a plan and the operator's settings make."""
    command, args = container_command(service.spec, plan)
    return PodShape(
        image=_serving_image(service.spec.image, plan, settings),
        command=command,
        args=args,
        cpu=plan.cpu,
        memory=plan.memory,
        shm=plan.shm,
        gpus=plan.gpus // max(1, plan.nodes),
        gpu_resource=plan.resource,
        weights_gib=plan.weights_gib,
        node_selector=plan.node_selector,
        license_addresses=settings.license_addresses,
        license_keys=settings.license_public_keys,
        base=plan.base,
        env=(
            *settings.server_log_env,
            *_traces(service, settings),
            *engine_variables(service.spec, plan),
            *((peers_variable(service),) if has_peers(service) else ()),
        ),
    )


def _traces(service: LLMService, settings: Settings) -> tuple[tuple[str, str], ...]:
    """The DeepSpeed server makes no traces."""
    if not settings.traces_env or service.spec.image.family != "vllm":
        return ()
    return (*settings.traces_env, ("OTEL_SERVICE_NAME", service.metadata.name))


def _serving_image(image: ImageSpec, plan: Plan, settings: Settings) -> str:
    """The whole reference: ours by the digest that the installation gives, unless the spec names a part of it."""
    ours = _image_of_ours(image.family, plan, settings)
    if "@" in ours and not (image.repository or image.version):
        return ours
    return f"{image.repository or ours.partition('@')[0]}:{image.version or settings.server_version}"


def _image_of_ours(family: str, plan: Plan, settings: Settings) -> str:
    """The repository for this family, on GPUs or on CPUs, with its digest where the installation names one."""
    if family == DEEPSPEED:
        return settings.deepspeed_image if plan.gpus else settings.deepspeed_cpu_image
    return settings.server_image if plan.gpus else settings.server_cpu_image or settings.server_image


def _annotated(manifest: Manifest, annotations: Mapping[str, str]) -> Manifest:
    meta = manifest["metadata"]
    return {**manifest, "metadata": {**meta, "annotations": {**meta.get("annotations", {}), **annotations}}}


def with_finding(job: Manifest, inspection: Inspection) -> Manifest:
    """The Job with its finding kept on it, so that it outlives the pod."""
    return _annotated(job, _kept(inspection)) if inspection.text else job


def finding_on(job: Manifest) -> dict[str, str]:
    """The annotations of a rendered Job that keep a finding."""
    annotations = job["metadata"].get("annotations", {})
    return {key: text for key, text in annotations.items() if key in (RESULT_ANNOTATION, FINISHED_ANNOTATION)}


def finding_of(job: Job, inspection: Inspection) -> dict[str, str]:
    """The finding of this Job as annotations of the Service."""
    return {**_kept(inspection), JOB_ANNOTATION: job.uid}


def _kept(inspection: Inspection) -> dict[str, str]:
    return {RESULT_ANNOTATION: inspection.text, FINISHED_ANNOTATION: inspection.finished_at}
