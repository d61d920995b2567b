"""`kubectl windlass create`: from a model's name on a hub, or its place on a claim, to a service that answers."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from windlass_api.crd.base import QUANTITY_PATTERN
from windlass_api.crd.v1alpha1 import API_VERSION, KIND
from windlass_base.kube.errors import AlreadyExistsError, NotFoundError
from windlass_client import paths
from windlass_client.values import LLMService

from windlass_kubectl.errors import WrongOptionError
from windlass_kubectl.output import emit
from windlass_kubectl.parser import FAILED, OK
from windlass_kubectl.session import Session

HUBS = {"hf": "huggingface", "ms": "modelscope"}
CLAIM = "pvc"
NAME, NAME_MAX = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?"), 50
BARE = re.compile(r"(?:(?P<scheme>hf|ms):/*)?(?P<name>[\w.-]+/[\w.-]+)(?P<revision>@.+)?")
"""OWNER/NAME of a hub without `://`, as its pages show it."""
SERVING_USER = 10001
"""The user of the serving image, as whose group a new volume is written."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model is: on a hub, or on a claim."""

    scheme: str
    place: str
    """OWNER/NAME, or the claim."""
    rest: str
    """The revision on the hub, or the path on the claim; may be empty."""


def prepare(options: argparse.Namespace) -> None:
    """Before a login: the name, the model's address and the claim's size can be read."""
    _check_name(options.name)
    if options.size and not re.fullmatch(QUANTITY_PATTERN, options.size):
        raise WrongOptionError(
            f"--size {options.size} is no size of a claim; write a number with a unit, as 50Gi or 50G"
        )
    options.source = source_of(options.model)
    if options.source.scheme == CLAIM and (options.size or options.storage_class or options.access_mode):
        raise WrongOptionError(
            "--size, --storage-class and --access-mode are of a new claim; leave them out for the claim of pvc://"
        )


def source_of(text: str) -> Source:
    """The address of a model; WrongOptionError names the forms."""
    scheme, mark, rest = text.partition("://")
    rest = rest.strip("/")
    if mark and scheme in HUBS:
        name, _, revision = rest.partition("@")
        if name.count("/") == 1 and all(name.split("/")):
            return Source(scheme, name, revision)
    elif mark and scheme == CLAIM and rest:
        claim, _, path = rest.partition("/")
        return Source(CLAIM, claim, path)
    forms = "hf://OWNER/NAME or ms://OWNER/NAME, perhaps with @REVISION, or pvc://CLAIM/PATH"
    bare = BARE.fullmatch(text)
    if bare:
        forms = f"{bare['scheme'] or 'hf'}://{bare['name']}{bare['revision'] or ''}; the forms are {forms}"
    raise WrongOptionError(f"--model {text} is no address of a model; write {forms}")


def _check_name(name: str) -> None:
    """Refuse a name that no service may have, with the nearest one that it may."""
    if NAME.fullmatch(name) and len(name) <= NAME_MAX:
        return
    near = re.sub("^[^a-z]+", "", re.sub("[^a-z0-9]+", "-", name.lower()))[:NAME_MAX].strip("-")
    raise WrongOptionError(
        f"NAME {name} is no name of a service, which has lower-case letters, digits and dashes, at most {NAME_MAX}, a "
        f"letter first and no dash last{f'; write {near}' if near else ''}"
    )


