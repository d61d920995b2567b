"""`kubectl windlass plan`: the operator's own decision, before anything is applied."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from windlass_api.crd.v1alpha1 import API_VERSION, KIND
from windlass_api.plan.model import Inventory, NodeGpus
from windlass_base.kube.errors import ForbiddenError, InvalidError
from windlass_client.preview import PlanPreview
from windlass_sizing.speed import words

from windlass_kubectl.errors import WrongOptionError
from windlass_kubectl.named_service import raw_service
from windlass_kubectl.paint import Branch
from windlass_kubectl.parser import NOTHING_FITS, OK
from windlass_kubectl.plan_tree import plan_branch, settings_branch
from windlass_kubectl.session import Session


def prepare(options: argparse.Namespace) -> None:
    """Before a login: the named file is read once, since it may be a pipe; standard input is left to `run`."""
    if options.filename and options.filename != "-":
        options.file_text = text_of(options.filename)


async def run(session: Session) -> int:
    """Preview every LLMService of the file, or the named one; 3 when one of them fits nowhere."""
    seen: list[tuple[str, PlanPreview]] = []
    for document in await _documents(session):
        name = str((document.get("metadata") or {}).get("name") or "")
        preview = await session.client.preview(document, session.options.namespace, model=session.options.model)
        seen.append((name, preview))
    if session.is_text:
        for name, preview in seen:
            session.say(session.paint.tree(branch_of(name, preview, session)))
    elif len(seen) == 1:
        session.emit({"name": seen[0][0], **seen[0][1].to_dict()})
    else:
        session.emit({"items": [{"name": name, **preview.to_dict()} for name, preview in seen]})
    return OK.code if all(preview.fits for _, preview in seen) else NOTHING_FITS.code


async def _documents(session: Session) -> list[Mapping[str, Any]]:
    """What is to be planned; a file is first shown to the API server, which knows rules that the planner does not."""
    if session.options.name:
        return [await raw_service(session, session.options.name)]
    options = session.options
    text = options.file_text if options.file_text is not None else await asyncio.to_thread(text_of, options.filename)
    documents = read(text, options.filename)
    for document in documents:
        try:
            await session.client.apply(document, session.options.namespace, force=True, dry_run=True)
        except ForbiddenError as error:
            session.note(f"not checked by the API server: {error}")
    return documents


def text_of(filename: str) -> str:
    """The file's text; - is standard input."""
    if filename == "-":
        return sys.stdin.read()
    try:
        return Path(filename).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        what = f"-f {filename} is not there; name a file with LLMServices, or - for standard input"
        raise WrongOptionError(what) from error
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it holds bytes that are no text"
        raise WrongOptionError(f"-f {filename} cannot be read: {why}; name a file with LLMServices") from error


def read(text: str, filename: str) -> list[Mapping[str, Any]]:
    """The LLMServices of a YAML or JSON file; other kinds beside them are left alone."""
    try:
        documents = [document for document in yaml.safe_load_all(text) if document]
    except yaml.YAMLError as error:
        raise InvalidError(f"{filename} is not YAML: {' '.join(str(error).split())}") from error
    services: list[Mapping[str, Any]] = [one for one in documents if isinstance(one, dict) and one.get("kind") == KIND]
    if not services:
        raise InvalidError(f"{filename} holds no LLMService; a service begins with: apiVersion: {API_VERSION}")
    return services


def free_gpus(node: NodeGpus, inventory: Inventory) -> str:
    """The service's own GPUs are free for it."""
    return f", {node.free} free for this service" if inventory.pods_listed else ", free unknown: you may not list pods"


def branch_of(name: str, preview: PlanPreview, session: Session) -> Branch:
    """The preview as a tree."""
    facts, paint = preview.facts, session.paint
    model = Branch(f"model: {facts.architecture}, {facts.params_text} parameters, own context {facts.max_model_len}")
    nodes = tuple(
        Branch(f"{node.node}: {node.allocatable} × {node.product or 'GPU'}{free_gpus(node, preview.inventory)}")
        for node in preview.inventory.nodes
    )
    offered = Branch("GPU nodes", "", nodes) if nodes else Branch("GPU nodes: none")
    if preview.plan is None:
        remedies = tuple(Branch(part.strip()) for part in preview.remedy.split(";"))
        refused = Branch(f"{paint.mark('bad')} {preview.reason}: {preview.message}", "bad")
        return Branch(f"{name}: nothing fits", "bad", (model, offered, refused, Branch("what to do", "head", remedies)))
    said = "fits; this plan is in force and stays" if preview.in_force else "fits"
    speed = tuple(Branch(line, "dim") for line in words.lines(preview.prediction)) if preview.prediction else ()
    parts = (
        model,
        offered,
        plan_branch(preview.plan, paint),
        *settings_branch(preview.settings),
        *([Branch("speed", "", speed)] if speed else []),
    )
    return Branch(f"{name}: {said}", "good", parts)
