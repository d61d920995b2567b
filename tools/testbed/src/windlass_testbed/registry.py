"""A container registry where a site's own would stand: CNCF's distribution in a container on the cluster's network.

It speaks plain HTTP. Each node's containerd is told so for this one address, as an administrator tells it.
"""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from windlass_testbed import airgap, daemon, scratch_images
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.process import succeeds

NAME = "windlass-registry"
IMAGE = "windlass-testbed/registry:1"
NETWORK = "kind"
PORT = 5000
CONFIG = """version: 0.1
log: {{accesslog: {{disabled: false}}, level: warn}}
storage:
  filesystem: {{rootdirectory: {folder}}}
http: {{addr: "{address}"}}
"""
CERTS = "/etc/containerd/certs.d"
HOSTS = """
set -eu
mkdir -p {certs}/{address}
printf 'server = "http://{address}"\\n[host."http://{address}"]\\n  capabilities = ["pull", "resolve"]\\n' \
  > {certs}/{address}/hosts.toml
grep -q config_path /etc/containerd/config.toml && exit 0
printf '\\n[plugins."io.containerd.grpc.v1.cri".registry]\\n  config_path = "{certs}"\\n' >> /etc/containerd/config.toml
systemctl restart containerd
"""


def start(paths: Paths) -> str:
    """Start an empty registry, make the cluster's nodes know it, and return its address."""
    stop(paths)
    folder = scratch_images.programs(paths.cache / "work" / "registry", {"/registry": paths.bin / "registry"})
    (folder / "config.yml").write_text(CONFIG.format(folder="/var/lib/registry", address=f":{PORT}"))
    scratch_images.import_tree(paths, folder, IMAGE, 'ENTRYPOINT ["/registry", "serve", "/config.yml"]')
    daemon.docker(
        paths, "run", "--detach", "--name", NAME, "--network", NETWORK, "--env", "OTEL_TRACES_EXPORTER=none", IMAGE
    )
    where = f"{{{{.NetworkSettings.Networks.{NETWORK}.IPAddress}}}}"
    address = f"{daemon.docker(paths, 'inspect', '--format', where, NAME).strip()}:{PORT}"
    for node in airgap.NODES:
        daemon.docker(paths, "exec", node, "bash", "-c", HOSTS.format(certs=CERTS, address=address))
    return address


def stop(paths: Paths) -> None:
    """Take the registry and what it holds away, if there is one."""
    succeeds(["/usr/bin/docker", "rm", "--force", "--volumes", NAME], daemon.docker_env(paths))


def log(paths: Paths) -> str:
    """Return the registry's access log."""
    return daemon.docker(paths, "logs", NAME)


def pulled(access_log: str) -> dict[str, int]:
    """Return repository → layers and configurations that were fetched from it, out of the access log."""
    found: dict[str, int] = {}
    for line in access_log.splitlines():
        _, get, rest = line.partition('"GET /v2/')
        repository, blobs, _ = rest.partition("/blobs/")
        if get and blobs and "containerd" in line:
            found[repository] = found.get(repository, 0) + 1
    return found


@contextmanager
def on_this_machine(program: Path, folder: Path, starts_s: float = 20) -> Iterator[str]:
    """Serve the images in a folder on a free port of this machine while the block runs; give its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.yml"
    config.write_text(CONFIG.format(folder=folder / "images", address=address))
    with (folder / "registry.log").open("ab") as log:
        process = subprocess.Popen([program, "serve", config], stdout=log, stderr=log,
                                   env={"OTEL_TRACES_EXPORTER": "none"})  # fmt: skip
    try:
        _until_it_listens(address, process, starts_s)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=10)


def _until_it_listens(address: str, process: "subprocess.Popen[bytes]", seconds: float) -> None:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return
        time.sleep(0.1)
    raise BedError(f"the registry at {address} did not start: see registry.log beside its images.")
