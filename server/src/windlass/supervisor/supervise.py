"""The pod's one long-lived process: license first, then the engine as a child, until it ends or is told to.

`windlass run` builds the parts and awaits `Supervisor.run`. Nothing of the engine is started, and no GPU memory taken,
before the license is granted. Signals go on to the engine; its exit code is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass import log
from windlass.child.output import OutputTail, cause, lost_its_peer, refused_flags, without_prefix
from windlass.child.process import Child, reap_orphans
from windlass.engine.startup import phases
from windlass.engine.startup.first_chat import Question
from windlass.errors import (
    EngineError,
    EngineStalledError,
    FirstChatError,
    StartTimeoutError,
    UsageError,
    WindlassError,
)
from windlass.group.membership import Membership
from windlass.license.keeper import LicenseKeeper
from windlass.supervisor import fatal, silence
from windlass.supervisor.asking import Api, Opening
from windlass.supervisor.board import FactsBoard
from windlass.supervisor.silence import Silence

CULPRIT_WAIT_S = 15.0
"""How long a member whose engine lost another one waits for that one's own words."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)
ENDED_BY_SIGNAL = 128
"""A shell's exit code for a process that a signal ended is this and the signal's number."""


DYING_S = 10.0
"""How long an engine that failed on a question may take to end by itself: then its log says why."""
ENGINE_ENDS_S = 20.0
"""Of an engine whose answers have ended or run out of time; a pod has 30 s for it."""
START_STOP_S_MAX = 5.0
"""How long an engine that does not serve yet may take to end; starting, it often listens to no signal."""
GROUP_STOP_S_MAX = 5.0
"""An engine without its group has no request that it could still answer."""
Failure = Callable[[str, int], WindlassError]
Guards = list["asyncio.Task[None]"]


@dataclass(frozen=True, slots=True)
class Engine:
    """How the engine is started and where it answers."""

    command: tuple[str, ...]
    health_url: str
    """Empty for a follower of a group: it has no API, and the head says when the group serves."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Added to our own environment; they may hold keys."""
    start_timeout_s: float | None = None
    """How long it may be silent before it answers; None is for ever."""
    name: str = "the engine"
    failure: Failure = EngineError
    """The error for its end, from a sentence and its exit code."""
    drain: Callable[[], Coroutine[Any, Any, bool]] | None = None
    """Awaited before an engine that serves is told to stop: whether all answers have ended.

    None: it ends its answers by itself.
    """
    opening: Opening | None = None
    """What it is asked before it counts as ready; None: it is ready when it is healthy."""


