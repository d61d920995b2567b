"""`kubectl windlass license status`: what each license server has in force, and which GPUs it does not name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windlass_base.kube.errors import ClientError
from windlass_client.licenses import License, LicenseServer, license_in

from windlass_kubectl.licensing.http import ServerHttp
from windlass_kubectl.licensing.terms import span
from windlass_kubectl.paint import Branch, Paint

NEXT, ADD = "kubectl windlass license init", "kubectl windlass license add-gpus"
EXPIRES_SOON_DAYS = 30
NAMES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Seen:
    """One server; `problem` is why it could not be asked."""

    server: LicenseServer
    license: License | None = None
    leases: int = 0
    gpus_live: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All servers, the number of GPUs that the nodes offer where it is known, and their names where asked for."""

    servers: Sequence[Seen]
    gpus: int | None
    named: frozenset[str] | None

    def unlicensed(self) -> list[str] | None:
        """GPUs that no license in force names; None where the names are not known."""
        if self.named is None:
            return None
        covered = {uuid for one in self.servers if one.license for uuid in one.license.uuids}
        return sorted(self.named - covered)


async def look(server: LicenseServer, http: ServerHttp) -> Seen:
    """Ask one server."""
    try:
        text, figures = await http.view(), await http.figures()
    except ClientError as error:
        return Seen(server, problem=str(error))
    leases, live = figures.get("windlass_license_leases_live", 0), figures.get("windlass_license_gpus_live", 0)
    return Seen(server, license_in(text) if text else None, int(leases), int(live))


def to_dict(report: Report, now: datetime) -> dict[str, Any]:
    """For programs."""
    unlicensed = report.unlicensed()
    return {
        "servers": [_document(one, now) for one in report.servers],
        "gpusInCluster": report.gpus,
        "unlicensed": unlicensed,
    }


def _document(one: Seen, now: datetime) -> dict[str, Any]:
    license_ = one.license
    in_force = license_ and {
        "customer": license_.customer,
        "appid": license_.appid,
        "gpus": len(license_.uuids),
        "limit": license_.limit,
        "expires": license_.expires.isoformat(),
        "expired": license_.expires <= now,
    }
    leases = {"live": one.leases, "gpus": one.gpus_live}
    return {**one.server.to_dict(), "license": in_force, "leases": leases, "problem": one.problem or None}


def branches(report: Report, now: datetime, paint: Paint) -> Iterator[Branch]:
    """For people."""
    for one in report.servers:
        good = one.server.ready > 0 and not one.problem
        head = f"license server {one.server}: {one.server.ready} of {one.server.replicas} ready"
        yield Branch(f"{paint.mark('good' if good else 'bad')} {head}", "good" if good else "bad", _below(one, now))
    yield _gpus(report, paint)


def _below(one: Seen, now: datetime) -> tuple[Branch, ...]:
    if one.problem:
        return (Branch(one.problem, "bad"),)
    if one.license is None:
        return (Branch(f"no license is in force; next: {NEXT}", "bad"),)
    limit = f"{one.license.limit} at a time" if one.license.limit else "no limit"
    soon = (one.license.expires - now).days < EXPIRES_SOON_DAYS
    when = span(one.license.expires, now) + ("; next: kubectl windlass license renew" if soon else "")
    return (
        Branch(f"customer {one.license.customer}, appid {one.license.appid}"),
        Branch(f"{len(one.license.uuids)} GPUs licensed, {limit}"),
        Branch(when, "bad" if soon else ""),
        Branch(f"{one.leases} leases on {one.gpus_live} GPUs"),
    )


def _gpus(report: Report, paint: Paint) -> Branch:
    missing = report.unlicensed()
    if missing:
        shown = [Branch(uuid) for uuid in missing[:NAMES_SHOWN]]
        if len(missing) > NAMES_SHOWN:
            shown.append(Branch(f"and {len(missing) - NAMES_SHOWN} more: -o json"))
        text = f"{len(missing)} of {len(report.named or ())} GPUs are not licensed; next: {ADD}"
        return Branch(f"{paint.mark('bad')} {text}", "bad", tuple(shown))
    if missing is not None:
        return Branch(f"{paint.mark('good')} all {len(report.named or ())} GPUs that were named are licensed", "good")
    if report.gpus is None:
        return Branch("how many GPUs the nodes offer is not known")
    return Branch(f"the nodes offer {report.gpus} GPUs; which of them are licensed: --scan")
