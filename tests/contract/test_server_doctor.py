"""`windlass doctor` ↔ license server: what the real view says is what the doctor reads."""

from datetime import UTC, datetime, timedelta

from windlass.doctor import reach
from windlass_license.http.view import view
from windlass_license.rules.model import License, LicensedGpu

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def test_the_doctor_reads_the_license_servers_view() -> None:
    """Customer, limit and each GPU's expiry arrive, whatever the customer is called."""
    rows = tuple(LicensedGpu(name, "NVIDIA L20", NOW, NOW + timedelta(days=9)) for name in ("GPU-0", "GPU-1"))
    seen = reach.parse_view(view(License("1234", "Acme: Sons, 1", 10, rows)))
    assert seen is not None
    assert (seen.customer, seen.limit) == ("Acme: Sons, 1", 10)
    assert seen.expires == {"GPU-0": NOW + timedelta(days=9), "GPU-1": NOW + timedelta(days=9)}
