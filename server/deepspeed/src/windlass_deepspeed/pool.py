"""Several engines behind one desk: each request goes to the engine with the fewest."""

from __future__ import annotations

from collections.abc import Sequence

from windlass_deepspeed.batcher import Batcher, Listener
from windlass_deepspeed.sampling import Sampling


class Pool:
    """Batchers that look like one; at least one."""

    def __init__(self, batchers: Sequence[Batcher]) -> None:
        self._batchers = tuple(batchers)

    def start(self) -> None:
        """Begin to serve."""
        for batcher in self._batchers:
            batcher.start()

    def close(self) -> None:
        """End each after the step that is running; what is not finished is dropped."""
        for batcher in self._batchers:
            batcher.close()

    @property
    def healthy(self) -> bool:
        """Whether all engines serve: without one of them the container is not what was asked for."""
        return all(batcher.healthy for batcher in self._batchers)

    @property
    def failed(self) -> bool:
        """Whether an engine failed."""
        return any(batcher.failed for batcher in self._batchers)

    def submit(self, prompt: Sequence[int], sampling: Sampling, listener: Listener) -> int:
        """Queue a request where the fewest are, the first of equals; the key cancels it."""
        # One that stopped comes first, and refuses: the container is about to end.
        number, batcher = min(enumerate(self._batchers), key=lambda row: (row[1].healthy, row[1].load))
        return batcher.submit(prompt, sampling, listener) * len(self._batchers) + number

    def cancel(self, key: int) -> None:
        """Nobody listens any more: free the request's row before the next step."""
        own, number = divmod(key, len(self._batchers))
        self._batchers[number].cancel(own)
