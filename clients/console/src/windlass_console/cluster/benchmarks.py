"""Benchmarks of a service: a Job beside it, its progress, and the results that its log brings.

The Job is the one of `kubectl windlass bench`; the user's rights decide who may make, read and delete it.
"""

from __future__ import annotations

import asyncio
import csv
import io
import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from typing_extensions import TypedDict
from windlass_api.crd.expose import ExposeSpec
from windlass_api.objects.reading import Object, dig, name_of, newest_first
from windlass_api.objects.records import listed
from windlass_base.kube.errors import InvalidError, NotFoundError, UnreadableError
from windlass_base.kube.rest import Api, AsText
from windlass_client import bench_job, paths, watching
from windlass_client.bench_archive import Archive
from windlass_client.client import AsyncClient

TAIL, LINE_MAX = 50, 64 << 10  # lines that are shown, and characters of one
SUMMARY, TABLE = "summary.txt", "summary.csv"
LOG_BYTES_MAX = 32 << 20
FILE_MAX, ARCHIVE_MAX = 1 << 20, 32 << 20  # bytes of a summary, and of all that is unpacked to reach it
ROWS_MAX, COLUMNS_MAX = 1000, 64  # of the table; the form's longest sweep has 16 rows


class Bench(TypedDict):
    """One benchmark; `rows`, `summary` and `tail` only where one is asked for."""

    namespace: str
    name: str
    service: str
    started: str
    ended: str
    state: str
    message: str
    command: list[str]
    rows: list[dict[str, str]] | None
    summary: str
    tail: list[str]


async def benchmarks(api: Api, namespace: str) -> list[Bench]:
    """All that the cluster still has, newest first."""
    found = await watching.listing(
        api, watching.Collection(paths.jobs(namespace), "jobs", {"labelSelector": bench_job.SERVICE_LABEL})
    )
    return [bench_of(job) for job in newest_first(found.rows)]


async def benchmark(api: Api, namespace: str, name: str) -> Bench:
    """One, with what its log brings."""
    job = await _job(api, namespace, name)
    bench, pod = bench_of(job), await _pod(api, namespace, name)
    if pod is None:
        return bench
    bench["message"] = bench["message"] or bench_job.waits_for(pod)
    if bench_job.has_begun(pod):
        await _read(api, namespace, name_of(pod), bench)
    return bench


async def start(client: AsyncClient, namespace: str, service: str, wanted: bench_job.Wanted) -> Bench:
    """Make the Job; it asks with a key of the service's own Secret where the service has keys."""
    raw = await client.raw(service, namespace)
    expose = ExposeSpec.model_validate(dig(raw, "spec", "expose") or {})
    params = {"labelSelector": paths.of_service(service)}
    pods = await watching.listing(client.api, watching.Collection(paths.core(namespace, "pods"), "pods", params))
    asked = bench_job.Wanted(
        wanted.words,
        wanted.secret or expose.keys_secret,
        wanted.tokenizer,
        wanted.cpu,
        wanted.memory,
        wanted.minutes,
    )
    document = bench_job.job(raw, bench_job.serving_pod(pods.rows, service), asked, secrets.token_hex(3))
    what = f"job {namespace}/{document['metadata']['name']}"
    strict = {"fieldManager": client.field_manager, "fieldValidation": "Strict"}
    return bench_of(await client.api.call("POST", paths.jobs(namespace), what, params=strict, body=document))


async def delete(api: Api, namespace: str, name: str) -> None:
    """End it, and delete its pod."""
    await _job(api, namespace, name)  # no other Job is deleted here
    path = f"{paths.jobs(namespace)}/{name}"
    await api.call("DELETE", path, f"job {namespace}/{name}", params={"propagationPolicy": "Background"})


