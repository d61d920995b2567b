"""The plan that a reconcile goes by: the one in force while nothing that it was made from changed, else a new one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from windlass_api.objects.inventory import inventory
from windlass_api.plan.model import Inventory, Placement, Plan, Refusal
from windlass_api.plan.record import PLAN_ANNOTATION, PlanRecord, inputs_digest, recorded_plan
from windlass_api.plan.rollout import choose_rollout
from windlass_sizing.model.facts import ModelFacts

from windlass_operator.cluster.protocol import Cluster
from windlass_operator.errors import UserError
from windlass_operator.planner.process import Question, answer
from windlass_operator.reconcile import earlier
from windlass_operator.reconcile.desired_state import pods_digest, with_rollout
from windlass_operator.reconcile.snapshot import Snapshot
from windlass_operator.settings import Settings
from windlass_operator.spans import spans
from windlass_operator.status import conditions as c
from windlass_operator.status.conditions import Verdict

Decide = Callable[[str, Question], Awaitable[Plan | Refusal]]  # for a namespace


@dataclass(frozen=True, slots=True)
class Outcome:
    """What planning came to: the record to serve by, or only the words of `verdict`."""

    verdict: Verdict
    record: PlanRecord | None = None
    before: PlanRecord | None = None  # the record that was there


@dataclass(frozen=True, slots=True)
class Planning:
    """What planning needs beside the snapshot."""

    cluster: Cluster
    settings: Settings
    decide: Decide


async def in_place(_namespace: str, question: Question) -> Plan | Refusal:
    """The plan, decided in this process and without a limit: for tests; the operator has `planner/pool.py`."""
    found = answer(question)
    decided = found.plan or found.refusal
    if decided is None:
        raise UserError("InternalError", f"planning failed with {found.error}")
    return decided


@spans.stage("plan")
async def plan(by: Planning, snapshot: Snapshot, facts: ModelFacts) -> Outcome:
    """The plan for the model that was found, and how its pods are replaced."""
    service = snapshot.children.service
    before = recorded_plan(service.annotation(PLAN_ANNOTATION) if service else "")
    same = before is not None and earlier.unchanged(snapshot, by.settings.operator_image)
    outcome = await _decided(by, snapshot, facts, before, same)
    if outcome.record is None:
        return outcome
    if same and before is not None and outcome.record.plan == before.plan:
        return Outcome(outcome.verdict, outcome.record, before)  # the pods stay, and so does how they are replaced
    return Outcome(outcome.verdict, await _rolled_out(by, snapshot, outcome.record, before), before)


async def _decided(
    by: Planning, snapshot: Snapshot, facts: ModelFacts, before: PlanRecord | None, same: bool
) -> Outcome:
    """`same` is whether another operator made the plan for this very service: it may count its inputs otherwise."""
    digest = inputs_digest(snapshot.service, facts)
    kept = replace(before, digest=digest) if before is not None and (same or before.digest == digest) else None
    if kept is not None and not snapshot.cannot_be_placed:
        return Outcome(c.yes("Planned", kept.plan.summary()), kept)
    meta = snapshot.service.metadata
    inventory = Inventory(await by.cluster.gpu_nodes())  # what is free at the moment decides no plan
    keep = Placement(kept.plan.gpu_type, kept.plan.gpus, kept.plan.nodes) if kept and kept.plan.gpu_type else None
    question = Question(dict(snapshot.raw["spec"]), facts.to_dict(), inventory, keep)
    decided = await by.decide(meta.namespace, question)
    if not isinstance(decided, Refusal):
        return Outcome(c.yes("Planned", decided.summary()), PlanRecord(digest, decided))
    if kept is not None:  # it cannot be placed now, and nothing else would fit either: the pods' own words say why
        return Outcome(c.yes("Planned", kept.plan.summary()), kept)
    return Outcome(Verdict(c.FALSE, decided.reason, decided.sentence()))


async def _rolled_out(by: Planning, snapshot: Snapshot, record: PlanRecord, before: PlanRecord | None) -> PlanRecord:
    """How the pods will be replaced: chosen when they are about to change, and kept until they change again."""
    pods = pods_digest(snapshot.service, record.plan, by.settings)
    if before is not None and before.pods == pods and before.rollout:
        return with_rollout(record, pods, before.rollout)
    meta = snapshot.service.metadata
    free = await _free_gpus(by, meta.namespace, meta.name, own_is_free=False)
    return with_rollout(record, pods, choose_rollout(snapshot.service.spec.deployment.rollout, record.plan, free))


async def _free_gpus(by: Planning, namespace: str, name: str, *, own_is_free: bool) -> Inventory:
    """GPUs as the service `namespace/name` sees them: what its own pods hold counts as free for it, or not."""
    nodes = await by.cluster.gpu_nodes()
    if not nodes:
        return Inventory()
    besides = (namespace, name) if own_is_free else None
    return inventory(nodes, await by.cluster.gpus_taken(by.settings.watch_namespaces, besides))
