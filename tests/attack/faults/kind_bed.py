"""The corpus's place on the kind cluster: a namespace with the models' volume and a registry that has nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fault_bed import Bed
from registry import PORT
from windlass_testbed import cluster, deploy
from windlass_testbed.paths import Paths
from windlass_testbed.waiting import wait_until

HERE = Path(__file__).parent


@contextmanager
def kind_bed(paths: Paths, image: str, namespace: str) -> Iterator[Bed]:
    """A namespace for the corpus; `image` is the operator's, which every node has."""

    def kubectl(*words: str, stdin: str | None = None) -> str:
        return cluster.kubectl(paths, *words, stdin=stdin)

    repository, _, tag = image.rpartition(":")
    bed = Bed(kubectl, namespace, repository, tag, cluster.models_folder(paths), f"localhost:{PORT}")
    _clear(bed)
    kubectl("create", "namespace", namespace)
    try:
        deploy.make_model(paths)
        deploy.models_volume(paths, namespace)
        _registry(bed)
        yield bed
    finally:
        for cleanup in reversed(bed.cleanups):
            cleanup()
        _clear(bed)


def _clear(bed: Bed) -> None:
    bed.kubectl("delete", "namespace", bed.namespace, "--ignore-not-found", "--timeout=120s")
    bed.kubectl("delete", "pv", f"windlass-models-{bed.namespace}", "--ignore-not-found", "--timeout=30s")


def _registry(bed: Bed) -> None:
    """On every worker at its own loopback address: containerd speaks plain HTTP to that alone."""
    text = (HERE / "registry.py").read_text()
    program = {"name": "registry", "image": f"{bed.image}:{bed.tag}", "command": ["python3", "-c", text]}
    labels = {"app": "registry-of-nothing"}
    bed.apply({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "registry-of-nothing"},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [program]}}},
    })  # fmt: skip

    def all_ready() -> bool:
        status = bed.get("daemonset", "registry-of-nothing").get("status", {})
        return (
            bool(status.get("desiredNumberScheduled")) and status.get("numberReady") == status["desiredNumberScheduled"]
        )

    wait_until(all_ready, "the start of the registry's pods", look_s=0.5)
