"""The typed client for console back ends and scripts: everything about an LLMService through the API server.

`AsyncClient` for asyncio, `Client` for everybody else; both have the same methods, and both answer with the pydantic
models of `windlass_operator.api`. `client.schema` has the JSON Schema, `client.preview` what a plan preview answers.
Nothing here starts the operator.
"""

from windlass_operator.client.access import Access, find_access, token_access
from windlass_operator.client.blocking import Client
from windlass_operator.client.client import AsyncClient
from windlass_operator.client.errors import (
    AccessError,
    AlreadyExistsError,
    ClientError,
    ConflictError,
    FieldProblem,
    ForbiddenError,
    InvalidError,
    NoFactsError,
    NoLogsError,
    NotFoundError,
    NotInstalledError,
    UnauthorizedError,
    UnreachableError,
    UnreadableError,
)
from windlass_operator.client.values import LLMService, LogLine, Metadata, Pod, ServiceEvent, WatchEvent

__all__ = [
    "Access",
    "AccessError",
    "AlreadyExistsError",
    "AsyncClient",
    "Client",
    "ClientError",
    "ConflictError",
    "FieldProblem",
    "ForbiddenError",
    "InvalidError",
    "LLMService",
    "LogLine",
    "Metadata",
    "NoFactsError",
    "NoLogsError",
    "NotFoundError",
    "NotInstalledError",
    "Pod",
    "ServiceEvent",
    "UnauthorizedError",
    "UnreachableError",
    "UnreadableError",
    "WatchEvent",
    "find_access",
    "token_access",
]
