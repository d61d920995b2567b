"""`kubectl windlass report`: what a bug report needs, in one archive, without secrets.

Secrets and ConfigMaps are never asked for; everything else goes through `redact` before it is written.
"""

from __future__ import annotations

import asyncio
import io
import re
import tarfile
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from windlass_api.names import SERVICE_LABEL
from windlass_api.objects.reading import name_of, uid_of
from windlass_api.objects.records import node_of, pod_of
from windlass_api.plan.model import GPU_RESOURCE, MIG_RESOURCE_PREFIX
from windlass_base.kube.errors import ClientError, InvalidError
from windlass_client import logs, paths, watching
from windlass_client.job_pods import job_rows
from windlass_client.values import LogLine, container_names, service_of

from windlass_kubectl import __version__, service_tree
from windlass_kubectl.harmless import harmless, one_line
from windlass_kubectl.named_service import raw_service
from windlass_kubectl.output import as_yaml
from windlass_kubectl.paint import Paint
from windlass_kubectl.parser import OK
from windlass_kubectl.redact import clean_object, cleaner, secrets_in
from windlass_kubectl.session import Session

NODE_LABELS = ("nvidia.com/gpu", "nvidia.com/mig")
CONTAINERS_MAX = 100  # whose logs are read
LOG_MAX, LOGS_MAX = 1 << 20, 16 << 20  # characters of one log, and of all together; redacting takes 1 to 10 s a MiB
LOG_S = 60.0  # for one log
NAME_MAX = 200  # characters of a file's name in the archive
OPERATOR_PODS = "app.kubernetes.io/name=windlass-operator"
# Kinds of a service's own objects: where they are, and how the files are called.
CHILDREN = (
    ("deployments", "/apis/apps/v1/namespaces/{}/deployments"),
    ("statefulsets", "/apis/apps/v1/namespaces/{}/statefulsets"),
    ("jobs", "/apis/batch/v1/namespaces/{}/jobs"),
    ("pods", "/api/v1/namespaces/{}/pods"),
    ("services", "/api/v1/namespaces/{}/services"),
    ("ingresses", "/apis/networking.k8s.io/v1/namespaces/{}/ingresses"),
    ("networkpolicies", "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"),
    ("httproutes", "/apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes"),
    ("poddisruptionbudgets", "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"),
)


@dataclass(slots=True)
class Bundle:
    """The files of a report, by name; what could not be read is said, not left out silently."""

    documents: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def redacted(self) -> Bundle:
        """The same without secrets: those met in the objects are taken out of the logs too."""
        clean = cleaner(secrets_in(self.documents))
        return Bundle(
            clean_object(self.documents, clean),
            {name: clean(text) for name, text in self.texts.items()},
            [clean(line) for line in self.missing],
        )

    def files(self) -> dict[str, str]:
        """Name and text of each file."""
        out = {f"{name}.yaml": as_yaml(document) for name, document in self.documents.items()}
        out |= self.texts
        if self.missing:
            out["missing.txt"] = "\n".join(self.missing) + "\n"
        return {name: harmless(text) for name, text in out.items()}


async def run(session: Session) -> int:
    """Collect, redact, write."""
    name = session.options.name
    bundle = (await collect(session, name)).redacted()
    if not session.is_text:
        session.emit({**bundle.documents, "texts": bundle.texts, "missing": bundle.missing})
    elif session.options.out == "-":
        for part, text in bundle.files().items():
            session.say(f"===== {one_line(part, NAME_MAX)}\n{text.rstrip()}\n")
    else:
        file = Path(session.options.out or f"windlass-report-{name}.tar.gz")
        write(file, bundle.files(), session.now())
        session.say(f"{file}: {len(bundle.files())} files, secrets left out; look through it before you send it")
    return OK.code


async def collect(session: Session, name: str) -> Bundle:
    """Everything about the service, as it is; NotFoundError when there is no such service."""
    bundle, client = Bundle(), session.client
    raw = await raw_service(session, name)
    bundle.documents["service"] = raw
    bundle.documents["versions"] = {"client": __version__, "collectedAt": session.now().isoformat(timespec="seconds")}
    for kind, path in CHILDREN:
        await _rows(session, bundle, kind, watching.Collection(path.format(session.namespace), kind, _ours(name)))
    await _downloads(session, bundle, uid_of(raw))
    await _versions(session, bundle)
    await _nodes(session, bundle)
    pods, events = await client.pods(name), await client.events(name)
    bundle.documents["events"] = [asdict(one) for one in events]
    tree = service_tree.tree(service_of(raw), pods, events, session.now(), Paint())
    bundle.texts["status.txt"] = Paint().tree(tree) + "\n"
    containers = [(name_of(pod), one) for pod in bundle.documents.get("pods", ()) for one in container_names(pod)]
    for pod, container in containers[:CONTAINERS_MAX]:  # those of the Jobs too
        await _logs(session, bundle, pod, container)
    bundle.missing += [f"the logs of {pod}, {container}" for pod, container in containers[CONTAINERS_MAX:]][:10]
    return bundle


