"""`kubectl windlass license` by the real kubectl, a real API server, the real issuer and the real license server.

Nodes, kubelets and controllers are played; `tests/kind/test_e2e_license_init.py` has real ones.
"""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

pytestmark = pytest.mark.apiserver

PATIENCE_S = 240
PROGRAM = "import sys\nfrom windlass_kubectl.__main__ import main\nsys.exit(main())\n"


def _simulated_nodes():
    """The module beside this file: pytest's importlib mode puts no test folder on sys.path."""
    spec = importlib.util.spec_from_file_location(
        "windlass_tests_simulated", Path(__file__).parent / "simulated_nodes.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def cluster(apiserver, namespace, tmp_path):
    """Two nodes with two GPUs each, and a license server without a key."""
    nodes = _simulated_nodes().SimulatedNodes(apiserver, namespace, tmp_path)
    try:
        nodes.start()
        for node in ("one", "two"):
            nodes.add_node(f"{namespace}-{node}", 2)
        yield nodes
    finally:
        nodes.stop()


@pytest.fixture
def license_(apiserver, namespace, tmp_path, request):
    """Runs `kubectl windlass license …` in the test's namespace, with a home of its own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl-windlass").write_text(f"#!{sys.executable}\n{PROGRAM}")
    (programs / "kubectl-windlass").chmod(0o755)
    path = f"{programs}:{apiserver.kubectl_binary.parent}:{os.environ['PATH']}"
    env = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(apiserver.kubeconfig), "PATH": path}
    env.pop("XDG_CONFIG_HOME", None)

    def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        reach = ["--address", request.getfixturevalue("cluster").url] if "cluster" in request.fixturenames else []
        command = [str(apiserver.kubectl_binary), "windlass", "license", *words, "-n", namespace, *reach]
        done = subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return run


def everything_in(apiserver, namespace) -> str:
    return apiserver.kubectl("-n", namespace, "get", "secrets,configmaps,jobs,pods,deployments", "-o", "json").stdout


def lease(cluster, gpu: str) -> str:
    holder = {"namespace": "n", "pod": "p", "uid": "u", "service": "s"}
    asked = httpx2.post(f"{cluster.url}/v1/leases", json={"gpus": [gpu], "holder": holder}, trust_env=False)
    return asked.json().get("reason") or asked.json()["state"]


def test_from_nothing_to_a_license_in_force(license_, cluster, apiserver, namespace, tmp_path):
    """In one step, without the private key in the cluster or readable by others; again it changes nothing."""
    assert "no license is in force; next: kubectl windlass license init" in license_("status").stdout
    would = license_("init", "--dry-run").stdout
    assert f"node {namespace}-one: name 2 free GPUs by a Job, 0 in their pods" in would
    assert not (tmp_path / ".config").exists()
    assert "trusted" not in everything_in(apiserver, namespace)

    made = license_("init", "--customer", "Example Ltd", "--limit", "3")
    assert "license file successfully uploaded: customer Example Ltd, appid 1, 4 GPUs, 3 at a time" in made.stdout
    assert f"{namespace}-two: 2 of 2 GPUs named" in made.stderr
    folder = tmp_path / ".config" / "windlass" / "license"
    assert stat.S_IMODE((folder / "private.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert f"private key: {folder / 'private.pem'}" in made.stdout
    stored = everything_in(apiserver, namespace)
    assert "PRIVATE KEY" not in stored
    assert "BEGIN PUBLIC KEY" in stored
    assert [item for item in json.loads(stored)["items"] if item["kind"] == "Job"] == []
    assert lease(cluster, f"GPU-{namespace}-two-1") == "granted"
    assert lease(cluster, "GPU-elsewhere") == "Unlicensed"

    starts, files = cluster.starts, sorted(folder.glob("*.dat"))
    again = json.loads(license_("init", "-o", "json").stdout)
    assert (again["changed"], again["license"]["gpus"], again["license"]["customer"]) == (False, 4, "Example Ltd")
    assert again["license"]["file"] is None  # none was written
    assert (cluster.starts, sorted(folder.glob("*.dat"))) == (starts, files)


def test_the_days_after(license_, cluster, namespace):
    """A node comes, the end comes: GPUs are added to the same terms, and the end moves."""
    first = json.loads(license_("init", "--customer", "Example Ltd", "--days", "10", "-o", "json").stdout)
    cluster.add_node(f"{namespace}-three", 1)
    seen = json.loads(license_("status", "--scan", "-o", "json").stdout)
    assert (seen["unlicensed"], seen["gpusInCluster"]) == ([f"GPU-{namespace}-three-0"], 5)
    assert seen["servers"][0]["license"]["gpus"] == 4
    assert (
        "1 of 5 GPUs are not licensed; next: kubectl windlass license add-gpus" in license_("status", "--scan").stdout
    )

    added = json.loads(license_("add-gpus", "-o", "json").stdout)
    assert (added["changed"], added["license"]["gpus"]) == (True, 5)
    assert (added["license"]["customer"], added["license"]["expires"]) == ("Example Ltd", first["license"]["expires"])
    assert lease(cluster, f"GPU-{namespace}-three-0") == "granted"
    assert json.loads(license_("add-gpus", "-o", "json").stdout)["changed"] is False

    renewed = json.loads(license_("renew", "--days", "400", "-o", "json").stdout)["license"]
    assert (renewed["gpus"], renewed["expires"] > first["license"]["expires"]) == (5, True)
    text = license_("status").stdout
    for words in ("5 GPUs licensed, no limit", "in 399 days", "1 leases on 1 GPUs", "1 of 1 ready"):
        assert words in text


def test_what_stands_in_the_way_is_reported_and_nothing_is_signed(license_, cluster, apiserver, namespace, tmp_path):
    """A node that is not ready, an image that is not there, another issuer's license, a wrong token."""
    cluster.add_node(f"{namespace}-down", 8, ready="Unknown")
    done = license_("init", code=1)
    assert f"node {namespace}-down: it is not ready, so its 8 GPUs cannot be named" in done.stderr
    assert "--allow-missing" in done.stderr
    assert not (tmp_path / ".config").exists()
    cluster.broken = "no such image"
    done = license_("init", "--allow-missing", "--image", "nowhere/image", code=1)
    assert "left out: node" in done.stderr
    assert "image nowhere/image: ErrImagePull: no such image; name another with --image" in done.stderr
    assert "no GPU was found" in done.stderr
    cluster.broken = ""
    assert "refuses the admin token" in license_("init", "--allow-missing", "--token", "wrong", code=1).stderr
    assert "4 GPUs" in license_("init", "--allow-missing").stdout

    (tmp_path / "gpus.txt").write_text("GPU 0: NVIDIA L20 (UUID: GPU-by-hand)\n")
    other = ("--folder", "other", "--gpus", "gpus.txt")
    done = license_("init", *other, code=1)
    assert "the license in force, of customer self-issued, was signed with key" in done.stderr
    assert "and there is no key other/private.pem; name that key with --key, or use init --replace" in done.stderr
    assert not (tmp_path / "other").exists()  # no key was made for nothing
    trusted = apiserver.get("-n", namespace, "configmap", "windlass-license-server-trusted")["data"]
    assert len(trusted) == 1  # a refused issuer's key is not let in
    assert json.loads(license_("init", *other, "--replace", "-o", "json").stdout)["license"]["gpus"] == 1
    assert lease(cluster, "GPU-by-hand") == "granted"
    assert "was signed with key" in license_("renew", code=1).stderr
    for words in (("renew",), ("init",), ("init", "--dry-run")):
        assert "there is no private key nowhere.pem" in license_(*words, "--key", "nowhere.pem", code=1).stderr
    assert "name files with the output of `nvidia-smi -L`" in license_("init", "--gpus", "nothing.txt", code=1).stderr


def test_without_a_license_server_the_next_command_is_named(license_):
    """For each of the four."""
    for action in ("init", "status", "renew", "add-gpus"):
        said = license_(action, code=1).stderr
        assert "there is no license server in namespace" in said
        assert "helm install windlass-license-server" in said
