"""Windlass on the cluster: images into the nodes, both charts, the demo's model."""

import filecmp
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed import charts, cluster, daemon, images, instruction_sets, node_image, rootfs
from windlass_testbed.cluster import kubectl
from windlass_testbed.errors import BedError
from windlass_testbed.licensing import LicenseServer
from windlass_testbed.loading import load, load_on_base
from windlass_testbed.paths import REPOSITORY, Paths
from windlass_testbed.process import phase, run

SYSTEM_NAMESPACE = "windlass-system"
LICENSE_NAMESPACE = "kube-system"
MODEL = "demo"
UNBOUND = [{"name": "VLLM_CPU_OMP_THREADS_BIND", "value": "nobind"}, {"name": "OMP_NUM_THREADS", "value": "1"}]
"""For services under load: the engine binds the workers of all pods of a node to its first processor."""
MODEL_FILES = (
    *("config.json", "generation_config.json", "model.safetensors"),
    *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
)


@dataclass(frozen=True, slots=True)
class Deployed:
    """The images that run in the cluster, by name."""

    tags: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.tags[name]


def prepare_images(paths: Paths) -> Deployed:
    """Build every image of the project that is missing and return their tags."""
    names = {name: instruction_sets.image_name(name, os.environ) for name in ("engine-cpu", *images.RELEASED)}
    return Deployed({name: images.ensure(paths, taken) for name, taken in names.items()})


def build(paths: Paths) -> Deployed:
    """Compile the tools beside the images: compilers wait for processors, images mostly for the network."""
    with ThreadPoolExecutor(max_workers=1) as beside:
        tools = beside.submit(node_image.tools, paths)
        deployed = prepare_images(paths)
        if not node_image.published(paths):
            rootfs.tree(paths, rootfs.NODE_PACKAGES)
        tools.result()
    return deployed


def bring_up(paths: Paths) -> Deployed:
    """Build, start the cluster with the engine in its image store, and load the project's images."""
    with phase("container engine"):
        daemon.start(paths)
    with phase("tools and images"):
        deployed = build(paths)
    cluster.ensure(paths, [deployed["engine-cpu"]])
    with phase("images into the nodes"):
        load_images(paths, deployed)
    return deployed


def load_images(paths: Paths, deployed: Deployed) -> None:
    """Load the project's images into the workers, unless the same ones are there."""
    marker = paths.run / "cluster-images"
    wanted = "\n".join([(paths.run / "cluster-shape").read_text(), *deployed.tags.values(), _cluster_uid(paths)])
    if marker.exists() and marker.read_text() == wanted:
        return
    whole = images.RELEASED if node_image.published(paths) else ("operator", "license-server", "console")
    for name in whole:
        load(paths, deployed[name], list(cluster.WORKERS))
    if "server-cpu" not in whole:
        load_on_base(paths, deployed["server-cpu"], deployed["engine-cpu"], list(cluster.WORKERS))
    marker.write_text(wanted)


def _cluster_uid(paths: Paths) -> str:
    """Return the identity of this cluster, which differs from an earlier one of the same shape."""
    return kubectl(paths, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")


def install_charts(paths: Paths, deployed: Deployed) -> None:
    """Install or upgrade both charts and wait until their pods are ready."""
    LicenseServer(paths, LICENSE_NAMESPACE).install(deployed["license-server"])
    server, version = charts.repository_and_tag(deployed["server-cpu"])
    repository, tag = charts.repository_and_tag(deployed["operator"])
    values = [f"image.repository={repository}", f"image.tag={tag}"]
    # The cluster's GPUs are simulated: every pod runs the image for CPUs.
    values += [f"server.image.{key}={server}" for key in ("repository", "cpuRepository")]
    values += [f"server.image.version={version}"]
    console, tag = charts.repository_and_tag(deployed["console"])
    values += [f"console.image.repository={console}", f"console.image.tag={tag}"]
    charts.Release(paths, SYSTEM_NAMESPACE, "windlass").install(values)


def make_model(paths: Paths) -> Path:
    """Put the demo's model on the cluster's shared volume, as it is in the repository."""
    folder = cluster.models_folder(paths) / MODEL
    source = REPOSITORY / "models/demo"
    present = [file.name for file in folder.glob("*")]
    same = filecmp.cmpfiles(source, folder, MODEL_FILES, shallow=False)[0]
    if sorted(present) != sorted(MODEL_FILES) or len(same) < len(MODEL_FILES):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in MODEL_FILES:
            shutil.copyfile(source / name, folder / name)
        run(["chmod", "-R", "a+rX", folder], log="model")
    return folder


def models_volume(paths: Paths, namespace: str) -> None:
    """Give a namespace its claim on the shared volume with models, named `models`."""
    text = (REPOSITORY / "examples/models-volume.yaml").read_text()
    text = text.replace("windlass-models", f"windlass-models-{namespace}")
    text = text.replace("namespace: default", f"namespace: {namespace}")
    kubectl(paths, "apply", "--server-side", "-f", "-", stdin=text)
    deadline = time.monotonic() + 60
    while kubectl(paths, "-n", namespace, "get", "pvc", "models", "-o", "jsonpath={.status.phase}") != "Bound":
        if time.monotonic() > deadline:
            raise BedError(f"the claim `models` in {namespace} was not bound within 60 s: kubectl describe pvc models")
        time.sleep(0.5)
