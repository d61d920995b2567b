"""How the faults of the corpus are injected into a real cluster, each with a planted word.

Some are a shell that prints what the engine or a driver prints and ends as it ends; the others are wrong claims,
images, volumes, policies and programs, so that the words that the operator must read are those of the real parts.
"""

from __future__ import annotations

import base64
import json
import random
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fault_bed import Bed, source

Inject = Callable[[Bed, str, str], None]
EXIT_CODES = {
    "BadFlag": 2,
    "ModelMissing": 3,
    "LicenseRefused": 4,
    "StartTimeout": 5,
    "GroupIncomplete": 6,
    "RayFailed": 7,
}


def spec(**fields: Callable[[str], Any] | Any) -> Inject:
    """A service with these fields; a function makes the field from the word."""

    def inject(bed: Bed, name: str, word: str) -> None:
        bed.service(name, **{key: value(word) if callable(value) else value for key, value in fields.items()})

    return inject


def shell(script: Callable[[str], str], **fields: Any) -> Inject:
    """A server that is this script."""
    return spec(command=lambda word: ["sh", "-c", script(word)], **fields)


def prints(line: str, code: int = 1) -> Inject:
    """An engine that prints the line, with the word in it, and ends."""

    def script(word: str) -> str:
        text = f"INFO starting\n{line.format(word=word)}\nINFO bye"
        return f"printf '%s\\n' {shlex.quote(text)} >&2; exit {code}"

    return shell(script)


def says(reason: str, message: str, code: int | None = None, **more: Any) -> Inject:
    """A server that leaves its last words where Kubernetes looks for them, as `windlass run` does."""

    def script(word: str) -> str:
        exit_code = EXIT_CODES.get(reason, 1) if code is None else code
        words = {"reason": reason, "message": message.format(word=word), "exitCode": exit_code, **more}
        return f"printf %s {shlex.quote(json.dumps(words))} > /dev/termination-log; exit {exit_code}"

    return shell(script)


def python(program: str, **fields: Any) -> Inject:
    """A server that is this Python program; WORD stands for the word."""
    return spec(command=lambda word: ["python3", "-c", program.replace("WORD", word)], **fields)


def overlay(**fields: Any) -> dict[str, Any]:
    """spec.podTemplate with fields of the serving container."""
    return {"spec": {"containers": [{"name": "server", **fields}]}}


def on_volume(make: Callable[[Path, str], None]) -> Inject:
    """A model directory of its own on the shared volume, broken by `make(directory, word)`."""

    def inject(bed: Bed, name: str, word: str) -> None:
        assert bed.models is not None
        folder = bed.models / f"fault-{word}"
        shutil.copytree(bed.models / "demo", folder)
        bed.cleanups.append(lambda: shutil.rmtree(folder, ignore_errors=True))
        make(folder, word)
        folder.chmod(0o755)
        bed.service(name, model=source(folder.name))

    return inject


def shard_missing(folder: Path, word: str) -> None:
    (folder / "model.safetensors").rename(folder / "part-1.safetensors")
    names = {"weight_map": {"a": "part-1.safetensors", "b": f"part-{word}.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(names))


def shard_broken(folder: Path, word: str) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").unlink()
    (folder / f"model-{word}.safetensors").write_bytes(whole[: len(whole) // 2])


def without(*names: str) -> Callable[[Path, str], None]:
    def make(folder: Path, _word: str) -> None:
        for name in names:
            (folder / name).unlink(missing_ok=True)

    return make


def claim(bed: Bed, name: str, storage_class: str, **more: Any) -> None:
    """A claim of this class."""
    bed.apply({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": storage_class,
                 "resources": {"requests": {"storage": "1Gi"}}, **more},
    })  # fmt: skip


def no_storage_class(bed: Bed, name: str, word: str) -> None:
    claim(bed, name, f"class-{word}")
    bed.service(name, model=source("demo", name))


def no_volume(bed: Bed, name: str, word: str) -> None:
    claim(bed, f"claim-{word}", "")
    bed.service(name, model=source("demo", f"claim-{word}"))


def volume_elsewhere(bed: Bed, name: str, word: str) -> None:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [word]}]}]
    bed.apply({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{bed.namespace}-{word}"},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "capacity": {"storage": "1Gi"},
                 "hostPath": {"path": "/models"}, "persistentVolumeReclaimPolicy": "Retain",
                 "claimRef": {"name": f"claim-{word}", "namespace": bed.namespace},
                 "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
    })  # fmt: skip
    bed.cleanups.append(lambda: bed.kubectl("delete", "pv", f"{bed.namespace}-{word}", "--wait=false"))
    claim(bed, f"claim-{word}", "", volumeName=f"{bed.namespace}-{word}")
    bed.service(name, model=source("demo", f"claim-{word}"))


