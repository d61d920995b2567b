"""From a license server that has nothing to a licensed service, by `kubectl windlass license init` alone."""

import json
import os
import re
import stat
import subprocess

import pytest
from windlass_testbed import charts, cluster, licensing

SERVICE = "waits"
PLUG_IN_S = 300


@pytest.fixture(scope="module")
def gpus(bed):
    return set(re.findall(r"GPU-[0-9a-f-]+", cluster.gpu_list(bed.paths)))


@pytest.fixture(scope="module")
def server(bed, namespace, tmp_path_factory):
    """A license server as the manual installs it: a packed chart, a generated name, no key."""
    folder = tmp_path_factory.mktemp("chart")
    bed.helm("package", str(charts.CHARTS / licensing.RELEASE), "--destination", str(folder))
    (chart,) = folder.glob("*.tgz")
    repository, tag = charts.repository_and_tag(bed.images["license-server"])
    image = ("--set", f"image.repository={repository}", "--set", f"image.tag={tag}")
    flags = ("--namespace", namespace, "--wait", "--timeout", "180s")
    said = bed.helm("install", "--generate-name", *image, *flags, str(chart))
    assert "\n  kubectl windlass license init\n" in said
    (release,) = json.loads(bed.helm("list", "--namespace", namespace, "-o", "json"))
    yield licensing.LicenseServer(bed.paths, namespace)
    bed.helm("uninstall", release["name"], "--namespace", namespace, "--wait", "--timeout", "60s")


@pytest.fixture(scope="module")
def license_(bed, namespace, tmp_path_factory):
    """Runs `kubectl windlass license …` as a user does, with a home of its own."""
    home = tmp_path_factory.mktemp("home")
    env = {**os.environ, "HOME": str(home), "KUBECONFIG": str(bed.paths.kubeconfig), "PATH": bed.programs()}
    env.pop("XDG_CONFIG_HOME", None)

    def ask(*words):
        command = [str(bed.paths.bin / "kubectl"), "windlass", "license", *words, "-n", namespace]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=PLUG_IN_S)
        assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        print(done.stderr, done.stdout)
        return done

    ask.folder = home / ".config" / "windlass" / "license"
    return ask


def test_without_a_key_the_service_waits_with_the_next_command(bed, namespace, server):
    """The server is ready and refuses; the condition names what to type."""
    bed.apply(namespace, SERVICE, license={"addresses": [server.url]})
    bed.reason(namespace, SERVICE, "LicenseMissing")
    licensed = bed.condition(namespace, SERVICE, "Licensed")
    assert (licensed["status"], licensed["reason"]) == ("False", "LicenseMissing")
    assert "no license is in force; make one with `kubectl windlass license init`" in licensed["message"]


def test_one_command_licenses_every_gpu_and_the_service_runs(bed, namespace, server, license_, gpus):
    """Free GPUs and those that waiting and serving pods hold; nobody touches the service, the key stays here."""
    bed.gpus_settled()
    before = bed.get(namespace, "llm", SERVICE)["metadata"]["generation"]
    done = license_("init", "--customer", "Example Ltd")
    assert f"customer Example Ltd, appid 1, {len(gpus)} GPUs, no limit" in done.stdout
    assert stat.S_IMODE((license_.folder / "private.pem").stat().st_mode) == 0o600
    assert "PRIVATE KEY" not in bed.kubectl("-n", namespace, "get", "secrets,configmaps", "-o", "yaml")
    bed.ready(namespace, SERVICE)
    assert bed.condition(namespace, SERVICE, "Licensed")["status"] == "True"
    assert bed.get(namespace, "llm", SERVICE)["metadata"]["generation"] == before
    assert bed.items(namespace, "jobs", "-l", "app.kubernetes.io/name=windlass-license-gpus") == []


def test_the_same_command_again_changes_nothing(license_, gpus):
    """Though another pod holds a GPU now, every GPU is named as before."""
    again = json.loads(license_("init", "-o", "json").stdout)
    assert (again["changed"], again["license"]["gpus"]) == (False, len(gpus))


def test_status_names_the_license_the_lease_and_no_gpu_without_license(license_, gpus):
    """By a scan of all nodes."""
    seen = json.loads(license_("status", "--scan", "-o", "json").stdout)
    (one,) = seen["servers"]
    assert (seen["unlicensed"], seen["gpusInCluster"]) == ([], len(gpus))
    assert (one["license"]["customer"], one["license"]["gpus"], one["leases"]["live"]) == ("Example Ltd", len(gpus), 1)


def test_a_renewal_reaches_the_service_that_runs(bed, namespace, license_):
    """The end moves; the pod goes on."""
    pods = bed.items(namespace, "pods", "-l", f"serving.windlass.dev/service={SERVICE}")
    before = json.loads(license_("status", "-o", "json").stdout)["servers"][0]["license"]["expires"]
    after = json.loads(license_("renew", "--days", "500", "-o", "json").stdout)["license"]["expires"]
    assert after > before
    assert [pod["metadata"]["uid"] for pod in pods] == [
        pod["metadata"]["uid"] for pod in bed.items(namespace, "pods", "-l", f"serving.windlass.dev/service={SERVICE}")
    ]


def test_the_chart_upgrades_over_what_init_brought(bed, namespace, server):
    """The key and the license stay: they are no part of the release."""
    (release,) = json.loads(bed.helm("list", "--namespace", namespace, "-o", "json"))
    flags = (
        "--namespace",
        namespace,
        "--reset-then-reuse-values",
        "--set",
        "podLabels.upgraded=yes",
        "--wait",
        "--timeout",
        "180s",
    )
    bed.helm("upgrade", release["name"], str(charts.CHARTS / licensing.RELEASE), *flags)
    metrics = (
        "import urllib.request as u; print(u.urlopen('http://127.0.0.1:10080/ls/view', timeout=60).read().decode())"
    )
    words = ("-n", namespace, "exec", f"deploy/{licensing.RELEASE}", "--", "python3", "-c", metrics)
    assert "customer: Example Ltd" in bed.kubectl(*words)
