"""`make test-autoscale`, its first part: a real KEDA and Kubernetes' own HPA scale an LLMService by the chart's object.

No cluster yet: an API server, the controller manager, both programs of KEDA and a Prometheus as processes, and a page
of figures as pods have them. What real engines make of it is the second part.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from windlass_testbed import charts, golang, keda, prometheus
from windlass_testbed.paths import REPOSITORY, paths

pytestmark = pytest.mark.apiserver
NAME = "qwen"


class Figures(BaseHTTPRequestHandler):
    """What the pods of the service export."""

    text = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(type(self).text.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def say(namespace: str, **figures: float) -> None:
    """From now on the pods export these."""
    which = f'{{namespace="{namespace}",serving_windlass_dev_service="{NAME}"}}'
    Figures.text = "".join(f"{name}{which} {value}\n" for name, value in figures.items())


@contextmanager
def process(*command: str | Path, log: Path, **env: str) -> Iterator[None]:
    with log.open("wb") as out:
        running = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **env})
        try:
            yield
        finally:
            running.terminate()
            running.wait(30)
            print(log.name, log.read_text()[-2500:], sep="\n")


def certificates(folder: Path) -> Path:
    """An authority, and one pair of it for KEDA's ports and for the API server when it asks on somebody's behalf."""
    folder.mkdir()

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ca",
        "-keyout", "ca.key", "-out", "ca.crt")  # fmt: skip
    run("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=front", "-keyout", "tls.key", "-out", "tls.csr")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    run("x509", "-req", "-days", "2", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
        "-extfile", "names", "-out", "tls.crt")  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Path:
    return certificates(tmp_path_factory.mktemp("keda") / "certificates")


@pytest.fixture(scope="module")
def apiserver(bare_apiserver, pair, tmp_path_factory):
    """A server of its own, that lets others answer for the external metrics."""
    plane = sys.modules[type(bare_apiserver).__module__]
    flags = (f"--requestheader-client-ca-file={pair}/ca.crt", "--requestheader-username-headers=X-Remote-User",
             "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
             f"--proxy-client-cert-file={pair}/tls.crt", f"--proxy-client-key-file={pair}/tls.key")  # fmt: skip
    with plane.running_api_server(tmp_path_factory.mktemp("aggregating"), flags) as server:
        server.install_crd(REPOSITORY / "crds/llmservices.serving.windlass.dev.yaml")
        yield server


@pytest.fixture
def prometheus_url(apiserver, tmp_path) -> Iterator[str]:
    """A Prometheus that reads the page of figures each second."""
    page = ThreadingHTTPServer(("127.0.0.1", 0), Figures)
    threading.Thread(target=page.serve_forever, daemon=True).start()
    (port,) = sys.modules[type(apiserver).__module__].free_ports(1)
    target = {"job_name": "pods", "honor_labels": True,
              "static_configs": [{"targets": [f"127.0.0.1:{page.server_port}"]}]}  # fmt: skip
    config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [target]}
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    flags = (f"--config.file={tmp_path}/prometheus.yaml", f"--storage.tsdb.path={tmp_path}/tsdb",
             f"--web.listen-address=127.0.0.1:{port}")  # fmt: skip
    with process(prometheus.ensure(paths()) / "prometheus", *flags, log=tmp_path / "prometheus.log"):
        yield f"http://127.0.0.1:{port}"
    page.shutdown()
    page.server_close()


@pytest.fixture
def scaler(apiserver, tmp_path, pair) -> Iterator[None]:
    """KEDA's kinds, its two programs, and the controller manager's part for HPAs."""
    golang.ensure(paths(), keda.PROGRAMS)
    rows = [one for one in yaml.safe_load_all(keda.manifest(paths())) if one]
    kinds = [one for one in rows if one["kind"] in ("Namespace", "CustomResourceDefinition")]
    apiserver.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(kinds))
    until(lambda: not apiserver.kubectl("get", "scaledobjects", check=False).returncode, "KEDA's kinds")
    probe, grpc, answers, manager, *metrics = sys.modules[type(apiserver).__module__].free_ports(6)
    apiserver.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(aggregated(answers)))
    config = f"--kubeconfig={apiserver.kubeconfig}"
    operator = (f"--metrics-bind-address=127.0.0.1:{metrics[0]}", f"--health-probe-bind-address=127.0.0.1:{probe}",
                f"--metrics-service-bind-address=127.0.0.1:{grpc}", f"--cert-dir={pair}",
                "--enable-apiservice-patching=false", "--enable-webhook-patching=false")  # fmt: skip
    adapter = (f"--lister-{config[2:]}", f"--authentication-{config[2:]}", f"--authorization-{config[2:]}",
               f"--secure-port={answers}", "--bind-address=127.0.0.1", f"--port={metrics[1]}",
               f"--metrics-service-address=localhost:{grpc}", f"--client-ca-file={pair}/ca.crt", f"--cert-dir={pair}",
               f"--tls-cert-file={pair}/tls.crt", f"--tls-private-key-file={pair}/tls.key")  # fmt: skip
    hpa = (config, "--controllers=horizontal-pod-autoscaler-controller", "--horizontal-pod-autoscaler-sync-period=1s",
           f"--secure-port={manager}", "--bind-address=127.0.0.1", "--leader-elect=false")  # fmt: skip
    told = {"KUBECONFIG": str(apiserver.kubeconfig), "POD_NAMESPACE": "keda", "WATCH_NAMESPACE": "",
            "KEDA_CLUSTER_OBJECT_NAMESPACE": "keda"}  # fmt: skip
    programs = {"keda": operator, "keda-adapter": adapter, "kube-controller-manager": hpa}
    with ExitStack() as stack:
        for name, flags in programs.items():
            stack.enter_context(process(paths().bin / name, *flags, log=tmp_path / f"{name}.log", **told))
        yield


def aggregated(port: int) -> list[dict[str, Any]]:
    """Who answers for the external metrics: KEDA's adapter, on this machine's own port."""
    there = {"name": "keda-metrics-apiserver", "namespace": "keda"}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": there,
         "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
         "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
         "spec": {"service": {**there, "port": port}, "group": "external.metrics.k8s.io", "version": "v1beta1",
                  "insecureSkipTLSVerify": True, "groupPriorityMinimum": 100, "versionPriority": 100}},
    ]  # fmt: skip


def until(look: Callable[[], Any], what: str) -> Any:
    deadline, seen = time.monotonic() + 60, None
    while time.monotonic() < deadline:
        if seen := look():
            return seen
        time.sleep(0.5)
    pytest.fail(f"waited 60 s for {what}; last seen: {seen!r}")


def conditions_of(apiserver, namespace: str) -> dict[str, str]:
    """The conditions of the ScaledObject."""
    rows = apiserver.get("scaledobject", NAME, "-n", namespace).get("status", {}).get("conditions", ())
    return {row["type"]: row["status"] for row in rows}


def replicas(apiserver, namespace: str) -> int:
    """Those that are wanted; the status follows at once, as of pods that start in no time."""
    wanted = int(apiserver.get("llm", NAME, "-n", namespace)["spec"]["replicas"])
    status = {"status": {"replicas": wanted, "selector": f"serving.windlass.dev/service={NAME}"}}
    apiserver.kubectl("patch", "llm", NAME, "-n", namespace, "--subresource=status", "--type=merge",
                      "-p", json.dumps(status))  # fmt: skip
    return wanted


def busy(running: int, waiting: int, before: int, kv: float) -> dict[str, float]:
    """What all pods together export."""
    return {"vllm:num_requests_running": running, "vllm:num_requests_waiting": waiting,
            "windlass_api_requests_waiting": before, "vllm:kv_cache_usage_perc": kv}  # fmt: skip


@pytest.fixture
def scaled(apiserver, namespace, prometheus_url, scaler, tmp_path) -> str:
    """An LLMService with the chart's ScaledObject: at most three replicas, four requests for each."""
    service = {"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService",
               "metadata": {"name": NAME, "namespace": namespace},
               "spec": {"model": {"id": "demo", "source": {"pvc": {"claimName": "models"}}}}}  # fmt: skip
    assert not apiserver.apply(service).returncode
    assert replicas(apiserver, namespace) == 1
    say(namespace, **busy(1, 0, 0, 0.1))
    apiserver.kubectl("apply", "-f", "-", stdin=_object(namespace, prometheus_url, tmp_path))
    until(lambda: conditions_of(apiserver, namespace).get("Ready") == "True", "a ready ScaledObject")
    return namespace


