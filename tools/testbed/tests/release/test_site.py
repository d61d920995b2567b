"""The site's side: what pods run, what the registry gave away, what the nodes refused; load.sh's own checks."""

import json
import subprocess

import pytest
from windlass_testbed import airgap, registry
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.release import listing, site

LOG = """172.18.0.3 - - [x] "GET /v2/s/windlass/operator/blobs/sha256:aa HTTP/1.1" 200 5 "" "containerd"
172.18.0.4 - - [x] "GET /v2/s/windlass/operator/blobs/sha256:bb HTTP/1.1" 200 5 "" "containerd"
172.18.0.1 - - [x] "HEAD /v2/s/windlass/operator/blobs/sha256:aa HTTP/1.1" 200 5 "" "crane"
172.18.0.4 - - [x] "GET /v2/s/windlass/operator/manifests/sha256:cc HTTP/1.1" 200 5 "" "containerd"
"""
CHAIN = """Chain WINDLASS-NO-EGRESS (2 references)
    pkts      bytes target     prot opt in     out     source               destination
   17710  4242424 RETURN     0    --  *      *       0.0.0.0/0            10.0.0.0/8
       3      180 REJECT     0    --  *      *       0.0.0.0/0            0.0.0.0/0
"""


def test_the_nodes_fetches_are_counted_out_of_the_access_log():
    """Those of the script that loads the registry are not."""
    assert registry.pulled(LOG) == {"s/windlass/operator": 2}


def test_refused_packets_are_counted():
    """Those that were let through are not."""
    assert airgap.counted(CHAIN) == 3


def test_images_of_pods_are_listed_with_those_that_only_begin():
    """Each once."""
    spec = {"containers": [{"image": "b"}, {"image": "a"}], "initContainers": [{"image": "c"}]}
    assert site.images_of(json.dumps({"items": [{"spec": spec}, {"spec": spec}]})) == ["a", "b", "c"]


def test_a_released_image_that_no_pod_runs_is_found():
    """A bundle with an image that the charts do not take would look complete otherwise."""
    assert site.unused(["r/windlass/operator@sha256:a"], ["sha256:a", "sha256:b"]) == ["sha256:b"]


def test_without_a_release_the_demo_says_what_to_run(tmp_path):
    """Before it starts anything."""
    with pytest.raises(BedError, match="run `make release` first"):
        site.released(tmp_path, "0.2.0")


@pytest.fixture
def bundle(tmp_path):
    """A bundle whose tools write down how they are called; the registry holds what it was sent, but for `liar`."""
    digest = f"sha256:{'d' * 64}"
    for folder in ("tools", "charts", "values", "images/operator"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "images.txt").write_text(f"operator windlass/operator 0.2.0 {digest}\n")
    for name in ("windlass", "windlass-license-server"):
        (tmp_path / f"charts/{name}-0.2.0.tgz").write_text(name)
        (tmp_path / f"values/{name}.yaml").write_text(f"image:\n  digest: {digest}\n")
    said = {"crane": f"case $1-$* in digest-*liar*) echo sha256:0;; digest-*) echo {digest};; esac",
            "helm": "echo Pushed; echo Digest: sha256:c"}  # fmt: skip
    for name, text in said.items():
        tool = tmp_path / "tools" / name
        tool.write_text(f'#!/bin/bash\necho "{name} $*" >> calls\n{text}\n')
        tool.chmod(0o755)
    (tmp_path / "load.sh").write_text((REPOSITORY / "tools/testbed/release/load.sh").read_text())
    (tmp_path / "SHA256SUMS").write_text(listing.sums_text(listing.sums_of(tmp_path)))
    return tmp_path


def load(bundle, *words):
    return subprocess.run(["bash", bundle / "load.sh", *words], capture_output=True, text=True, check=False)


def test_loading_sends_every_image_and_chart_and_writes_the_values(bundle):
    """The commands that it prints install by digest."""
    done = load(bundle, "--plain-http", "10.0.0.7:5000/team/")
    assert done.returncode == 0, done.stderr
    assert (bundle / "calls").read_text().splitlines() == [
        "crane push --insecure images/operator 10.0.0.7:5000/team/windlass/operator:0.2.0",
        "crane digest --insecure 10.0.0.7:5000/team/windlass/operator:0.2.0",
        "helm push charts/windlass-0.2.0.tgz oci://10.0.0.7:5000/team/charts --plain-http",
        "helm push charts/windlass-license-server-0.2.0.tgz oci://10.0.0.7:5000/team/charts --plain-http",
    ]
    text = (bundle / "site/windlass.yaml").read_text()
    assert text == f"global:\n  repository: 10.0.0.7:5000/team\nimage:\n  digest: sha256:{'d' * 64}\n"
    assert "install windlass oci://10.0.0.7:5000/team/charts/windlass@sha256:c -n windlass-system" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "give the registry and a path in it"), (("liar/team",), "the registry holds sha256:0 where")],
    ids=["no registry", "a registry that rewrites images"],
)
def test_what_cannot_be_ends_with_a_sentence(bundle, words, said):
    """And with a failure."""
    done = load(bundle, *words)
    assert (done.returncode, said in done.stderr) == (1, True)


def test_a_bundle_with_another_byte_is_not_loaded(bundle):
    """Nothing is sent."""
    (bundle / "values/windlass.yaml").write_text("image: {digest: mine}\n")
    done = load(bundle, "registry/team")
    assert (done.returncode, "copy the bundle again" in done.stderr) == (1, True)
    assert not (bundle / "calls").exists()
