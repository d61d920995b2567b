"""For all tests: a drawn case may take as long as a busy machine needs. Seconds are measured by benchmarks."""

from hypothesis import settings

settings.register_profile("windlass", deadline=None)
settings.load_profile("windlass")
