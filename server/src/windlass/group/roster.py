"""The members of a group that are connected, as the head sees them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.group.messages import HELLO, VERSION, GroupMessage
from windlass.group.plan import GroupPlan


@dataclass(slots=True)
class Roster:
    """The connected followers, and those of them that have their license and may start their engine."""

    plan: GroupPlan
    present: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)

    @property
    def missing(self) -> tuple[int, ...]:
        """Followers that are not connected."""
        return tuple(index for index in self.plan.followers if index not in self.present)

    @property
    def unready(self) -> tuple[int, ...]:
        """Followers that are not connected, or not ready."""
        return tuple(index for index in self.plan.followers if index not in self.ready)

    def refusal(self, hello: GroupMessage) -> str:
        """Why the sender can never be a member of this group; empty when it can."""
        plan = self.plan
        if hello.kind != HELLO or hello.version != VERSION:
            return f"it speaks another version of the messages than {VERSION}; run the same image on all members"
        if hello.member not in plan.followers:
            numbers = f"number the members 0 … {plan.size - 1}"
            return f"member {hello.member} is no follower of a group of {plan.size}; {numbers}"
        if (hello.size, hello.engine) != (plan.size, plan.engine):
            own, other = f"{plan.size} members by {plan.engine}", f"{hello.size} by {hello.engine}"
            return f"member {hello.member} has variables for {other}, the head for {own}; give all the same"
        return ""

    def later(self, hello: GroupMessage) -> str:
        """Why the sender is no member of this group now; empty when it is one."""
        if hello.revision == self.plan.revision:
            return ""
        return f"is of revision {self.plan.revision or 'none'}, this member of {hello.revision or 'none'}"

    def come(self, member: int) -> None:
        """This member has connected."""
        self.present.add(member)

    def gone(self, member: int) -> None:
        """This member has gone."""
        self.present.discard(member)
        self.ready.discard(member)


def named(members: tuple[int, ...], size: int) -> str:
    """Members in a sentence, as `members 1 and 3 of 4`."""
    noun = "member" if len(members) == 1 else "members"
    *first, last = (str(member) for member in members)
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"{noun} {listed} of {size}"
