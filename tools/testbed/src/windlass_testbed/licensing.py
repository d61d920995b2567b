"""License servers of the cluster: installed by their chart, and the licenses that are issued for them."""

import sys
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed import charts
from windlass_testbed.errors import BedError
from windlass_testbed.forward import forward
from windlass_testbed.paths import Paths
from windlass_testbed.process import run

RELEASE = "windlass-license-server"
PORT = 10080


@dataclass(frozen=True, slots=True)
class LicenseServer:
    """One license server: the chart gives its Service a fixed name, so a namespace holds one."""

    paths: Paths
    namespace: str

    @property
    def url(self) -> str:
        """The address under which pods of the cluster reach it."""
        return f"http://{RELEASE}.{self.namespace}.svc.cluster.local:{PORT}"

    def install(self, image: str) -> None:
        """Install or upgrade the chart and wait until the server is ready."""
        repository, tag = charts.repository_and_tag(image)
        values = [f"image.repository={repository}", f"image.tag={tag}", "auth.adminToken="]
        public = ["--set-file", f"publicKeys[0]={signing_keys(self.paths) / 'public.pem'}"]
        charts.Release(self.paths, self.namespace, RELEASE).install(values, public)

    def upload(self, file: Path) -> str:
        """Upload a license file as the manual's curl does and return the server's answer."""
        boundary = uuid.uuid4().hex
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{file.name}"\r\n\r\n'
        body = head.encode() + file.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
        with forward(self.paths, self.namespace, f"svc/{RELEASE}", PORT) as url:
            request = urllib.request.Request(
                f"{url}/ls", body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}
            )
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return str(answer.read().decode())
            except urllib.error.HTTPError as error:
                raise BedError(f"the license server refused the license: {error.read().decode()}") from error


def tool(*words: str | Path) -> str:
    """Run `windlass-license` of this environment."""
    return run([Path(sys.executable).parent / "windlass-license", *words], log="license")


def signing_keys(paths: Paths) -> Path:
    """Return a folder with the demo's signing keys, made once."""
    folder = paths.cache / "license-keys"
    if not (folder / "public.pem").exists():
        tool("keygen", "--out", folder)
    return folder


def issue(paths: Paths, gpus: str, out: Path, expires: str = "2036-01-01T00:00:00+00:00", *, limit: int = 0) -> Path:
    """Issue a license for `nvidia-smi -L` lines, signed with the demo's key."""
    listing = out.with_suffix(".gpus")
    listing.write_text(gpus)
    out.unlink(missing_ok=True)
    words: list[str | Path] = ["issue", "--gpus", listing, "--customer", "demo", "--appid", "1", "--expires", expires]
    tool(*words, "--max-concurrent", str(limit), "--key", signing_keys(paths) / "private.pem", "--out", out)
    return out
