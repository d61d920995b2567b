"""The node image, in the shape of kind's own: a Debian tree with systemd, containerd, the kubelet and the images.

Made when no published node image can be had. kind's files come from its own Go module, everything else from the
tools and trees of this package. The tag holds the content key, so that a left-over image is never taken for a new one.
"""

import json
import re
import shutil
from pathlib import Path

from windlass_testbed import content, golang, rootfs, scratch_images
from windlass_testbed.daemon import docker, docker_env
from windlass_testbed.errors import BedError
from windlass_testbed.paths import TESTBED, Paths
from windlass_testbed.process import run, say, succeeds
from windlass_testbed.published import chosen, take_kubectl
from windlass_testbed.versions import CLUSTER_TOOLS, KIND_MODULE, KUBERNETES, PUBLISHED_TOOLS

NODE_FILES = TESTBED / "node"
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
CNI_PLUGINS = ("ptp", "loopback", "host-local", "portmap")
POD_NETWORK = "/kind/manifests/default-cni.yaml"
IPTABLES = ("iptables", "ip6tables")


def published(paths: Paths) -> str:
    """Return the published node image that is used instead of a built one, or an empty string."""
    return chosen(paths).image


def tools(paths: Paths) -> Path:
    """Bring the programs that the cluster needs, besides those in its node image; return their folder."""
    image = published(paths)
    if image:
        take_kubectl(paths, image)
    return golang.ensure(paths, PUBLISHED_TOOLS if image else CLUSTER_TOOLS)


def brings_network(paths: Paths) -> bool:
    """Tell whether the node image has kind's own pod network, which enforces NetworkPolicy; a built one has none."""
    image = published(paths)
    words = ("run", "--rm", "--network", "none", "--entrypoint", "test", image, "-f", POD_NETWORK)
    return bool(image) and succeeds(["/usr/bin/docker", *words], docker_env(paths))


def ensure(paths: Paths) -> str:
    """Return the name of the node image: a published one, or one that is built when absent."""
    if image := published(paths):
        return image
    programs = [
        paths.bin / name for name in ("kubelet", "kubeadm", "kubectl", "kube-proxy", "crictl", "coredns", "etcd")
    ]
    identity = [str(program.resolve().parent.name) for program in programs]
    key = content.key(KIND_MODULE, *identity, *rootfs.NODE_PACKAGES, NODE_FILES, Path(__file__))
    tag = f"windlass-testbed/node:{KUBERNETES}-{key}"
    if not scratch_images.exists(paths, tag):
        say("  building the node image")
        _build(paths, tag)
    return tag


def _build(paths: Paths, tag: str) -> None:
    kind_source = golang.module_dir(paths, KIND_MODULE)
    work = paths.cache / "work" / "node"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    root = work / "root"
    run(["cp", "-a", rootfs.tree(paths, rootfs.NODE_PACKAGES), root], log="node")
    _quiet_systemd(root)
    _kind_files(root, kind_source)
    _kubernetes(paths, root, kind_source)
    images = _images(paths, work, root, kind_source)
    base = scratch_images.import_tree(paths, root, f"{tag}-tree")
    lines = [f"FROM {base}", "ENV container=docker", "STOPSIGNAL SIGRTMIN+3"]
    lines.append('ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]')
    docker(paths, "build", "--quiet", "--network", "host", "-t", f"{tag}-base", "-", stdin="\n".join(lines) + "\n")
    _with_images(paths, f"{tag}-base", tag, images, work)
    shutil.rmtree(work)


def _quiet_systemd(root: Path) -> None:
    """Drop the units that make no sense in a container, as kind's own image does."""
    patterns: tuple[str, ...] = ("multi-user.target.wants/*", "local-fs.target.wants/*", "sockets.target.wants/*udev*")
    patterns += ("sockets.target.wants/*initctl*", "basic.target.wants/*")
    patterns += ("sysinit.target.wants/systemd-tmpfiles-setup.service",)
    units = [unit for pattern in patterns for unit in (root / "lib/systemd/system").glob(pattern)]
    for unit in (*units, *(root / "etc/systemd/system").glob("*.wants/*")):
        unit.unlink()
    with (root / "etc/systemd/journald.conf").open("a") as journald:
        journald.write("ReadKMsg=no\n")


