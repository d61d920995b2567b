"""A model hub inside the cluster, for downloads that no way out is needed for: the tests' own hub, in a pod.

It speaks both hubs' protocols, and redirects large files to another port of the pod, as the real ones do to their CDN.
"""

import json
import shutil
from pathlib import Path

from windlass_testbed import cluster
from windlass_testbed.paths import REPOSITORY, Paths

HUB = REPOSITORY / "operator/download/tests/download/hub.py"
NAME, PORT = "hub", 8600
MODEL = "windlass/demo"
PAUSE_S = 0.006
"""After each 16 KiB: the demo's model takes some seconds, so that its progress can be seen."""


def endpoint(namespace: str) -> str:
    """The hub's base URL, as pods reach it."""
    return f"http://{NAME}.{namespace}.svc:{PORT}"


def start(paths: Paths, namespace: str, image: str, model: str = MODEL) -> None:
    """Serve the demo's model as `model`; it lies on the namespace's claim `models`. `image` has a Python."""
    labels = {"app": NAME}
    container = {
        "name": NAME,
        "image": image,
        "command": ["python3", "/program/hub.py", "/hub", "--host=$(IP)", f"--port={PORT}", f"--pause={PAUSE_S}"],
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": "program", "mountPath": "/program"},
            {"name": "models", "mountPath": f"/hub/{model}", "subPath": "demo", "readOnly": True},
        ],
    }
    volumes = [
        {"name": "program", "configMap": {"name": NAME}},
        {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
    ]
    items = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"hub.py": HUB.read_text()}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME},
         "spec": {"selector": labels, "ports": [{"port": PORT}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, "labels": labels},
         "spec": {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}},
    ]  # fmt: skip
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    cluster.kubectl(paths, "-n", namespace, "apply", "-f", "-", stdin=body)


def target(paths: Paths, name: str) -> Path:
    """An empty directory of the shared volume that pods of any user may write into."""
    folder = cluster.models_folder(paths) / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    folder.chmod(0o777)
    return folder
