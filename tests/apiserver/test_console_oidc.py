"""Sign-in by OIDC: an issuer, an API server that trusts it, and an ingress that sends the user's ID token.

The issuer is a small server with TLS; the API server reads its keys and checks each token by itself. The ingress is a
proxy that adds the header Authorization, with the path's prefix left or taken away.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

pytestmark = pytest.mark.apiserver
PREFIX, CLIENT = "/console", "windlass"


@cache
def key() -> rsa.RSAPrivateKey:
    """The issuer's."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def plain(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def token(issuer: str, user: str, lasts_s: int = 600, **claims: object) -> str:
    """An ID token as an issuer signs it."""
    now = int(time.time())
    head = {"alg": "RS256", "kid": "1", "typ": "JWT"}
    body = {"iss": issuer, "aud": CLIENT, "sub": user, "iat": now, "exp": now + lasts_s, **claims}
    text = ".".join(plain(json.dumps(part).encode()) for part in (head, body))
    return f"{text}.{plain(key().sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class Issuer(BaseHTTPRequestHandler):
    """Its description and its keys."""

    def do_GET(self) -> None:
        url = f"https://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]
        numbers = key().public_key().public_numbers()
        row = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "e": plain(b"\x01\x00\x01"),
               "n": plain(numbers.n.to_bytes(256, "big"))}  # fmt: skip
        documents = {
            "/.well-known/openid-configuration": {
                "issuer": url, "jwks_uri": f"{url}/keys", "authorization_endpoint": f"{url}/a",
                "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            },
            "/keys": {"keys": [row]},
        }  # fmt: skip
        body = json.dumps(documents.get(self.path, {})).encode()
        self.send_response(200 if self.path in documents else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not on the test's output."""


class Ingress(BaseHTTPRequestHandler):
    """Passes requests on as the user whom it has signed in; `strips` takes the prefix away."""

    to: ClassVar[str] = ""
    token: ClassVar[str] = ""
    strips: ClassVar[bool] = False

    def do_GET(self) -> None:
        path = self.path.removeprefix(PREFIX) if self.strips else self.path
        kept = ("host", "connection", "authorization")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in kept}
        headers |= {"Authorization": f"Bearer {self.token}", "Host": self.headers["Host"]}
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = httpx2.request(self.command, self.to + path, headers=headers, content=content, trust_env=False)
        self.send_response(answer.status_code)
        for name, value in answer.headers.multi_items():
            if name not in ("content-length", "connection", "transfer-encoding", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - names of http.server

    def log_message(self, *_: object) -> None:
        """Not on the test's output."""


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def certificate(folder: Path) -> Path:
    """Of 127.0.0.1, which is its own authority; the file has the key as well."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key().public_key()).serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key(), hashes.SHA256())
    )  # fmt: skip
    pem = serialization.Encoding.PEM
    form = (pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "issuer.pem").write_bytes(made.public_bytes(pem))
    (folder / "both.pem").write_bytes(key().private_bytes(*form) + made.public_bytes(pem))
    return folder / "issuer.pem"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Its URL and its certificate."""
    folder = tmp_path_factory.mktemp("issuer")
    pem = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server) as port:
        yield f"https://127.0.0.1:{port}", pem


@pytest.fixture(scope="module")
def trusting(issuer: Any, load_module: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An API server that takes the issuer's tokens, with a service in two namespaces of which Ann has one."""
    url, pem = issuer
    flags = (
        f"--oidc-issuer-url={url}", f"--oidc-ca-file={pem}", f"--oidc-client-id={CLIENT}",
        "--oidc-username-claim=email", "--oidc-username-prefix=oidc:", "--oidc-groups-claim=groups",
        "--oidc-groups-prefix=oidc:",
    )  # fmt: skip
    at, crd = load_module("console_process"), Path(__file__).resolve().parents[2] / "crds"
    with load_module("control_plane").running_api_server(tmp_path_factory.mktemp("oidc"), flags) as server:
        server.install_crd(crd / "llmservices.serving.windlass.dev.yaml")
        for name in ("team-a", "team-b"):
            server.kubectl("create", "namespace", name)
        rules = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "editors", "namespace": "team-a"}}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "editors"}
        group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "oidc:team-a"}
        assert server.apply({**rules, "kind": "Role", "rules": at.EDITOR}).returncode == 0
        assert server.apply({**rules, "kind": "RoleBinding", "roleRef": role, "subjects": [group]}).returncode == 0
        yield server