def _kind_files(root: Path, kind_source: Path) -> None:
    files = kind_source / "images/base/files"
    run(["cp", "-r", "--no-preserve=mode", f"{files}/etc/.", root / "etc"], log="node")
    run(["cp", "-r", "--no-preserve=mode", f"{files}/kind", root], log="node")
    run(["cp", "-r", "--no-preserve=mode", f"{files}/usr/local/bin/.", root / "usr/local/bin"], log="node")
    for script in (*(root / "kind/bin").iterdir(), *(root / "usr/local/bin").iterdir()):
        script.chmod(0o755)
    for name in ("containerd", "ctr", "containerd-shim-runc-v2"):
        (root / "usr/local/bin" / name).symlink_to(f"/usr/bin/{name}")
    (root / "lib/systemd/system/containerd.service").unlink(missing_ok=True)
    (root / "sbin/init").unlink(missing_ok=True)
    (root / "sbin/init").symlink_to("/lib/systemd/systemd")
    for empty in ("etc/machine-id", "etc/resolv.conf"):
        (root / empty).unlink(missing_ok=True)
        (root / empty).write_text("")
    (root / "etc/hostname").unlink(missing_ok=True)


def _kubernetes(paths: Paths, root: Path, kind_source: Path) -> None:
    for folder in ("etc/kubernetes/manifests", "opt/cni/bin", "lib/modules", "kind/manifests", "etc/windlass"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in ("kubelet", "kubectl"):
        shutil.copy2(paths.bin / name, root / "usr/bin" / name)
    (root / "usr/bin/kubeadm").hardlink_to(root / "usr/bin/kubelet")  # one file: its name chooses the program
    shutil.copy2(paths.bin / "crictl", root / "usr/local/bin/crictl")
    for name in CNI_PLUGINS:
        shutil.copy2(paths.bin / name, root / "opt/cni/bin" / name)
    shutil.copy2(NODE_FILES / "windlass-network.sh", root / "usr/local/bin/windlass-network")
    shutil.copy2(NODE_FILES / "windlass-network.service", root / "etc/systemd/system/windlass-network.service")
    (root / "usr/local/bin/windlass-network").chmod(0o755)
    (root / "kind/version").write_text(KUBERNETES)
    storage = (kind_source / "pkg/build/nodeimage/const_storage.go").read_text()
    (root / "kind/manifests/default-storage.yaml").write_text(storage_manifest(storage))
    units = ["kubelet.service", "containerd.service", "undo-mount-hacks.service", "windlass-network.service"]
    run(["chroot", root, "systemctl", "enable", *units], log="node")
    run(["chroot", root, "systemctl", "mask", "systemd-binfmt.service"], log="node")
    spec = json.loads(run(["chroot", root, "ctr", "oci", "spec"], log="node"))
    spec.setdefault("hooks", {})["createContainer"] = [{"path": "/kind/bin/mount-product-files.sh"}]
    del spec["process"]["rlimits"]
    (root / "etc/containerd/cri-base.json").write_text(json.dumps(spec))
    config = root / "etc/containerd/config.toml"
    # Without CAP_SYS_RESOURCE oom_score_adj cannot be lowered and pause would die; containerd then clamps it.
    config.write_text(config.read_text().replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true"))


def go_constant(source: str, name: str) -> str:
    """Return the string constant `name` of a Go source text, quoted or raw."""
    found = re.search(rf'const {name} = (?:"([^"\n]*)"|`(.*?)`\n)', source, re.S)
    if not found:
        raise BedError(f"kind's sources hold no constant {name}: the pinned version of kind changed its files.")
    return found[1] if found[1] is not None else found[2]


def storage_manifest(source: str) -> str:
    """Return kind's default storage manifest out of its Go source, the image constants filled in."""
    body = re.search(r"const defaultStorageManifest = `(.*)`\s*$", source, re.S)
    if not body:
        raise BedError("kind's sources hold no defaultStorageManifest: the pinned version of kind changed its files.")
    return re.sub(r"` \+ (\w+) \+ `", lambda name: go_constant(source, name[1]), body[1])


def _images(paths: Paths, work: Path, root: Path, kind_source: Path) -> list[str]:
    """Make the images that kubeadm and kind name, each from our own binaries, and return their names."""
    listed = run([paths.bin / "kubeadm", "config", "images", "list", "--kubernetes-version", KUBERNETES], log="node")
    named = {re.split(r"[/:]", name)[-2]: name for name in listed.split()}
    storage = (kind_source / "pkg/build/nodeimage/const_storage.go").read_text()
    config = (root / "etc/containerd/config.toml").read_text()
    pause = re.search(r'sandbox_image *= *"([^"]+)"', config)
    names = [named[name] for name in (*CONTROL_PLANE, "etcd", "coredns", "kube-proxy")]
    _control_plane(paths, work, [named[name] for name in CONTROL_PLANE])
    folder = scratch_images.programs(work / "etcd", {"/usr/local/bin/etcd": paths.bin / "etcd"})
    scratch_images.import_tree(paths, folder, named["etcd"])
    folder = scratch_images.programs(work / "coredns", {"/coredns": paths.bin / "coredns"})
    scratch_images.import_tree(paths, folder, named["coredns"], 'ENTRYPOINT ["/coredns"]')
    scratch_images.import_tree(paths, _kube_proxy(paths, work, root), named["kube-proxy"])
    sandbox = pause[1] if pause else named["pause"]
    scratch_images.import_tree(paths, scratch_images.pause(paths), sandbox, 'ENTRYPOINT ["/pause"]', "USER 65535:65535")
    return [*names, sandbox, *_storage_images(paths, work, root, storage)]


def _control_plane(paths: Paths, work: Path, tags: list[str]) -> None:
    """Make one image for the three programs of the control plane, which are one file, and give it their three names."""
    first, *others = CONTROL_PLANE
    folder = scratch_images.programs(work / "control-plane", {f"/usr/local/bin/{first}": paths.bin / first})
    for name in others:
        (folder / "usr/local/bin" / name).symlink_to(first)
    image = scratch_images.import_tree(paths, folder, tags[0])
    for tag in tags[1:]:
        docker(paths, "tag", image, tag)


def _kube_proxy(paths: Paths, work: Path, root: Path) -> Path:
    folder = scratch_images.programs(work / "kube-proxy", {"/usr/local/bin/kube-proxy": paths.bin / "kube-proxy"})
    (folder / "run").mkdir()
    # libm: libxt_statistic.so loads it with dlopen; without it a Service with two endpoints breaks.
    libraries = ["/usr/sbin/xtables-nft-multi", "/usr/sbin/xtables-legacy-multi", "/usr/sbin/nft"]
    scratch_images.stage_libraries(root, folder, [*libraries, "/lib/x86_64-linux-gnu/libm.so.6"])
    shutil.copytree(root / "usr/lib/x86_64-linux-gnu/xtables", folder / "usr/lib/x86_64-linux-gnu/xtables")
    for name in (f"{family}{end}" for family in IPTABLES for end in ("", "-save", "-restore")):
        (folder / "usr/sbin" / name).symlink_to("xtables-nft-multi")
    return folder


def _storage_images(paths: Paths, work: Path, root: Path, storage: str) -> list[str]:
    provisioner = go_constant(storage, "storageProvisionerImage").removeprefix("docker.io/")
    helper = go_constant(storage, "storageHelperImage").removeprefix("docker.io/")
    name = "local-path-provisioner"
    folder = scratch_images.programs(work / name, {f"/usr/local/bin/{name}": paths.bin / name})
    scratch_images.import_tree(paths, folder, provisioner, f'ENTRYPOINT ["/usr/local/bin/{name}"]')
    folder = scratch_images.programs(work / "helper", {})
    scratch_images.stage_libraries(root, folder, ["/bin/bash", "/bin/rm", "/bin/mkdir"])
    (folder / "bin/sh").symlink_to("bash")
    scratch_images.import_tree(paths, folder, helper, 'CMD ["/bin/sh"]')
    return [provisioner, helper]


def _with_images(paths: Paths, base: str, tag: str, images: list[str], work: Path) -> None:
    """Import the images into the base image's own containerd, not unpacked, as kind does, and commit the result."""
    archive = work / "images.tar"
    docker(paths, "save", "-o", archive, *images)
    name = "windlass-node-build"
    succeeds(["/usr/bin/docker", "rm", "-f", "-v", name], docker_env(paths))  # a left-over of an interrupted build
    mount = f"{archive}:/images.tar:ro"
    security = ["--security-opt", "seccomp=unconfined", "--network", "none", "-v", mount]
    docker(paths, "run", "-d", "--name", name, "--entrypoint", "sleep", *security, base, "infinity")
    try:
        docker(paths, "exec", name, "bash", "-c", IMPORT_SCRIPT, log="node")
        docker(paths, "commit", "--change", 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]', name, tag)
    finally:
        docker(paths, "rm", "-f", "-v", name)


IMPORT_SCRIPT = """
set -eu
containerd >/tmp/containerd.log 2>&1 & daemon=$!
for _ in $(seq 100); do ctr version >/dev/null 2>&1 && break; sleep 0.2; done
ctr --namespace=k8s.io images import --all-platforms --no-unpack /images.tar
kill $daemon; wait $daemon || true
rm -f /tmp/containerd.log
"""
