"""The console on the cluster as an administrator switches it on, and users with rights of their own."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from windlass_testbed import charts, deploy
from windlass_testbed.forward import forward

sys.path.insert(0, str(Path(__file__).parents[1] / "apiserver"))

from console_process import EDITOR, VIEWER, a_user

RELEASE, SERVICE, PORT = "windlass", "svc/windlass-console", 80
RBAC = "rbac.authorization.k8s.io"
EVERYWHERE = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}]
LICENSES = [
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get"]},
]


@contextmanager
def installed(bed: Any) -> Iterator[str]:
    """Switch the console on by the chart's value; its address through a port-forward. At the end it is off again."""
    repository, tag = charts.repository_and_tag(bed.images["console"])
    _upgrade(bed, "console.enabled=true", f"console.image.repository={repository}", f"console.image.tag={tag}")
    try:
        with forward(bed.paths, deploy.SYSTEM_NAMESPACE, SERVICE, PORT) as url:
            yield url
    finally:
        _upgrade(bed, "console.enabled=false")


def _upgrade(bed: Any, *values: str) -> None:
    sets = [word for value in values for word in ("--set", value)]
    chart = str(charts.CHARTS / RELEASE)
    words = ("--namespace", deploy.SYSTEM_NAMESPACE, "--reset-then-reuse-values", "--wait", "--timeout", "180s")
    bed.helm("upgrade", RELEASE, chart, *words, *sets)


def token(bed: Any, namespace: str, name: str, rules: list[dict[str, Any]]) -> str:
    """The token of a service account with these rights in its namespace."""
    for document in a_user(namespace, name, rules):
        bed.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    return str(bed.kubectl("create", "token", name, "-n", namespace, "--duration=1h").strip())


@contextmanager
def users(bed: Any, namespace: str) -> Iterator[tuple[str, str]]:
    """Tokens of one who deploys, sees nodes and licenses, and of one who only reads."""
    deployer, reader = token(bed, namespace, "deployer", EDITOR), token(bed, namespace, "reader", VIEWER)
    subject = {"kind": "ServiceAccount", "name": "deployer", "namespace": namespace}
    name = f"{namespace}-deployer"
    rows = [("ClusterRole", {}, EVERYWHERE), ("Role", {"namespace": deploy.LICENSE_NAMESPACE}, LICENSES)]
    for kind, where, rules in rows:
        meta = {"name": name, **where}
        head = {"apiVersion": f"{RBAC}/v1", "metadata": meta}
        reference = {"roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}, "subjects": [subject]}
        for document in ({**head, "kind": kind, "rules": rules}, {**head, "kind": f"{kind}Binding", **reference}):
            bed.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    try:
        yield deployer, reader
    finally:
        bed.kubectl("delete", f"clusterrolebinding/{name}", f"clusterrole/{name}")
        bed.kubectl("-n", deploy.LICENSE_NAMESPACE, "delete", f"rolebinding/{name}", f"role/{name}")
