"""A member's part in its group, as the supervisor uses it, and what the facts port shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from windlass.errors import MemberLostError, WindlassError
from windlass.group.messages import END, GroupMessage
from windlass.group.plan import GroupPlan

STOPPED = "it was told to stop"


class Membership(Protocol):
    """`run` stays with the others while the rest of this member's life goes on beside it."""

    async def run(self) -> None:
        """Meet the others and watch them; never returns. GroupError when the group cannot serve."""

    async def ready(self) -> None:
        """Say that this member may start its engine, and wait until all members may."""

    async def served(self) -> None:
        """Wait until the head says that the group serves; a head has its own engine to ask."""

    async def serving(self) -> None:
        """Tell the others that the group serves."""

    async def part(self, error: WindlassError | None) -> None:
        """Tell the others why this member goes: told to stop when there is no error."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The group, as this member sees it."""

    plan: GroupPlan
    waiting_for: tuple[int, ...] = ()
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For the facts port."""
        plan = self.plan
        return {
            "head": plan.head,
            "size": plan.size,
            "index": plan.index,
            "engine": plan.engine,
            "waitingFor": list(self.waiting_for),
            "message": self.message,
        }


def last_message(plan: GroupPlan, error: WindlassError | None) -> GroupMessage:
    """The end that the others get: the member that failed, and why."""
    if isinstance(error, MemberLostError):
        return GroupMessage(END, member=error.members[0], text=str(error))
    return GroupMessage(END, member=plan.index, text=str(error) if error else STOPPED)
