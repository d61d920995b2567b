"""S: all flags work with the three start commands; here with the engine's module, which starts the server `short`."""

from ..conftest import SHORT_LIMIT
from .own_commands import check


def test_the_engines_module_takes_our_flags(short: str) -> None:
    check(short, "demo", SHORT_LIMIT)
