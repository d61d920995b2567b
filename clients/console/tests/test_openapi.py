"""The API's documents: openapi.json is what the code answers, and the reference page names every route."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from windlass_console.http.app import create_app
from windlass_console.http.guard import ALWAYS, POLICY
from windlass_console.identity.rights import TABLE
from windlass_console.settings import Settings
from windlass_console.views.row import Row

ROOT = Path(__file__).parents[3]
FILE = ROOT / "clients/console/openapi.json"
PAGE = (ROOT / "docs/reference/console-api.md").read_text(encoding="utf-8")
ROUTE = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (api/[\w/.-]+|…/\w+|healthz|readyz)")
HERE = "api/services/{namespace}/{name}"


def document() -> dict:
    app = create_app(Settings(api_server="https://kube.test"), lambda *_: None)
    return app.inner.openapi()


def test_the_published_document_is_what_the_code_answers():
    """WINDLASS_GOLDEN=write rewrites it; `npm run types` in clients/console/ makes the pages' types of it."""
    text = json.dumps(document(), indent=1) + "\n"
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        FILE.write_text(text)
    assert FILE.read_text() == text


def test_the_reference_names_every_route_and_no_other():
    named = {
        (method, re.sub(r"/NS\b", "/{namespace}", re.sub(r"/(NAME|JOB)\b", "/{name}", path.replace("…", HERE))))
        for method, path in ROUTE.findall(PAGE)
    }
    there = {(method.upper(), path.lstrip("/")) for path, methods in document()["paths"].items() for method in methods}
    assert named - {("GET", "api/openapi.json")} == there


def test_the_reference_names_headers_rights_and_the_fields_of_a_row():
    assert POLICY in PAGE
    for name, _ in ALWAYS[1:]:
        assert name.decode().lower() in PAGE.lower()
    assert all(f'"{word}"' in PAGE for word in (*TABLE, *Row.__annotations__))
