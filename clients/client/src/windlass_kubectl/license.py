"""`kubectl windlass license`: from the GPUs of a cluster to a license in force, and the days after it."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from windlass_base.kube.errors import ForbiddenError
from windlass_client.licenses import LicenseServer

from windlass_kubectl.licensing import collect, gpus, issuer, server, terms
from windlass_kubectl.licensing import status as standing
from windlass_kubectl.licensing.errors import LicensingError
from windlass_kubectl.licensing.http import ServerHttp, reach
from windlass_kubectl.parser import OK
from windlass_kubectl.session import Session

IN_FORCE = "in-force.dat"
LISTING = "gpus.txt"
REMEDY = "name that key with --key, or use init --replace"


async def run(session: Session) -> int:
    """One of the four actions."""
    await ACTIONS[session.options.action](session)
    return OK.code


async def _init(session: Session) -> None:
    """Name the GPUs, make or take the key, let the server trust it, sign, upload; what is done already stays."""
    options, maker = session.options, _issuer(session)
    maker.check(options.key or "")
    found = await server.find(session)
    if found is None and not options.chart:
        raise server.none_there(session)
    if options.dry_run:
        await _rehearse(session, maker, found)
        return
    where = found or await server.install(session, options.chart, options.set)
    listed = await _named(session, where) if options.gpus else None
    if not options.replace:
        await _must_be_free(session, maker, where)
    named = listed or await _named(session, where)
    key = await maker.key(options.key or "", may_make=True)
    session.note(f"{'made' if key.made else 'found'} signing key {key.id}: {key.private}")
    if key.is_open:
        session.note(f"warning: others of this machine may read {key.private}; chmod 600 it")
    with tempfile.TemporaryDirectory() as scratch:
        if await server.trust(session, where, key):
            session.note(f"the license server {where} trusts it now")
        async with reach(session, where) as http:
            await _license(session, SigningContext(session, maker, key, http, Path(scratch)), named)


async def _must_be_free(session: Session, maker: issuer.Issuer, where: LicenseServer) -> None:
    """Another issuer's license is not replaced unasked: before a GPU is named, a key made or the server changed."""
    given = session.options.key or ""
    with tempfile.TemporaryDirectory() as scratch:
        async with reach(session, where) as http:
            now = await _in_force(maker, http, Path(scratch))
    if now is None:
        return
    private = maker.private(given)
    if not private.exists():
        raise LicensingError(f"{_signed(now)}, and there is no key {private}; {REMEDY}")
    _must_be_ours(now, await maker.key(given, may_make=False))


def _must_be_ours(now: terms.Facts, key: issuer.Key) -> None:
    if now.key_id != key.id:
        raise LicensingError(f"{_signed(now)}, and {key.private} is {key.id}; {REMEDY}")


def _signed(now: terms.Facts) -> str:
    return f"the license in force, of customer {now.customer}, was signed with key {now.key_id}"


async def _in_force(maker: issuer.Issuer, http: ServerHttp, scratch: Path) -> terms.Facts | None:
    """The license in force; its file is kept, to be followed."""
    blob = await http.license_file()
    if blob is None:
        return None
    file = scratch / IN_FORCE
    file.write_bytes(blob)
    return await maker.inspect(file)


async def _renew(session: Session) -> None:
    """The license in force again, with a later end."""
    await _follow(session, None)


async def _add_gpus(session: Session) -> None:
    """The license in force and every GPU of the cluster that it does not name."""
    where = await _found(session)
    await _follow(session, await _named(session, where))


async def _follow(session: Session, named: collect.NamedGpus | None) -> None:
    where, maker = await _found(session), _issuer(session)
    key = await maker.key(session.options.key or "", may_make=False)
    async with reach(session, where) as http:
        with tempfile.TemporaryDirectory() as scratch:
            work = SigningContext(session, maker, key, http, Path(scratch))
            now = await work.in_force()
            if now is None:
                raise LicensingError(f"{where} has no license in force; make one: kubectl windlass license init")
            _must_be_ours(now, key)
            asked = _asked(session)
            if named is None and asked.days is None:
                asked = terms.RequestedTerms(asked.customer, asked.appid, terms.DAYS, asked.limit)
            if named is not None and named.uuids <= now.uuids and not asked.changes(now):
                _tell(session, key, now, changed=False, said=f"all {len(named.uuids)} GPUs are in the license in force")
                return
            await work.put(named, asked, now)


async def _license(session: Session, work: SigningContext, named: collect.NamedGpus) -> None:
    now, asked = await work.in_force(), _asked(session)
    ours = now if now is not None and now.key_id == work.key.id else None
    settled = ours is not None and ours.expires > session.now() and named.uuids <= ours.uuids
    if ours is not None and settled and not asked.changes(ours):
        said = f"the license in force names all {len(named.uuids)} GPUs; nothing was changed"
        _tell(session, work.key, ours, changed=False, said=said)
        return
    if ours is not None and ours.expires <= session.now() and asked.days is None:
        asked = terms.RequestedTerms(asked.customer, asked.appid, terms.DAYS, asked.limit)
    await work.put(named, asked, ours)


