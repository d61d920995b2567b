"""The book answers as counting all leases would."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from windlass_license.rules.book import LeaseBook
from windlass_license.rules.model import Holder, Lease, License, LicensedGpu

NOW = datetime(2026, 9, 6, 10, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def lease(number: int, uid: str, gpus: tuple[str, ...], left_s: int) -> Lease:
    return Lease(f"lease-{number}", gpus, Holder("ns", f"pod-{uid}", uid), NOW, NOW + left_s * SECOND)


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "renew", "take", "wait"]),
        st.sampled_from("abc"),
        st.sampled_from([("GPU-0",), ("GPU-0", "GPU-1"), ("MIG-1",), ("MIG-2", "GPU-1")]),
        st.integers(1, 20),
    ),
    max_size=40,
)


@given(steps)
@settings(deadline=None)
def test_any_history(history: list[tuple[str, str, tuple[str, ...], int]]) -> None:
    """Holders, GPUs in use, what lapsed and what is to be stored are right after every step."""
    rows = (LicensedGpu("GPU-0", "A100", NOW, NOW, ("MIG-1", "MIG-2")), LicensedGpu("GPU-1", "A100", NOW, NOW))
    book, plain, stored, now = LeaseBook(License("1", "c", 0, rows)), dict[str, Lease](), dict[str, Lease](), NOW
    for number, (what, uid, gpus, seconds) in enumerate(history):
        held = next((one for one in plain.values() if (one.holder.uid, one.gpus) == (uid, gpus)), None)
        if what == "add" and held is None:
            plain[f"lease-{number}"] = lease(number, uid, gpus, (now - NOW).seconds + seconds)
            book.add(plain[f"lease-{number}"])
        elif what == "renew" and held is not None:
            plain[held.id] = held.renewed(now, seconds * SECOND)
            book.renew(plain[held.id])
        elif what == "take" and held is not None:
            assert book.take(held.id) == plain.pop(held.id)
        elif what == "wait":
            now += seconds * SECOND
            lapsed = {one.id for one in plain.values() if one.expires <= now}
            assert {one.id for one in book.take_lapsed(now)} == lapsed
            plain = {name: one for name, one in plain.items() if name not in lapsed}
        mig = {"MIG-1": "GPU-0", "MIG-2": "GPU-0"}
        assert set(book.in_use) == {mig.get(gpu, gpu) for one in plain.values() for gpu in one.gpus}
        assert set(book.holders) == {str(one.holder) for one in plain.values()}
        for later in (now, now + 5 * SECOND, now + 25 * SECOND):
            live = [one for one in plain.values() if one.expires > later]
            assert book.live(later) == (len(live), len({mig.get(gpu, gpu) for one in live for gpu in one.gpus}))
        if number % 3 == 0:
            changes = book.take_changes()
            stored = {name: one for name, one in stored.items() if name not in changes.gone}
            assert not changes.added.keys() & stored.keys()
            assert changes.renewed.keys() <= stored.keys()
            stored |= changes.added | changes.renewed
            assert stored == plain
    assert len(book) == len(plain)


def test_another_license_counts_anew() -> None:
    """MIG devices that the new license does not know count as themselves."""
    rows = (LicensedGpu("GPU-0", "A100", NOW, NOW, ("MIG-1", "MIG-2")),)
    held = [lease(0, "a", ("MIG-1",), 9), lease(1, "b", ("MIG-2",), 9)]
    book = LeaseBook(License("1", "c", 0, rows), held)
    assert dict(book.in_use) == {"GPU-0": 2}
    book.install(License("1", "c", 0, (LicensedGpu("GPU-9", "A100", NOW, NOW),)))
    assert dict(book.in_use) == {"MIG-1": 1, "MIG-2": 1}
