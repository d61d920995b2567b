"""The fair queue against a plain model: bounded, nothing lost, the key that runs least is served, equals in turn."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from windlass.front.queue import FairQueue, Ticket, Verdict

LIMIT, ROOM = 2, 4
KEYS = ("a", "b", "c")


class QueueMachine(RuleBasedStateMachine):
    """Newcomers of three keys come, run, wait and leave in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = FairQueue(LIMIT, ROOM)
        self.number = 0
        self.running: list[Ticket] = []
        self.waiting: list[Ticket] = []
        self.served_while_waiting: dict[Ticket, list[str]] = {}

    @rule(key=st.sampled_from(KEYS))
    def ask(self, key: str) -> None:
        self.number += 1
        ticket = Ticket(self.number, key)
        answer = self.queue.ask(ticket)
        if answer.displaced:
            shares = {one: sum(other.key == one for other in self.waiting) for one in KEYS}
            assert shares[answer.displaced.key] == max(shares.values()) > shares[key] + 1
            assert answer.displaced == [one for one in self.waiting if one.key == answer.displaced.key][-1]
            self.waiting.remove(answer.displaced)
        if answer.verdict is Verdict.RUN:
            self.running.append(ticket)
        elif answer.verdict is Verdict.WAIT:
            self.waiting.append(ticket)
            self.served_while_waiting[ticket] = []
        else:
            assert len(self.waiting) == ROOM

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.running))
        self.running.remove(ticket)
        following = self.queue.leave(ticket)
        assert (following is not None) == bool(self.waiting)
        if following:
            first_of_key = next(one for one in self.waiting if one.key == following.key)
            assert following == first_of_key
            self.waiting.remove(following)
            self.running.append(following)
            self._note_served(following)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.waiting))
        assert self.queue.leave(ticket) is None
        assert self.queue.leave(ticket) is None
        self.waiting.remove(ticket)

    @rule()
    def close(self) -> None:
        assert sorted(one.number for one in self.queue.clear()) == sorted(one.number for one in self.waiting)
        self.waiting.clear()

    @invariant()
    def counts_agree(self) -> None:
        assert (self.queue.running, self.queue.waiting) == (len(self.running), len(self.waiting))
        assert len(self.running) <= LIMIT
        assert len(self.waiting) <= ROOM
        assert not self.waiting or len(self.running) == LIMIT

    def _note_served(self, served: Ticket) -> None:
        heads = {ticket.key: ticket for ticket in reversed(self.waiting)}
        runs = Counter(ticket.key for ticket in self.running)
        for key, head in heads.items():
            if key != served.key:
                before = runs[served.key] - 1
                assert before <= runs[key], f"{served.key} ran more than {key}, which waited"
                seen = self.served_while_waiting[head]
                # A head that followed a served one of its own key starts counting then.
                assert before < runs[key] or served.key not in seen, f"{served.key} was served twice while {key} waited"
                seen.append(served.key)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_keys_alternate() -> None:
    """A key with one request does not wait for the five of another."""
    queue = FairQueue(1, 10)
    tickets = [Ticket(number, key) for number, key in enumerate("aaaaab")]
    for ticket in tickets:
        queue.ask(ticket)
    order, running = [], tickets[0]
    while running:
        order.append(running.key)
        running = queue.leave(running)
    assert "".join(order) == "aabaaa"


def test_a_keys_share_leaves_a_place_for_others() -> None:
    """It waits though a place is free, another key does not, and a place that it leaves is its own again."""
    queue = FairQueue(3, 10)
    queue.key_limit = 2
    mine = [Ticket(number, "a") for number in range(3)]
    assert [queue.ask(ticket).verdict for ticket in mine] == [Verdict.RUN, Verdict.RUN, Verdict.WAIT]
    other = Ticket(9, "b")
    assert queue.ask(other).verdict is Verdict.RUN
    assert queue.leave(other) is None
    assert queue.leave(mine[0]) == mine[2]
