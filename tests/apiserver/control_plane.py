"""A real etcd and a real kube-apiserver as processes, for tests of CRD, CEL and server-side-apply semantics.

No container, no cluster: two processes on free loopback ports in a directory of their own, stopped by process id.
Binaries come from $WINDLASS_KUBE_BIN, else from the test cluster.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from windlass_testbed.ports import free_ports
from windlass_testbed.waiting import HANG_S, wait_until

STOP_TIMEOUT_S = 5  # an API server whose clients stay connected waits a minute for them
LOG_TAIL_BYTES = 3000


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API server and how to talk to it."""

    url: str
    token: str
    ca_file: Path
    kubeconfig: Path
    kubectl_binary: Path

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl; a failure raises with what it said, unless `check` is off."""
        done = subprocess.run(
            [str(self.kubectl_binary), "--kubeconfig", str(self.kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            # kubectl keeps a discovery cache in HOME: a private one, so that nothing of the machine's is read or left.
            env={**os.environ, "HOME": str(self.kubeconfig.parent)},
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def apply(self, document: dict[str, object], *arguments: str) -> subprocess.CompletedProcess[str]:
        """`kubectl apply` one object; never raises, so that refusals can be read."""
        return self.kubectl("apply", "-f", "-", *arguments, stdin=json.dumps(document), check=False)

    def install_crd(self, file: Path | str = "-", text: str | None = None) -> None:
        """Apply our CRD and wait until it is served; `kubectl wait` fails on a CRD that has no conditions yet."""
        self.kubectl("apply", "--server-side", "-f", str(file), stdin=text)
        served = lambda: self.kubectl("get", "llmservices", "-A", check=False).returncode == 0  # noqa: E731
        wait_until(served, "the API server's serving LLMServices")

    def get(self, *arguments: str) -> dict[str, object]:
        """`kubectl get … -o json`."""
        found: dict[str, object] = json.loads(self.kubectl("get", *arguments, "-o", "json").stdout)
        return found


def find_binary(name: str) -> Path:
    """The program from $WINDLASS_KUBE_BIN, else from the test cluster, which builds it when it has to."""
    folder = os.environ.get("WINDLASS_KUBE_BIN")
    if folder:
        path = Path(folder) / name
        if not path.is_file():
            raise FileNotFoundError(f"WINDLASS_KUBE_BIN={folder} has no {name}; build it or unset the variable")
        return path
    done = subprocess.run(
        [sys.executable, "-m", "windlass_testbed", "tool", name], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the test cluster has no {name}: {done.stderr.strip()}")
    return Path(done.stdout.strip().splitlines()[-1])


@contextmanager
def running_api_server(folder: Path, flags: Sequence[str] = ()) -> Iterator[ApiServer]:
    """Start both processes in `folder`, wait until they answer, stop both at the end."""
    with ExitStack() as stack:
        etcd_url = stack.enter_context(running_etcd(folder))
        yield stack.enter_context(running_apiserver(folder, etcd_url, flags))


@contextmanager
def running_etcd(folder: Path) -> Iterator[str]:
    client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    command = [
        str(find_binary("etcd")),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # a test's data may be lost with the machine
        "--log-level=warn",
    ]
    with _process(command, folder / "etcd.log", lambda: _answers(f"{client}/health", None, "")):
        yield client


@contextmanager
def running_apiserver(
    folder: Path, etcd_url: str, flags: Sequence[str] = (), port: int | None = None
) -> Iterator[ApiServer]:
    """An API server on this etcd; started again in the same folder on the same port, it is the same server."""
    port = port or free_ports(1)[0]
    url, token = f"https://127.0.0.1:{port}", _admin_token(folder)
    tokens = folder / "tokens.csv"
    key = _service_account_key(folder / "service-account.key")
    certificates = folder / "certificates"
    command = [
        str(find_binary("kube-apiserver")),
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={certificates}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.99.0.0/24",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--endpoint-reconciler-type=none",
        # No controller manager runs here that would make the default service account.
        "--disable-admission-plugins=ServiceAccount",
        "--watch-cache=true",
        *flags,
    ]
    # The server writes itself a certificate, which is its own authority.
    ca_file = certificates / "apiserver.crt"
    with _process(command, folder / "kube-apiserver.log", lambda: _answers(f"{url}/readyz", ca_file, token)):
        kubeconfig = _write_kubeconfig(folder / "kubeconfig", url, ca_file, token)
        yield ApiServer(url, token, ca_file, kubeconfig, find_binary("kubectl"))


@contextmanager
def _process(command: list[str], log: Path, ready: Callable[[], bool]) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        _wait_until(ready, process, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)  # clock: then it is killed, and no test is decided
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    wait_until(lambda: process.poll() is not None or ready(), f"the start of {process.args!r}", look_s=0.1)
    if process.poll() is None:
        return
    name = Path(str(process.args[0])).name if isinstance(process.args, list) else "process"
    tail = log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
    raise RuntimeError(f"{name} did not become ready (exit {process.poll()}); its log ends:\n{tail}")


def _answers(url: str, ca_file: Path | None, token: str) -> bool:
    if ca_file and not ca_file.exists():
        return False
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    context = ssl.create_default_context(cafile=str(ca_file)) if ca_file else None
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )
    try:
        with opener.open(request, timeout=HANG_S) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _admin_token(folder: Path) -> str:
    """The token of the first start; `tokens.csv` may hold more users, put there beforehand."""
    path = folder / "admin.token"
    if path.exists():
        return path.read_text()
    token = secrets.token_hex(16)
    with (folder / "tokens.csv").open("a") as tokens:
        tokens.write(f'{token},admin,admin,"system:masters"\n')
    (folder / "tokens.csv").chmod(0o600)
    path.write_text(token)
    path.chmod(0o600)
    return token


def _service_account_key(path: Path) -> Path:
    if path.exists():
        return path
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    plain = serialization.NoEncryption()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    path.chmod(0o600)
    return path


def _write_kubeconfig(path: Path, url: str, ca_file: Path, token: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin", "namespace": "default"}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path
