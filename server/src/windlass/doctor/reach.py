"""Checks of what must be reached over the network: license server and group; and the license view's reading. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from windlass.doctor.findings import Findings, Group, LicenseView, Row, fail, ok, skip, warn
from windlass.group.contract import ENGINE_PORT, HEAD, INDEX, PORT, RAY_ADDRESS, RAY_PORT, SIZE
from windlass.group.plan import ordinal

SOON = timedelta(days=14)
HOSTNAME = "HOSTNAME"
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
SHOWN = 4


UNNAMED = ""
"""The name under which a license's GPUs stand when the server shows their number only."""


def parse_view(text: str) -> LicenseView | None:
    """The license out of the server's YAML, whose shape is fixed; None when it has another."""
    lines = [line.lstrip("- ").split(": ", 1) for line in text.splitlines()]
    rows = [(key.strip(), value.strip().strip('"')) for key, value in (row for row in lines if len(row) == 2)]
    head = dict(rows)
    if "customer" not in head or not head.get("accesslimit", "").isdigit():
        return None
    expires: dict[str, datetime] = {}
    uuid = UNNAMED
    for key, value in rows:
        if key == "uuid":
            uuid = value
        elif key == "expiredtime":
            try:
                until = datetime.fromisoformat(value)
                expires[uuid] = min(until, expires.get(uuid, until))
            except ValueError:
                return None
    return LicenseView(head["customer"], int(head["accesslimit"]), expires)


def license_server(found: Findings) -> Row:
    """Whether a lease could be had; MIG slices are licensed by their card, which their UUID may not name."""
    uuids = [gpu.uuid for gpu in found.machine.gpus]
    if found.license is None:
        return skip("no license is asked for (WINDLASS_LICENSE_REQUIRED=false)")
    if not uuids:
        return skip("this container has no GPU, so it needs no license")
    seen = found.license
    if not seen.address:
        return fail(seen.why, "install the license server, or set WINDLASS_LS_ADDR to where it is")
    if seen.view is None:
        return fail(f"{seen.address} answers, but {seen.why}", "upload a license file to it with POST /ls")
    return _licensed(seen.address, seen.view, uuids, found.now)


def _licensed(address: str, view: LicenseView, uuids: Sequence[str], now: datetime) -> Row:
    if set(view.expires) == {UNNAMED}:
        ends = _aware(view.expires[UNNAMED]).isoformat()
        return ok(f"{address} holds a license of {view.customer} until {ends}; a lease says for which GPUs")
    whole = [uuid for uuid in uuids if not uuid.startswith("MIG-")]
    unknown = [uuid for uuid in whole if uuid not in view.expires]
    if unknown:
        seen = f"{_some(unknown)} not in the license of {view.customer} at {address}"
        return fail(seen, "upload a license that names them")
    if view.limit and len(uuids) > view.limit:
        seen = f"{len(uuids)} GPUs here, and the license of {view.customer} allows {view.limit} at a time"
        return fail(seen, "take fewer GPUs, or a license that allows more")
    first = min((_aware(view.expires[uuid]) for uuid in whole), default=None)
    if first is None:
        return ok(f"{address} answers; it knows which card each of the {len(uuids)} slices belongs to")
    until = f"licensed to {view.customer} until {first.isoformat()} by {address}"
    if first <= now:
        return fail(f"{until}, which is over", "upload a renewed license")
    if first - now < SOON:
        return warn(until, "upload a renewed license soon")
    return ok(f"{len(uuids)} GPUs {until}")


def _aware(when: datetime) -> datetime:
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more} {'is' if len(names) == 1 else 'are'}"


def group_of(engine_words: Sequence[str], environment: Mapping[str, str]) -> Group | None:
    """The group that this machine is told to be part of: by the engine's flags, or by the environment for Ray."""
    size = _whole(_after(engine_words, "--nnodes"))
    if size and size > 1:
        rank = _whole(_after(engine_words, "--node-rank")) or 0
        port = _whole(_after(engine_words, "--master-port")) or int(ENGINE_PORT.default)
        return Group(size, rank, _after(engine_words, "--master-addr") or "127.0.0.1", port, "--nnodes")
    if head := environment.get(HEAD.name):
        return Group(
            _whole(environment.get(SIZE.name)) or 0, _rank(environment), head, _meeting_port(environment), HEAD.name
        )
    address = environment.get(RAY_ADDRESS, "")
    if not address or address in ("auto", "local"):
        return None
    host, _, port_text = address.removeprefix("ray://").rpartition(":") if ":" in address else (address, "", "")
    return Group(0, 1, host, _whole(port_text) or int(RAY_PORT.default), RAY_ADDRESS)


def _rank(environment: Mapping[str, str]) -> int:
    """This member; a follower when it is not told. What is wrong with the variables is told by the check of flags."""
    said = _whole(environment.get(INDEX.name))
    found = said if said is not None else ordinal(environment.get(HOSTNAME, ""))
    return 1 if found is None else found


def _meeting_port(environment: Mapping[str, str]) -> int:
    return _whole(environment.get(PORT.name)) or int(PORT.default)


def missing_interfaces(environment: Mapping[str, str], there: Sequence[str]) -> tuple[str, ...]:
    """Names that NCCL's variables ask for and this machine does not have; `^x` excludes, `=x` is exact."""
    lost = []
    for variable in INTERFACES:
        said = environment.get(variable, "")
        exact = said.startswith("=") or variable.startswith("GLOO")
        names = [name for name in said.removeprefix("=").split(",") if name] if not said.startswith("^") else []
        if names and not any(have == name or (not exact and have.startswith(name)) for have in there for name in names):
            lost.append(f"{variable}={said}")
    return tuple(lost)


def group(found: Findings) -> Row:
    """Whether the other machines can be reached."""
    told = found.group
    if told is None:
        return skip("this machine serves alone (no --nnodes, WINDLASS_GROUP_HEAD or RAY_ADDRESS)")
    if told.missing_interfaces:
        seen = f"no network interface for {' and '.join(told.missing_interfaces)}"
        return fail(seen, "name an interface that `ip link` lists, or unset the variable")
    where = f"{told.head}:{told.port}"
    if told.rank == 0:
        return ok(f"this is the head of {told.size or 'several'} machines ({told.by}); the others come to {where}")
    if told.why:
        fix = "start the head first, check its name and port, and let the network policy pass it"
        return fail(f"the head {where} ({told.by}) is out of reach: {told.why}", fix)
    return ok(f"the head {where} ({told.by}) answers")


def _after(words: Sequence[str], flag: str) -> str:
    """The value of an engine's flag, as two words or joined by `=`."""
    said = ""
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == flag:
            said = value if equals else "".join(words[number + 1 : number + 2])
    return said


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
