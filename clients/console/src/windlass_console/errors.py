"""What the console raises beside the client library's errors; each has the HTTP status and the reason of its answer.

ConsoleError
├── SignInError           401: no token, or one that has ended
├── OriginError           403: the request comes from another site, or lacks the pages' header
├── UnreadableBodyError   400: the body is no JSON, or JSON beyond the bounds
├── NotThereError         404: no such address
├── SlowError             408: the body did not come in time
├── TooLargeError         413: the body has too many bytes
├── UnusableError         422: the content cannot be used
├── TooManyRequestsError  429: as many requests of the user are under way as one may have
├── TooManyStreamsError   429: the user holds as many streams as one may
├── ServiceAnswerError    502: the served model, or the license server, refuses
└── FullError             503: as many users, or bytes of long bodies, as the process can hold
"""

from __future__ import annotations

from windlass_base.kube.errors import (
    AlreadyExistsError,
    ClientError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    NotInstalledError,
    UnauthorizedError,
    UnreachableError,
)
from windlass_client.errors import NoFactsError, NoLogsError


class ConsoleError(Exception):
    """Anything that the console refuses itself; its text is one sentence for the user."""

    status = 500
    reason = "Internal"


class SignInError(ConsoleError):
    """Nobody is signed in."""

    status = 401
    reason = "SignIn"


class OriginError(ConsoleError):
    """The request was not made by the console's own pages."""

    status = 403
    reason = "Origin"


class UnreadableBodyError(ConsoleError):
    """The body is not of the shape that any route takes."""

    status = 400
    reason = "BadRequest"


class NotThereError(ConsoleError):
    """The console has no such address."""

    status = 404
    reason = "NotFound"


class SlowError(ConsoleError):
    """The body takes longer than is waited for."""

    status = 408
    reason = "Slow"


class TooLargeError(ConsoleError):
    """The body has more bytes than are read."""

    status = 413
    reason = "TooLarge"


class UnusableError(ConsoleError):
    """What was sent cannot be used."""

    status = 422
    reason = "Invalid"


class TooManyRequestsError(ConsoleError):
    """As many requests of the user are under way as one may have."""

    status = 429
    reason = "TooManyRequests"


class TooManyStreamsError(ConsoleError):
    """The user holds as many streams as one may."""

    status = 429
    reason = "TooManyStreams"


class ServiceAnswerError(ConsoleError):
    """A program behind the API server's proxy refuses; `service_status` is the status of its answer."""

    status = 502
    reason = "Service"

    def __init__(self, message: str, service_status: int) -> None:
        super().__init__(message)
        self.service_status = service_status


class FullError(ConsoleError):
    """The process holds as many users, or bytes of long bodies, as it can."""

    status = 503
    reason = "Full"


NOT_ACCEPTED = (
    "the API server does not accept this token: it has ended, or another cluster made it; "
    "make one with kubectl create token NAME -n NAMESPACE --duration=8h and sign in with it"
)
"""The API server's own word for it is "Unauthorized", whatever was asked."""
# Of the client library's errors; a kind that is not here is 502 Unreadable.
KINDS: tuple[tuple[type[ClientError], int, str], ...] = (
    (UnauthorizedError, 401, "SignIn"),
    (ForbiddenError, 403, "Forbidden"),
    (NotFoundError, 404, "NotFound"),
    (AlreadyExistsError, 409, "AlreadyExists"),
    (ConflictError, 409, "Conflict"),
    (InvalidError, 422, "Invalid"),
    (NoFactsError, 422, "NoFacts"),
    (NoLogsError, 422, "NoLogs"),
    (NotInstalledError, 422, "NotInstalled"),
    (UnreachableError, 503, "Unreachable"),
)


def status_of(error: ClientError | ConsoleError) -> tuple[int, str]:
    """The HTTP status and the reason of an error's answer."""
    if isinstance(error, ConsoleError):
        return error.status, error.reason
    return next(((status, reason) for kind, status, reason in KINDS if isinstance(error, kind)), (502, "Unreadable"))


def document_of(error: ClientError | ConsoleError) -> dict[str, object]:
    """The answer's document: a sentence, a reason, and a row for each field that the API server names."""
    fields = [{"field": row.field, "message": row.message} for row in getattr(error, "problems", ())]
    sentence = NOT_ACCEPTED if isinstance(error, UnauthorizedError) else str(error)
    answer: dict[str, object] = {"error": sentence, "reason": status_of(error)[1], "fields": fields}
    if isinstance(error, ServiceAnswerError):
        answer["serviceStatus"] = error.service_status
    return answer
