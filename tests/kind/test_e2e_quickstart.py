"""README's quickstart, as it stands there: from a cluster without Windlass to an answer.

Three things are the test cluster's own: the images lie in the nodes under tags of their content, a pod in the cluster
is the hub, and it has the demo's model under the example's name. Nothing else is prepared.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from windlass_testbed import charts, deploy, licensing
from windlass_testbed.paths import REPOSITORY

sys.path.insert(0, str(Path(__file__).parent))

import hub_pod

REGISTRY = "--set global.repository=registry.example.com/team"
EXAMPLE = "examples/first-service.yaml"
RELEASES = (("windlass", deploy.SYSTEM_NAMESPACE), (licensing.RELEASE, deploy.LICENSE_NAMESPACE))
TRUSTED = f"{licensing.RELEASE}-trusted"
SECTION = (REPOSITORY / "README.md").read_text().split("\n## Quickstart\n", 1)[1].split("\n## ", 1)[0]
COMMANDS = re.findall(r"^\$ (.*)$", SECTION, re.M)
COMMAND_S = 600


@pytest.fixture(scope="module")
def empty(bed):
    """No operator, no license server, no license; no CRD either, unless a service of somebody else's needs it."""
    uninstall = (*RELEASES, (licensing.RELEASE, bed.licenses.namespace))
    for release, namespace in uninstall:
        bed.helm("uninstall", release, "--namespace", namespace, "--wait", "--timeout", "90s")
    words = ("-n", deploy.LICENSE_NAMESPACE, "delete", f"pvc/{licensing.RELEASE}", f"configmap/{TRUSTED}")
    bed.kubectl(*words, "--ignore-not-found", "--timeout=600s")
    services = json.loads(bed.kubectl("get", "llm", "-A", "-o", "json"))["items"]
    if all(row["metadata"]["namespace"].startswith("test-") for row in services):
        bed.kubectl("delete", "crd", "llmservices.serving.windlass.dev", "--timeout=600s")
    yield
    bed.licenses.install(bed.images["license-server"])
    rows = json.loads(bed.helm("list", "--all-namespaces", "-o", "json"))
    there = {(row["name"], row["namespace"]) for row in rows}
    if not set(RELEASES) <= there:  # the quickstart failed; what it installed serves others, too
        deploy.install_charts(bed.paths, bed.images)


@pytest.fixture(scope="module")
def site(bed, leaving, namespace, tmp_path_factory):
    """A user: a folder with the charts and the example, a home, and a kubeconfig whose context has an empty namespace.

    Returns a function that runs a command line there and gives its output back, errors and all.
    """
    folder, mine = tmp_path_factory.mktemp("site"), f"{namespace}-user"
    (folder / "charts").symlink_to(charts.CHARTS)
    (folder / "examples").mkdir()
    claim, service = yaml.safe_load_all((REPOSITORY / EXAMPLE).read_text())
    download = service["spec"]["model"]["download"]
    hub_pod.start(bed.paths, namespace, bed.images["operator"], download["name"])
    download["endpoint"] = hub_pod.endpoint(namespace)
    service["spec"]["resources"] = {"cpu": "300m", "memory": "3Gi"}  # the nodes share a small machine
    (folder / EXAMPLE).write_text(yaml.safe_dump_all([claim, service]))
    kubeconfig = folder / "kubeconfig"
    shutil.copy(bed.paths.kubeconfig, kubeconfig)
    bed.kubectl("create", "namespace", mine)
    env = {**os.environ, "HOME": str(folder), "KUBECONFIG": str(kubeconfig), "PATH": bed.programs()}
    env.pop("XDG_CONFIG_HOME", None)

    def typed(line):
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=COMMAND_S
        )
        assert done.returncode == 0, f"{line}: exit {done.returncode}\n{done.stdout}{done.stderr}\n{why(bed, mine)}"
        return done.stdout + done.stderr

    typed(f"kubectl config set-context --current --namespace={mine}")
    yield typed
    leaving.append(mine)
    bed.kubectl("delete", "namespace", mine, "--wait=false")


def why(bed, namespace):
    """What the cluster says of the user's namespace."""
    return bed.kubectl("-n", namespace, "get", "llm,pvc,jobs,pods,events", "--ignore-not-found")


def on_this_cluster(line, images):
    """The line with the images of the nodes in the place of a registry's."""
    repository, tag = charts.repository_and_tag(images["license-server" if licensing.RELEASE in line else "operator"])
    sets = [f"image.repository={repository}", f"image.tag={tag}"]
    if licensing.RELEASE not in line:
        server, version = charts.repository_and_tag(images["server-cpu"])
        sets += [f"server.image.{key}={server}" for key in ("repository", "cpuRepository")]
        sets += [f"server.image.version={version}"]
    return line.replace(REGISTRY, " ".join(f"--set {one}" for one in sets))


def test_the_quickstart_ends_with_an_answer(bed, empty, site):
    """Each command in its order; the notes of the charts name those that follow. Prints the transcript."""
    bed.gpus_settled()
    began, said = time.monotonic(), {}
    for line in COMMANDS:
        said[line] = site(on_this_cluster(line, bed.images))
        print(f"[{time.monotonic() - began:4.0f} s] $ {line}\n{said[line]}")
    print(f"{len(COMMANDS)} commands, {sum(len(line.split()) for line in COMMANDS)} words")
    operator, server, init, apply, wait, chat = (said[line] for line in COMMANDS)
    assert all(line.replace(REGISTRY, "").strip() in operator for line in (COMMANDS[1], COMMANDS[2], *COMMANDS[4:]))
    assert f"\n  {COMMANDS[2]}\n" in server
    assert f"\n  {COMMANDS[3]}" in server
    assert "file successfully uploaded: customer self-issued" in init
    assert apply.splitlines() == [
        "persistentvolumeclaim/first-model created",
        "llmservice.serving.windlass.dev/first created",
    ]
    assert wait.strip() == "llmservice.serving.windlass.dev/first condition met"
    answer, tokens = chat.strip().rsplit("\n", 1)
    assert answer.strip()
    assert re.search(r"\d+ tokens, first after", tokens), chat


def test_the_model_lies_on_a_claim_of_the_default_storage_class(bed, namespace):
    """Downloaded into it, and verified."""
    mine = f"{namespace}-user"
    (default,) = [
        row["metadata"]["name"]
        for row in json.loads(bed.kubectl("get", "storageclass", "-o", "json"))["items"]
        if row["metadata"].get("annotations", {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    ]
    claim = bed.get(mine, "pvc", "first-model")
    assert (claim["status"]["phase"], claim["spec"]["storageClassName"]) == ("Bound", default)
    assert bed.condition(mine, "first", "Downloading")["reason"] == "Downloaded"
    assert bed.condition(mine, "first", "Licensed")["status"] == "True"
