"""A mutating webhook of a namespace that adds a container to its pods, as a service mesh does.

Run as a program it is the webhook's server; `start` brings it into the cluster.
"""

import base64
import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NAME, PORT = "injector", 8443
INJECTED = "proxy"
NATIVE = "native"
"""How the names of the services begin whose pods get a native sidecar; others get a container that never ends."""
WAITS = ["python3", "-c", "import signal; signal.sigwait([signal.SIGTERM])"]


def patched(pod, image):
    """The JSON patch that adds the container to a pod; an init container that restarts is a native sidecar."""
    added = {"name": INJECTED, "image": image, "command": WAITS, "resources": {"requests": {"cpu": "1m"}}}
    if not pod["metadata"].get("generateName", "").startswith(NATIVE):
        return [{"op": "add", "path": "/spec/containers/-", "value": added}]
    others = pod["spec"].get("initContainers", [])
    value = [{**added, "restartPolicy": "Always"}, *others]
    return [{"op": "add", "path": "/spec/initContainers", "value": value}]


class Handler(BaseHTTPRequestHandler):
    """Answers every AdmissionReview with the patch."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        patch = base64.b64encode(json.dumps(patched(request["object"], sys.argv[2])).encode()).decode()
        response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


def start(bed, namespace, folder):
    """Serve the webhook in the namespace, wait for it, and have the API server ask it for pods of the namespace."""
    from windlass_testbed.certificate import certify

    host = f"{NAME}.{namespace}.svc"
    certify(folder, host)
    files = {name: (folder / name).read_text() for name in ("tls.crt", "tls.key")}
    image, labels = bed.images["operator"], {"app": NAME}
    container = {
        "name": NAME,
        "image": image,
        "command": ["python3", "/program/injector.py", "/program", image],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": "program", "mountPath": "/program"}],
    }
    volume = {"name": "program", "secret": {"secretName": NAME}}
    items = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME},
         "stringData": {**files, "injector.py": Path(__file__).read_text()}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME},
         "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": PORT}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, "labels": labels},
         "spec": {"containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": 0}},
    ]  # fmt: skip
    bed.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(_list(items)))
    bed.kubectl("-n", namespace, "wait", "--for=condition=Ready", f"pod/{NAME}", "--timeout=600s")
    webhook = {
        "name": f"{NAME}.example.com",
        "clientConfig": {
            "service": {"name": NAME, "namespace": namespace},
            "caBundle": base64.b64encode(files["tls.crt"].encode()).decode(),
        },
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    body = {**kind, "metadata": {"name": namespace}, "webhooks": [webhook]}
    bed.kubectl("apply", "-f", "-", stdin=json.dumps(body))


def stop(bed, namespace):
    """Have the API server ask it no more."""
    bed.kubectl("delete", "mutatingwebhookconfiguration", namespace, "--ignore-not-found", "--timeout=600s")


def _list(items):
    return {"apiVersion": "v1", "kind": "List", "items": items}


def main():
    folder = Path(sys.argv[1])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with ThreadingHTTPServer(("", PORT), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
