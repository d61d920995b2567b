"""The size of vLLM's warm-up. Pure; imports no engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def at_most(scheduler: Any, requests: int) -> Iterator[None]:  # noqa: ANN401 - vLLM's configuration of its scheduler
    """The warm-up has as many requests as the scheduler takes; so many inside."""
    most, scheduler.max_num_seqs = scheduler.max_num_seqs, requests
    try:
        yield
    finally:
        scheduler.max_num_seqs = most
