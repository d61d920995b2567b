"""Parts of the OpenAPI description that the framework cannot see: bodies read by hand, and every status."""

from typing import Any

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


def _lease_schema() -> dict[str, Any]:
    """Return the schema of a request with the holder's in its place: the framework adds those of answers alone."""
    schema = LeaseBody.model_json_schema()
    schema["properties"]["holder"] = schema.pop("$defs")["HolderBody"]
    return schema


LEASE_OPERATION: dict[str, Any] = {
    "responses": {
        200: {"model": GrantedBody, "description": "granted or renewed"},
        403: {"model": RefusedBody, "description": "refused, and why"},
        413: {"model": ProblemBody, **_TOO_LARGE},
    }
    | NO_TOKEN
    | BAD_REQUEST
    | NOT_NOW,
    "openapi_extra": {"requestBody": {"required": True, "content": {"application/json": {"schema": _lease_schema()}}}},
}
