"""For all tests: a drawn case may take as long as a busy machine needs. Seconds are measured by benchmarks."""

import asyncio
import gc
from collections.abc import Callable, Generator, Mapping

import pytest
from hypothesis import settings

settings.register_profile("windlass", deadline=None)
settings.load_profile("windlass")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects tests without looking for garbage: they all stay, and each look at them took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)  # of pytest-asyncio, which a machine with a GPU may lack
def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loop of a test: one with simulated time where it is marked so."""
    if item.get_closest_marker("simulated_time") is None:
        return {"real": asyncio.new_event_loop}
    from windlass_testbed.simulated_time import SimulatedLoop

    return {"simulated": SimulatedLoop}
