"""What `windlass-license serve` may be told, by flag or environment, as one value.

The token comes by environment or file only: an argument would show in the process list.
"""

import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from windlass_base.front.peers import FrontLimits
from windlass_base.json_lines import LogSettings
from windlass_base.kube.lease import LeaseName

from windlass_license.errors import SettingsError
from windlass_license.license_file.keys import PublicKeys, by_id, parse_public
from windlass_license.rules.model import LeaseBounds
from windlass_license.storage.store import AuditBounds
from windlass_license.usage import unusable

PUBLIC_KEYS_VARIABLE = "WINDLASS_LICENSE_PUBLIC_KEYS"
ADMIN_TOKEN_VARIABLE = "WINDLASS_LICENSE_ADMIN_TOKEN"  # noqa: S105  the name of the variable
KUBE_LEASE_VARIABLE = "WINDLASS_LICENSE_KUBE_LEASE"
LEASE_AUTH_VARIABLE = "WINDLASS_LICENSE_LEASE_AUTH"
KUBERNETES, NONE = "kubernetes", "none"
DEFAULT_PORT = 10080
DEFAULT_TTL = timedelta(seconds=60)
UPLOAD_MAX_BYTES = 16 * 1024 * 1024
"""10,000 GPUs with eight MIG slices each need about 6 MiB."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the server depends on besides its clock."""

    data_dir: Path
    public_keys: PublicKeys
    admin_token: str | None = None
    """Asked for by upload and audit; None leaves them open, as the original's bare curl."""
    ttl: timedelta = DEFAULT_TTL
    upload_max_bytes: int = UPLOAD_MAX_BYTES
    audit: AuditBounds = field(default_factory=AuditBounds)
    leases: LeaseBounds = field(default_factory=LeaseBounds)
    answer_key: Path | None = None
    """The private key that signs answers; None is one in the data directory."""
    lease_auth: str = KUBERNETES
    """Whether pods show a token, or anybody leases under any name."""
    pod_gpus: bool = True
    """With tokens: whether a pod leases no more GPUs than it requests of Kubernetes."""
    front: FrontLimits = field(default_factory=FrontLimits)
    log: LogSettings = field(default_factory=LogSettings)
    trust_clock: bool = False
    """Forget the latest time seen: for a server whose date was once wrong, far in the future."""


def read_public_keys(paths: Sequence[Path], environment: Mapping[str, str]) -> PublicKeys:
    """The keys of all files, of the *.pem files of all directories, and of WINDLASS_LICENSE_PUBLIC_KEYS.

    A directory may be empty: the server then starts, and takes no license. Naming no place at all is an error.
    """
    files = [file for path in paths for file in (sorted(path.glob("*.pem")) if path.is_dir() else [path])]
    sources = [(str(path), _text(path)) for path in files]
    if inline := environment.get(PUBLIC_KEYS_VARIABLE, "").strip():
        sources.append((PUBLIC_KEYS_VARIABLE, inline))
    if not sources and not paths:
        raise SettingsError(
            f"no public key to verify licenses with; give --public-key FILE or set {PUBLIC_KEYS_VARIABLE} to PEM text"
        )
    return by_id(key for source, text in sources for key in parse_public(text, source))


def read_admin_token(path: Path | None, environment: Mapping[str, str]) -> str | None:
    """The token from a file, else from WINDLASS_LICENSE_ADMIN_TOKEN; empty means that none is asked for."""
    token = _text(path).strip() if path is not None else environment.get(ADMIN_TOKEN_VARIABLE, "").strip()
    return token or None


def parse_kube_lease(text: str) -> LeaseName:
    """`namespace/name`; the identity is the host's name (in a pod the pod's) and something that no other start has."""
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise SettingsError(f'--kube-lease "{text}" is not a Lease; write NAMESPACE/NAME')
    return LeaseName(namespace, name, f"{socket.gethostname()}_{secrets.token_hex(4)}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(str(unusable(error, path))) from error
