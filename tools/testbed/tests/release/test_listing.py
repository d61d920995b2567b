"""The lists: sums that `sha256sum` checks, images as load.sh reads them, values that the charts accept."""

import json
import subprocess

import pytest
import yaml
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.release import listing
from windlass_testbed.release.listing import Released
from windlass_testbed.release.version import CHARTS

IMAGES = [Released(name, f"windlass/{name}", "0.2.0", f"sha256:{number:064x}")
          for number, name in enumerate(listing.DIGEST_VALUES)]  # fmt: skip


def test_sums_are_checked_by_sha256sum_and_a_changed_byte_is_found(tmp_path):
    """The check that a site makes; a link has no sum of its own."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_text("text")
    (tmp_path / "c").write_text("more")
    (tmp_path / "d").symlink_to("a")
    (tmp_path / "e").symlink_to("a/b")
    sums = listing.sums_of(tmp_path, without=("c",))
    assert list(sums) == ["a/b"]
    (tmp_path / "SHA256SUMS").write_text(listing.sums_text(sums))
    check = ["sha256sum", "--check", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "a/b").write_text("texx")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_images_are_listed_a_line_each():
    """Name, repository, tag, digest."""
    assert listing.images_text(IMAGES[:1]) == f"operator windlass/operator 0.2.0 sha256:{0:064x}\n"


def test_values_name_each_image_once_by_its_digest():
    """Over both charts."""
    texts = [listing.values_text(chart, IMAGES) for chart in CHARTS]
    assert [sum(text.count(image.digest) for text in texts) for image in IMAGES] == [1] * len(IMAGES)
    assert yaml.safe_load(texts[0])["server"]["deepspeed"]["cpuDigest"] == IMAGES[4].digest


@pytest.mark.parametrize("chart", CHARTS)
def test_the_charts_know_the_values(chart):
    """Their schemas refuse an unknown one."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((REPOSITORY / f"charts/{chart}/values.schema.json").read_text())
    jsonschema.validate(yaml.safe_load(listing.values_text(chart, IMAGES)), schema)


def test_a_release_without_some_images_leaves_their_values_out():
    """The GPU images are released on request."""
    few = [image for image in IMAGES if image.name in ("operator", "server-cpu")]
    found = yaml.safe_load(listing.values_text("windlass", few))
    assert found == {
        "image": {"digest": few[0].digest},
        "server": {"image": {"cpuDigest": few[1].digest}},
    }
