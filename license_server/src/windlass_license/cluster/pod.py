"""The API server that this pod asks, or a sentence for whoever started the server outside a cluster."""

from windlass_base.kube.service_account import KubeApi, in_pod

from windlass_license.errors import SettingsError


def api_server() -> KubeApi:
    """By the pod's service account."""
    found = in_pod()
    if found is None:
        raise SettingsError(
            "--kube-lease and --lease-auth kubernetes need a pod with a service account token; outside a cluster leave "
            "the first out and give --lease-auth none, with which whoever reaches the server leases under any name"
        )
    return found