class Supervisor:
    """License, group, engine, end."""

    def __init__(
        self,
        engine: Engine,
        board: FactsBoard,
        keeper: LicenseKeeper | None,
        on_serving: Callable[[], None] = lambda: None,
        membership: Membership | None = None,
    ) -> None:
        """Without a keeper no license is asked for; `on_serving` is called once, when the engine has answered."""
        self._engine = engine
        self._on_serving = on_serving
        self._board = board
        self._keeper = keeper
        self._membership = membership
        self._child: Child | None = None
        self._work: asyncio.Task[int] | None = None
        self._guards: Guards = []
        self._stopping = False
        self._ending: asyncio.Task[None] | None = None
        self._was_cut = False  # a second signal has cut answers short
        self._was_killed_idle = False
        self._silence = Silence(asyncio.get_running_loop().time)
        self._serving = asyncio.Event()
        self._asking = ""
        self.output = OutputTail(log.engine_output(), self._note_output)

    async def run(self) -> int:
        """Work until the engine has ended; the exit code. WindlassError when it did not end well."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._stop, number)
        self._work = asyncio.create_task(self._live())
        failure: WindlassError | None = None
        try:
            return await self._work
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return 0  # told to stop before there was an engine
        except WindlassError as error:
            failure = error
            self._board.fail(error)
            raise
        finally:
            if self._membership:
                await self._membership.part(failure)
            await _cancel(*self._guards)  # after the last word: the membership's guard holds the connection
            if self._keeper:
                await self._keeper.release()
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def _stop(self, number: signal.Signals) -> None:
        drain = None if self._stopping else self._engine.drain
        self._was_cut, self._stopping = self._stopping, True
        if self._child is not None and drain and self._serving.is_set():
            self._ending = asyncio.create_task(self._drained(drain, self._child, number))
        elif self._child is not None:
            self._child.send(number)
            if not self._serving.is_set():  # nobody waits for an answer, and others may wait for the license
                self._ending = asyncio.create_task(self._child.stop(START_STOP_S_MAX))
        elif self._work is not None:
            self._work.cancel()

    async def _drained(
        self, drain: Callable[[], Coroutine[Any, Any, bool]], child: Child, number: signal.Signals
    ) -> None:
        """Let answers end, then the engine; one that is not gone `ENGINE_ENDS_S` later is killed.

        Nothing is lost by that where all answers have ended.
        """
        try:
            has_answered_all = await drain()
        finally:
            child.send(number)
        await asyncio.wait({child.ended}, timeout=ENGINE_ENDS_S)
        if not child.ended.done():
            log.say(f"{self._engine.name} has not ended within {ENGINE_ENDS_S:.0f} s: it is killed", logging.WARNING)
            self._was_killed_idle = has_answered_all and not self._was_cut
            await child.stop(0)

    def _note_output(self, line: str) -> None:
        self._board.note_output(line)
        if not self._serving.is_set():
            self._silence.hear(line)

    async def _live(self) -> int:
        """License, group, engine; the guards, the group's first, end whatever goes on when something is lost."""
        guards = self._guards
        self._board.enter(phases.LICENSE)
        if self._membership:
            guards.append(asyncio.create_task(self._membership.run()))
        if self._keeper:
            await _unless(guards, self._keeper.obtain())
            guards.append(asyncio.create_task(self._keeper.keep()))
        if self._membership:
            self._board.enter(phases.GROUP)
            await _unless(guards, self._membership.ready())
        return await self._run_engine(guards)

    async def _run_engine(self, guards: Guards) -> int:
        self._board.enter(phases.ENGINE)
        self._silence.begin()
        child = self._child = await Child.start(self._engine.command, self.output, self._engine.variables)
        guards += [asyncio.create_task(work) for work in (self._watch_start(), self._serve(child))]
        beside = [asyncio.create_task(reap_orphans())] if os.getpid() == 1 else []
        try:
            await asyncio.wait({child.ended, *guards}, return_when=asyncio.FIRST_COMPLETED)
            if not child.ended.done():
                lost = (bool(self._membership) and guards[0].done()) or self._board.is_stalled
                if not self._stopping and (error := _first_error(guards)):
                    self._board.fail(error)  # the facts tell it while the engine ends
                await child.stop(GROUP_STOP_S_MAX if lost else None)
                if not self._stopping:
                    _raise_first(guards)
            code = child.ended.result()
            try:
                return self._verdict(code)
            except EngineError:
                await self._culprit(guards)
                raise
        finally:
            await _cancel(*beside)

    async def _culprit(self, guards: Guards) -> None:
        """Raise who ended first when our engine only followed."""
        if self._membership and lost_its_peer(self.output.lines):
            await asyncio.wait(guards[:1], timeout=CULPRIT_WAIT_S)
            _raise_first(guards[:1])

    def _verdict(self, code: int) -> int:
        name, failure = self._engine.name, self._engine.failure
        if self._was_killed_idle:
            return 0
        if self._stopping:
            return code if code >= 0 else ENDED_BY_SIGNAL - code
        if code == 0:
            reason = fatal.reason(self.output.lines)
            said = f": {reason}" if reason else " without an error; see the last lines of its log"
            raise failure(f"{name} ended by itself{said}", 1)
        if code < 0:
            hint = "; the container's memory is too small" if -code == signal.SIGKILL else ""
            raise failure(f"{name} was ended by {signal.Signals(-code).name}{hint}", ENDED_BY_SIGNAL - code)
        if refused := refused_flags(self.output.lines):
            raise UsageError(f"the engine refuses its flags: {refused}; `vllm serve --help=all` lists what it takes")
        why = cause(self.output.lines) or "see the last lines of its log"
        raise failure(f"{name} ended with exit code {code}: {why}", code)

    async def _watch_start(self) -> None:
        limit_s = self._engine.start_timeout_s
        if limit_s is None:
            await asyncio.Event().wait()
            return
        while (left_s := limit_s - self._silence.seconds) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._serving.wait(), left_s)
                await asyncio.Event().wait()
        last_line = next(reversed(self.output.lines), "")
        raise StartTimeoutError(silence.sentence(self._silence.seconds, last_line, self._asking))

    async def _serve(self, child: Child) -> None:
        """From health over the first chat to serving; WindlassError when the first chat fails. Never returns."""
        if not self._engine.health_url:
            if self._membership:
                await self._membership.served()
            await self._serves()
            await asyncio.Event().wait()
        async with Api(self._engine.health_url, self._engine.opening) as api:
            await api.until_healthy()
            if self._engine.opening:
                await self._first_chat(api, self._engine.opening, child)
            await self._serves()
            told = await api.until_stalled(self._board.set_stall)
        last_line = without_prefix(next(reversed(self.output.lines), ""))
        raise EngineStalledError(f'{told}; the last line of its log was "{last_line}"')

    async def _serves(self) -> None:
        self._board.enter(phases.SERVING)
        self._serving.set()
        self._on_serving()
        if self._membership:
            await self._membership.serving()

    async def _first_chat(self, api: Api, opening: Opening, child: Child) -> None:
        self._board.enter(phases.FIRST_CHAT)
        try:
            await api.ask(opening.questions, self._ask)
        except FirstChatError:
            await asyncio.wait({child.ended}, timeout=DYING_S)
            raise
        await api.end_start()

    def _ask(self, question: Question) -> None:
        self._asking = question.name


async def _unless(guards: Guards, work: Coroutine[Any, Any, None]) -> None:
    """Do the work, unless a guard ends first: then raise why."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task, *guards}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            _raise_first(guards)
        await task
    finally:
        await _cancel(task)


def _first_error(guards: Guards) -> WindlassError | None:
    ended = (guard.exception() for guard in guards if guard.done() and not guard.cancelled())
    return next((error for error in ended if isinstance(error, WindlassError)), None)


def _raise_first(guards: Guards) -> None:
    for guard in guards:
        if guard.done():
            guard.result()


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
