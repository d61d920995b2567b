"""What status says: of each server, and of GPUs that no license names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from windlass_client.licenses import License, LicenseServer, granted_in, license_in
from windlass_kubectl.licensing.status import Report, Seen, branches, to_dict
from windlass_kubectl.paint import Paint

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
SERVER = LicenseServer("kube-system", "windlass-license-server", "i", "Never", (), False, None, 1, 1)
LICENSE = License("Example Ltd", "1234", 2, NOW + timedelta(days=90), frozenset({"GPU-a", "GPU-b"}))
VIEW = """\
appid: "1234"
customer: Example Ltd
accesslimit: 2
gpuinfos:
- uuid: GPU-a
  brand: NVIDIA L20
  issuedtime: 2026-11-21T11:06:45.147047+08:00
  expiredtime: 2027-09-06T00:00:00+08:00
- uuid: GPU-b
  brand: NVIDIA L20
  issuedtime: 2026-11-21T11:06:45.147047+08:00
  expiredtime: 2028-09-06T00:00:00+08:00
"""


def text(report):
    return "\n".join(Paint().tree(branch) for branch in branches(report, NOW, Paint()))


def test_the_license_of_a_view():
    found = license_in(VIEW)
    assert found is not None
    assert (found.customer, found.appid, found.limit, found.uuids) == ("Example Ltd", "1234", 2, {"GPU-a", "GPU-b"})
    assert found.expires == datetime(2028, 9, 5, 16, tzinfo=UTC)
    assert [license_in(wrong) for wrong in ("", "no license", "gpuinfos: [1]", ": [")] == [None] * 4


BOMBS = {
    "aliases": "a: &a [x, x, x]\n" + "".join(f"a{n}: &a{n} [*a, *a, *a]\n" for n in range(9)) + VIEW,
    "an anchor": VIEW.replace("Example Ltd", "&x Example Ltd"),
    "nested lists": VIEW + "x: " + "[" * 50_000 + "]" * 50_000,
    "nested mappings": VIEW + "x: " + "{a: " * 2_000 + "}" * 2_000,
    "a long number in base 60": VIEW.replace("accesslimit: 2", "accesslimit: 1" + ":1" * 200_000),
    "a list for a word": VIEW.replace("Example Ltd", "[Example, Ltd]"),
    "a mapping for a word": VIEW.replace("uuid: GPU-a", "uuid: {a: b}"),
    "a year beyond all zones": VIEW.replace("2027-09-06T00:00:00+08:00", "0001-01-01T00:00:00+23:00"),
    "a tag": VIEW.replace("Example Ltd", "!!python/object/apply:os.getcwd []"),
}


@pytest.mark.parametrize("view", BOMBS.values(), ids=BOMBS.keys())
def test_a_view_of_anybody_is_read_at_little_cost(view):
    """Whoever may make a Deployment with the label is asked; such a view is no license, and costs no memory."""
    assert (license_in(view), granted_in(view)) == (None, None)


def test_a_day_without_an_hour_is_a_moment():
    """Compared with now it must have a zone."""
    found = granted_in(VIEW.replace("2027-09-06T00:00:00+08:00", "2027-09-06"))
    assert found is not None
    assert found.expires > NOW
    assert sum(grant.count for grant in found.grants) == 2


def test_a_server_without_a_license_names_the_next_command():
    said = text(Report([Seen(SERVER)], 16, None))
    assert "no license is in force; next: kubectl windlass license init" in said
    assert "the nodes offer 16 GPUs" in said
    assert "is not known" in text(Report([Seen(SERVER)], None, None))


def test_everything_of_a_license_in_force():
    said = text(Report([Seen(SERVER, LICENSE, 3, 2)], 2, LICENSE.uuids))
    for words in ("kube-system/windlass-license-server: 1 of 1 ready", "customer Example Ltd, appid 1234",
                  "2 GPUs licensed, 2 at a time", "in 90 days", "3 leases on 2 GPUs", "all 2 GPUs that"):  # fmt: skip
        assert words in said
    assert "renew" not in said


def test_the_near_end_and_unlicensed_gpus_name_their_commands():
    soon = License("c", "1", 0, NOW + timedelta(days=5), frozenset({"GPU-a"}))
    report = Report([Seen(SERVER, soon)], 2, frozenset({"GPU-a", "GPU-z"}))
    said = text(report)
    for words in ("in 5 days; next: kubectl windlass license renew", "1 of 2 GPUs are not licensed",
                  "kubectl windlass license add-gpus", "GPU-z"):  # fmt: skip
        assert words in said
    document = to_dict(report, NOW)
    assert (document["unlicensed"], document["gpusInCluster"]) == (["GPU-z"], 2)
    assert document["servers"][0]["license"]["expired"] is False
    assert to_dict(Report([Seen(SERVER, problem="x")], 0, None), NOW)["unlicensed"] is None
