"""Probes: refused until the start is over, and while the engine hangs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from windlass.api.steps.request import Request
from windlass.front.asgi import RawHeaders
from windlass.front.processes.member import Link
from windlass.front.processes.wire import STALLED, STARTED
from windlass.front.progress import rule
from windlass.front.progress.watch import Watch
from windlass.front.refusal import Refusal
from windlass.front.starting import KEY_VARIABLE, PROBES, Start


class Probes:
    """The start of this server, and the verdict on its engine."""

    def __init__(self, environment: Mapping[str, str], link: Link | None) -> None:
        """Read the supervisor's key; through `link` all API processes share start and verdict."""
        # vLLM's plug-in counts steps of one `Progress` a process; the supervisor has checked the variable before.
        progress = rule.OF_THIS_PROCESS
        progress.floor_s = float(environment.get(rule.VARIABLE) or rule.DEFAULT_S)
        self.start = Start(environment.get(KEY_VARIABLE, ""))
        self.watch = Watch(progress, lambda: self.start.is_over)
        self._link = link
        if link:
            link.on_started, link.on_elsewhere = self.start.end, progress.stepped_elsewhere
            self.watch.tell = partial(link.send, STALLED)

    def is_ours(self, headers: RawHeaders) -> bool:
        """Tell a request of the supervisor, which needs neither key nor place."""
        return self.start.has_key(headers)

    def refusal(self, request: Request) -> Refusal | None:
        """The answer to a probe of a server that is not ready (503)."""
        if request.path not in PROBES or request.is_ours:
            return None
        return self.start.refusal() or self.watch.refusal(self._link.stalled if self._link else "")

    def end_start(self) -> None:
        """Answer probes from now on, in all API processes."""
        self.start.end()
        if self._link:
            self._link.send(STARTED)
