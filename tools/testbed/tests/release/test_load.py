"""The bundle's `load.sh` on a bundle of a few files, with stand-ins of crane and helm that write down what they do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.release.listing import sums_of, sums_text

CRANE = '#!/bin/sh\necho "crane $*" >> asked.txt\n[ "$1" = push ] || echo sha256:1\n'
HELM = '#!/bin/sh\necho "helm $*" >> asked.txt\necho "Digest: sha256:2"\n'


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    files = {
        "images.txt": "server server 1.0.0 sha256:1\n",
        "images/server/index.json": "{}",
        "images/blobs/sha256/1": "layer",
        "charts/windlass-1.0.0.tgz": "chart",
        "values/windlass.yaml": "a: 1\n",
        "tools/crane": CRANE,
        "tools/helm": HELM,
        "load.sh": (REPOSITORY / "tools/testbed/release/load.sh").read_text(),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "images/server/blobs").symlink_to("../blobs")
    for name in ("load.sh", "tools/crane", "tools/helm"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "SHA256SUMS").write_text(sums_text(sums_of(tmp_path)))
    return tmp_path


def load(bundle: Path, registry: str = "127.0.0.1:5000/windlass") -> subprocess.CompletedProcess[str]:
    command = [bundle / "load.sh", "--plain-http", registry]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def with_tool(bundle: Path, name: str, text: str) -> Path:
    """The bundle with another stand-in, as if it were released so."""
    (bundle / "tools" / name).write_text(text)
    (bundle / "SHA256SUMS").unlink()
    (bundle / "SHA256SUMS").write_text(sums_text(sums_of(bundle)))
    return bundle


def asked(bundle: Path) -> list[str]:
    """Requests that the registry got."""
    file = bundle / "asked.txt"
    return file.read_text().splitlines() if file.exists() else []


def test_a_bundle_is_loaded_twice(bundle):
    """The folder may hold the site's own files, and what the first run wrote."""
    (bundle / "public.pem").write_text("key")
    for _ in range(2):
        done = load(bundle)
        assert (done.returncode, done.stderr) == (0, "")
    assert (
        bundle / "site/charts.txt"
    ).read_text() == "windlass oci://127.0.0.1:5000/windlass/charts/windlass@sha256:2\n"


@pytest.mark.parametrize("name", ["charts/other-1.0.0.tgz", "values/a\x1b[2J.yaml", "tools/other"])
def test_a_file_that_no_sum_names_is_refused(bundle, name):
    """As of another release in the same folder, link or file; nothing is sent, and no name steers the terminal."""
    (bundle / name).symlink_to("../load.sh")
    done = load(bundle)
    assert done.returncode == 1
    assert "there are files that SHA256SUMS does not name; unpack the bundle into an empty folder" in done.stderr
    assert "\x1b" not in done.stderr
    assert asked(bundle) == []


@pytest.mark.parametrize("name", ["tools/crane", "images.txt", "values/windlass.yaml"])
def test_a_changed_file_is_refused(bundle, name):
    """Before any of its programs runs."""
    with (bundle / name).open("a") as file:
        file.write("\n# changed\n")
    done = load(bundle)
    assert done.returncode == 1
    assert "a file is not the released one; copy the bundle again" in done.stderr
    assert asked(bundle) == []


def test_a_registry_that_rewrites_is_refused(bundle):
    done = load(with_tool(bundle, "crane", CRANE.replace("sha256:1", "sha256:9")))
    assert done.returncode == 1
    assert "the registry holds sha256:9 where sha256:1 was sent" in done.stderr


REFUSAL = "printf 'Error: denied\\033[2J' >&2; exit 1\n"


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("crane", f"#!/bin/sh\n{REFUSAL}", "the registry did not take the image server"),
        ("crane", f"#!/bin/sh\n[ $1 = push ] || {{ {REFUSAL} }}\n", "does not give the image server back"),
        ("helm", f"#!/bin/sh\n{REFUSAL}", "the registry did not take the chart windlass: Error: denied"),
        ("helm", "#!/bin/sh\necho Pushed\n", "helm told no digest of the chart windlass: Pushed"),
    ],
    ids=["image", "its digest", "chart", "no digest"],
)
def test_a_refusal_of_the_registry_is_a_sentence(bundle, name, text, sentence):
    """With the registry's own words, which steer no terminal."""
    done = load(with_tool(bundle, name, text))
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "\x1b" not in done.stderr


def test_a_registry_with_a_scheme_is_refused(bundle):
    done = load(bundle, "https://registry.example.com/team")
    assert (done.returncode, "give the registry without a scheme" in done.stderr) == (1, True)
    assert asked(bundle) == []