class SigningContext:
    """What signing needs: the issuer, the key, the server, a folder for what is needed meanwhile."""

    def __init__(
        self, session: Session, maker: issuer.Issuer, key: issuer.Key, http: ServerHttp, scratch: Path
    ) -> None:
        self.session, self.maker, self.key, self.http, self.scratch = session, maker, key, http, scratch

    async def in_force(self) -> terms.Facts | None:
        """The license in force; its file is kept, to be followed."""
        return await _in_force(self.maker, self.http, self.scratch)

    async def put(
        self, named: collect.NamedGpus | None, asked: terms.RequestedTerms, follows: terms.Facts | None
    ) -> None:
        """Sign and upload."""
        words = terms.words(asked, self.session.now(), follows=follows is not None)
        if follows is not None:
            words += ["--from", str(follows.file)]
        if named is not None:
            (self.scratch / LISTING).write_text(named.listing, encoding="utf-8")
            words += ["--gpus", str(self.scratch / LISTING)]
        answer = self.scratch / "answer.pem"
        answer.write_text(await self.http.answer_key(), encoding="ascii")
        facts = await self.maker.issue(self.key, [*words, "--answer-key", str(answer)])
        said = await self.http.upload(facts.file)
        _tell(self.session, self.key, facts, changed=True, said=said)


def _tell(session: Session, key: issuer.Key, facts: terms.Facts, *, changed: bool, said: str) -> None:
    if not session.is_text:
        signer = {"id": key.id, "private": str(key.private), "made": key.made}
        license_ = {**facts.to_dict(len(facts.uuids)), "file": str(facts.file) if changed else None}
        session.emit({"changed": changed, "key": signer, "license": license_})
        return
    session.say(said)
    if changed:
        session.say(f"license file: {facts.file}")
    session.say(f"private key: {key.private}; it is on this machine only: keep a copy, never put it into the cluster")
    limit = f"{facts.limit} at a time" if facts.limit else "no limit"
    when = terms.span(facts.expires, session.now())
    session.say(f"in force: {len(facts.uuids)} GPUs, {limit}, {when}")


async def _rehearse(session: Session, maker: issuer.Issuer, found: LicenseServer | None) -> None:
    """What init would do; nothing is changed."""
    private, steps = maker.private(session.options.key or ""), list[str]()
    steps.append(f"use the license server {found}" if found else f"install {session.options.chart} with helm")
    nodes = () if session.options.gpus else await collect.nodes_with_gpus(session)
    if session.options.gpus:
        steps.append(f"read the GPUs in {', '.join(session.options.gpus)}")
    for node in nodes:
        held = node.offered - sum(node.free.values())
        steps.append(f"node {node.name}: name {sum(node.free.values())} free GPUs by a Job, {held} in their pods")
    steps.append(f"{'use' if private.exists() else 'make'} the private key {private}")
    steps += ["let the license server trust its public half", "sign a license, keep it beside the key, upload it"]
    if session.is_text:
        session.say("\n".join(["would:", *(f"  {step}" for step in steps)]))
    else:
        session.emit({"dryRun": True, "steps": steps})


async def _named(session: Session, where: LicenseServer) -> collect.NamedGpus:
    """The cluster's GPUs; LicensingError when some could not be named and nobody allowed that."""
    options = session.options
    if options.gpus:
        found = collect.from_files(options.gpus)
    else:
        nodes = await collect.nodes_with_gpus(session)
        session.note(f"naming the GPUs of {len(nodes)} node{'' if len(nodes) == 1 else 's'}")
        found = await collect.from_nodes(session, nodes, shape(session, where))
    if found.missing and not options.allow_missing:
        rows = "".join(f"\n  {one}" for one in found.missing)
        raise LicensingError(f"some GPUs could not be named, so nothing was signed; --allow-missing goes on:{rows}")
    for one in found.missing:
        session.note(f"  left out: {one}")
    if not found.uuids:
        raise LicensingError("no GPU was found; does `kubectl get nodes` list nodes with nvidia.com/gpu?")
    return found


def shape(session: Session, where: LicenseServer) -> gpus.JobShape:
    """The Jobs run beside the license server, in its image unless another is named."""
    options = session.options
    return gpus.JobShape(
        where.namespace,
        options.image or where.image,
        where.pull_policy,
        where.pull_secrets,
        options.runtime_class or "",
    )


async def _status(session: Session) -> None:
    """Every license server that can be seen; with --scan also which GPUs are not licensed."""
    servers = await server.find_all(session)
    if not servers:
        raise server.none_there(session)
    named = await _named(session, servers[0]) if session.options.scan or session.options.gpus else None
    seen = []
    for one in servers:
        async with reach(session, one) as http:
            seen.append(await standing.look(one, http))
    report = standing.Report(seen, await _offered(session), named.uuids if named else None)
    if session.is_text:
        for branch in standing.branches(report, session.now(), session.paint):
            session.say(session.paint.tree(branch))
    else:
        session.emit(standing.to_dict(report, session.now()))


async def _offered(session: Session) -> int | None:
    """How many GPUs the nodes offer; None where the user may not look, which is said."""
    try:
        return sum(node.offered for node in await collect.nodes_with_gpus(session))
    except ForbiddenError as error:
        session.note(f"the cluster's GPUs are left out: {error}")
        return None


async def _found(session: Session) -> LicenseServer:
    found = await server.find(session)
    if found is None:
        raise server.none_there(session)
    return found


def _issuer(session: Session) -> issuer.Issuer:
    options = session.options
    folder = Path(options.folder) if options.folder else issuer.default_folder()
    return issuer.Issuer(issuer.find_program(options.issuer or ""), folder)


def _asked(session: Session) -> terms.RequestedTerms:
    options = session.options
    return terms.RequestedTerms(options.customer, options.appid, options.days, options.limit)


ACTIONS: dict[str, Callable[[Session], Awaitable[None]]] = {
    "init": _init,
    "status": _status,
    "renew": _renew,
    "add-gpus": _add_gpus,
}
