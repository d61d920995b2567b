"""Puts a member's parts together: its membership, and the engine that a member of its kind runs. Called by `exec`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec

from windlass.errors import RayError, UsageError
from windlass.group import arguments, contract
from windlass.group.contract import RAY
from windlass.group.follower import Follower
from windlass.group.head import Head
from windlass.group.membership import GroupFacts, Membership
from windlass.group.plan import GroupPlan
from windlass.group.ray_cluster import RayCluster
from windlass.supervisor.supervise import Engine


def join(
    plan: GroupPlan | None,
    cards: int,
    alone: Engine,
    engine_args: tuple[str, ...],
    report: Callable[[GroupFacts], None],
) -> tuple[Engine, Membership | None]:
    """The engine of this machine and its membership, out of its engine alone; to be called inside the event loop."""
    if plan is None:
        return alone, None
    if plan.engine == RAY and find_spec("ray") is None:
        raise UsageError(
            f"this image has no Ray; set {contract.ENGINE.name} to {contract.NATIVE}, or add the package ray"
        )
    engine = _member_engine(plan, cards, alone, engine_args)
    if not plan.is_head:
        return engine, Follower(plan, report)
    cluster = RayCluster(plan, cards, engine.variables, alone.command[0]) if plan.engine == RAY else None
    return engine, Head(plan, report, cluster)


def _member_engine(plan: GroupPlan, cards: int, alone: Engine, engine_args: tuple[str, ...]) -> Engine:
    ours = arguments.engine_variables(plan)
    given = {name: os.environ[name] for name in ours.keys() & arguments.RAY_VARIABLES.keys() & os.environ.keys()}
    variables = {**alone.variables, **ours, **given}
    if plan.is_head:
        return replace(alone, variables=variables)
    command = arguments.follower_command(plan, alone.command[0], engine_args, cards)
    # The head's time-out is the group's: a follower may be silent as long as the head says something.
    engine = replace(alone, command=command, health_url="", variables=variables, start_timeout_s=None, opening=None)
    if plan.engine != RAY:
        return engine
    return replace(engine, name="Ray", failure=lambda sentence, _: RayError(sentence, (plan.index,)))
