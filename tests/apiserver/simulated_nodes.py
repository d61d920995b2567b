"""Simulates what a bare API server lacks for licensing: GPU nodes, the logs of their kubelet, two controllers.

The license server is the real program; it starts again, with the keys of the ConfigMap, whenever its pods would.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from windlass_testbed.ports import free_port
from windlass_testbed.waiting import wait_until

PROGRAM = Path(sys.executable).with_name("windlass-license")
NAME = "windlass-license-server"
LOOK_AGAIN_S = 0.2
MERGE = {"Content-Type": "application/merge-patch+json"}


def listing(node: str, gpus: int) -> str:
    """What `nvidia-smi -L` prints there."""
    return "".join(f"GPU {number}: NVIDIA L20 (UUID: GPU-{node}-{number})\n" for number in range(gpus))


class Kubelet(ThreadingHTTPServer):
    """Serves the log of every container: the names of its node's GPUs."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Logs)
        self.logs: dict[str, str] = {}
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_certificate(folder))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def stop(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


class _Logs(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        pod = self.path.split("?")[0].split("/")[3]  # /containerLogs/NAMESPACE/POD/CONTAINER
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.logs[pod].encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


def _certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubelet")])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    kind, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file = folder / "kubelet.pem"
    private = key.private_bytes(serialization.Encoding.PEM, kind, plain)
    file.write_bytes(private + built.public_bytes(serialization.Encoding.PEM))
    return file


class SimulatedNodes:
    """One namespace with a license server, and the nodes of the cluster."""

    def __init__(self, apiserver, namespace: str, folder: Path) -> None:
        self.apiserver, self.namespace, self.folder = apiserver, namespace, folder
        self.keys = folder / "trusted"
        self.keys.mkdir()
        self.starts = 0
        self.broken = ""  # how a Job's pod ends, where it does not end well
        self.kubelet = Kubelet(folder)
        self.nodes: dict[str, int] = {}
        self.url = f"http://127.0.0.1:{free_port()}"
        trust = ssl.create_default_context(cafile=str(apiserver.ca_file))
        self.http = httpx2.Client(
            base_url=apiserver.url,
            verify=trust,
            headers={"Authorization": f"Bearer {apiserver.token}"},
            trust_env=False,
        )
        self._server: subprocess.Popen[bytes] | None = None
        self._seen = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._play)

    def start(self) -> None:
        self._deployment()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._end_server()
        self.kubelet.stop()
        self.http.close()
        for node in self.nodes:
            self.apiserver.kubectl("delete", "node", node, "--ignore-not-found")

    def add_node(self, name: str, gpus: int, ready: str = "True") -> None:
        """A node with GPUs, whose kubelet is ours."""
        self.nodes[name] = gpus
        self.apiserver.kubectl(
            "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        )
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet.server_address[1]}},
            "allocatable": {"nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady", "message": ""}],
        }
        patch = json.dumps({"status": status})
        self.apiserver.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)

    def _deployment(self) -> None:
        secret_key = {"secretKeyRef": {"name": "admin", "key": "token"}}
        env = [{"name": "WINDLASS_LICENSE_ADMIN_TOKEN", "valueFrom": secret_key}]
        container = {"name": "license-server", "image": "windlass/license-server:test", "env": env}
        labels = {"app.kubernetes.io/name": NAME}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        meta = {"name": NAME, "labels": labels}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "admin"},
            "stringData": {"token": "s3cret"},
        }
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
        for document in (secret, deployment):
            self.apiserver.kubectl("-n", self.namespace, "apply", "-f", "-", stdin=json.dumps(document))

    def _play(self) -> None:
        while not self._stop.wait(LOOK_AGAIN_S):  # clock: the pace of the kubelet
            with suppress(httpx2.HTTPError):
                self._play_jobs()
                self._play_deployment()

    def _play_jobs(self) -> None:
        jobs = self.http.get(f"/apis/batch/v1/namespaces/{self.namespace}/jobs").json()["items"]
        for job in jobs:
            uid, template = job["metadata"]["uid"], job["spec"]["template"]
            name = f"{job['metadata']['name']}-{uid[:5]}"
            if name in self.kubelet.logs:
                continue
            affinity = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            node = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
            gpus = int(template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
            self.kubelet.logs[name] = listing(node, gpus)
            labels = {**template["metadata"]["labels"], "batch.kubernetes.io/controller-uid": uid}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
                   "spec": {**template["spec"], "nodeName": node}}  # fmt: skip
            path = f"/api/v1/namespaces/{self.namespace}/pods"
            self.http.post(path, json=pod).raise_for_status()
            status = {"phase": "Succeeded"}
            if self.broken:
                waiting = {"reason": "ErrImagePull", "message": self.broken}
                state = {"name": "nvidia-smi", "image": "", "imageID": "", "ready": False, "restartCount": 0}
                status = {"phase": "Pending", "containerStatuses": [{**state, "state": {"waiting": waiting}}]}
            body = json.dumps({"status": status})
            self.http.patch(f"{path}/{name}/status", content=body, headers=MERGE).raise_for_status()

    def _play_deployment(self) -> None:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{NAME}"
        found = self.http.get(path).json()
        generation = found["metadata"]["generation"]
        if generation == self._seen:
            return
        trusted = self.http.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{NAME}-trusted")
        for name, text in (trusted.json()["data"] if trusted.is_success else {}).items():
            (self.keys / name).write_text(text)
        self._end_server()
        self._start_server()
        counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
        body = json.dumps({"status": {**counts, "observedGeneration": generation}})
        self.http.patch(f"{path}/status", content=body, headers=MERGE).raise_for_status()
        self._seen = generation

    def _start_server(self) -> None:
        port = self.url.rpartition(":")[2]
        where = ["--host", "127.0.0.1", "--port", port, "--data", str(self.folder / "data")]
        command = [str(PROGRAM), "serve", *where, "--public-key", str(self.keys), "--lease-auth", "none"]
        env = {**os.environ, "WINDLASS_LICENSE_ADMIN_TOKEN": "s3cret"}
        with (self.folder / "server.log").open("ab") as log:
            self._server = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        self.starts += 1
        wait_until(self._is_ready, f"the start of the license server, whose log is {self.folder}/server.log")

    def _is_ready(self) -> bool:
        with suppress(httpx2.HTTPError):
            return httpx2.get(f"{self.url}/readyz", trust_env=False).is_success
        return False

    def _end_server(self) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.wait()
