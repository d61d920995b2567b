"""A short sample of `make release` with the real tools: a wheel and both charts, made twice, are the same bytes."""

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import yaml
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.release import archive, listing, version, wheels
from windlass_testbed.release.listing import Released

EPOCH = 1_700_000_000
KEY = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"


@pytest.fixture(scope="session")
def helm() -> Path:
    """The program from $WINDLASS_KUBE_BIN, else the test cluster's, which builds it when it has to."""
    if folder := os.environ.get("WINDLASS_KUBE_BIN"):
        return Path(folder) / "helm"
    bed = [sys.executable, "-m", "windlass_testbed", "tool", "helm"]
    return Path(subprocess.run(bed, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """What a wheel is made of, twice, with other times."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(folders):
        for name in ("lib/sizing/src", "lib/sizing/pyproject.toml", "images/build.lock", *wheels.LICENSES):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-r", REPOSITORY / name, target], check=True)
        for path in folder.rglob("*"):
            os.utime(path, (EPOCH + number, EPOCH + number))
    return folders


def test_a_wheel_made_twice_is_the_same_bytes_and_carries_its_license(sources):
    """By uv and hatchling, as the release builds it."""
    built = []
    for folder in sources:
        out = folder / "out"
        out.mkdir()
        wheels.pure(folder, "lib/sizing", out, EPOCH)
        (wheel,) = out.iterdir()
        built.append(wheel)
    first, second = built
    assert first.name == f"windlass_sizing-{version.read(REPOSITORY)}-py3-none-any.whl"
    assert first.read_bytes() == second.read_bytes()
    names = zipfile.ZipFile(first).namelist()
    assert {name.rpartition("/")[2] for name in names} >= set(wheels.LICENSES)


@pytest.mark.parametrize("chart", version.CHARTS)
def test_a_chart_packaged_twice_is_the_same_bytes_and_helm_reads_it(helm, tmp_path, chart):
    """helm alone writes the time of day into its packages."""
    packages = []
    for name in ("one", "two"):
        words = [helm, "package", REPOSITORY / "charts" / chart, "--destination", tmp_path / name]
        subprocess.run(words, check=True, capture_output=True, env={**os.environ, "HOME": str(tmp_path)})
        (package,) = (tmp_path / name).iterdir()
        packages.append(package.read_bytes())
        time.sleep(1.1)  # clock: helm's times are whole seconds, and two must differ
    settled = [archive.settled(package, EPOCH) for package in packages]
    assert packages[0] != packages[1]
    assert settled[0] == settled[1]
    file = tmp_path / "settled.tgz"
    file.write_bytes(settled[0])
    shown = subprocess.run([helm, "show", "chart", file], check=True, capture_output=True, text=True)
    assert f"version: {version.read(REPOSITORY)}" in shown.stdout


@pytest.mark.parametrize("chart", version.CHARTS)
def test_a_releases_values_put_a_digest_on_every_image(helm, tmp_path, chart):
    """As load.sh writes them, with the site's registry in front; a tag beside a digest says nothing."""
    images = [Released(name, f"windlass/{name}", "0", f"sha256:{'a' * 64}") for name in listing.DIGEST_VALUES]
    values = yaml.safe_load(listing.values_text(chart, images)) | {"global": {"repository": "site:5000/team"}}
    values |= {"publicKeys": [KEY]} if chart == "windlass-license-server" else {}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    words = [helm, "template", "windlass", REPOSITORY / "charts" / chart, "-f", tmp_path / "values.yaml"]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)})
    pods = [item["spec"] if item["kind"] == "Pod" else item["spec"]["template"]["spec"]
            for item in yaml.safe_load_all(done.stdout) if item and item["kind"] in ("Deployment", "Pod")]  # fmt: skip
    rows = [container for pod in pods for container in pod["containers"]]
    named = [row["image"] for row in rows]
    named += [v["value"] for row in rows for v in row.get("env", ()) if v["name"].endswith("_IMAGE")]
    assert named
    assert {(name.startswith("site:5000/team/windlass/"), name.partition("@")[2]) for name in named} == {
        (True, f"sha256:{'a' * 64}")
    }
