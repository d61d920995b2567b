"""Parts of the OpenAPI description that the framework cannot see: bodies read by hand, and every status."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from windlass_license.http.lease_path import PATH
from windlass_license.http.wire import GrantedBody, LeaseBody, ProblemBody, RefusedBody

Responses = dict[int | str, dict[str, Any]]

_TEXT: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
NOT_NOW: Responses = {503: {"model": ProblemBody, "description": "a stand-by, or the disk is full; ask again"}}
NO_TOKEN: Responses = {401: {"model": ProblemBody, "description": "the pod's token is missing or refused"}}
BAD_REQUEST: Responses = {422: {"model": ProblemBody, "description": "the request is not understood"}}
ADMIN: Responses = {
    401: {
        "description": "the admin token is missing or wrong",
        "content": {"application/json": {"schema": {"type": "object", "required": ["detail"]}}},
    }
}
_VIEW = {
    "type": "object",
    "required": ["appid", "customer", "accesslimit", "gpuinfos"],
    "properties": {
        "appid": {"type": "string"},
        "customer": {"type": "string"},
        "accesslimit": {"type": "integer", "minimum": 0},
        "gpuinfos": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["brand", "issuedtime", "expiredtime"],
                "properties": {
                    "uuid": {"type": "string", "description": "for the admin"},
                    "count": {"type": "integer", "minimum": 1, "description": "for anybody else"},
                    "brand": {"type": "string"},
                },
            },
        },
    },
}
YAML: Responses = {
    200: {"description": "the license", "content": {"application/yaml": {"schema": _VIEW}}},
    404: {"description": "no license is in force", "content": _TEXT},
}
FILE: Responses = {
    200: {
        "description": "the license file",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    404: {"description": "no license is in force", "content": _TEXT},
}
_TOO_LARGE = {"description": "the body is too large"}

UPLOAD_OPERATION: dict[str, Any] = {
    "responses": {
        400: {"description": "the file is refused and nothing changed", "content": _TEXT},
        413: {**_TOO_LARGE, "content": _TEXT},
    }
    | ADMIN
    | NOT_NOW,
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "required": ["file"],
                        "properties": {"file": {"type": "string", "format": "binary"}},
                    }
                }
            },
        }
    },
}


def describe_leases(document: dict[str, Any]) -> None:
    """Add `POST /v1/leases` to an OpenAPI document."""
    kinds: list[tuple[type[BaseModel], JsonSchemaMode]] = [(LeaseBody, "validation")]
    kinds += [(kind, "serialization") for kind in (GrantedBody, RefusedBody, ProblemBody)]
    refs, schemas = models_json_schema(kinds, ref_template="#/components/schemas/{model}")
    document["components"]["schemas"] |= schemas["$defs"]

    def content(kind: type[BaseModel], mode: JsonSchemaMode = "serialization") -> dict[str, Any]:
        return {"application/json": {"schema": refs[kind, mode]}}

    document["paths"].setdefault(PATH, {})["post"] = {
        "summary": "Lease",
        "description": "Grant, renew or refuse a lease on all of the pod's GPUs.",
        "operationId": "lease",
        "requestBody": {"required": True, "content": content(LeaseBody, "validation")},
        "responses": {
            "200": {"description": "granted or renewed", "content": content(GrantedBody)},
            "401": {"description": "the pod's token is missing or refused", "content": content(ProblemBody)},
            "403": {"description": "refused, and why", "content": content(RefusedBody)},
            "413": {"description": "the body is too large", "content": content(ProblemBody)},
            "422": {"description": "the request is not understood", "content": content(ProblemBody)},
            "503": {"description": "a stand-by, or the disk is full; ask again", "content": content(ProblemBody)},
        },
    }
