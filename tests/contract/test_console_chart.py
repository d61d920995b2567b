"""The console in the operator's chart, by the real helm: off by default, without any right, behind a prefix."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import certifi
import pytest
import yaml
from windlass_console import cli
from windlass_console.views.license_places import DEFAULT, named_by

from .conftest import Helm, documents

CHART = Path(__file__).resolve().parents[2] / "charts" / "windlass"
NAME = "windlass-console"
BAD_VALUES = {
    "a typo": ({"enable": True}, "enable"),
    "a prefix with its slash": ({"prefix": "/console/"}, "prefix"),
    "a prefix that is none": ({"prefix": "console"}, "prefix"),
    "an origin with a path": ({"origins": ["https://a.example/x"]}, "origins"),
    "a namespace that is none": ({"namespaces": ["Team A"]}, "namespaces"),
    "an API server without TLS": ({"apiServer": "http://kubernetes"}, "apiServer"),
    "hours without end": ({"session": {"hours": 1000}}, "hours"),
    "an ingress without a host": ({"enabled": True, "ingress": {"enabled": True}}, "console.ingress.host"),
    "a policy that is none": ({"networkPolicy": {"from": ["all"]}}, "from"),
}
Objects = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture
def template(helm: Helm) -> Callable[[dict[str, Any]], subprocess.CompletedProcess[str]]:
    return lambda console: helm(
        "template", "windlass", str(CHART), "--namespace", "system", values={"console": console}
    )


@pytest.fixture
def render(template) -> Callable[..., Objects]:
    def objects(**console: Any) -> Objects:
        done = template({"enabled": True, **console})
        assert done.returncode == 0, done.stderr
        return {(item["kind"], item["metadata"]["name"]): item for item in documents(done.stdout)}

    return objects


def test_it_is_off_unless_it_is_switched_on(template):
    done = template({})
    assert (done.returncode, NAME in done.stdout) == (0, False)


def test_its_pods_have_no_right_and_no_token(render):
    """No role names its service account, and nothing mounts a token."""
    objects = render()
    pod = objects["Deployment", NAME]["spec"]["template"]["spec"]
    assert objects["ServiceAccount", NAME]["automountServiceAccountToken"] is False
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (NAME, False)
    subjects = [one for (kind, _), item in objects.items() if kind.endswith("Binding") for one in item["subjects"]]
    assert NAME not in {one["name"] for one in subjects}
    kinds = [next(key for key in volume if key != "name") for volume in pod["volumes"]]
    assert kinds == ["configMap", "secret"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_console_understands_every_argument_of_the_chart(render, tmp_path):
    """Read by its own command line; the session key is the Secret that the pod mounts."""
    objects = render(
        prefix="/console",
        namespaces=["team-a"],
        origins=["https://a.example"],
        session={"hours": 2, "insecureCookie": True},
    )
    (container,) = objects["Deployment", NAME]["spec"]["template"]["spec"]["containers"]
    (tmp_path / "key").write_text("k" * 64)
    mounted = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    key = next(one for one in container["args"] if one.startswith("--session-key-file="))
    assert key == f"--session-key-file={mounted['session']}/key"
    authorities = f"--ca-file={mounted['api-server']}/ca.crt"
    assert authorities in container["args"]
    here = {key: f"--session-key-file={tmp_path}/key", authorities: f"--ca-file={certifi.where()}"}
    args = [here.get(one, one) for one in container["args"]]
    settings = cli.settings_of(cli.command_line().parse_args(args), {})
    assert (settings.prefix, settings.namespaces, settings.origins) == ("/console", ("team-a",), ("https://a.example",))
    assert (settings.api_server, settings.session_hours, settings.secure_cookie) == (
        "https://kubernetes.default.svc",
        2,
        False,
    )
    secret = objects["Secret", NAME]
    assert len(secret["data"]["key"]) > 80
    named = render(session={"existingSecret": "own"})
    assert ("Secret", NAME) not in named


def test_image_ports_and_probes_fit_together(render, helm):
    """By digest in a registry of the site; the Service and the policy lead to the pod's port."""
    digest = f"sha256:{'0' * 64}"
    values = {"global": {"repository": "site:5000/team"}, "console": {"enabled": True, "image": {"digest": digest}}}
    text = helm("template", "windlass", str(CHART), values=values).stdout
    assert f'image: "site:5000/team/windlass/console@{digest}"' in text
    objects = render()
    pod = objects["Deployment", NAME]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert [port["name"] for port in container["ports"]] == ["http"]
    assert objects["Service", NAME]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    policy = objects["NetworkPolicy", NAME]["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": "http"}], "from": [{"namespaceSelector": {}}]}]
    assert [port["port"] for rule in policy["egress"] for port in rule["ports"]] == [53, 53, 443, 6443]
    operator = objects["Deployment", "windlass"]["spec"]["selector"]["matchLabels"]
    assert not operator.items() <= pod["metadata"]["labels"].items()


