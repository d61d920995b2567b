"""`GET /ls/audit`: the audit log for the admin, filtered, as JSON lines or YAML."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

import yaml
from fastapi import Depends, FastAPI, Query
from fastapi.responses import Response
from pydantic import AwareDatetime, BaseModel, Field

from windlass_license.election.activation import Activation
from windlass_license.http.admin import Check
from windlass_license.http.description import ADMIN, BAD_REQUEST, NOT_NOW, Responses
from windlass_license.rules.audit import FILTERS, moment_text
from windlass_license.storage.store import AuditQuery

_MEDIA = {"jsonl": "application/x-ndjson", "yaml": "application/yaml"}
Event = Literal["uploaded", "uploadRefused", "granted", "refused", "released", "lapsed", "dropped"]
_SHOWN_CHARACTERS = 256
Text = Annotated[str | None, Field(max_length=253)]


class AuditQuestion(BaseModel):
    """The query of `GET /ls/audit`; conditions hold together, the newest records are answered, oldest first."""

    limit: Annotated[int, Field(ge=1, le=10_000, description="how many records at most")] = 1000
    format: Literal["jsonl", "yaml"] = "jsonl"
    event: Event | None = None
    namespace: Text = None
    pod: Text = None
    uid: Text = None
    lease: Text = None
    gpu: Text = None
    since: Annotated[AwareDatetime | None, Field(description="ISO 8601 with zone; from this time on")] = None
    until: Annotated[AwareDatetime | None, Field(description="ISO 8601 with zone; before this time")] = None

    def query(self) -> AuditQuery:
        """The same for the store."""
        given = {name: getattr(self, name) for name in FILTERS if getattr(self, name) is not None}
        return AuditQuery(self.limit, {FILTERS[name]: _text(value) for name, value in given.items()})


def add_audit_path(app: FastAPI, activation: Activation, admin: Check) -> None:
    """Offer the path."""
    forms = {_MEDIA["jsonl"]: {"type": "string"}, _MEDIA["yaml"]: {"type": "array", "items": {"type": "object"}}}
    media = {name: {"schema": schema} for name, schema in forms.items()}
    records: Responses = {200: {"description": "records", "content": media}}
    responses = records | ADMIN | BAD_REQUEST | NOT_NOW

    @app.get("/ls/audit", dependencies=[Depends(admin)], response_class=Response, responses=responses)
    def read_audit(asked: Annotated[AuditQuestion, Query()]) -> Response:
        """The newest audit records, one JSON object a line or a YAML list, oldest first."""
        records = activation.active().service.audit_records(asked.query())
        texts = [readable(row) for row in records]
        text = _yaml(texts) if asked.format == "yaml" else "".join(f"{row}\n" for row in texts)
        return Response(text, media_type=_MEDIA[asked.format])


def readable(record: str) -> str:
    """The stored record; a damaged one as text inside a record, so that the others can be read."""
    try:
        json.dumps(json.loads(record), ensure_ascii=False).encode()  # half of a surrogate pair cannot be sent
    except (ValueError, RecursionError):
        return json.dumps({"event": "unreadable", "record": record[:_SHOWN_CHARACTERS]})
    return record


def _text(value: object) -> str:
    if not isinstance(value, datetime):
        return str(value)
    try:
        return moment_text(value.astimezone(UTC))
    except OverflowError:  # the first or last hours that there are: no record is as old or as young
        return moment_text(value.replace(tzinfo=UTC))


def _yaml(records: Sequence[str]) -> str:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump([json.loads(row) for row in records], Dumper=dumper, sort_keys=False, allow_unicode=True))
