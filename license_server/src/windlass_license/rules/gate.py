"""The rules: may these GPUs run now? One function of values, asked by the server for every lease request.

    1. no license in force                                  → refused, NoLicense
    2. a GPU that the license does not name                 → refused, Unlicensed, all such GPUs named
    3. a GPU past its expiry: a live lease is renewed and marked expired (unless the license says otherwise), and so is
       one that lapsed within the license's grace, by the rules 5 to 7 as its GPUs may be in use by now;
       anything else                                        → refused, Expired
    4. the pod already holds a live lease for these GPUs    → renewed; it counts already
    5. more devices than the pod requests of Kubernetes, where that is known → refused, NotRequested
    6. more distinct GPUs in use than the limit             → refused, LimitReached, with the number of holders
    7. a GPU that as many leases share as may (`LeaseBounds`), or no room for more → refused, LimitReached
    8. else                                                 → granted

All or nothing for one pod. A MIG slice counts as its GPU, and a GPU shared by two pods counts once.
A limit lowered by a new license evicts nobody: it holds back new pods until enough GPUs are free.
Pure: no clock, no storage, no web framework.
"""

from datetime import datetime, timedelta

from windlass_license.dates import later
from windlass_license.rules.book import LeaseBook, physical
from windlass_license.rules.model import Lease, LeaseRequest, License, Refusal, State, Usage, Verdict

_NAMES_SHOWN = 8
NO_TIME = timedelta()
NO_LICENSE = (
    "no license is in force; make one with `kubectl windlass license init`, or upload the issuer's file (POST /ls)"
)


def gate(book: LeaseBook, request: LeaseRequest, now: datetime, ttl: timedelta = NO_TIME) -> Verdict:
    """Decide one request against the license in force and the live leases; the caller has dropped the lapsed ones.

    A pod goes on without the server for `ttl` and the license's grace after it asked last.
    """
    license_ = book.license
    if license_ is None:
        return _refuse(Refusal.NO_LICENSE, request.gpus, NO_LICENSE)
    if unlicensed := tuple(gpu for gpu in request.gpus if license_.covering(gpu) is None):
        return _refuse(Refusal.UNLICENSED, unlicensed, _unlicensed(license_, unlicensed))
    held = book.held(request)
    expired = tuple(gpu for gpu in request.gpus if _expiry(license_, gpu) <= now)
    serving = held or (_serving_yet(book, license_, request, now - ttl) if expired else None)
    if expired and not (serving and license_.renew_after_expiry):
        return _expired(license_, expired, serving)
    if held is not None:
        return _allow(license_, request, held, expired)
    if request.most is not None and len(book.devices_of(request.holder.uid) | set(request.gpus)) > request.most:
        return _refuse(Refusal.NOT_REQUESTED, request.gpus, _not_requested(request, book))
    wanted = {physical(license_, gpu) for gpu in request.gpus}
    more = sum(gpu not in book.in_use for gpu in wanted)
    if license_.limit and len(book.in_use) + more > license_.limit:
        return _limit_reached(license_, request, book)
    if full := _no_room(book, request, wanted):
        return _refuse(Refusal.LIMIT_REACHED, request.gpus, full)
    return _allow(license_, request, serving, expired)


def name_gpus(gpus: tuple[str, ...]) -> str:
    """`GPU a` or `GPUs a, b and 3 more`, for a sentence."""
    shown = ", ".join(gpus[:_NAMES_SHOWN])
    more = f" and {len(gpus) - _NAMES_SHOWN} more" if len(gpus) > _NAMES_SHOWN else ""
    return f"{'GPU' if len(gpus) == 1 else 'GPUs'} {shown}{more}"


def _expiry(license_: License, device: str) -> datetime:
    gpu = license_.covering(device)
    if gpu is None:
        raise KeyError(device)  # the caller has refused unlicensed devices before
    return gpu.expires


def _serving_yet(book: LeaseBook, license_: License, request: LeaseRequest, since: datetime) -> Lease | None:
    """The lapsed lease of a pod that may serve yet, as its grace began after `since`; None where there is none."""
    lease = book.lapsed.find(request)
    if lease is None or later(lease.asked or lease.granted, license_.grace) <= since:
        return None
    return lease


def _expired(license_: License, expired: tuple[str, ...], serving: Lease | None) -> Verdict:
    when = min(_expiry(license_, gpu) for gpu in expired).isoformat()
    message = f"the license for {name_gpus(expired)} expired at {when}"
    if serving is not None:
        message += " and does not allow serving after that"
    they = "it is" if len(expired) == 1 else "they are"
    message = f"{message}; upload a license in which {they} valid"
    stops_serving = not license_.renew_after_expiry
    return Verdict(State.REFUSED, message, expired, reason=Refusal.EXPIRED, stops_serving=stops_serving)


def _allow(license_: License, request: LeaseRequest, held: Lease | None, expired: tuple[str, ...] = ()) -> Verdict:
    expires = min(_expiry(license_, gpu) for gpu in request.gpus)
    state = State.GRANTED if held is None else State.RENEWED
    message = f"{name_gpus(request.gpus)} {state} for {request.holder}"
    if expired:
        since = expires.isoformat()
        message = f"the license expired at {since}; serving pods go on, new ones are refused; upload a new license"
    return Verdict(state, message, request.gpus, expires=expires, expired=bool(expired), renews=held)


def _refuse(reason: Refusal, gpus: tuple[str, ...], message: str) -> Verdict:
    return Verdict(State.REFUSED, message, gpus, reason=reason)


def _unlicensed(license_: License, gpus: tuple[str, ...]) -> str:
    return (
        f"{name_gpus(gpus)} {_are(len(gpus))} not in the license in force "
        f"(customer {license_.customer}, {_count(len(license_.gpus), 'GPU')}); "
        f"upload a license that names {'it' if len(gpus) == 1 else 'them'}"
    )


def _limit_reached(license_: License, request: LeaseRequest, book: LeaseBook) -> Verdict:
    usage = Usage(license_.limit, len(book.in_use), len(book.holders))
    by = f" by {_count(usage.holders, 'pod')}" if usage.holders else ""
    message = (
        f"the license allows {_count(usage.limit, 'GPU')} at a time and "
        f"{usage.in_use} {_are(usage.in_use)} in use{by}; "
        f"{request.holder} asks for {len(request.gpus)}: it waits until enough are free or the license allows more"
    )
    return Verdict(State.REFUSED, message, request.gpus, reason=Refusal.LIMIT_REACHED, usage=usage)


def _not_requested(request: LeaseRequest, book: LeaseBook) -> str:
    devices = len(book.devices_of(request.holder.uid) | set(request.gpus))
    return (
        f"{request.holder} requests {_count(request.most or 0, 'GPU')} of Kubernetes and asks to lease {devices}; "
        "give its containers as many in resources.limits as they use"
    )


def _no_room(book: LeaseBook, request: LeaseRequest, wanted: set[str]) -> str:
    """Why the server cannot hold one more lease on these GPUs; empty when it can."""
    bounds = book.bounds
    if shared := tuple(sorted(gpu for gpu in wanted if book.in_use.get(gpu, 0) >= bounds.per_gpu)):
        return (
            f"{name_gpus(shared)} {_are(len(shared))} leased {bounds.per_gpu} times already, which is the most for one "
            f"GPU (--leases-per-gpu); {request.holder} waits until one of these leases ends"
        )
    if book.devices + len(request.gpus) > bounds.devices:
        return (
            f"the license server holds leases on {book.devices} devices and takes at most {bounds.devices}; "
            f"{request.holder} waits until some end"
        )
    return ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
