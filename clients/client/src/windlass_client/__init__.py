"""The typed client for console back ends and scripts: everything about an LLMService through the API server.

`AsyncClient` for asyncio, `Client` for everybody else; both have the same methods, and both answer with the pydantic
models of `windlass_api.crd`. `schema` has the JSON Schema, `preview` what a plan preview answers. The plug-in
`kubectl windlass` stands on it (`windlass_kubectl`). Nothing of the operator is needed.
"""

from windlass_base.kube.access import Access, find_access, token_access
from windlass_base.kube.errors import (
    AccessError,
    AlreadyExistsError,
    ClientError,
    ConflictError,
    FieldProblem,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    NotInstalledError,
    UnauthorizedError,
    UnreachableError,
    UnreadableError,
)

from windlass_client.blocking import Client
from windlass_client.client import AsyncClient
from windlass_client.errors import NoFactsError, NoLogsError
from windlass_client.values import LLMService, LogLine, Metadata, Pod, ServiceEvent, WatchEvent

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
