"""A machine of its own with Debian's kernel, whose root is one of our images and which mounts an NFS share at /volume.

The kernel of the machine that tests run on often has no NFS client. QEMU runs another: by KVM where /dev/kvm boots a
plain kernel, else emulated, which is 10 to 30 times slower. WINDLASS_GUEST=kvm or tcg chooses. Nothing leaves the
machine: the guest's network is QEMU's own, and only the ports named here are open on 127.0.0.1.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from windlass_testbed import content
from windlass_testbed.daemon import docker
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.process import run, succeeds
from windlass_testbed.waiting import wait_until

HERE = Path(__file__).parent
HOST = "10.0.2.2"
"""This machine's 127.0.0.1, as a guest reaches it."""
AGENT_PORT, API_PORT = 7000, 8501
MODULES = ("virtio_pci", "virtio_net", "9pnet_virtio", "9p", "overlay", "nfsv4")
MEMORY_MIB = 5000
BOOT_TIMEOUT_S = {"kvm": 30, "tcg": 120}
ACCELERATORS = {"kvm": ("kvm", "host,-arch-capabilities"), "tcg": ("tcg,thread=multi", "max")}


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a guest boots."""

    image: Path
    first_files: Path


def kernel(paths: Paths) -> Kernel:
    """Debian's kernel out of its package, and an archive of busybox, the drivers and `guest_init.sh`; kept."""
    depends = run(["/usr/bin/apt-cache", "depends", "linux-image-amd64"], log="guest")
    package = next(line.split()[-1] for line in depends.splitlines() if "Depends: linux-image" in line)
    key = content.key(package, HERE / "guest_init.sh", *MODULES)
    folder = content.once(paths.cache / "guest-kernels" / key, lambda target: _make_kernel(package, target))
    (image,) = (folder / "tree/boot").glob("vmlinuz-*")
    return Kernel(image, folder / "first-files.gz")


def _make_kernel(package: str, target: Path) -> None:
    target.mkdir(parents=True)
    target.chmod(0o755)
    run(["/usr/bin/apt-get", "download", package], log="guest", cwd=target)
    (archive,) = target.glob("*.deb")
    tree, first = target / "tree", target / "first"
    run(["/usr/bin/dpkg-deb", "--extract", archive, tree], log="guest")
    archive.unlink()
    (version,) = (path.name for path in (tree / "lib/modules").iterdir())
    run(["/sbin/depmod", "-b", tree, version], log="guest")
    for folder in ("bin", "proc", "sys", "dev", "image", "written", "root"):
        (first / folder).mkdir(parents=True)
    shutil.copy("/bin/busybox", first / "bin")
    shutil.copy(HERE / "guest_init.sh", first / "init")
    (first / "init").chmod(0o755)
    for module in MODULES:
        _copy_module(tree, first, version, module)
    for table in (tree / "lib/modules" / version).glob("modules.*"):
        shutil.copy(table, first / "lib/modules" / version)
    pack = f"cd {first} && find . | cpio --quiet -o -H newc | gzip -1 > {target / 'first-files.gz'}"
    run(["/bin/sh", "-c", pack], log="guest")


def _copy_module(tree: Path, first: Path, version: str, module: str) -> None:
    """A driver and those that it needs."""
    listed = run(["/sbin/modprobe", "-d", tree, "-S", version, "--show-depends", module], log="guest")
    for line in listed.splitlines():
        file = Path(line.split()[1]) if line.startswith("insmod") else None
        if file:
            place = first / file.relative_to(tree)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)


@contextmanager
def image_tree(paths: Paths, image: str, place: Path) -> Iterator[Path]:
    """An image's files at `place`, read-only, from the layers where our container engine keeps them."""
    data = json.loads(docker(paths, "image", "inspect", "--format", "{{json .GraphDriver.Data}}", image))
    lower = ":".join(filter(None, (data["UpperDir"], data.get("LowerDir", ""))))
    place.mkdir(parents=True, exist_ok=True)
    run(["/bin/mount", "-t", "overlay", "-o", f"ro,lowerdir={lower}", "overlay", place], log="guest")
    try:
        yield place
    finally:
        run(["/bin/umount", place], log="guest")


