"""A batcher on the arithmetic engine."""

from collections.abc import Iterator

import pytest
from windlass_deepspeed.batcher import Batcher
from windlass_deepspeed.metrics import Metrics
from windlass_deepspeed.schedule import Limits

from .echo import EOS, Echo, Letters


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def batcher(echo: Echo, metrics: Metrics) -> Iterator[Batcher]:
    made = Batcher(echo, Letters().decode, frozenset({EOS}), Limits(batch_size=4, wait_s=0.05), metrics)
    made.start()
    yield made
    made.close()
