"""`kubectl windlass chat`: one question, or a talk, streamed."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import sys
import threading
from contextlib import AsyncExitStack, suppress
from typing import Any

from windlass_base.kube.errors import ClientError, InvalidError, UnreachableError
from windlass_client import paths
from windlass_client.values import LLMService

from windlass_kubectl.forward import Forward, port_forward
from windlass_kubectl.named_service import named_service, not_ready
from windlass_kubectl.parser import OK
from windlass_kubectl.session import Session
from windlass_kubectl.talk import ChatAnswer, Talk, connection

KEY_VARIABLE = "WINDLASS_API_KEY"


async def run(session: Session) -> int:
    """Ask the prompt and leave; without one, talk until an empty line."""
    service = await named_service(session, session.options.name)
    key = await _key(session)
    async with AsyncExitStack() as stack:
        forward = None
        if not session.options.address:
            forward = await _forward(session, service, stack)
        http = await stack.enter_async_context(connection(forward.url if forward else session.options.address, key))
        talk = Talk(http, _settings(session, service), forward.check if forward else _always)
        if session.options.system:
            talk.messages.append({"role": "system", "content": session.options.system})
        if session.options.prompt:
            await _one_question(session, talk)
        else:
            await _conversation(session, talk, service)
    return OK.code


async def _forward(session: Session, service: LLMService, stack: AsyncExitStack) -> Forward:
    """To the service; where nothing is behind it, the operator's reason is the error."""
    if service.status.replicas == 0 and (reason := not_ready(service)):
        raise UnreachableError(reason)  # kubectl would wait for a pod that does not come
    try:
        return await stack.enter_async_context(port_forward(session.options.name, session.kubectl_flags()))
    except UnreachableError as error:
        raise UnreachableError(not_ready(service) or str(error)) from error


def _always() -> None:
    """An address that the user names is asked as it is."""


def _settings(session: Session, service: LLMService) -> dict[str, Any]:
    options = session.options
    optional = {"max_tokens": options.max_tokens, "temperature": options.temperature}
    return {
        "model": options.model or service.spec.model.id,
        "stream": True,
        "stream_options": {"include_usage": True},
        **{key: value for key, value in optional.items() if value is not None},
    }


async def _one_question(session: Session, talk: Talk) -> None:
    prompt = session.options.prompt
    question = await asyncio.to_thread(sys.stdin.read) if prompt == "-" else prompt
    answer = ChatAnswer()
    async for piece in talk.ask(question, answer):
        if session.is_text:
            session.data(piece, end="")
    if session.is_text:
        session.say("")
        session.note(answer.line())
    else:
        session.emit({"model": talk.settings["model"], **answer.to_dict()})


async def _conversation(session: Session, talk: Talk, service: LLMService) -> None:
    if not session.is_text:
        raise InvalidError("-o json and -o yaml go with one PROMPT")
    session.note(f"talking with {service.spec.model.id}; an empty line ends it")
    while question := (await _line()).strip():
        answer = ChatAnswer()
        try:
            async for piece in talk.ask(question, answer):
                session.data(piece, end="")
            session.say(f"\n[{answer.line()}]")
        except ClientError as error:
            session.note(f"\n[{error}]")


async def _line() -> str:
    """The next line that is typed; a thread of its own waits for it, which Ctrl-C need not wait for."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        try:
            text = input("> ")
        except EOFError:
            text = ""
        with suppress(RuntimeError):  # the talk is over, and its loop closed
            loop.call_soon_threadsafe(_settle, typed, text)

    threading.Thread(target=read, daemon=True).start()
    return await typed


def _settle(typed: asyncio.Future[str], text: str) -> None:
    if not typed.done():
        typed.set_result(text)


async def _key(session: Session) -> str:
    """The API key: given, of the environment, or the first line of a Secret that the user names."""
    wanted = session.options.key_from_secret
    if not wanted:
        return str(session.options.token or os.environ.get(KEY_VARIABLE, ""))
    name, _, entry = wanted.partition("/")
    what = f"secret {session.namespace}/{name}"
    secret = await session.client.api.call("GET", paths.core(session.namespace, "secrets", name), what)
    return first_key(secret.get("data") or {}, entry, what)


def first_key(data: dict[str, str], entry: str, what: str) -> str:
    """The first line of the entry, of the first one by name when none is named."""
    chosen = entry or min(data, default="")
    if chosen not in data:
        raise InvalidError(f"{what} has no entry {chosen or 'at all'}; it has: {', '.join(sorted(data)) or 'none'}")
    try:
        lines = base64.b64decode(data[chosen]).decode().split()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidError(f"{what}, entry {chosen}, is not text") from error
    if not lines:
        raise InvalidError(f"{what}, entry {chosen}, is empty")
    return lines[0]
