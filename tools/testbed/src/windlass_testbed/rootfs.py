"""Debian trees made by debootstrap, once per content key: the base of the node image and of our Python images."""

import shutil
from pathlib import Path

from windlass_testbed import content
from windlass_testbed.paths import Paths
from windlass_testbed.process import run
from windlass_testbed.versions import DEBIAN_SUITE

NODE_PACKAGES = tuple(
    "systemd systemd-sysv dbus conntrack iptables nftables iproute2 ethtool util-linux mount kmod libseccomp2 pigz "
    "e2fsprogs bash ca-certificates curl jq procps containerd runc ebtables socat nfs-common".split()
)
PYTHON_PACKAGES = ("python3", "python3-pip", "python3-venv", "ca-certificates")

# Left out of every image: indexes and texts that nothing reads at run time.
DROPPED = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale", "var/log")


def tree(paths: Paths, packages: tuple[str, ...], suite: str = DEBIAN_SUITE) -> Path:
    """Return a Debian tree with the packages, made when absent; its contents are never changed in place."""
    name = content.key(suite, mirror(), *packages, *DROPPED)
    return content.once(paths.cache / "rootfs" / name, lambda target: _make(target, packages, suite))


def _make(target: Path, packages: tuple[str, ...], suite: str) -> None:
    include = f"--include={','.join(packages)}"
    run(["debootstrap", "--variant=minbase", include, suite, target, mirror()], log="debootstrap")
    for folder in DROPPED:
        shutil.rmtree(target / folder, ignore_errors=True)
        (target / folder).mkdir(parents=True)
    if "python3-pip" in packages:
        _like_the_published_python(target)


def _like_the_published_python(target: Path) -> None:
    """Make Debian's Python answer to what Dockerfiles for the published Python image expect: `python`, plain pip."""
    (target / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    for marker in target.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()


def mirror() -> str:
    """Return the mirror that apt is set to on this machine; debootstrap uses the same one."""
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    text = "\n".join(file.read_text(errors="replace") for file in sources if file.is_file())
    return first_mirror(text)


def first_mirror(sources: str) -> str:
    """Return the first package mirror in apt's one-line or deb822 format (security mirrors are passed over)."""
    for line in sources.splitlines():
        words = line.split()
        if words[:1] in (["deb"], ["URIs:"]):
            found = [w for w in words if w.startswith(("http://", "https://")) and "security" not in w]
            if found:
                return found[0]
    return "http://deb.debian.org/debian"
