"""`kubectl windlass bench`: a Job beside the service loads it, and its log brings the results back.

Ctrl-C, a closed terminal and failures delete the Job. Rights: `get` of the service and of its Secret's name alone,
`list` of pods, `get` of `pods/log`, `create` and `delete` of Jobs. No exec, no port-forward, no Secret is read.
"""

from __future__ import annotations

import asyncio
import csv
import io
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from windlass_api.crd.expose import ExposeSpec
from windlass_base.kube.errors import ClientError, InvalidError, NotFoundError, UnreachableError
from windlass_base.kube.rest import AsText
from windlass_client import bench_archive, bench_job, paths
from windlass_client.bench_archive import Archive
from windlass_client.values import service_of

from windlass_kubectl.bench_parser import OURS
from windlass_kubectl.named_service import not_ready, raw_service
from windlass_kubectl.parser import FAILED, OK
from windlass_kubectl.session import Session

LOOK_S = 1.0
LINE_MAX = 64 << 10
SUMMARY = "summary.csv"


async def run(session: Session) -> int:
    """Make the Job, show its progress, write its results, delete it."""
    options = session.options
    words = check(options.behind)
    service = await raw_service(session, options.name)
    folder = Path(options.out or f"bench-{options.name}-{session.now():%Y%m%d-%H%M%S}")
    if await asyncio.to_thread(folder.exists):
        raise InvalidError(f"--out {folder} is there already; name a new folder")
    document = bench_job.job(service, await _serving_pod(session, service), _wanted(session, service, words), _mark())
    archive = Archive()
    async with _created(session, document) as name:
        pod = await _follow(session, name, archive)
    code = bench_job.exit_code(pod)
    if archive.is_whole:
        files = archive.files()
        await asyncio.to_thread(bench_archive.write, folder, files)
        _show(session, name, folder, files, code)
    elif code == 0:
        raise ClientError(f"job {name} ended without results in its log; the kubelet may have cut the log")
    if code:
        session.note(f"job {name} ended with code {code}; its last lines are above")
    return OK.code if code == 0 else FAILED.code


def check(words: Sequence[str]) -> tuple[str, ...]:
    """Options of `windlass bench serve`; InvalidError for those that the plug-in sets."""
    for word in words:
        name = word.partition("=")[0]
        if name in OURS:
            raise InvalidError(f"{name} is set by kubectl windlass bench; leave it out behind --")
    return tuple(words)


def _mark() -> str:
    return secrets.token_hex(3)


def _wanted(session: Session, service: Mapping[str, Any], words: tuple[str, ...]) -> bench_job.Wanted:
    options = session.options
    secret = options.key_from_secret or ExposeSpec.model_validate(service["spec"].get("expose") or {}).keys_secret
    return bench_job.Wanted(words, secret, options.tokenizer or "", options.cpu, options.memory, options.minutes)


async def _serving_pod(session: Session, service: dict[str, Any]) -> Mapping[str, Any]:
    """A pod that serves: its image and volumes are the benchmark's; without one, the operator's reason is the error."""
    path = paths.core(session.namespace, "pods")
    params = {"labelSelector": paths.of_service(session.options.name)}
    found = (await session.client.api.call("GET", path, "pods", params=params)).get("items") or []
    try:
        return bench_job.serving_pod(found, session.options.name)
    except InvalidError as error:
        raise InvalidError(not_ready(service_of(service)) or str(error)) from error


@asynccontextmanager
async def _created(session: Session, document: dict[str, Any]) -> AsyncIterator[str]:
    """The Job while its results are awaited; whatever ends that, it is deleted, pods and all."""
    name, jobs = document["metadata"]["name"], paths.jobs(session.namespace)
    params = {"fieldManager": session.client.field_manager, "fieldValidation": "Strict"}
    await session.client.api.call("POST", jobs, f"job {session.namespace}/{name}", params=params, body=document)
    session.note(f"job {name} loads service {session.options.name}")
    done = False
    try:
        yield name
        done = True
    finally:
        if not (done and session.options.keep):
            with suppress(NotFoundError):
                # A cancelled task may still await: the deletion is short, and nothing else would do it.
                await asyncio.shield(_delete(session, f"{jobs}/{name}", name))


async def _delete(session: Session, path: str, name: str) -> None:
    await session.client.api.call("DELETE", path, f"job {name}", params={"propagationPolicy": "Background"})


async def _follow(session: Session, job: str, archive: Archive) -> Mapping[str, Any]:
    """The Job's pod once it has ended; its words go to standard error as they come."""
    heard, noted = 0, ""
    while True:
        pod = await _pod_of(session, job)
        status = (pod or {}).get("status") or {}
        if pod and (status.get("phase") in bench_job.ENDED or bench_job.has_begun(pod)):
            heard = await _read(session, pod["metadata"]["name"], archive, heard)
            pod = await _pod_of(session, job) or pod
            if (pod.get("status") or {}).get("phase") in bench_job.ENDED:
                await _read(session, pod["metadata"]["name"], archive, heard)
                return pod
        reason = bench_job.waits_for(pod)
        if reason and reason != noted:
            session.note(f"job {job}: {reason}")
            noted = reason
        await _must_be_there(session, job, pod)
        await asyncio.sleep(LOOK_S)


async def _must_be_there(session: Session, job: str, pod: Mapping[str, Any] | None) -> None:
    """A Job that was refused its pod or ran out of time says so; one that somebody deleted is not found."""
    path = f"{paths.jobs(session.namespace)}/{job}"
    status = (await session.client.api.call("GET", path, f"job {session.namespace}/{job}")).get("status") or {}
    for condition in status.get("conditions") or []:
        if condition.get("type") == "Failed" and condition.get("status") == "True" and pod is None:
            raise ClientError(f"job {job} failed: {condition.get('message') or condition.get('reason')}")


async def _pod_of(session: Session, job: str) -> Mapping[str, Any] | None:
    params = {"labelSelector": f"batch.kubernetes.io/job-name={job}"}
    found = await session.client.api.call("GET", paths.core(session.namespace, "pods"), "pods", params=params)
    return next(iter(found.get("items") or []), None)


async def _read(session: Session, pod: str, archive: Archive, heard: int) -> int:
    """Lines behind those that were heard; how many there are. A cut connection is read again by the caller."""
    path, number = paths.core(session.namespace, "pods", pod, "log"), 0
    params: dict[str, str | int | bool | None] = {"container": bench_job.CONTAINER, "follow": True}
    with suppress(UnreachableError):
        async with session.client.api.lines(
            path, f"pod {pod}", params=params, as_text=AsText(line_max=LINE_MAX)
        ) as log:
            async for line, _ in log:
                number += 1
                if number > heard and not archive.take(line):
                    session.note(line)
    return max(heard, number)


def _show(session: Session, job: str, folder: Path, files: dict[str, bytes], code: int) -> None:
    if session.is_text:
        session.data(files.get("summary.txt", b"").decode("utf-8", "replace"), end="")
        session.note(f"results are in {folder}: {', '.join(sorted(name for name in files if '/' not in name))}")
        return
    rows = list(csv.DictReader(io.StringIO(files.get(SUMMARY, b"").decode("utf-8", "replace"))))
    session.emit(
        {"service": session.options.name, "job": job, "exitCode": code, "folder": str(folder), "files": sorted(files),
         "runs": rows}
    )  # fmt: skip
