"""A container engine of our own: containerd and dockerd with their own sockets, data root and runtime.

The machine's Docker, if there is one, is neither used nor changed. Both daemons are started here by pid and are
stopped here by pid; no bridge is made, because kind brings its own network and builds use the host's.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.process import run, succeeds

CAP_SYS_RESOURCE = 24

# A runc that does not ask for CAP_SYS_RESOURCE: where the machine's bounding set lacks it, runc would refuse every
# privileged container. It gives containers fewer rights, never more.
BOUNDED_RUNC = """#!/bin/bash
previous=
for word in "$@"; do
  case $previous in
    --bundle|-b) file=$word/config.json ;;
    --process|-p) file=$word ;;
    *) file= ;;
  esac
  [ -n "$file" ] && [ -f "$file" ] && sed -i 's/"CAP_SYS_RESOURCE",//g' "$file"
  previous=$word
done
exec /usr/sbin/runc "$@"
"""


def socket(paths: Paths) -> Path:
    """Return the socket of our Docker daemon."""
    return paths.run / "docker.sock"


def docker_env(paths: Paths) -> dict[str, str]:
    """Return the environment in which `docker` and `kind` talk to our daemon and to no other.

    Its PATH has the programs of this checkout, `kubectl windlass` among them.
    """
    ours = (f"{paths.bin}/docker-first", str(paths.bin), str(Path(sys.executable).parent))
    others = [one for one in os.environ.get("PATH", "/usr/bin:/bin").split(":") if one not in ours]
    path = ":".join((*ours, *others))
    return {
        "DOCKER_HOST": f"unix://{socket(paths)}",
        "DOCKER_BUILDKIT": "1",
        "DOCKER_CONTEXT": "",
        "DOCKER_CONFIG": str(paths.run / "docker-config"),
        "PATH": path,
        "KUBECONFIG": str(paths.kubeconfig),
    }


def docker(paths: Paths, *words: str | Path, log: str = "docker", stdin: str | None = None) -> str:
    """Run Debian's docker client against our daemon and return its output."""
    return run(["/usr/bin/docker", *words], log=log, env=docker_env(paths), stdin=stdin)


def answers(paths: Paths) -> bool:
    """Tell whether our Docker daemon answers."""
    return socket(paths).exists() and succeeds(["/usr/bin/docker", "version"], docker_env(paths))


def has_capability(status: str, number: int) -> bool:
    """Tell from /proc/self/status whether the bounding set holds a capability."""
    line = next(line for line in status.splitlines() if line.startswith("CapBnd:"))
    return bool(int(line.split()[1], 16) >> number & 1)


def start(paths: Paths, *flags: str) -> None:
    """Start containerd and dockerd with these flags unless ours answer; raise BedError with the log's last line."""
    if answers(paths):
        return
    stop(paths)
    for folder in (paths.run, paths.logs, paths.run / "docker-config", paths.bin / "docker-first"):
        folder.mkdir(parents=True, exist_ok=True)
    _client_first(paths)
    containerd = paths.run / "containerd.sock"
    _spawn(paths, "containerd", ["containerd", "--config", str(_containerd_config(paths, containerd))])
    _wait(paths, "containerd", lambda: succeeds(["ctr", "--address", containerd, "version"]))
    _spawn(paths, "dockerd", [*_dockerd_command(paths, containerd), *flags])
    _wait(paths, "dockerd", lambda: answers(paths))


def _dockerd_command(paths: Paths, containerd: Path) -> list[str]:
    command = ["dockerd", "--host", f"unix://{socket(paths)}", "--data-root", str(paths.cache / "docker")]
    command += ["--exec-root", str(paths.run / "docker-exec"), "--pidfile", str(paths.run / "dockerd.docker.pid")]
    command += ["--config-file", str(_docker_config(paths)), "--containerd", str(containerd), "--bridge", "none"]
    return command


def _docker_config(paths: Paths) -> Path:
    runtime = paths.run / "runc-bounded"
    runtime.write_text(BOUNDED_RUNC)
    runtime.chmod(0o755)
    bounded = not has_capability(Path("/proc/self/status").read_text(), CAP_SYS_RESOURCE)
    config = {"runtimes": {"bounded": {"path": str(runtime)}}, "default-runtime": "bounded" if bounded else "runc"}
    file = paths.run / "daemon.json"
    file.write_text(json.dumps(config))
    return file


def _containerd_config(paths: Paths, address: Path) -> Path:
    file = paths.run / "containerd.toml"
    file.write_text(
        f'version = 2\nroot = "{paths.cache}/containerd"\nstate = "{paths.run}/containerd"\n'
        f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\n  address = "{address}"\n'
    )
    return file


def _client_first(paths: Paths) -> None:
    """Put Debian's client first in PATH: a newer one may want a plug-in to build, and kind calls `docker` by name."""
    link = paths.bin / "docker-first" / "docker"
    link.unlink(missing_ok=True)
    link.symlink_to("/usr/bin/docker")


def _spawn(paths: Paths, name: str, command: Sequence[str]) -> None:
    with (paths.logs / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    (paths.run / f"{name}.pid").write_text(f"{process.pid} {_started(process.pid)}")
    process.returncode = 0  # it is meant to outlive us: no warning that it still runs


def _wait(paths: Paths, name: str, ready: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not ready():
        if _pid(paths, name) is None or time.monotonic() > deadline:
            log = paths.logs / f"{name}.log"
            tail = " | ".join(log.read_text(errors="replace").splitlines()[-3:])
            raise BedError(f"{name} did not start: {tail} (log: {log})")
        time.sleep(0.2)


def stop(paths: Paths) -> None:
    """Stop our daemons by pid, dockerd before containerd, and take leftovers of their run folders away."""
    for name in ("dockerd", "containerd"):
        pid = _pid(paths, name)
        if pid:
            _end(pid)
        (paths.run / f"{name}.pid").unlink(missing_ok=True)
    socket(paths).unlink(missing_ok=True)


def identity(paths: Paths) -> str:
    """The identity of this run of our Docker daemon; empty when it does not run."""
    file = paths.run / "dockerd.pid"
    return file.read_text().strip() if file.exists() else ""


def _end(pid: int, timeout_s: float = 30) -> None:
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while _started(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    if _started(pid):
        os.kill(pid, signal.SIGKILL)


def _pid(paths: Paths, name: str) -> int | None:
    """Return the pid of a daemon of ours that still runs; a pid that another program got since is not it."""
    file = paths.run / f"{name}.pid"
    words = file.read_text().split() if file.exists() else []
    return int(words[0]) if len(words) == 2 and _started(int(words[0])) == words[1] else None


def _started(pid: int) -> str:
    """Return the start time of a live process in clock ticks since boot, or an empty string (zombies count as gone)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] == "Z" else fields[19]