def test_keda_makes_the_autoscaler_that_the_chart_asks_for(apiserver, scaled):
    """It finds the scale subresource of the LLMService, and both queries."""
    hpa = until(lambda: _hpa(apiserver, scaled), "the HPA")
    assert hpa["scaleTargetRef"] == {
        "apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService", "name": NAME,
    }  # fmt: skip
    assert (hpa["minReplicas"], hpa["maxReplicas"]) == (1, 3)
    targets = [row["external"]["target"] for row in hpa["metrics"]]
    assert targets == [{"type": "AverageValue", "averageValue": value} for value in ("4", "80")]


def test_replicas_follow_the_figures_and_stay_without_any(apiserver, scaled):
    """One, three while twelve requests are there; as they are while there is no figure; two by the cache; one."""
    say(scaled, **busy(6, 4, 2, 0.2))
    until(lambda: replicas(apiserver, scaled) == 3, "three replicas for twelve requests")
    say(scaled)
    until(lambda: conditions_of(apiserver, scaled).get("Fallback") == "True", "KEDA to say that there is no figure")
    assert replicas(apiserver, scaled) == 3
    say(scaled, **busy(1, 0, 0, 1.5))
    until(lambda: replicas(apiserver, scaled) == 2, "two replicas for caches that are full")
    say(scaled, **busy(1, 0, 0, 0.1))
    until(lambda: replicas(apiserver, scaled) == 1, "one replica")


def _hpa(apiserver, namespace: str) -> Any:
    rows = apiserver.get("hpa", "-n", namespace)["items"]
    return next((row["spec"] for row in rows if row["metadata"]["name"] == f"keda-hpa-{NAME}"), None)


def _object(namespace: str, url: str, folder: Path) -> str:
    """The chart's own."""
    wish = {
        "name": NAME,
        "namespace": namespace,
        "maxReplicas": 3,
        "requests": 4,
        "pollingSeconds": 1,
        "idleSeconds": 2,
    }
    (folder / "values.json").write_text(json.dumps({"autoscaling": {"prometheus": url, "services": [wish]}}))
    golang.ensure(paths(), ("helm",))
    words = ("template", "windlass", str(charts.CHARTS / "windlass"), "--show-only", "templates/autoscaling.yaml",
             "--values", str(folder / "values.json"))  # fmt: skip
    done = subprocess.run([paths().bin / "helm", *words], capture_output=True, text=True, check=True)
    return done.stdout
