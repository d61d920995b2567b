"""The OpenAPI description against the server, with requests that schemathesis makes up: no 5xx, nothing undescribed.

WINDLASS_FUZZ_EXAMPLES requests a path and test; `make fuzz-license` asks for many.
"""

import importlib
import os
import pkgutil
from datetime import UTC, datetime, timedelta

import pytest
import schemathesis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from windlass_license.http.app import create_app
from windlass_license.license_file.codec import sign
from windlass_license.license_file.keys import by_id
from windlass_license.rules.model import License, LicensedGpu
from windlass_license.settings import Settings


def _import_all(package: str) -> None:
    """Import a package's modules before any thread of an application runs.

    schemathesis imports some at its first request. pytest parses them then, and CPython 3.11 cannot parse in two
    threads at once: "AST constructor recursion depth mismatch" (python/cpython#106905).
    """
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, f"{package}."):
        importlib.import_module(module.name)


for _package in ("core", "generation", "specs.openapi"):
    _import_all(f"schemathesis.{_package}")
load_all_checks()
EXAMPLES = int(os.environ.get("WINDLASS_FUZZ_EXAMPLES", "8"))
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.CHECKS.get_one("status_code_conformance"),
    schemathesis.checks.CHECKS.get_one("content_type_conformance"),
    schemathesis.checks.CHECKS.get_one("response_schema_conformance"),
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """A server with a license, as it is found in a cluster."""
    app = create_app(Settings(tmp_path_factory.mktemp("openapi"), by_id([KEY.public_key()])))
    now = datetime.now(UTC)
    rows = tuple(LicensedGpu(f"GPU-{n}", "L20", now, now + timedelta(days=30)) for n in range(3))
    TestClient(app).post("/ls", files={"file": sign(License("1", "c", 2, rows), KEY)})
    return app


OPERATIONS = (
    *("GET /", "GET /healthz", "GET /readyz", "GET /metrics"),
    *(
        "POST /ls",
        "GET /ls/view",
        "GET /ls/file",
        "GET /ls/answer-key",
        "GET /ls/audit",
        "POST /v1/leases",
        "DELETE /v1/leases/{lease_id}",
    ),
)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_described_and_never_at_fault(operation: str, app: FastAPI) -> None:
    """Whatever is sent, right or wrong, the answer has a described status, type and form."""
    method, _, path = operation.partition(" ")
    described = schemathesis.openapi.from_asgi("/openapi.json", app)[path][method]
    right = described.as_strategy(generation_mode=GenerationMode.POSITIVE)
    wrong = described.as_strategy(generation_mode=GenerationMode.NEGATIVE) if method == "POST" else right

    @given(case=st.one_of(right, wrong))
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def hold(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=CHECKS)

    hold()


def test_every_path_is_described(app: FastAPI) -> None:
    """Nothing is served that the description, and the test above, do not have."""
    paths = app.openapi()["paths"]
    assert {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods} == set(OPERATIONS)
