"""The license server's chart as a first installation meets it: where it goes, how it is called, whose keys it has."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml
from windlass_client.licenses import SELECTOR, server_of
from windlass_license.cli import command_line

from .conftest import Helm, documents

CHART = Path(__file__).resolve().parents[2] / "charts" / "windlass-license-server"
KEY = (
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n"
    "-----END PUBLIC KEY-----\n"
)
NAME = "windlass-license-server"
Objects = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture
def render(helm: Helm) -> Callable[..., Objects]:
    """The chart's objects by kind and name, for these values besides a public key."""

    def objects(*flags: str, **values: Any) -> Objects:
        values = {"publicKeys": [KEY], **values}
        done = helm("template", "release", str(CHART), "--namespace", "kube-system", *flags, values=values)
        assert done.returncode == 0, done.stderr
        found = documents(done.stdout)
        return {(item["kind"], item["metadata"]["name"]): item for item in found}

    return objects


def image_of(objects: Objects) -> str:
    """The server's image."""
    (container,) = objects["Deployment", NAME]["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def test_keys_come_from_the_values_and_from_the_plug_in(render: Callable[..., Objects]) -> None:
    """Both ConfigMaps may be missing: the server then starts without a key."""
    volumes = {row["name"]: row for row in render()["Deployment", NAME]["spec"]["template"]["spec"]["volumes"]}
    sources = [source["configMap"] for source in volumes["keys"]["projected"]["sources"]]
    assert sources == [{"name": f"{NAME}-keys", "optional": True}, {"name": f"{NAME}-trusted", "optional": True}]
    bare = render(publicKeys=[])
    assert ("ConfigMap", f"{NAME}-keys") not in bare
    assert ("Deployment", NAME) in bare


@pytest.mark.parametrize(
    ("values", "name"),
    [({"nameOverride": "spare"}, "release-spare"), ({"nameOverride": "lease"}, "release"),
     ({"nameOverride": "spare", "fullnameOverride": "licenses"}, "licenses")],
    ids=["behind the release's", "in the release's", "the whole"],
)  # fmt: skip
def test_another_name_is_everywhere(values: dict[str, Any], name: str, render: Callable[..., Objects]) -> None:
    """Of every object, of the Lease, in the test's address; the default's name is left in labels alone."""
    usual, objects = render(), render(**values)
    assert set(objects) == {(kind, given.replace(NAME, name)) for kind, given in usual}
    (container,) = objects["Deployment", name]["spec"]["template"]["spec"]["containers"]
    options = command_line().parse_args(container["args"])
    assert options.kube_lease == f"kube-system/{name}"
    assert objects["Role", name]["rules"][1]["resourceNames"] == [name]
    assert f"http://{name}:10080/" in objects["Pod", f"{name}-test"]["spec"]["containers"][0]["args"][0]
    selector = objects["Deployment", name]["spec"]["selector"]["matchLabels"]
    assert selector == usual["Deployment", NAME]["spec"]["selector"]["matchLabels"]


def test_the_plug_in_finds_a_server_of_another_name(render: Callable[..., Objects]) -> None:
    """By its label, which stays; its keys go into the ConfigMap that its pods mount, its requests to its Service."""
    objects = render(fullnameOverride="licenses")
    deployment = objects["Deployment", "licenses"]
    labels = [f"app.kubernetes.io/name={deployment['metadata']['labels']['app.kubernetes.io/name']}"]
    assert labels == [SELECTOR["labelSelector"]]
    found = server_of(deployment)
    (keys,) = (row for row in deployment["spec"]["template"]["spec"]["volumes"] if row["name"] == "keys")
    assert found.trusted in [source["configMap"]["name"] for source in keys["projected"]["sources"]]
    selected = objects["Service", found.name]["spec"]["selector"]
    assert selected == deployment["spec"]["selector"]["matchLabels"]


def test_the_plug_in_reads_the_chart_s_deployment(render: Callable[..., Objects]) -> None:
    """Its image, whose Jobs it starts, the Secret with the admin token, and whether it speaks HTTPS."""
    pulled: dict[str, Any] = {"image": {"pullPolicy": "Always"}, "imagePullSecrets": [{"name": "p"}]}
    objects = render(**pulled, tls={"enabled": True})
    labels = objects["Deployment", NAME]["metadata"]["labels"]
    assert "=".join(("app.kubernetes.io/name", labels["app.kubernetes.io/name"])) == SELECTOR["labelSelector"]
    found = server_of(objects["Deployment", NAME])
    assert (found.namespace, found.image) == ("kube-system", image_of(objects))
    assert (found.pull_policy, found.pull_secrets, found.https, found.replicas) == ("Always", ("p",), True, 1)
    secret, entry = found.token or ("", "")
    assert entry in objects["Secret", secret]["data"]
    open_ = server_of(render("--set", "auth.adminToken=")["Deployment", NAME])
    assert (open_.token, open_.https) == (None, False)


@pytest.mark.parametrize(
    ("release", "values", "expected"),
    [("kube-system", {}, "kube-system"), ("licenses", {}, "licenses"), ("default", {}, "kube-system"),
     ("default", {"namespace": "default"}, "default"), ("licenses", {"namespace": "kube-system"}, "kube-system")],
)  # fmt: skip
def test_where_the_objects_go(release: str, values: dict[str, Any], expected: str, helm: Helm) -> None:
    """The manual's `helm install --generate-name` without -n lands in kube-system, where pods look first."""
    words = ("template", "--generate-name", "--namespace", release, "--set", "global.repository=registry.example.com/t")
    done = helm(*words, str(CHART), values=values)
    assert done.returncode == 0, done.stderr
    found = documents(done.stdout)
    places = {item["metadata"].get("namespace", expected) for item in found}
    subjects = {row["namespace"] for item in found for row in item.get("subjects", ())}
    assert (places, subjects) == ({expected}, {expected})
    (server_,) = (item for item in found if item["kind"] == "Deployment")
    (container,) = server_["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example.com/t/windlass/license-server:")
    assert f"--kube-lease={expected}/{NAME}" in container["args"]


NOTES_OBJECT = 'kind: Notes\nnotes: |{{ tpl (.Files.Get "notes.txt") . | nindent 2 }}\n'
NOTES: dict[str, tuple[str, dict[str, Any], list[str], list[str]]] = {
    "default": (
        "kube-system",
        {},
        ["http://windlass-license-server.kube-system.svc:10080", "get secret"],
        ["WARNING", "license init"],
    ),
    "elsewhere": ("licenses", {}, ["spec.license.addresses"], ["WARNING"]),
    "open": ("kube-system", {"auth": {"adminToken": ""}}, ['curl -F "file=@license.dat"', "no admin token"], []),
    "https": ("kube-system", {"tls": {"enabled": True}}, ["WINDLASS_LS_CA", "curl --insecure"], ["http://"]),
    "no key": ("kube-system", {"publicKeys": []}, ["\n  kubectl windlass license init\n"], ["WARNING"]),
    "no volume": ("kube-system", {"persistence": {"enabled": False}}, ["persistence is off"], []),
}


@pytest.mark.parametrize(("namespace", "values", "said", "unsaid"), NOTES.values(), ids=NOTES)
def test_notes(
    namespace: str, values: dict[str, Any], said: list[str], unsaid: list[str], helm: Helm, tmp_path: Path
) -> None:
    """What `helm install` says fits what was installed."""
    chart = copytree(CHART, tmp_path / "chart")  # helm shows notes only of an installation, so they become an object
    (chart / "templates" / "NOTES.txt").rename(chart / "notes.txt")
    (chart / "templates" / "notes.yaml").write_text(NOTES_OBJECT)
    words = ("template", "release", str(chart), "--namespace", namespace, "--show-only", "templates/notes.yaml")
    done = helm(*words, values={"publicKeys": [KEY], **values})
    assert done.returncode == 0, done.stderr
    notes = yaml.safe_load(done.stdout)["notes"]
    assert [text for text in said if text not in notes] == []
    assert [text for text in unsaid if text in notes] == []