@pytest.fixture(scope="module")
def behind(trusting: Any, load_module: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The console's pages as browsers see them, behind the ingress."""
    at, port = load_module("console_process"), load_module("control_plane").free_ports(1)[0]
    log = tmp_path_factory.mktemp("console") / "log"
    options = ("--prefix", PREFIX, "--namespace", "team-a", "--namespace", "team-b")
    with (
        at.running_console(trusting, port, log, *options) as Ingress.to,
        serving(ThreadingHTTPServer(("127.0.0.1", 0), Ingress)) as entry,
    ):
        yield f"http://127.0.0.1:{entry}{PREFIX}"


@pytest.fixture
def browser(behind: str, issuer: Any, at: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx2.Client]:
    """Ann's, whom the ingress has signed in."""
    ann = token(issuer[0], "1", email="ann@example.com", groups=["team-a"])
    monkeypatch.setattr(Ingress, "token", ann)
    with httpx2.Client(headers={**at.CSRF, "Origin": behind.removesuffix(PREFIX)}, trust_env=False, timeout=60) as http:
        yield http


@pytest.mark.parametrize("strips", [False, True], ids=["prefix left", "prefix taken away"])
def test_a_user_of_the_issuer_works_behind_the_prefix(behind, browser, at, monkeypatch, strips):
    """Name and groups are the token's; the namespaces are those that the group may see; no cookie is made."""
    monkeypatch.setattr(Ingress, "strips", strips)
    session = browser.get(f"{behind}/api/session").json()
    assert (session["user"], session["via"]) == ("oidc:ann@example.com", "header")
    assert "oidc:team-a" in session["groups"]
    assert session["namespaces"] == [{"name": "team-a", "create": True}]
    assert session["expires"].startswith("20")
    assert browser.get(f"{behind}/").headers["content-type"].startswith("text/html")
    assert browser.post(f"{behind}/api/services/team-a", json=at.a_service()).status_code == 201
    assert browser.get(f"{behind}/api/services/team-a/qwen").json()["row"]["name"] == "qwen"
    assert browser.get(f"{behind}/api/services", params={"namespace": "team-b"}).status_code == 403
    assert browser.delete(f"{behind}/api/services/team-a/qwen").status_code == 204
    assert list(browser.cookies) == []


def test_a_new_token_of_the_same_user_goes_on(behind, browser, issuer, monkeypatch):
    """As the ingress makes one when the old one is about to end."""
    first = browser.get(f"{behind}/api/session").json()
    newer = token(issuer[0], "1", 1200, email="ann@example.com", groups=["team-a"])
    monkeypatch.setattr(Ingress, "token", newer)
    again = browser.get(f"{behind}/api/session").json()
    assert (again["user"], again["expires"] > first["expires"]) == (first["user"], True)


@pytest.mark.parametrize(
    "claims",
    [{"lasts_s": -60}, {"aud": "another"}, {"iss": "https://127.0.0.1:1"}],
    ids=["ended", "of another client", "of another issuer"],
)
def test_a_token_that_the_api_server_does_not_take_is_nobodys(behind, browser, issuer, monkeypatch, claims):
    given = {"email": "ann@example.com", "groups": ["team-a"], **claims}
    monkeypatch.setattr(Ingress, "token", token(given.pop("iss", issuer[0]), "1", given.pop("lasts_s", 600), **given))
    answer = browser.get(f"{behind}/api/session")
    assert (answer.status_code, answer.json()["reason"]) == (401, "SignIn")
