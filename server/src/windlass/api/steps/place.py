"""Step 7: a place at the engine, or a turn in the queue before it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from windlass.api.body import Body
from windlass.api.steps.request import Request
from windlass.front.gate import Gate, in_turn
from windlass.front.intake import Intake
from windlass.front.keys import KeyRing
from windlass.front.processes.member import SharedGate

Leave = Callable[[], None]


class Places:
    """Lets a request wait for its place; refuses one when the queue is full (429) or the server stops (503)."""

    def __init__(self, gate: Gate | SharedGate, keys: KeyRing) -> None:
        """`gate` holds the places, of this process or of several."""
        self._gate, self._keys = gate, keys

    async def __call__(
        self,
        request: Request,
        intake: Intake,
        read: Callable[[Request, Intake], Awaitable[Body]],
        answer: Callable[[Request, Body, Leave], Awaitable[None]],
    ) -> None:
        """Read the body, by its size before the place or in it, and answer; without account no place is needed."""
        counted = request.account is not None
        enter = partial(self._gate.enter, request.key.id, shared=self._keys.several) if counted else None
        await in_turn(enter, intake, request.receive, partial(read, request, intake), partial(answer, request))
