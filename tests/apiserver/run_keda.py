"""`make test-autoscale`, its first part: a real KEDA takes the chart's ScaledObject for an LLMService.

No cluster yet: an API server, KEDA's operator and a Prometheus as processes, and a page of figures as pods have them.
What an HPA then does with them is the second part.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from windlass_testbed import charts, golang, keda, prometheus
from windlass_testbed.paths import paths

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
    """What KEDA's own port wants: an authority, and a pair of it."""
    folder.mkdir()

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ca",
        "-keyout", "ca.key", "-out", "ca.crt")  # fmt: skip
    run("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=keda", "-keyout", "tls.key", "-out", "tls.csr")
    run("x509", "-req", "-days", "2", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
        "-out", "tls.crt")  # fmt: skip
    return folder


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
def scaler(apiserver, tmp_path) -> Iterator[None]:
    """KEDA's kinds and its operator."""
    golang.ensure(paths(), ("keda",))
    rows = [one for one in yaml.safe_load_all(keda.manifest(paths())) if one]
    kinds = [one for one in rows if one["kind"] in ("Namespace", "CustomResourceDefinition")]
    apiserver.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(kinds))
    crd = "crd/scaledobjects.keda.sh"
    apiserver.kubectl("wait", "--for=condition=Established", crd, "--timeout=30s")
    metrics, probe, grpc = sys.modules[type(apiserver).__module__].free_ports(3)
    flags = (f"--metrics-bind-address=127.0.0.1:{metrics}", f"--health-probe-bind-address=127.0.0.1:{probe}",
             f"--metrics-service-bind-address=127.0.0.1:{grpc}", f"--cert-dir={certificates(tmp_path / 'certs')}",
             "--enable-apiservice-patching=false", "--enable-webhook-patching=false")  # fmt: skip
    told = {"KUBECONFIG": str(apiserver.kubeconfig), "POD_NAMESPACE": "keda", "WATCH_NAMESPACE": "",
            "KEDA_CLUSTER_OBJECT_NAMESPACE": "keda"}  # fmt: skip
    with process(paths().bin / "keda", *flags, log=tmp_path / "keda.log", **told):
        yield


def until(look: Callable[[], Any], what: str) -> Any:
    deadline, seen = time.monotonic() + 60, None
    while time.monotonic() < deadline:
        if seen := look():
            return seen
        time.sleep(0.5)
    pytest.fail(f"waited 60 s for {what}; last seen: {seen!r}")


def said(apiserver, namespace: str) -> dict[str, str]:
    """The conditions of the ScaledObject."""
    rows = apiserver.get("scaledobject", NAME, "-n", namespace).get("status", {}).get("conditions", ())
    return {row["type"]: row["status"] for row in rows}


def test_keda_takes_the_object_and_follows_the_figures(apiserver, namespace, prometheus_url, scaler, tmp_path):
    """It finds the scale subresource, makes an HPA with both queries, and hears of load, of none, and of no figure."""
    service = {"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService",
               "metadata": {"name": NAME, "namespace": namespace},
               "spec": {"model": {"id": "demo", "source": {"pvc": {"claimName": "models"}}}}}  # fmt: skip
    assert not apiserver.apply(service).returncode
    selector = {"status": {"replicas": 1, "selector": f"serving.windlass.dev/service={NAME}"}}
    apiserver.kubectl("patch", "llm", NAME, "-n", namespace, "--subresource=status", "--type=merge",
                      "-p", json.dumps(selector))  # fmt: skip
    say(namespace, **{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 3,
                      "windlass_api_requests_waiting": 4, "vllm:kv_cache_usage_perc": 0.5})  # fmt: skip
    apiserver.kubectl("apply", "-f", "-", stdin=_object(namespace, prometheus_url, tmp_path))
    until(lambda: said(apiserver, namespace).get("Ready") == "True", "a ready ScaledObject")
    until(lambda: said(apiserver, namespace).get("Active") == "True", "load that is seen")
    hpa = apiserver.get("hpa", f"keda-hpa-{NAME}", "-n", namespace)["spec"]
    assert hpa["scaleTargetRef"] == {"apiVersion": service["apiVersion"], "kind": "LLMService", "name": NAME}
    assert (hpa["minReplicas"], hpa["maxReplicas"]) == (1, 3)
    targets = [row["external"]["target"] for row in hpa["metrics"]]
    assert targets == [{"type": "AverageValue", "averageValue": value} for value in ("4", "80")]
    say(namespace, **{"vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0,
                      "windlass_api_requests_waiting": 0, "vllm:kv_cache_usage_perc": 0})  # fmt: skip
    until(lambda: said(apiserver, namespace).get("Active") == "False", "rest that is seen")


def _object(namespace: str, url: str, folder: Path) -> str:
    """The chart's own."""
    wish = {"name": NAME, "namespace": namespace, "maxReplicas": 3, "requests": 4, "pollingSeconds": 1}
    (folder / "values.json").write_text(json.dumps({"autoscaling": {"prometheus": url, "services": [wish]}}))
    golang.ensure(paths(), ("helm",))
    words = ("template", "windlass", str(charts.CHARTS / "windlass"), "--show-only", "templates/autoscaling.yaml",
             "--values", str(folder / "values.json"))  # fmt: skip
    done = subprocess.run([paths().bin / "helm", *words], capture_output=True, text=True, check=True)
    return done.stdout
