"""KEDA and a Prometheus on the cluster: what scales services by their load. Installed, and taken away.

KEDA's programs and manifests come from its Go module (its smallest installation, without webhooks); Prometheus from
Debian's package, in a tree with the libraries that it loads.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from windlass_testbed import cluster, golang, prometheus, rootfs, scratch_images
from windlass_testbed.cluster import kubectl
from windlass_testbed.loading import load
from windlass_testbed.paths import TESTBED, Paths
from windlass_testbed.process import phase, run
from windlass_testbed.versions import KEDA, KEDA_VERSION

MODULE = f"{KEDA}@v{KEDA_VERSION}"
PROGRAMS = {
    # the program of ours → its path and its image in KEDA's own manifests
    "keda": ("/keda", "ghcr.io/kedacore/keda:main"),
    "keda-adapter": ("/keda-adapter", "ghcr.io/kedacore/keda-metrics-apiserver:main"),
}
PROMETHEUS_IMAGE = "windlass-testbed/prometheus:1"
MONITORING = TESTBED / "addons/prometheus.yaml"
NAMESPACE = "keda"
NOBODY = "USER 65532:65532"


def manifest(paths: Paths) -> str:
    """KEDA's own manifests, with images that are in the nodes and without webhooks to patch."""
    source = golang.module_dir(paths, MODULE) / "config/minimal"
    text = run([paths.bin / "kubectl", "kustomize", source], log="keda")
    text = text.replace("imagePullPolicy: Always", "imagePullPolicy: Never")
    return text.replace(
        "- --enable-cert-rotation=true", "- --enable-cert-rotation=true\n        - --enable-webhook-patching=false"
    )


@contextmanager
def installed(paths: Paths, namespace: str, service: str) -> Iterator[None]:
    """KEDA, and a Prometheus that scrapes one service; gone at the end with all that they brought."""
    with phase("KEDA and Prometheus"):
        _images(paths)
    text = manifest(paths)
    monitoring = MONITORING.read_text().replace("NAMESPACE", namespace).replace("SERVICE", service)
    try:
        kubectl(paths, "apply", "-f", "-", stdin=monitoring)
        kubectl(paths, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
        for place, name in (
            ("monitoring", "prometheus"),
            (NAMESPACE, "keda-operator"),
            (NAMESPACE, "keda-metrics-apiserver"),
        ):
            kubectl(paths, "-n", place, "rollout", "status", f"deployment/{name}", "--timeout=180s")
        # The adapter mounts a certificate that KEDA's operator makes; a kubelet brings it within two minutes.
        kubectl(
            paths, "wait", "--for=condition=Available", "apiservice/v1beta1.external.metrics.k8s.io", "--timeout=240s"
        )
        try:
            yield
        finally:  # while KEDA is there: it takes its own marks off them
            kubectl(paths, "delete", "scaledobjects.keda.sh", "-A", "--all", "--timeout=60s")
    finally:
        kubectl(paths, "delete", "-f", "-", "--ignore-not-found", "--timeout=120s", stdin=text)
        kubectl(paths, "delete", "-f", "-", "--ignore-not-found", "--timeout=90s", stdin=monitoring)


def _images(paths: Paths) -> None:
    golang.ensure(paths, PROGRAMS)
    nodes = list(cluster.WORKERS)
    for name, (place, image) in PROGRAMS.items():
        folder = scratch_images.programs(paths.cache / "work" / name, {place: paths.bin / name})
        scratch_images.import_tree(paths, folder, image, NOBODY)
        load(paths, image, nodes)
    program = prometheus.ensure(paths) / "prometheus"
    folder = scratch_images.programs(paths.cache / "work" / "prometheus", {"/prometheus": program})
    tree = rootfs.tree(paths, rootfs.NODE_PACKAGES)
    scratch_images.stage_libraries(tree, folder, ["/bin/true"])  # the C library and its loader, which are all it needs
    scratch_images.import_tree(paths, folder, PROMETHEUS_IMAGE, 'ENTRYPOINT ["/prometheus"]')
    load(paths, PROMETHEUS_IMAGE, nodes)