def quota(bed: Bed, name: str, word: str) -> None:
    """A quota that counts the pods of one priority class only, so that it is no other fault's."""
    bed.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"class-{word}"},
            "value": 1,
        }
    )
    bed.cleanups.append(lambda: bed.kubectl("delete", "priorityclass", f"class-{word}", "--wait=false"))
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": [f"class-{word}"]}]}
    bed.apply({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": f"quota-{word}"},
        "spec": {"hard": {"pods": "0"}, "scopeSelector": scope},
    })  # fmt: skip
    bed.service(name, scheduling={"priorityClassName": f"class-{word}"})


def limit_range(bed: Bed, name: str, word: str) -> None:
    """More than the range allows; no other fault asks for this much CPU."""
    bed.apply({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "cpu"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "90"}, "default": {"cpu": "80"},
                             "defaultRequest": {"cpu": "1m"}}]},
    })  # fmt: skip
    bed.cleanups.append(lambda: bed.kubectl("-n", bed.namespace, "delete", "limitrange", "cpu"))
    limits = {"cpu": word, "memory": "64Mi"}
    bed.service(name, podTemplate=overlay(resources={"limits": limits}))


def policy(bed: Bed, name: str, word: str) -> None:
    """An admission policy that denies the pods of this one service."""
    mine = f"object.metadata.?labels['serving.windlass.dev/service'].orValue('') == '{name}'"
    server = "object.metadata.?labels['app.kubernetes.io/component'].orValue('') == 'server'"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    bed.apply(
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
         "metadata": {"name": name}, "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
                  "matchConditions": [{"name": "mine", "expression": f"{mine} && {server}"}],
                  "validations": [{"expression": "false", "message": f"{word} forbids it"}]}},
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
         "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}},
    )  # fmt: skip
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        bed.cleanups.append(lambda kind=kind: bed.kubectl("delete", kind, name, "--wait=false"))
    bed.service(name)


def webhook(bed: Bed, name: str, word: str) -> None:
    """A webhook for the pods of this one service, behind which nobody is."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    labels = {"serving.windlass.dev/service": name, "app.kubernetes.io/component": "server"}
    bed.apply({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{"name": f"{word}.example.com", "rules": [rule], "admissionReviewVersions": ["v1"],
                      "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 2,
                      "objectSelector": {"matchLabels": labels},
                      "clientConfig": {"service": {"name": "nobody", "namespace": bed.namespace, "path": "/"}}}],
    })  # fmt: skip
    bed.cleanups.append(lambda: bed.kubectl("delete", "validatingwebhookconfiguration", name, "--wait=false"))
    bed.service(name)


def other_processor(bed: Bed, name: str, word: str) -> None:
    """A program of another kind of processor: the head of an ELF file for s390x."""
    head = b"\x7fELF\x02\x02\x01" + bytes(9) + b"\x00\x02\x00\x16" + bytes(44)
    bed.apply({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "binaryData": {word: base64.b64encode(head).decode()},
    })  # fmt: skip
    volume = {"name": "program", "configMap": {"name": name, "defaultMode": 0o555}}
    template = overlay(volumeMounts=[{"name": "program", "mountPath": "/program"}])
    template["spec"]["volumes"] = [volume]
    bed.service(name, podTemplate=template, command=["sh", "-c", f"exec /program/{word}"])


def name_taken(bed: Bed, name: str, word: str) -> None:
    """Somebody's own Deployment of the service's name."""
    bed.kubectl("-n", bed.namespace, "create", "deployment", f"{name}-{word}", "--image=theirs", "--replicas=0")
    bed.service(f"{name}-{word}")


def in_registry(folder: str) -> Inject:
    """An image of the registry that has nothing; below /private it wants a login."""

    def inject(bed: Bed, name: str, word: str) -> None:
        bed.service(name, image={"repository": f"{bed.registry}{folder}/{word}", "version": "1"})

    return inject


def beside(kind: str) -> Inject:
    """A further container of the pod template that ends."""

    def inject(bed: Bed, name: str, word: str) -> None:
        row = {"name": "further", "image": f"{bed.image}:{bed.tag}", "command": ["sh", "-c", f"echo {word}; exit 9"]}
        bed.service(name, podTemplate={"spec": {kind: [row]}})

    return inject


def number(low: int, high: int) -> str:
    """A planted word where only a number can be planted."""
    return str(random.randint(low, high))  # noqa: S311 - a word to look for, not a secret


HEALTH = """
import http.server
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        Health.asked += 1
        self.send_response(200 if Health.asked < 6 else WORD); self.end_headers()
Health.asked = 0
http.server.HTTPServer(('', 8501), Health).serve_forever()
"""
OOM = "print('INFO loads WORD', flush=True); x = [bytearray(1 << 20) for _ in range(4096)]"
FILL = "import time; open('/cache/x', 'wb').write(bytes(64 << 20)); time.sleep(600)"
FILL_TMP = "import time; open('/tmp/x', 'wb').write(bytes(64 << 20)); time.sleep(600)"
PROBE = {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1}


def probe_path(word: str) -> dict[str, Any]:
    return overlay(startupProbe={**PROBE, "httpGet": {"path": f"/{word}", "port": "http"}})
