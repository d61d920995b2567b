"""What the machine must have before anything starts: root, disk, memory, Debian packages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.process import run, say

DISK_COLD_GIB = 25.0
DISK_WARM_GIB = 6.0


@dataclass(frozen=True, slots=True)
class Need:
    """What is about to run, and the memory that it takes beside what runs already, in GiB."""

    name: str
    memory_gib: float


CLUSTER = Need("the cluster with one service", 10.0)
SERVICE = Need("one more service on the cluster", 5.0)
ENGINE = Need("one engine", 4.0)

# Program that shows a package is there → Debian package.
PACKAGES: tuple[tuple[str, str], ...] = (
    ("/usr/sbin/dockerd", "docker.io"),
    ("/usr/bin/docker", "docker.io"),
    ("/usr/sbin/debootstrap", "debootstrap"),
    ("/usr/sbin/iptables", "iptables"),
    ("/usr/sbin/ip", "iproute2"),
    ("/usr/sbin/nft", "nftables"),
    ("/usr/bin/gcc", "gcc"),
    ("/usr/bin/git", "git"),
    ("/usr/lib/x86_64-linux-gnu/libc.a", "libc6-dev"),
    ("/etc/ssl/certs/ca-certificates.crt", "ca-certificates"),
)


def check(paths: Paths, need: Need) -> None:
    """Raise BedError when the machine cannot hold what is needed: not root, too little disk or memory."""
    if os.geteuid() != 0:
        raise BedError("the test cluster starts a container engine and needs root: run `sudo make …`.")
    paths.cache.mkdir(parents=True, exist_ok=True)
    free_gib = shutil.disk_usage(paths.cache).free / 2**30
    wanted_gib = DISK_WARM_GIB if (paths.cache / "stores").exists() else DISK_COLD_GIB
    if free_gib < wanted_gib:
        raise BedError(
            f"{paths.cache} has {compared(free_gib, wanted_gib)} of disk for {need.name}: "
            "free some, or set WINDLASS_CACHE to a folder on a larger disk."
        )
    memory_gib = available_memory_gib(Path("/proc/meminfo").read_text())
    if memory_gib < need.memory_gib:
        raise BedError(
            f"the machine has {compared(memory_gib, need.memory_gib)} of memory for {need.name}: stop other programs."
        )


def compared(free_gib: float, wanted_gib: float) -> str:
    """Return both figures with as few decimals as tell them apart."""
    digits = next(n for n in range(1, 12) if f"{free_gib:.{n}f}" != f"{wanted_gib:.{n}f}")
    return f"{free_gib:.{digits}f} GiB free and needs {wanted_gib:.{digits}f} GiB"


def available_memory_gib(meminfo: str) -> float:
    """Return MemAvailable of /proc/meminfo in GiB."""
    line = next(line for line in meminfo.splitlines() if line.startswith("MemAvailable:"))
    return int(line.split()[1]) / 2**20


def ensure_packages() -> None:
    """Install the Debian packages whose programs are missing."""
    missing = sorted({package for program, package in PACKAGES if not Path(program).exists()})
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise BedError(f"this machine has no apt-get; install by hand: {', '.join(missing)}.")
    say(f"  installing Debian packages: {' '.join(missing)}")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    with _no_service_starts():
        run(["apt-get", "update", "-qq"], log="apt", env=env)
        run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing], log="apt", env=env)


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Keep docker.io from starting the machine's own daemon while it is installed: ours is a separate one."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()