def manifests(name: str, source: Source, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The service, and before it the claim that a model of a hub is downloaded to."""
    engine = {"maxModelLen": options.max_model_len} if options.max_model_len else {}
    spec: dict[str, Any] = {"model": _model(name, source)}
    spec |= {"engine": engine} if engine else {}
    spec |= {"resources": {"gpus": options.gpus}} if options.gpus is not None else {}
    service = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
    return [service] if source.scheme == CLAIM else [_claim(name, options), service]


def _model(name: str, source: Source) -> dict[str, Any]:
    if source.scheme == CLAIM:
        inside = {"path": source.rest} if source.rest else {}
        return {"id": source.rest.rpartition("/")[2] or name, "source": {"pvc": {"claimName": source.place, **inside}}}
    model = source.place.partition("/")[2]
    download = {"hub": HUBS[source.scheme], "name": source.place, "fsGroup": SERVING_USER}
    return {
        "id": model,
        "source": {"pvc": {"claimName": _claim_name(name), "path": model.lower()}},
        "download": download | ({"revision": source.rest} if source.rest else {}),
    }


def _claim_name(name: str) -> str:
    return f"{name}-model"


def _claim(name: str, options: argparse.Namespace) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": [options.access_mode or "ReadWriteOnce"],
        "resources": {"requests": {"storage": options.size or "50Gi"}},
    }
    spec |= {"storageClassName": options.storage_class} if options.storage_class else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": _claim_name(name)},
        "spec": spec,
    }


async def run(session: Session) -> int:
    """Ask the API server whether it takes the service, make the claim and the service, and follow it until Ready."""
    options = session.options
    *claims, service = manifests(options.name, options.source, options)
    if options.dry_run:
        await _rehearse(session, service)
        _show(session, [*claims, service])
        return OK.code
    await _rehearse(session, service)
    for claim in claims:
        await _create_claim(session, claim)
    made = await session.client.create(service)
    if not session.is_text:
        session.emit(made.model_dump(mode="json", by_alias=True, exclude_none=True))
    else:
        session.say(f"llmservice {session.namespace}/{options.name} created")
    if options.no_wait:
        return OK.code
    return await _follow(session)


async def _rehearse(session: Session, service: dict[str, Any]) -> None:
    """Ask whether the API server takes the service: a claim without its service would be left behind."""
    name = session.options.name
    try:
        await session.client.create(service, dry_run=True)
    except AlreadyExistsError as error:
        raise AlreadyExistsError(
            f"{error}; take another name, change it with kubectl edit llm {name}, or look at it with "
            f"kubectl windlass status {name}"
        ) from error
    except NotFoundError as error:
        if "namespaces" not in str(error):
            raise
        raise NotFoundError(
            f"{error}; kubectl create namespace {session.namespace}, or name another with -n"
        ) from error


def _show(session: Session, documents: list[dict[str, Any]]) -> None:
    """The manifests as they would be applied: YAML, or a list as JSON."""
    if session.options.output == "json":
        session.emit({"apiVersion": "v1", "kind": "List", "items": documents})
    else:
        for document in documents:
            session.data(emit(document, "yaml"))


async def _create_claim(session: Session, claim: Mapping[str, Any]) -> None:
    name = claim["metadata"]["name"]
    what = f"persistentvolumeclaim {session.namespace}/{name}"
    try:
        await session.client.api.call(
            "POST", paths.core(session.namespace, "persistentvolumeclaims"), what, body=dict(claim)
        )
    except AlreadyExistsError:
        session.note(f"{what} is there already and stays as it is")
    else:
        session.note(f"{what} created")


async def _follow(session: Session) -> int:
    """Say each change of the condition Ready; 1 when the time is over before it is true."""
    name, limit_s = session.options.name, session.options.timeout_s
    line = ""
    try:
        async with asyncio.timeout(limit_s):
            async with aclosing(session.client.watch(name=name)) as changes:
                async for event in changes:
                    if event.type == "DELETED":
                        raise NotFoundError(f"llmservice {session.namespace}/{name}: it was deleted")
                    text = words_of(event.service)
                    if text and text != line:
                        session.note(text)
                        line = text
                    if event.service.is_ready():
                        session.note(f'ask it: kubectl windlass chat {name} "What are you?"')
                        return OK.code
    except TimeoutError:
        session.note(f"not ready after {limit_s} s; kubectl windlass status {name} says more, and the service goes on")
    return FAILED.code


def words_of(service: LLMService) -> str:
    """The condition Ready of the present spec in a line; empty before the operator has seen that spec."""
    found = service.condition("Ready")
    if found is None or service.status.observed_generation != service.metadata.generation:
        return ""
    return f"{found.reason}: {found.message}".rstrip(": ")
