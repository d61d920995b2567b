"""One version: every place of the repository repeats it, and a new one reaches all of them."""

import shutil
import tomllib

import pytest
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.release import version


def copied(tmp_path):
    """The files that hold the version, in a folder of their own."""
    for file in {place.file for place in version.PLACES}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / file, tmp_path / file)
    return tmp_path


def test_every_place_says_the_same_version():
    """Wheels, charts, programs and what our distributions ask of each other."""
    assert version.read(REPOSITORY) == tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]


def test_every_distribution_and_every_chart_is_a_place():
    """One that is added is not forgotten."""
    found = (path for folder in ("", "tests/") for path in REPOSITORY.glob(f"{folder}*/pyproject.toml"))
    projects = {str(path.relative_to(REPOSITORY)) for path in found}
    charts = {str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("charts/*/Chart.yaml")}
    assert projects | charts <= {place.file for place in version.PLACES}


def test_a_new_version_reaches_every_place(tmp_path):
    """Also a release candidate; the rest of each file stays."""
    root = copied(tmp_path)
    before = (root / "charts/windlass/Chart.yaml").read_text()
    old = version.read(root)
    version.write(root, "1.20.3rc1")
    assert version.read(root) == "1.20.3rc1"
    version.write(root, old)
    assert (root / "charts/windlass/Chart.yaml").read_text() == before


def test_a_place_that_says_another_version_is_named(tmp_path):
    """With what to do about it."""
    root = copied(tmp_path)
    file = root / "charts/windlass/Chart.yaml"
    file.write_text(file.read_text().replace(f'"{version.read(root)}"', '"9.9.9"'))
    with pytest.raises(BedError, match=r"Chart\.yaml says 9\.9\.9 .* run `make version NEW="):
        version.read(root)


@pytest.mark.parametrize("number", ["", "v1.2.3", "1.2", "1.2.3-dev", "latest"])
def test_what_is_no_version_is_refused(tmp_path, number):
    """Before anything is written."""
    with pytest.raises(BedError, match="is no version"):
        version.write(tmp_path, number)
