"""`kubectl windlass usage`: the hourly records of all pods, summed.

Each pod is asked through the API server's proxy with the user's own rights. Pods on one volume tell the same records:
what stands under the same writer, hour, key and model counts once.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from windlass_base.kube.errors import ClientError, NotInstalledError, UnreadableError
from windlass_client import paths

from windlass_kubectl.errors import WrongOptionError
from windlass_kubectl.named_service import named_service
from windlass_kubectl.parser import FAILED, OK
from windlass_kubectl.session import Session

PORT = 8502
SUMS = ("requests", "tokens_in", "tokens_out", "tokens_cached", "estimated")
NAMES = ("writer", "hour", "key", "model")
DAYS_MAX = 400
STEP = timedelta(hours=23)
Id = tuple[str, ...]
"""Service, writer, hour, key and model."""
Sums = tuple[int, ...]


def prepare(options: argparse.Namespace) -> None:
    """Before a login: the times must make a period."""
    period(options, datetime.now(UTC))


async def run(session: Session) -> int:
    """Collect, sum, print; what a pod does not tell is said, and the exit code is 1.

    A pod that records nothing, as those of family deepspeed, is said too and is no failure.
    """
    options = session.options
    first, last = period(options, session.now())
    found: dict[Id, Sums] = {}
    whole = True
    for service in await _services(session):
        for pod in await session.client.pods(service):
            if pod.phase == "Pending":  # it has not served yet
                continue
            try:
                async for rows in _of_pod(session, pod.name, first, last):
                    merge(found, service, rows)
            except NotInstalledError:  # the pod's own 404: one of the API server's is a Status
                session.note(f"pod {pod.name} of service {service} records no usage")
            except ClientError as error:
                whole = False
                session.note(f"pod {pod.name} is left out or incomplete: {error}")
    _show(session, summed(found, options.by, key=options.key, model=options.model), whole=whole)
    return OK.code if whole else FAILED.code


def period(options: argparse.Namespace, now: datetime) -> tuple[datetime, datetime]:
    """The first and the last hour; WrongOptionError where they make no period that may be asked for."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    last = min(options.last or this_hour, this_hour)
    first = options.first or last - STEP
    if first > this_hour:
        raise WrongOptionError(f"--from {_hour(first)} is in the future; name an hour up to {_hour(this_hour)} in UTC")
    if first > last:
        raise WrongOptionError(f"--from {_hour(first)} is after --to {_hour(last)}; name an earlier hour")
    if last - first > timedelta(days=DAYS_MAX):
        raise WrongOptionError(f"--from {_hour(first)} is more than {DAYS_MAX} days before --to; name a later hour")
    return first, last


async def _services(session: Session) -> list[str]:
    name = session.options.name
    if name:
        await named_service(session, name)  # a misspelt name is reported as such
        return [name]
    return sorted(one.metadata.name for one in await session.client.list())


async def _of_pod(session: Session, pod: str, first: datetime, last: datetime) -> AsyncIterator[list[dict[str, Any]]]:
    """A day at a time, so that no answer is long."""
    what = f"usage of pod {pod}"
    path = paths.core(session.namespace, "pods", f"{pod}:{PORT}", "proxy") + "/windlass/usage"
    while first <= last:
        end = min(first + STEP, last)
        params = {"from": _hour(first), "to": _hour(end)}
        answer = await session.client.api.call("GET", path, what, params=params)
        if answer.get("version") != 1 or not isinstance(answer.get("records"), list):
            raise UnreadableError(f"{what}: the answer is no list of records")
        yield [row for row in answer["records"] if isinstance(row, dict)]
        first = end + timedelta(hours=1)


def _hour(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H")


def merge(found: dict[Id, Sums], service: str, rows: Iterable[dict[str, Any]]) -> None:
    """Add records; of two readings of the same one the later, which has more requests."""
    for row in rows:
        names, sums = [row.get(name) for name in NAMES], [row.get(name) for name in SUMS]
        if not all(isinstance(one, str) for one in names) or not all(type(one) is int and one >= 0 for one in sums):
            raise UnreadableError(f"service {service}: a record of usage is not as it should be")
        place = (service, *map(str, names))
        found[place] = max(found.get(place, ()), tuple(int(one or 0) for one in sums))


def summed(
    found: dict[Id, Sums], by: tuple[str, ...], key: str | None = None, model: str | None = None
) -> list[dict[str, Any]]:
    """A row for each combination of the columns."""
    totals: dict[Id, Sums] = {}
    for (service, _, hour, key_, model_), sums in found.items():
        if (key is not None and key_ != key) or (model is not None and model_ != model):
            continue
        names = {"hour": hour, "service": service, "key": key_, "model": model_}
        place = tuple(names[column] for column in by)
        totals[place] = tuple(map(sum, zip(totals.get(place, (0,) * len(SUMS)), sums, strict=True)))
    return [
        {**dict(zip(by, place, strict=True)), **dict(zip(SUMS, sums, strict=True))}
        for place, sums in sorted(totals.items())
    ]


def _show(session: Session, rows: list[dict[str, Any]], *, whole: bool) -> None:
    columns = (*session.options.by, *SUMS)
    if session.options.csv:
        session.data(as_csv(columns, rows), end="")
    elif not session.is_text:
        session.emit({"usage": rows})
    elif rows:
        headings = [column.upper().replace("_", " ") for column in columns]
        session.say(session.paint.table(headings, list(_cells(columns, rows))))
    elif whole:
        session.note("no usage is recorded in that time")


def as_csv(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    """A heading and a line for each row."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([columns, *_cells(columns, rows)])
    return out.getvalue()


def _cells(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    return ([str(row[column]) for column in columns] for row in rows)
