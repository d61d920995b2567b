"""Windlass on the cluster: images into the nodes, both charts, a license for the cluster's GPUs, the demo's model."""

import filecmp
import json
import shutil
import sys
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed import cluster, daemon, golang, images, node_image
from windlass_testbed.cluster import kubectl
from windlass_testbed.errors import BedError
from windlass_testbed.forward import forward
from windlass_testbed.loading import load, load_on_base
from windlass_testbed.paths import REPOSITORY, Paths
from windlass_testbed.process import phase, run

SYSTEM_NAMESPACE = "windlass-system"
LICENSE_NAMESPACE = "kube-system"
LICENSE_SERVICE = "svc/windlass-license-server"
MODEL = "demo"
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
    return Deployed({name: images.ensure(paths, name) for name in ("engine-cpu", *images.SERVED)})


def bring_up(paths: Paths) -> Deployed:
    """Build, start the cluster with the engine in its image store, and load the project's images."""
    with phase("tools"):
        golang.ensure(paths, node_image.cluster_tools())
    with phase("container engine"):
        daemon.start(paths)
    with phase("images"):
        deployed = prepare_images(paths)
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
    whole = ("operator", "license-server", "server-cpu") if node_image.published() else ("operator", "license-server")
    for name in whole:
        load(paths, deployed[name], list(cluster.WORKERS))
    if "server-cpu" not in whole:
        load_on_base(paths, deployed["server-cpu"], deployed["engine-cpu"], list(cluster.WORKERS))
    marker.write_text(wanted)


def _cluster_uid(paths: Paths) -> str:
    """Return what tells this cluster from an earlier one of the same shape."""
    return kubectl(paths, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")


def helm(paths: Paths, *words: str) -> str:
    """Run helm against the cluster, with folders of its own."""
    folder = paths.run / "helm"
    env = {f"HELM_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    return run([paths.bin / "helm", "--kubeconfig", paths.kubeconfig, *words], log="helm", env=env)


def repository_and_tag(image: str) -> tuple[str, str]:
    """Split `name:tag`."""
    repository, _, tag = image.rpartition(":")
    return repository, tag


def install_charts(paths: Paths, deployed: Deployed) -> None:
    """Install or upgrade both charts and wait until what they run is ready."""
    keys = license_keys(paths)
    repository, tag = repository_and_tag(deployed["license-server"])
    values = [f"image.repository={repository}", f"image.tag={tag}", "auth.adminToken="]
    chart = str(REPOSITORY / "charts/windlass-license-server")
    public = ["--set-file", f"publicKeys[0]={keys / 'public.pem'}"]
    _install(paths, LICENSE_NAMESPACE, "windlass-license-server", chart, values, public)
    server, version = repository_and_tag(deployed["server-cpu"])
    repository, tag = repository_and_tag(deployed["operator"])
    values = [f"image.repository={repository}", f"image.tag={tag}"]
    values += [f"server.image.repository={server}", f"server.image.version={version}"]
    _install(paths, SYSTEM_NAMESPACE, "windlass", str(REPOSITORY / "charts/windlass"), values, [])


def _install(paths: Paths, namespace: str, release: str, chart: str, values: list[str], more: list[str]) -> None:
    flags = ["--namespace", namespace, "--create-namespace", "--wait", "--timeout", "180s", *more]
    sets = [word for value in values for word in ("--set", value)]
    _settle(paths, namespace, release)
    try:
        helm(paths, "upgrade", "--install", release, chart, *flags, *sets)
    except BedError as error:
        words = ["-n", namespace, "logs", "-l", f"app.kubernetes.io/instance={release}", "--tail=15", "--prefix"]
        said = [kubectl(paths, "-n", namespace, "get", "pods", "-o", "wide"), _or_empty(paths, words)]
        raise BedError("\n".join([str(error), *said])) from error


def _settle(paths: Paths, namespace: str, release: str) -> None:
    """Clear a release that an interrupted run left half done: helm would refuse to touch it."""
    rows = json.loads(helm(paths, "list", "--namespace", namespace, "--all", "--filter", f"^{release}$", "-o", "json"))
    states = {row["status"] for row in rows}
    if states & {"pending-install", "uninstalling"}:
        helm(paths, "uninstall", release, "--namespace", namespace, "--wait", "--timeout", "60s")
    elif states & {"pending-upgrade", "pending-rollback"}:
        helm(paths, "rollback", release, "--namespace", namespace)


def _or_empty(paths: Paths, words: list[str]) -> str:
    try:
        return kubectl(paths, *words)
    except BedError:
        return ""


def license_tool(*words: str | Path) -> str:
    """Run `windlass-license` of this environment."""
    return run([Path(sys.executable).parent / "windlass-license", *words], log="license")


def license_keys(paths: Paths) -> Path:
    """Return a folder with the demo's signing keys, made once."""
    folder = paths.cache / "license-keys"
    if not (folder / "public.pem").exists():
        license_tool("keygen", "--out", folder)
    return folder


def issue_license(
    paths: Paths, gpus: str, out: Path, expires: str = "2036-01-01T00:00:00+00:00", *, limit: int = 0
) -> Path:
    """Issue a license for `nvidia-smi -L` lines, signed with the demo's key."""
    listing = out.with_suffix(".gpus")
    listing.write_text(gpus)
    out.unlink(missing_ok=True)
    words: list[str | Path] = ["issue", "--gpus", listing, "--customer", "demo", "--appid", "1", "--expires", expires]
    license_tool(*words, "--max-concurrent", str(limit), "--key", license_keys(paths) / "private.pem", "--out", out)
    return out


def upload_license(paths: Paths, file: Path) -> str:
    """Upload a license file as the manual's curl does and return the server's answer."""
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{file.name}"\r\n\r\n'
    body = head.encode() + file.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
    with forward(paths, LICENSE_NAMESPACE, LICENSE_SERVICE, 10080) as url:
        request = urllib.request.Request(
            f"{url}/ls", body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            raise BedError(f"the license server refused the license: {error.read().decode()}") from error


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
