"""One request between the event loop and the batcher's thread; a lost client frees its row."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from windlass_deepspeed.batcher import Batcher
from windlass_deepspeed.errors import RequestError
from windlass_deepspeed.pool import Pool
from windlass_deepspeed.progress import Piece
from windlass_deepspeed.sampling import Sampling


class Desk:
    """Lets so many requests at a time to the batcher; the others wait here."""

    def __init__(self, batcher: Batcher | Pool, concurrency: int) -> None:
        self.batcher = batcher
        self._room = asyncio.Semaphore(concurrency)

    async def pieces(self, prompt: Sequence[int], sampling: Sampling) -> AsyncGenerator[Piece, None]:
        """The answer's pieces, the last with its finish reason. Closing the iterator cancels the request."""
        async with self._room:
            queue: asyncio.Queue[Piece | RequestError] = asyncio.Queue()
            loop = asyncio.get_running_loop()
            key = self.batcher.submit(prompt, sampling, lambda said: _post(loop, queue, said))
            try:
                while True:
                    said = await queue.get()
                    if isinstance(said, RequestError):
                        raise said
                    yield said
                    if said.finish_reason:
                        return
            finally:
                self.batcher.cancel(key)


def _post(
    loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[Piece | RequestError], said: Piece | RequestError
) -> None:
    """A loop that is closed has no client left to tell."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(queue.put_nowait, said)
