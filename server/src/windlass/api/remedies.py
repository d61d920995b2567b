"""Errors of the engine made clear, where it says too little or takes the blame itself. Pure; rows.

A client reads the status to know whose turn it is: a request that can never be answered is 400, not 500.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from traceback import walk_tb

from windlass.api.body import EMPTY, Body
from windlass.api.routes import Route
from windlass.front.refusal import Refusal, error_body, message_of, reshaped

LONGEST_PATH = 100
LONGEST_WHY = 200
UNREACHED = ("ClientError", "TimeoutError")
"""What the engine's client of other hosts raises, by name: its package is the engine's."""
CONVERSIONS = (
    "vllm.renderers.chat_utils",
    "vllm.entrypoints.openai.responses.utils",
    "vllm.entrypoints.openai.responses.harmony",
)
"""The engine's modules that turn messages and items into a prompt: pure functions of the request."""
FIELDS = re.compile(r"vllm\.entrypoints\.(\w+\.)+protocol")
"""The engine's modules of a request's fields. Some of their checks run before types are checked: vLLM 0.32 counts the
keys of `structured_outputs` whatever it is."""
MISREADINGS = (AttributeError, IndexError, KeyError, TypeError, AssertionError)
"""What they raise where they take for granted what the request's type leaves open: vLLM 0.32 reads the text of an empty
list of parts, and the keys of a part that is an object."""


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """Request parts that an error answer quotes."""

    method: str
    path: str
    route: Route
    body: Body = EMPTY


def _always(_: ErrorContext) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Remedy:
    """One row: an error of the engine, and what the client hears instead."""

    status: int
    pattern: str
    """Matches the whole message."""
    becomes: int
    message: str
    """May name {reason}, {method}, {path}, {gives} and {bindings}."""
    when: Callable[[ErrorContext], bool] = _always


REMEDIES: tuple[Remedy, ...] = (
    Remedy(404, "Not Found", 404, "{path} is not here: the model of this server gives no {gives}; "
           "ask a server whose model does", lambda context: bool(context.route.gives)),
    Remedy(404, "Not Found", 404, "there is no {method} {path} here; GET /docs lists what there is"),
    Remedy(405, "Method Not Allowed", 405, "{path} does not take {method}; the header Allow names what it takes"),
    Remedy(400, ".*Unsupported Media Type: Only 'application/json' is allowed.*", 415,
           "the body's type is not JSON; send the header Content-Type: application/json"),
    Remedy(404, "Response with id .* not found.*", 404, "{reason} This server keeps responses only with the variable "
           "VLLM_ENABLE_RESPONSES_API_STORE=1; send the conversation so far in input"),
    Remedy(400, ".* is not a multimodal model", 400, "this model reads text only; leave images, audio and video out, "
           "or ask a server whose model reads them"),
    # What the engine has not got can be asked for by nobody: the request is wrong, the server is not.
    Remedy(501, ".*", 400, "{reason}"),
    # The only word that is left of a grammar that could not be compiled.
    Remedy(500, "Internal server error", 400, "the engine gave this request up, most likely while it made a grammar "
           "of {bindings}; make its patterns and lists simpler", lambda context: bool(context.body.bindings)),
)  # fmt: skip


def mended(context: ErrorContext, status: int, content: bytes) -> tuple[int, bytes]:
    """Status and body for the client, in the one shape."""
    message = message_of(status, content)
    for row in REMEDIES:
        if row.status == status and re.fullmatch(row.pattern, message, re.DOTALL) and row.when(context):
            path = context.path[:LONGEST_PATH]
            bindings = " and ".join(context.body.bindings)
            words = row.message.format(
                reason=message, method=context.method, path=path, gives=context.route.gives, bindings=bindings
            )
            return row.becomes, error_body(row.becomes, words)
    return status, reshaped(status, content)


def refusal(context: ErrorContext, error: Exception) -> Refusal | None:
    """What a failure of the engine's server means for the client; None for one that is not the client's."""
    why = f"{type(error).__name__}: {error}"[:LONGEST_WHY] if str(error) else type(error).__name__
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__)]
    if isinstance(error, MISREADINGS) and not set(modules).isdisjoint(CONVERSIONS):
        return Refusal(400, f"the engine cannot make a prompt of the request's messages ({why}); simplify their parts")
    # The line that fails counts: what a check of fields calls may fail by a fault of its own.
    if isinstance(error, MISREADINGS) and FIELDS.fullmatch(modules[-1]):
        message = (
            f"a field of the request is of a type that the engine does not expect ({why}); GET /docs lists the fields "
            "with their types"
        )
        return Refusal(400, message)
    names = {one.__name__ for one in type(error).__mro__}
    if not context.body.fetches or not names.intersection(UNREACHED):
        return None
    message = f"an address in the request could not be fetched ({why}); check it, or send a data: URL"
    return Refusal(400, message)