def test_an_ingress_leads_to_the_prefix(render):
    ingress = render(prefix="/console", ingress={"enabled": True, "host": "ai.example", "tlsSecret": "cert"})
    spec = ingress["Ingress", NAME]["spec"]
    (rule,) = spec["rules"]
    assert (rule["host"], rule["http"]["paths"][0]["path"]) == ("ai.example", "/console")
    assert spec["tls"] == [{"hosts": ["ai.example"], "secretName": "cert"}]


@pytest.mark.parametrize(("console", "word"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_a_wrong_value_is_refused_by_its_name(template, console, word):
    done = template(console)
    assert (done.returncode != 0, word in done.stderr) == (True, True), done.stderr


@pytest.mark.parametrize("addresses", [[], ["https://keys.licenses.svc:10080"]])
def test_it_knows_the_operators_license_servers(helm, addresses):
    """Of the same value; without it the servers' own default."""
    values = {"console": {"enabled": True}, "license": {"addresses": addresses}}
    done = helm("template", "windlass", str(CHART), "--namespace", "system", values=values)
    objects = {(item["kind"], item["metadata"]["name"]): item for item in documents(done.stdout)}
    arguments = objects["Deployment", NAME]["spec"]["template"]["spec"]["containers"][0]["args"]
    given = cli.settings_of(cli.command_line().parse_args([one for one in arguments if "license" in one]), {})
    known = named_by(given.license_addresses)
    assert known == ({("licenses", "keys")} if addresses else DEFAULT)


NOTES = {
    "off": ({}, [], ["port-forward", "controlPlane"]),
    "on": (
        {"enabled": True, "prefix": "/c"},
        ["service/windlass-console 8080:80", "http://localhost:8080/c/", "networkPolicy.controlPlane={"],
        [],
    ),
    "an ingress": (
        {"enabled": True, "prefix": "/c", "ingress": {"enabled": True, "host": "ai.example"}},
        ["https://ai.example/c/", "networkPolicy.controlPlane={"],
        ["port-forward"],
    ),
}


@pytest.mark.parametrize(("console", "there", "missing"), NOTES.values(), ids=NOTES)
def test_the_notes_say_how_to_reach_it_and_what_it_needs(helm, tmp_path, console, there, missing):
    """Helm shows notes of an installation alone, so they become an object here."""
    chart = copytree(CHART, tmp_path / "chart")
    (chart / "templates" / "NOTES.txt").rename(chart / "notes.txt")
    notes = 'kind: Notes\nnotes: |{{ tpl (.Files.Get "notes.txt") . | nindent 2 }}\n'
    (chart / "templates" / "notes.yaml").write_text(notes)
    show = ("--show-only", "templates/notes.yaml")
    done = helm("template", "windlass", str(chart), "--namespace", "system", *show, values={"console": console})
    assert done.returncode == 0, done.stderr
    text = yaml.safe_load(done.stdout)["notes"]
    assert [one for one in there if one not in text] == []
    assert [one for one in missing if one in text] == []


CIDR = "10.0.0.10/32"
LICENSES = {
    "pods alone": ({}, [{"namespaceSelector": {}}]),
    "pods and the API server": (
        {"networkPolicy": {"controlPlane": [CIDR]}}, [{"namespaceSelector": {}}, {"ipBlock": {"cidr": CIDR}}]
    ),
    "named peers and the API server": (
        {"networkPolicy": {"from": [{"podSelector": {}}], "controlPlane": [CIDR]}},
        [{"podSelector": {}}, {"ipBlock": {"cidr": CIDR}}],
    ),
    "everybody": ({"service": {"type": "LoadBalancer"}, "networkPolicy": {"controlPlane": [CIDR]}}, None),
}  # fmt: skip


@pytest.mark.parametrize(("values", "peers"), LICENSES.values(), ids=LICENSES)
def test_the_license_servers_policy_lets_the_api_server_in_where_it_is_named(helm, values, peers):
    """It widens the policy that is there, and makes none where there is none."""
    chart = str(CHART.parent / "windlass-license-server")
    done = helm("template", "ls", chart, "-n", "kube-system", values=values)
    (policy,) = [one for one in documents(done.stdout) if one["kind"] == "NetworkPolicy"]
    assert policy["spec"]["ingress"][0].get("from") == peers
    off = {**values, "networkPolicy": {**values.get("networkPolicy", {}), "enabled": False}}
    both = (
        helm("template", "ls", chart, values=off).stdout
        + helm("template", "windlass", str(CHART), values={"console": {"enabled": True}}).stdout
    )
    selected = [one["spec"]["podSelector"] for one in documents(both) if one["kind"] == "NetworkPolicy"]
    names = {one["matchLabels"]["app.kubernetes.io/name"] for one in selected}
    assert names == {"windlass-console", "windlass-operator"}
