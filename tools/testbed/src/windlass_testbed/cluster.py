"""The kind cluster: one control plane and two workers with GPUs, its network, its storage and its kubeconfig."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed import content, daemon, golang, machine, node_image, rootfs, scratch_images, store
from windlass_testbed.errors import BedError
from windlass_testbed.loading import load
from windlass_testbed.paths import TESTBED, Paths
from windlass_testbed.process import phase, run, succeeds
from windlass_testbed.published import CLUSTER
from windlass_testbed.versions import POD_CIDR

NAME = CLUSTER
CONTROL_PLANE = f"{NAME}-control-plane"
WORKERS = (f"{NAME}-worker", f"{NAME}-worker2")
MODELS_ON_NODE = "/models"
GPU_PLUGIN_IMAGE = "windlass-testbed/gpu-plugin:1"
POLICY_AGENT_IMAGE = "windlass-testbed/policyagent:1"
NFT = "/usr/sbin/nft"
GPU_LABELS = {"nvidia.com/gpu.product": "NVIDIA-L20", "nvidia.com/gpu.memory": "46068", "nvidia.com/gpu.count": "8"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a cluster is made from; a running cluster of another shape is not reused."""

    node_image: str
    store: Path | None
    own_network: bool

    @property
    def key(self) -> str:
        """The identity of the shape, written on the cluster's control plane."""
        files = (Path(__file__), TESTBED / "node", TESTBED / "go" / "network")
        return content.key(self.node_image, str(self.store), str(self.own_network), *files)


def kubectl(paths: Paths, *words: str, stdin: str | None = None) -> str:
    """Run kubectl against the cluster."""
    return run([paths.bin / "kubectl", "--kubeconfig", paths.kubeconfig, *words], log="kubectl", stdin=stdin)


def ensure(paths: Paths, engine_images: list[str]) -> None:
    """Bring the cluster up, or find the one that is up and of the wanted shape; `engine_images` are preloaded."""
    with phase("node image"):
        image = node_image.ensure(paths)
    with phase("image store"):
        ours = not node_image.published(paths)  # a store is filled for nodes of our own making alone
        kept = store.ensure(paths, image, engine_images) if engine_images and ours else None
        shape = Shape(image, kept, own_network=not node_image.brings_network(paths))
    if healthy(paths, shape):
        return
    delete(paths)
    with phase("kind cluster"):
        _create(paths, shape)
    with phase("GPUs"):
        _gpus(paths)


def healthy(paths: Paths, shape: Shape) -> bool:
    """Tell whether a cluster of exactly this shape answers and all its nodes are ready."""
    marker = paths.run / "cluster-shape"
    if not (marker.exists() and marker.read_text() == _mark(paths, shape) and paths.kubeconfig.exists()):
        return False
    words = ["wait", "--for=condition=Ready", "node", "--all", "--timeout=20s"]
    return answers(paths) and succeeds([*_impatient(paths), *words])


def answers(paths: Paths) -> bool:
    """Tell whether a cluster is up, of whatever shape."""
    return paths.kubeconfig.exists() and succeeds([*_impatient(paths), "get", "--raw", "/readyz"])


def _impatient(paths: Paths) -> list[str | Path]:
    return [paths.bin / "kubectl", "--kubeconfig", paths.kubeconfig, "--request-timeout=5s"]


def check(paths: Paths) -> None:
    """Raise BedError when the machine cannot hold the cluster and a service, or one service more where it is up."""
    machine.check(paths, machine.SERVICE if answers(paths) else machine.CLUSTER)


def delete(paths: Paths) -> None:
    """Delete the cluster, its nodes' volumes and its kubeconfig."""
    (paths.run / "cluster-shape").unlink(missing_ok=True)
    golang.ensure(paths, ("kind",))
    run([paths.bin / "kind", "delete", "cluster", "--name", NAME], log="kind", env=daemon.docker_env(paths))
    run(["rm", "-rf", paths.run / "nodes", paths.kubeconfig], log="kind")


def kind_config(shape: Shape, nodes_folder: Path, models: Path) -> dict[str, object]:
    """Return kind's configuration: JSON is YAML."""

    def worker(name: str) -> dict[str, object]:
        mounts = [{"hostPath": str(models), "containerPath": MODELS_ON_NODE}]
        if shape.store:
            mounts.append({"hostPath": str(nodes_folder / name), "containerPath": "/var/lib/containerd"})
        return {"role": "worker", "extraMounts": mounts}

    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"disableDefaultCNI": shape.own_network, "podSubnet": POD_CIDR, "apiServerAddress": "127.0.0.1"},
        "nodes": [{"role": "control-plane"}, *(worker(name) for name in WORKERS)],
    }