@dataclass
class Guest:
    """A running guest. `start` and `run` start programs in it."""

    agent_port: int
    api_port: int
    machine: subprocess.Popen[bytes]
    console: Path
    accelerator: str
    seconds: float = 0.0
    programs: list[int] = field(default_factory=list)

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> int:
        """Start a program and return its number."""
        answer = self._ask("start", {"argv": argv, "env": dict(env or {})})
        self.programs.append(int(answer["id"]))
        return self.programs[-1]

    def poll(self, number: int) -> tuple[int | None, str]:
        """Its exit code, or None while it runs, and what it printed."""
        answer = self._ask("poll", {"id": number})
        return answer["code"], answer["output"]

    def wait(self, number: int, timeout_s: float = 600) -> tuple[int, str]:
        """The exit code and the output of a program that ends."""

        def ended() -> tuple[int, str] | None:
            code, output = self.poll(number)
            return None if code is None else (code, output)

        try:
            return wait_until(ended, f"the end of program {number}", hang_s=timeout_s, look_s=0.5)  # type: ignore[return-value]
        except AssertionError as error:
            raise AssertionError(f"{error}; it printed:\n{self.poll(number)[1][-3000:]}") from error

    def run(self, *argv: str, env: Mapping[str, str] | None = None, timeout_s: float = 600) -> tuple[int, str]:
        """Start a program and wait for its end."""
        return self.wait(self.start(*argv, env=env), timeout_s)

    def cut(self) -> None:
        """Cut the power: nothing in the guest is told."""
        self.machine.kill()
        self.machine.wait()

    def _ask(self, verb: str, body: Mapping[str, object], timeout_s: float = 30) -> dict[str, object]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.agent_port}/{verb}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            found: dict[str, object] = json.loads(answer.read())
        return found


def accelerators() -> Sequence[str]:
    """What to try, in order."""
    wanted = os.environ.get("WINDLASS_GUEST", "")
    if wanted:
        return (wanted,)
    return ("kvm", "tcg") if Path("/dev/kvm").exists() else ("tcg",)


@contextmanager
def booted(paths: Paths, tree: Path, share: str, nfs_port: int, name: str) -> Iterator[Guest]:
    """A guest whose root is `tree` and that has `share` at /volume; it is gone after the block."""
    guest = next(filter(None, (_boot(paths, tree, share, nfs_port, name, one) for one in accelerators())), None)
    if guest is None:
        raise BedError(f"no guest came up; its console: {paths.logs / f'guest-{name}.log'}")
    try:
        yield guest
    finally:
        guest.cut()


def _boot(paths: Paths, tree: Path, share: str, nfs_port: int, name: str, accelerator: str) -> Guest | None:
    boot, (agent, api) = kernel(paths), _free_ports(2)
    paths.logs.mkdir(parents=True, exist_ok=True)
    console = paths.logs / f"guest-{name}.log"
    console.unlink(missing_ok=True)
    kind, processor = ACCELERATORS[accelerator]
    words = f"console=ttyS0 quiet panic=-1 windlass.name={name} windlass.share={share} windlass.port={nfs_port}"
    doors = "".join(f",hostfwd=tcp:127.0.0.1:{mine}-:{its}" for mine, its in ((agent, AGENT_PORT), (api, API_PORT)))
    command = ["/usr/bin/qemu-system-x86_64", "-accel", kind, "-cpu", processor, "-m", str(MEMORY_MIB), "-smp", "2"]
    command += ["-display", "none", "-serial", f"file:{console}", "-no-reboot"]
    command += ["-kernel", str(boot.image), "-initrd", str(boot.first_files), "-append", words]
    command += ["-netdev", f"user,id=net{doors}", "-device", "virtio-net-pci,netdev=net"]
    for tag, folder in (("image", tree), ("agent", HERE)):
        command += ["-fsdev", f"local,id={tag},path={folder},security_model=none,readonly=on"]
        command += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    started = time.monotonic()
    machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    guest = Guest(agent, api, machine, console, accelerator)
    while time.monotonic() - started < BOOT_TIMEOUT_S[accelerator] and machine.poll() is None:
        if _answers(agent) and "mounted" in console.read_text(errors="replace"):
            guest.seconds = time.monotonic() - started
            return guest
        time.sleep(0.5)  # clock: how often it looks; a guest that does not boot is tried with another accelerator
    guest.cut()
    return None


def _answers(port: int) -> bool:
    """Whether the agent reads: QEMU takes connections before anything listens behind them."""
    body = json.dumps({"argv": ["true"]})
    command = ["/usr/bin/curl", "--silent", "--fail", "--max-time", "3", "--data", body]
    return succeeds([*command, f"http://127.0.0.1:{port}/start"])


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
