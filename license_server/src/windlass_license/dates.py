"""How late a date can be: arithmetic that ends there instead of failing. Pure, and of every layer."""

from datetime import UTC, datetime, timedelta

LATEST = datetime.max.replace(tzinfo=UTC)


def later(moment: datetime, by: timedelta) -> datetime:
    """The moment so much later; the last one that there is where a date cannot hold it."""
    try:
        return moment + by
    except OverflowError:
        return LATEST
