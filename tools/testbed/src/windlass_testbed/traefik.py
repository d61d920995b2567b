"""Traefik on the cluster, out of its Go module: a controller for Ingress and the Gateway API.

The Gateway API's own kinds come with it, from the module that Traefik itself is compiled against.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windlass_testbed import cluster, golang, scratch_images
from windlass_testbed.cluster import kubectl
from windlass_testbed.errors import BedError
from windlass_testbed.loading import load
from windlass_testbed.paths import TESTBED, Paths
from windlass_testbed.process import phase

NAMESPACE = "gateways"
IMAGE = "windlass-testbed/traefik:1"
MANIFEST = TESTBED / "addons/traefik.yaml"
GATEWAY_API = "sigs.k8s.io/gateway-api"


def gateway_api(paths: Paths) -> Path:
    """Return the folder of the Gateway API's standard kinds, of the version that Traefik is built with."""
    pins = (TESTBED / "go/traefik/go.mod").read_text()
    found = re.search(rf"^\s*{GATEWAY_API} (\S+)", pins, re.M)
    if not found:
        raise BedError(f"tools/testbed/go/traefik/go.mod names no version of {GATEWAY_API}.")
    return golang.module_dir(paths, f"{GATEWAY_API}@{found[1]}") / "config/crd/standard"


@contextmanager
def installed(paths: Paths, certificate: Path, key: Path) -> Iterator[None]:
    """Traefik with this certificate for its Gateway, and gone with all that it brought at the end."""
    with phase("Traefik"):
        golang.ensure(paths, ("traefik",))
        files = {"/traefik": paths.bin / "traefik"}
        folder = scratch_images.programs(paths.cache / "work" / "traefik", files)
        scratch_images.import_tree(paths, folder, IMAGE, 'ENTRYPOINT ["/traefik"]')
        load(paths, IMAGE, list(cluster.WORKERS))
    kinds = str(gateway_api(paths))
    try:
        kubectl(paths, "apply", "--server-side", "-f", kinds)
        kubectl(paths, "wait", "--for=condition=Established", "-f", kinds, "--timeout=60s")
        kubectl(paths, "apply", "-f", str(MANIFEST))
        pair = (f"--cert={certificate}", f"--key={key}")
        kubectl(paths, "-n", NAMESPACE, "create", "secret", "tls", "llm-tls", *pair)
        kubectl(paths, "-n", NAMESPACE, "rollout", "status", "deployment/traefik", "--timeout=120s")
        yield
    finally:
        kubectl(paths, "delete", "-f", str(MANIFEST), "--ignore-not-found", "--timeout=90s")
        kubectl(paths, "delete", "-f", kinds, "--ignore-not-found", "--timeout=90s")
