"""What asking the API server raises, split by what the caller must do; the text of each is one sentence for a person.

ClientError
├── AccessError          no kubeconfig, unknown context, a credential that cannot be had: correct the set-up
├── UnauthorizedError    the API server does not accept the credential
├── ForbiddenError       the credential lacks a right; the text names it
├── NotFoundError        there is no such service, pod or namespace
├── NotInstalledError    the API server does not serve the kind: its CRD is missing
├── AlreadyExistsError   create: the name is taken
├── ConflictError        someone else changed or owns the field; read again, or force
├── InvalidError         the API server finds the document wrong; `.problems` has a row for each field
├── UnreadableError      the answer holds what is not known here: the client is older than the CRD
├── ExpiredError         the asked version is no longer kept; a watch starts again by itself
└── UnreachableError     nobody answers, or the API server is too busy: try again later
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class ClientError(Exception):
    """Anything that the client raises on purpose."""


class AccessError(ClientError):
    """How to reach the API server is not known."""


class UnauthorizedError(ClientError):
    """The API server does not accept the credential."""


class ForbiddenError(ClientError):
    """The API server refuses for want of rights or quota."""


class NotFoundError(ClientError):
    """What was asked for is not there."""


class NotInstalledError(ClientError):
    """The API server does not serve the kind."""


class AlreadyExistsError(ClientError):
    """The name is taken."""


class ConflictError(ClientError):
    """Someone else changed the object in between, or owns the field."""


class UnreadableError(ClientError):
    """What was sent does not fit what is known of it."""


class ExpiredError(ClientError):
    """The asked resource version is no longer kept."""


class UnreachableError(ClientError):
    """No answer, or "later" as the answer."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field."""

    field: str  # as spec.engine.dtype; empty when the whole document is meant
    message: str


class InvalidError(ClientError):
    """The document is wrong; `problems` has a row for each field that the API server named."""

    def __init__(self, message: str, problems: tuple[FieldProblem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


# The reason of a Status first: one code has several.
BY_REASON: dict[str, type[ClientError]] = {
    "AlreadyExists": AlreadyExistsError,
    "Conflict": ConflictError,
    "Expired": ExpiredError,
    "Forbidden": ForbiddenError,
    "Gone": ExpiredError,
    "NotFound": NotFoundError,
    "Unauthorized": UnauthorizedError,
}
BY_CODE: dict[int, type[ClientError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
}
BUSY = (408, 429)
# Errors of the request that the API server answers with 500: a server-side apply of an unknown field, a wrong type or a
# key twice, and an object that etcd or its client finds too large.
REFUSED_WORDS = (
    "failed to create typed patch object",
    "request is too large",
    "trying to send message larger than max",
)
UNTYPED_FIELD = re.compile(r"^\s*\.(?P<field>\S+?): (?P<message>.+)$", re.MULTILINE)
"""A line of the words above: the field's path, which begins with a dot, and what is wrong with it."""
NOT_ACCEPTED = (
    "the API server does not accept the credential: it has ended, or another cluster made it; renew it and try again"
)
"""In place of the API server's own sentence, which is one word."""
UNKNOWN = "the API server does not know this kind"
MESSAGE_MAX, CAUSES_MAX = 4096, 50  # characters of a message, and rows, of a refusal that an error shows


def refused_again(message: str) -> bool:
    """Whether a 500 with these words answers a wrong request, so that the same one fails again."""
    return any(words in message for words in REFUSED_WORDS)


def refusal(code: int, status: Mapping[str, Any] | None, what: str, unknown: str = UNKNOWN) -> ClientError:
    """The API server's refusal as our error; `status` is the Status that it sent, None when it sent none.

    `unknown` says what to do when the API server does not serve the kind.
    """
    if status is None and code == 404:
        return NotInstalledError(f"{what}: {unknown}")
    message = str((status or {}).get("message") or "").strip()[:MESSAGE_MAX] or f"HTTP {code}"
    if code >= 500 and refused_again(message):
        return _untyped(message, what)
    if code in BUSY or code >= 500:
        return UnreachableError(f"{what}: the API server cannot answer now: {message}; try again")
    kind = BY_REASON.get(str((status or {}).get("reason"))) or BY_CODE.get(code)
    if kind is None:
        return _invalid(status or {}, message, what)
    if kind is UnauthorizedError and message in ("Unauthorized", f"HTTP {code}"):
        message = NOT_ACCEPTED
    return kind(f"{what}: {message}")


def _untyped(message: str, what: str) -> InvalidError:
    """The fields of a refused server-side apply, which comes without details; the whole message where it names none."""
    _, _, listed = message.partition("): ")
    problems = tuple(FieldProblem(row["field"], row["message"]) for row in UNTYPED_FIELD.finditer(listed))
    return _with_problems(problems[:CAUSES_MAX], message, what)


def _invalid(status: Mapping[str, Any], message: str, what: str) -> InvalidError:
    """The fields of a refusal with details."""
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    rows = [row for row in causes if isinstance(row, Mapping)] if isinstance(causes, list) else []
    problems = tuple(
        FieldProblem(str(row.get("field") or "")[:MESSAGE_MAX].removeprefix("<nil>"), _cut(row.get("message")))
        for row in rows[:CAUSES_MAX]
    )
    return _with_problems(problems, message, what)


def _with_problems(problems: tuple[FieldProblem, ...], message: str, what: str) -> InvalidError:
    """The fields' sentences where there are any: the message repeats them, behind words that nobody needs."""
    listed = "; ".join(_sentence(row) for row in problems if row.message)
    return InvalidError(f"{what}: {listed or message}", problems)


def _cut(message: object) -> str:
    return str(message or "")[:MESSAGE_MAX]


def _sentence(problem: FieldProblem) -> str:
    """The field before its sentence, unless the sentence names it already."""
    words = problem.message.removeprefix("Invalid value: ")
    return words if not problem.field or problem.field in words else f"{problem.field}: {words}"