def bench_of(job: Object) -> Bench:
    """A Job in short."""
    ended = {
        str(one.get("type")): one for one in listed(dig(job, "status", "conditions")) if one.get("status") == "True"
    }
    containers = listed(dig(job, "spec", "template", "spec", "containers"))
    command = [str(word) for one in containers[:1] for word in one.get("args") or ()]
    last = ended.get("Failed") or ended.get("Complete")
    return Bench(
        namespace=str(dig(job, "metadata", "namespace") or ""),
        name=name_of(job),
        service=str(dig(job, "metadata", "labels", bench_job.SERVICE_LABEL) or ""),
        started=str(dig(job, "metadata", "creationTimestamp") or ""),
        ended=str((last or {}).get("lastTransitionTime") or ""),
        state=_state(job, ended),
        message=str((ended.get("Failed") or {}).get("message") or ""),
        command=command,
        rows=None,
        summary="",
        tail=[],
    )


def words(dataset: str, concurrency: Sequence[int], counts: Mapping[str, int | None]) -> tuple[str, ...]:
    """The options of `windlass bench serve`; `counts` has them by name, and None leaves one out."""
    return (
        f"--dataset={dataset}",
        *([f"--concurrency={','.join(map(str, concurrency))}"] if concurrency else []),
        *(f"--{name}={value}" for name, value in counts.items() if value is not None),
    )


def _state(job: Object, ended: Mapping[str, Any]) -> str:
    if "Failed" in ended:
        return "failed"
    if "Complete" in ended:
        return "done"
    return "running" if dig(job, "status", "ready") else "waiting"


async def _job(api: Api, namespace: str, name: str) -> dict[str, Any]:
    what = f"job {namespace}/{name}"
    job = await api.call("GET", f"{paths.jobs(namespace)}/{name}", what)
    if not dig(job, "metadata", "labels", bench_job.SERVICE_LABEL):
        raise NotFoundError(f"{what} is no benchmark of an LLMService; see the list of benchmarks")
    return job


async def _pod(api: Api, namespace: str, job: str) -> dict[str, Any] | None:
    params = {"labelSelector": f"batch.kubernetes.io/job-name={job}"}
    found = await watching.listing(api, watching.Collection(paths.core(namespace, "pods"), "pods", params))
    return max(found.rows, key=_made, default=None)


def _made(item: Object) -> str:
    return str(dig(item, "metadata", "creationTimestamp") or "")


async def _read(api: Api, namespace: str, pod: str, bench: Bench) -> None:
    """Progress and results from the log; what is wrong with them becomes the message."""
    archive, tail = Archive(), deque[str](maxlen=TAIL)
    path = paths.core(namespace, "pods", pod, "log")
    params: dict[str, str | int | bool | None] = {"container": bench_job.CONTAINER, "limitBytes": LOG_BYTES_MAX}
    try:
        async with api.lines(path, f"pod {namespace}/{pod}", params=params, as_text=AsText(line_max=LINE_MAX)) as log:
            async for line, _ in log:
                if not archive.take(line):
                    tail.append(line)
        if archive.is_whole:
            bench["summary"], bench["rows"] = await asyncio.to_thread(_results, archive)
    except (InvalidError, UnreadableError) as error:
        bench["message"] = bench["message"] or str(error)
    bench["tail"] = list(tail)


def _results(archive: Archive) -> tuple[str, list[dict[str, str]]]:
    """Summary and table of an archive that anybody may have written, who may make a Job in the namespace."""
    files = archive.files((SUMMARY, TABLE), FILE_MAX, ARCHIVE_MAX)
    return files.get(SUMMARY, b"").decode("utf-8", "replace"), _rows(files.get(TABLE, b""))


def _rows(table: bytes) -> list[dict[str, str]]:
    read = csv.reader(io.StringIO(table.decode("utf-8", "replace"), newline=""))
    try:
        rows = list(islice((row for row in read if row), ROWS_MAX + 2))  # the head, and one too many
    except csv.Error as error:
        raise UnreadableError(f"{TABLE} in the Job's log is no table: {error}") from error
    if len(rows) > ROWS_MAX + 1 or any(len(row) > COLUMNS_MAX for row in rows):
        raise UnreadableError(f"{TABLE} in the Job's log has more than {ROWS_MAX} rows or {COLUMNS_MAX} columns")
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