def _ours(name: str) -> Mapping[str, str]:
    return {"labelSelector": f"{SERVICE_LABEL}={name}"}


async def _downloads(session: Session, bundle: Bundle, uid: str) -> None:
    """The download's Job and pods, which bear no service's name: several services may share them."""
    try:
        found = await job_rows(session.client.api, session.namespace, uid)
    except ClientError as error:
        bundle.missing.append(str(error))
        return
    for kind, rows in zip(("jobs", "pods"), found, strict=True):
        known = {name_of(row) for row in bundle.documents.get(kind, ())}
        if more := [row for row in rows if name_of(row) not in known]:
            bundle.documents[kind] = [*bundle.documents.get(kind, ()), *more]


async def _rows(session: Session, bundle: Bundle, name: str, what: watching.Collection) -> None:
    try:
        found = await watching.listing(session.client.api, what)
    except ClientError as error:
        bundle.missing.append(str(error))
        return
    if found.rows:
        bundle.documents[name] = found.rows


async def _versions(session: Session, bundle: Bundle) -> None:
    """Kubernetes' version, and the images of the operator's pods."""
    versions = bundle.documents["versions"]
    try:
        versions["kubernetes"] = (await session.client.api.call("GET", "/version", "version")).get("gitVersion")
        operators = await watching.listing(
            session.client.api,
            watching.Collection(paths.PODS_EVERYWHERE, "the operator's pods", {"labelSelector": OPERATOR_PODS}),
        )
    except ClientError as error:
        bundle.missing.append(f"versions: {error}")
        return
    versions["operator"] = [
        {"pod": f"{pod.namespace}/{pod.name}", "image": one.image}
        for pod in map(pod_of, operators.rows)
        for one in pod.containers
    ]


async def _nodes(session: Session, bundle: Bundle) -> None:
    """Of the nodes only what a plan reads."""
    try:
        nodes = await watching.listing(session.client.api, watching.Collection(paths.NODES, "nodes"))
    except ClientError as error:
        bundle.missing.append(f"nodes: {error}")
        return
    bundle.documents["nodes"] = [
        {
            "name": node.name,
            "labels": {key: value for key, value in node.labels.items() if key.startswith(NODE_LABELS)},
            "gpus": node.allocatable.get(GPU_RESOURCE) or "0",
            "slices": {key: count for key, count in node.allocatable.items() if key.startswith(MIG_RESOURCE_PREFIX)},
            "unschedulable": node.unschedulable,
            "kubelet": node.kubelet,
        }
        for node in map(node_of, nodes.rows)
    ]


async def _logs(session: Session, bundle: Bundle, pod: str, container: str) -> None:
    """The end of a container's log, and of the run before its last restart."""
    options = session.options
    for previous in (False, True):
        file = f"{pod}.{container}{'.previous' if previous else ''}.log"
        ask = logs.LogQuery(
            session.namespace, options.name, pod, previous=previous, tail_lines=options.tail, container=container
        )
        try:
            async with asyncio.timeout(LOG_S):
                bundle.texts[file] = await _bounded(logs.read(session.client.api, ask, session.client.pods), bundle)
        except TimeoutError:
            bundle.missing.append(f"{file}: it was not there within {LOG_S:.0f} s")
        except ClientError as error:
            if not previous:
                bundle.missing.append(f"{file}: {error}")


async def _bounded(lines: AsyncGenerator[LogLine], bundle: Bundle) -> str:
    """A log as text; what goes beyond the bounds is left out, and that is said at its end."""
    most = min(LOG_MAX, LOGS_MAX - sum(map(len, bundle.texts.values())))
    said: list[str] = []
    async with aclosing(lines):
        async for line in lines:
            most -= len(line.text) + 1
            if most < 0:
                said.append("[the rest is left out: the log is too long]")
                break
            said.append(line.text)
    return "\n".join(said) + "\n"


def member(name: str, taken: Collection[str]) -> str:
    """A name for a file in the archive, whatever a server calls a pod: no directory, nothing hidden, not twice."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:NAME_MAX].lstrip(".-") or "_"
    names = (plain, *(f"{number}-{plain}" for number in range(2, len(taken) + 3)))
    return next(one for one in names if one not in taken)


def write(file: Path, files: Mapping[str, str], now: datetime) -> None:
    """A gzipped archive that only its owner may read."""
    folder = file.name.removesuffix(".tar.gz")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        taken: set[str] = set()
        for name, text in files.items():
            data = text.encode("utf-8", "replace")
            taken.add(plain := member(name, taken))
            row = tarfile.TarInfo(f"{folder}/{plain}")
            row.size, row.mtime, row.mode = len(data), int(now.timestamp()), 0o600
            archive.addfile(row, io.BytesIO(data))
    try:
        file.touch(mode=0o600)
        file.chmod(0o600)  # one of that name may have been there
        file.write_bytes(buffer.getvalue())
    except OSError as error:
        raise InvalidError(f"{file} cannot be written: {error.strerror}") from error