def models_folder(paths: Paths) -> Path:
    """Return the folder of this machine that every worker sees as /models: the cluster's shared volume."""
    folder = paths.run / "models"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _create(paths: Paths, shape: Shape) -> None:
    if shape.store:
        for name in WORKERS:
            store.clone(shape.store, paths.run / "nodes" / name)
    config = json.dumps(kind_config(shape, paths.run / "nodes", models_folder(paths)))
    command: list[str | Path] = [
        paths.bin / "kind",
        "create",
        "cluster",
        "--name",
        NAME,
        "--image",
        shape.node_image,
        "--config",
        "-",
    ]
    run([*command, "--kubeconfig", paths.kubeconfig], log="kind", env=daemon.docker_env(paths), stdin=config)
    if shape.own_network:
        _network(paths)
    kubectl(paths, "wait", "--for=condition=Ready", "node", "--all", "--timeout=120s")
    kubectl(paths, "-n", "kube-system", "scale", "deployment/coredns", "--replicas=1")
    kubectl(paths, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s")
    if shape.own_network:
        _policies(paths)
    (paths.run / "cluster-shape").write_text(_mark(paths, shape))


def _mark(paths: Paths, shape: Shape) -> str:
    """The shape and the engine's run: nodes that a later run starts again have lost their routes."""
    return f"{shape.key} {daemon.identity(paths)}"


def _network(paths: Paths) -> None:
    """Give each node its pod network and a route to every other node's."""
    nodes = _nodes_with_cidr(paths)
    for name, (cidr, _) in nodes.items():
        peers = [f"peer {other} {address}" for peer, (other, address) in nodes.items() if peer != name]
        text = "\n".join([f"self {cidr} {POD_CIDR}", *peers]) + "\n"
        daemon.docker(paths, "exec", "--interactive", name, "tee", "/etc/windlass/network", stdin=text)
        daemon.docker(paths, "exec", name, "windlass-network")


def _nodes_with_cidr(paths: Paths, timeout_s: float = 60) -> dict[str, tuple[str, str]]:
    """Return node → (pod CIDR, address), once the controller manager has given every node its CIDR."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        items = json.loads(kubectl(paths, "get", "nodes", "-o", "json"))["items"]
        cidrs = {node["metadata"]["name"]: node["spec"].get("podCIDR") for node in items}
        if len(cidrs) == 1 + len(WORKERS) and all(cidrs.values()):
            return {n["metadata"]["name"]: (n["spec"]["podCIDR"], _address(n)) for n in items}
        time.sleep(0.5)
    raise BedError(f"the nodes got no pod network within {timeout_s:.0f} s; see {paths.logs / 'kubectl.log'}.")


def _address(node: dict[str, dict[str, list[dict[str, str]]]]) -> str:
    return next(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")


def _policies(paths: Paths) -> None:
    """Enforce NetworkPolicy on every node; the published nodes have kindnet, which does so itself."""
    name = "policyagent"
    golang.ensure(paths, (name,))
    folder = scratch_images.programs(paths.cache / "work" / name, {f"/{name}": paths.bin / name})
    scratch_images.stage_libraries(rootfs.tree(paths, rootfs.NODE_PACKAGES), folder, [NFT])
    scratch_images.import_tree(paths, folder, POLICY_AGENT_IMAGE, f'ENTRYPOINT ["/{name}"]')
    load(paths, POLICY_AGENT_IMAGE, [CONTROL_PLANE, *WORKERS])
    kubectl(paths, "apply", "-f", str(TESTBED / "node" / f"{name}.yaml"))
    kubectl(paths, "-n", "kube-system", "rollout", "status", f"daemonset/{name}", "--timeout=60s")


def _gpus(paths: Paths) -> None:
    """Install the device plugin on the workers and label them as machines with eight L20."""
    folder = scratch_images.programs(paths.cache / "work" / "gpu-plugin", {"/gpu-plugin": paths.bin / "gpu-plugin"})
    scratch_images.import_tree(paths, folder, GPU_PLUGIN_IMAGE, 'ENTRYPOINT ["/gpu-plugin"]')
    load(paths, GPU_PLUGIN_IMAGE, list(WORKERS))
    for node in WORKERS:
        kubectl(paths, "label", "--overwrite", "node", node, *(f"{key}={value}" for key, value in GPU_LABELS.items()))
    kubectl(paths, "apply", "-f", str(TESTBED / "node" / "gpu-plugin.yaml"))
    kubectl(paths, "-n", "kube-system", "rollout", "status", "daemonset/gpu-plugin", "--timeout=60s")
    want = "jsonpath={.status.allocatable.nvidia\\.com/gpu}=8"
    kubectl(paths, "wait", "node", *WORKERS, f"--for={want}", "--timeout=60s")


def gpu_list(paths: Paths) -> str:
    """Return the `nvidia-smi -L` lines of every worker: what a license is issued from."""
    pods = kubectl(paths, "-n", "kube-system", "get", "pods", "-l", "app=gpu-plugin", "-o", "name").split()
    lists = (kubectl(paths, "-n", "kube-system", "exec", pod, "--", "/gpu-plugin", "-list") for pod in pods)
    return "".join(lists)


def up(paths: Paths, engine_images: list[str]) -> None:
    """Bring everything up, from Go programs to a cluster with GPUs."""
    with phase("container engine"):
        daemon.start(paths)
    with phase("tools"):
        node_image.tools(paths)
    ensure(paths, engine_images)
