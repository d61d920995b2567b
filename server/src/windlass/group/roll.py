"""Who of the group is there, as the head sees it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.group.plan import GroupPlan
from windlass.group.words import HELLO, VERSION, Word


@dataclass(slots=True)
class Roll:
    """The followers that came, and those of them that may start their engine."""

    plan: GroupPlan
    present: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)

    @property
    def missing(self) -> tuple[int, ...]:
        """Followers that are not there."""
        return tuple(index for index in self.plan.followers if index not in self.present)

    @property
    def unready(self) -> tuple[int, ...]:
        """Followers that are not there, or not ready."""
        return tuple(index for index in self.plan.followers if index not in self.ready)

    def refusal(self, word: Word) -> str:
        """Why this hello is none of this group's; empty when it is welcome."""
        plan = self.plan
        if word.kind != HELLO or word.version != VERSION:
            return f"it does not speak version {VERSION} of the group's words; run the same image on all members"
        if word.member not in plan.followers:
            return (
                f"member {word.member} is no follower of a group of {plan.size}; number the members 0 … {plan.size - 1}"
            )
        if (word.size, word.engine) != (plan.size, plan.engine):
            own, other = f"{plan.size} members by {plan.engine}", f"{word.size} by {word.engine}"
            return f"member {word.member} was told of {other}, the head of {own}; give all the same variables"
        return ""

    def later(self, word: Word) -> str:
        """Why this hello is none of this group's now; empty when it is."""
        if word.revision == self.plan.revision:
            return ""
        return f"is of revision {self.plan.revision or 'none'}, this member of {word.revision or 'none'}"

    def come(self, member: int) -> None:
        """This member is there."""
        self.present.add(member)

    def gone(self, member: int) -> None:
        """This member is there no more."""
        self.present.discard(member)
        self.ready.discard(member)


def named(members: tuple[int, ...], size: int) -> str:
    """Members in a sentence, as `members 1 and 3 of 4`."""
    noun = "member" if len(members) == 1 else "members"
    *first, last = (str(member) for member in members)
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"{noun} {listed} of {size}"
