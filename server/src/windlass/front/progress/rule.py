"""The rule of an engine that hangs: it holds requests, and no step of it ends for longer than any step before. Pure.

A step is whatever the engine reports as one: prefill, chunk of a prefill, decode, or a round that computes nothing
because all wait. A healthy engine with requests ends steps all the time, however long its answers are.
"""

from __future__ import annotations

VARIABLE = "WINDLASS_STALL_TIMEOUT"
DEFAULT_S = 300
"""Seconds. A kernel that compiles while the server serves may take minutes."""
TIMES = 2
"""How often the longest step seen fits into the time that a step may take."""
EVERY_S = 5.0
RESTART_S = 60.0
"""Seconds between not ready and the end of the process: a step that ends meanwhile makes it ready again. The kubelet's
own liveness probe takes 120 s of refusals."""


class Progress:
    """The time without the end of a step while there is work."""

    def __init__(self, floor_s: float) -> None:
        """`floor_s` is what a step may take at least; 0 is for ever."""
        self.floor_s = floor_s
        self.steps = 0
        self._elsewhere = 0
        self.still_s = 0.0
        self.longest_s = 0.0

    def step_ended(self) -> None:
        """The engine reported a step."""
        self.steps += 1
        self.longest_s = max(self.longest_s, self.still_s)
        self.still_s = 0.0

    def stepped_elsewhere(self, steps: int) -> None:
        """So many steps were reported to other API processes: the engine reports each step to one of them."""
        if steps > self._elsewhere:
            self._elsewhere = steps
            self.longest_s = max(self.longest_s, self.still_s)
            self.still_s = 0.0

    def passed(self, seconds: float, *, has_work: bool) -> None:
        """Time went by, with requests in the engine or without."""
        self.still_s = self.still_s + seconds if has_work else 0.0

    def forgive(self) -> None:
        """The engine was paused on purpose."""
        self.still_s = 0.0

    @property
    def bound_s(self) -> float:
        """What a step may take."""
        return max(self.floor_s, TIMES * self.longest_s)

    @property
    def is_stalled(self) -> bool:
        """Whether it hangs; an engine whose steps nobody reports is not judged."""
        return self.floor_s > 0 and self.steps + self._elsewhere > 0 and self.still_s >= self.bound_s

    def sentence(self, requests: int) -> str:
        """What is told of it."""
        longest = f"{self.longest_s:.0f} s" if self.longest_s >= 1 else "less than a second"
        return (
            f"the engine holds {requests} requests and has ended no step for {self.still_s:.0f} s; "
            f"the longest of the {self.steps + self._elsewhere} steps before took {longest}"
        )


OF_THIS_PROCESS = Progress(DEFAULT_S)
"""vLLM makes the plug-in that reports steps by itself, so the guard finds it here."""
