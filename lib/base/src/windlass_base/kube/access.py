"""Who calls which API server: kubeconfig, context, service account or a bare token, found as kubectl finds them.

The order is kubectl's: what is given, then KUBECONFIG (several files, the first that says something wins), then
~/.kube/config, then the pod's service account.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import httpx2
import yaml
from lightkube import KubeConfig
from lightkube.config import client_adapter
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster, Context, User
from lightkube.core.exceptions import ConfigError

from windlass_base.kube.errors import AccessError

HOME_CONFIG = Path("~/.kube/config")
LISTS = ("clusters", "users", "contexts")
# Paths inside a kubeconfig are relative to their own file.
PATHS = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile")),
}


@dataclass(frozen=True, slots=True)
class Access:
    """One API server, one credential, and the namespace that is meant where none is named."""

    config: SingleConfig
    namespace: str

    @property
    def server(self) -> str:
        """The API server's URL."""
        return str(self.config.cluster.server)

    def http(self, timeout_s: float, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
        """Connections with this credential, opened when they are needed; `transport` replaces the network in tests."""
        given = ConnectionParams(timeout=httpx2.Timeout(timeout_s), transport=cast(Any, transport))
        try:
            return client_adapter.AsyncClient(self.config, given)
        except (OSError, ConfigError) as error:
            raise AccessError(f"{self.server}: the credential or the certificate cannot be used: {error}") from error


def find_access(
    *,
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    namespace: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Access:
    """The access that kubectl would use with these options; raises AccessError with what is missing."""
    try:
        access = _found(_files(kubeconfig, os.environ if env is None else env), context)
    except ConfigError as error:
        raise AccessError(f"no access to a cluster: {error}") from error
    return replace(access, namespace=namespace) if namespace else access


def context_names(kubeconfig: str | Path | None = None, env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The contexts of the kubeconfig that would be used."""
    files = _files(kubeconfig, os.environ if env is None else env)
    return tuple(
        str(row["name"]) for row in merged((path, _read(path)) for path in files if path.is_file())["contexts"]
    )


def token_access(
    server: str, token: str, *, ca_file: str | Path | None = None, namespace: str = "default", insecure: bool = False
) -> Access:
    """Access with a bearer token; `ca_file` verifies the server, `insecure` leaves that out."""
    cluster = Cluster(server=server, certificate_auth=str(ca_file) if ca_file else None, insecure=insecure)
    context = Context(cluster="given", user="given", namespace=namespace)
    return Access(SingleConfig("given", context, cluster, User(token=token)), namespace)


def _files(kubeconfig: str | Path | None, env: Mapping[str, str]) -> tuple[Path, ...]:
    """The places of a kubeconfig; those of KUBECONFIG and the home directory may be empty."""
    if kubeconfig:
        path = Path(kubeconfig).expanduser()
        if not path.is_file():
            raise AccessError(
                f"no access to a cluster: kubeconfig {path} is not there; name one by --kubeconfig or KUBECONFIG"
            )
        return (path,)
    listed = [Path(part).expanduser() for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
    return tuple(listed or [HOME_CONFIG.expanduser()])


def _found(places: tuple[Path, ...], context: str | None) -> Access:
    files = [path for path in places if path.is_file()]
    config = _config(files) if files else _service_account(places)
    single = _single(config, context)
    user = single.user or User()
    return Access(single._replace(user=user), single.namespace)


def _config(files: Sequence[Path]) -> KubeConfig:
    document = merged((path, _read(path)) for path in files)
    try:
        return KubeConfig.from_dict(document)
    except ValueError as error:  # msgspec's, which names the field
        where = ", ".join(map(str, files))
        raise AccessError(f"no access to a cluster: {where} is not a kubeconfig: {error}") from error


def _single(config: KubeConfig, context: str | None) -> SingleConfig:
    wanted = context or config.current_context
    if wanted not in config.contexts:
        there = ", ".join(sorted(config.contexts)) or "none"
        raise AccessError(f'no access to a cluster: context "{wanted or ""}" is not in the kubeconfig; it has: {there}')
    try:
        single = config.get(wanted)
    except KeyError as error:
        raise AccessError(
            f'no access to a cluster: context "{wanted}" names {error}, which the kubeconfig lacks'
        ) from error
    if single is None:  # only with a default, which is not given
        raise AccessError(f'no access to a cluster: context "{wanted}" is empty')
    return single


def _service_account(looked_at: Sequence[Path]) -> KubeConfig:
    try:
        return KubeConfig.from_service_account()
    except (ConfigError, KeyError) as error:
        raise AccessError(
            f"no access to a cluster: there is no kubeconfig at {' or '.join(map(str, looked_at))} and no service "
            "account of a pod; name one by --kubeconfig, KUBECONFIG or ~/.kube/config"
        ) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise AccessError(f"no access to a cluster: kubeconfig {path} cannot be read: {_why(error)}") from error
    if not isinstance(document, dict):
        raise AccessError(f"no access to a cluster: {path} is not a kubeconfig")
    return document


def _why(error: OSError | UnicodeDecodeError | yaml.YAMLError) -> str:
    """The reason in one line."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return "it holds bytes that are no text"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"it is no YAML: {error.problem} in line {error.problem_mark.line + 1}"
    return " ".join(str(error).split())


def merged(documents: Iterable[tuple[Path, Mapping[str, Any]]]) -> dict[str, Any]:
    """Several kubeconfigs as one: the first file that says something wins, as in kubectl; paths become absolute."""
    out: dict[str, Any] = {name: {} for name in LISTS}
    for path, document in documents:
        if wrong := _misshapen(document):
            raise AccessError(f"no access to a cluster: {path} is not a kubeconfig: {wrong}")
        if "current-context" not in out and document.get("current-context"):
            out["current-context"] = document["current-context"]
        for name in LISTS:
            for row in document.get(name) or ():
                out[name].setdefault(row.get("name"), _absolute(name, row, path.parent.absolute()))
    return {**out, **{name: list(out[name].values()) for name in LISTS}}


def _misshapen(document: Mapping[str, Any]) -> str:
    """What has another shape than a kubeconfig's, or nothing."""
    if not isinstance(document.get("current-context") or "", str):
        return "its current-context is no name"
    for name in LISTS:
        rows = document.get(name) or []
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            return f"its {name} are no list of mappings"
        inner, paths = PATHS.get(name, ("context", ()))
        for row in rows:
            values = row.get(inner) or {}
            if not isinstance(row.get("name"), str) or not isinstance(values, dict):
                return f"each of its {name} needs a name and a mapping {inner}"
            if wrong := next((key for key in paths if not isinstance(values.get(key) or "", str)), None):
                return f"{wrong} of {row['name']} is no path"
    return ""


def _absolute(name: str, row: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    inner, keys = PATHS.get(name, ("context", ()))
    values = dict(row.get(inner) or {})
    for key in keys:
        if values.get(key):
            values[key] = str(folder / values[key])
    return {**row, inner: values}
