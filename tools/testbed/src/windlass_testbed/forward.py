"""A way from this machine into the cluster: `kubectl port-forward` on a free port of 127.0.0.1."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths


@contextmanager
def forward(paths: Paths, namespace: str, target: str, port: int) -> Iterator[str]:
    """Yield `http://127.0.0.1:N`, forwarded to a Service or pod port, and stop forwarding at the end."""
    base = [str(paths.bin / "kubectl"), "--kubeconfig", str(paths.kubeconfig), "-n", namespace, "port-forward"]
    process = subprocess.Popen(
        [*base, "--address=127.0.0.1", target, f":{port}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if not found:
            process.kill()
            _, error = process.communicate()
            raise BedError(f"{target} in {namespace} cannot be reached: {error.strip()}")
        yield f"http://127.0.0.1:{found[1]}"
    finally:
        process.terminate()
        process.communicate()
