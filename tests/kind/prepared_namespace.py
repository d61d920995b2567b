"""A namespace on the cluster for a run of its own: both charts, the demo's model in a claim, and its end."""

from windlass_testbed import cluster, deploy, machine
from windlass_testbed.paths import Paths


def prepare(where: Paths, namespace: str) -> None:
    """Bring up the cluster with both charts where they are missing, and make the namespace anew with the model."""
    machine.ensure_packages()
    deploy.install_charts(where, deploy.bring_up(where))
    deploy.make_model(where)
    clear(where, namespace)
    cluster.kubectl(where, "create", "namespace", namespace)
    deploy.models_volume(where, namespace)


def clear(where: Paths, namespace: str) -> None:
    """Delete the namespace, and the volume that its claim had."""
    cluster.kubectl(where, "delete", "namespace", namespace, "--ignore-not-found", "--timeout=600s")
    cluster.kubectl(where, "delete", "pv", f"windlass-models-{namespace}", "--ignore-not-found", "--timeout=600s")
