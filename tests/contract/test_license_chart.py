"""The license server's chart, rendered by the real helm: what each value changes, and that a wrong value is named."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from windlass_license.cli import command_line

CHART = Path(__file__).resolve().parents[2] / "charts" / "windlass-license-server"
KEY = (
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n"
    "-----END PUBLIC KEY-----\n"
)
NAME = "windlass-license-server"
Objects = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="session")
def helm_binary() -> Path:
    """The program from $WINDLASS_KUBE_BIN, else the test bed's, which builds it when it has to."""
    if folder := os.environ.get("WINDLASS_KUBE_BIN"):
        return Path(folder) / "helm"
    bed = [sys.executable, "-m", "windlass_testbed", "tool", "helm"]
    return Path(subprocess.run(bed, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def helm(helm_binary: Path, tmp_path: Path) -> Helm:
    """Run helm with a home of its own; `values` become a values file."""

    def run(*words: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values or {}))
        environment = {**os.environ, "HOME": str(tmp_path)}
        command = [helm_binary, *words, "-f", file]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)

    return run


@pytest.fixture
def render(helm: Helm) -> Callable[..., Objects]:
    """The chart's objects by kind and name, for these values besides a public key."""

    def objects(*flags: str, **values: Any) -> Objects:
        values = {"publicKeys": [KEY], **values}
        done = helm("template", "release", str(CHART), "--namespace", "kube-system", *flags, values=values)
        assert done.returncode == 0, done.stderr
        found = [item for item in yaml.safe_load_all(done.stdout) if item]
        return {(item["kind"], item["metadata"]["name"]): item for item in found}

    return objects


def server(objects: Objects) -> dict[str, Any]:
    """The server's container."""
    (container,) = objects["Deployment", NAME]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_default_objects(render: Callable[..., Objects]) -> None:
    """Out of the box: a token, a volume, one name."""
    kinds = {("Deployment", NAME), ("Service", NAME), ("PersistentVolumeClaim", NAME), ("ConfigMap", f"{NAME}-keys")}
    assert set(render()) == {*kinds, ("Secret", f"{NAME}-admin"), ("Pod", f"{NAME}-test")}


def test_the_server_understands_its_arguments(render: Callable[..., Objects]) -> None:
    """The chart and the program agree on every flag."""
    options = command_line().parse_args(server(render(extraArgs=["--trust-clock"]))["args"])
    assert (options.port, options.ttl_seconds, options.trust_clock) == (10080, 60, True)


def test_pods_are_restricted(render: Callable[..., Objects]) -> None:
    """Both pods satisfy the restricted Pod Security Standard with a read-only root file system."""
    objects = render()
    for pod in (objects["Deployment", NAME]["spec"]["template"]["spec"], objects["Pod", f"{NAME}-test"]["spec"]):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_an_empty_token_is_the_bare_curl(render: Callable[..., Objects]) -> None:
    """`--set auth.adminToken=` makes no Secret and asks for nothing."""
    objects = render("--set", "auth.adminToken=")
    assert not [kind for kind, _ in objects if kind == "Secret"]
    assert "env" not in server(objects)


def test_a_secret_of_one_s_own(render: Callable[..., Objects]) -> None:
    """An existing Secret is referred to, not made."""
    objects = render(auth={"existingSecret": "mine", "existingSecretKey": "admin"})
    assert not [kind for kind, _ in objects if kind == "Secret"]
    (variable,) = server(objects)["env"]
    assert variable["valueFrom"]["secretKeyRef"] == {"name": "mine", "key": "admin"}


def test_registry_and_legacy_name(render: Callable[..., Objects]) -> None:
    """The manual's `global.repository`, and the original's service name on request."""
    objects = render("--set", "global.repository=registry.example.com/x", "--set", "global.legacyServiceName=true")
    image = "registry.example.com/x/windlass/license-server:0.1.0"
    assert server(objects)["image"] == image == objects["Pod", f"{NAME}-test"]["spec"]["containers"][0]["image"]
    legacy, own = objects["Service", "taco-license-server"]["spec"], objects["Service", NAME]["spec"]
    assert legacy == own
    assert own["ports"] == [{"name": "http", "port": 10080, "targetPort": "http"}]


def test_two_keys_in_one_file(render: Callable[..., Objects]) -> None:
    """During a rotation both keys reach the server."""
    pem = render(publicKeys=[KEY, KEY.strip()])["ConfigMap", f"{NAME}-keys"]["data"]["public.pem"]
    assert pem == KEY * 2


def test_toggles(render: Callable[..., Objects]) -> None:
    """Without persistence, with network policy and disruption budget."""
    objects = render(
        persistence={"enabled": False}, networkPolicy={"enabled": True}, podDisruptionBudget={"enabled": True}
    )
    assert ("PersistentVolumeClaim", NAME) not in objects
    assert objects["PodDisruptionBudget", NAME]["spec"]["maxUnavailable"] == 1
    assert objects["NetworkPolicy", NAME]["spec"]["egress"] == []


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no public key": ({"publicKeys": []}, "publicKeys is empty: the server could accept no license"),
    "a file name instead of PEM": ({"publicKeys": ["public.pem"]}, "publicKeys/0"),
    "a typo": ({"persistance": {"enabled": False}}, "'persistance' not allowed"),
    "two tokens": (
        {"auth": {"adminToken": "a", "existingSecret": "b"}},
        "auth.adminToken and auth.existingSecret are both set",
    ),
}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_values(values: dict[str, Any], message: str, helm: Helm) -> None:
    """A wrong value is refused with its name."""
    done = helm("template", "release", str(CHART), values={"publicKeys": [KEY], **values})
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("flags", [(), ("-f", str(CHART / "ci" / "open-values.yaml"))], ids=["default", "open"])
def test_lint(flags: tuple[str, ...], helm: Helm) -> None:
    """`helm lint --strict` has nothing to say."""
    done = helm("lint", "--strict", str(CHART), *flags)
    assert done.returncode == 0, done.stdout
