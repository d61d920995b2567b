"""Attacks on what a pod believes (finding 11) and on which license is in force (finding 10): real client, real app."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import FastAPI
from windlass.license.client import LeaseClient
from windlass.license.model import Answer, Granted, Holder, Refused, Unreachable
from windlass_license.http.app import create_app
from windlass_license.license_file.answer_key import encode, load_or_make
from windlass_license.license_file.codec import sign
from windlass_license.license_file.keys import by_id, public_pem
from windlass_license.rules.model import License, LicensedGpu
from windlass_license.settings import Settings

ISSUER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
PEM = public_pem(ISSUER.public_key())
POD = Holder("team-a", "qwen-0", "uid-1", "qwen")
GRANT = {"state": "granted", "lease": "L", "ttlSeconds": 60, "graceSeconds": 9, "expires": None, "message": "yes"}
GPUS = ("GPU-0", "GPU-1")


class Kept(httpx.AsyncBaseTransport):
    """The way to a server, which somebody sits on: `change` makes another response of the last one and those before."""

    def __init__(self, app: FastAPI) -> None:
        self._inner = httpx.ASGITransport(app=app)
        self.seen: list[httpx.Response] = []
        self.change = lambda response, seen: response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        await response.aread()
        self.seen.append(response)
        return self.change(response, self.seen)


def a_license(folder: Path, certified: bool = True, gpus: int = 2, **terms: object) -> bytes:
    """A license file for the server of this folder."""
    now = datetime.now(UTC)
    rows = tuple(LicensedGpu(f"GPU-{n}", "L20", now, now + timedelta(days=30)) for n in range(gpus))
    key = encode(load_or_make(folder, None).public_key()) if certified else ""
    return sign(License("1", "c", 0, rows, answer_key=key, **terms), ISSUER)


@asynccontextmanager
async def asking(folder: Path, certified: bool = True, pem: str = PEM) -> AsyncIterator[tuple[LeaseClient, Kept]]:
    """The client of a pod with the issuer's key, and the way to a server with a license."""
    app = create_app(Settings(folder, by_id([ISSUER.public_key()])))
    way = Kept(app)
    async with app.router.lifespan_context(app):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://ls") as http:
            blob = a_license(folder, certified)
            reply = await http.post("/ls?allowOlder=true", files={"file": blob})
            assert reply.status_code == 200, reply.text
        async with LeaseClient(["http://ls"], public_keys=pem, transport=way) as client:
            yield client, way


async def test_a_certified_server_is_believed(tmp_path: Path) -> None:
    """Grants, renewals and refusals; and after a restart with the same key."""
    for _ in range(2):
        async with asking(tmp_path) as (client, _way):
            assert isinstance(await client.lease(GPUS, POD), Granted)
            refused = await client.lease(("GPU-9",), POD)
            assert isinstance(refused, Refused)
            assert refused.reason == "Unlicensed"


def fake(status: int = 200, **more: object) -> httpx.Response:
    """What a server of ten lines answers."""
    return httpx.Response(status, json=GRANT | more)


def resigned(response: httpx.Response, key: Ed25519PrivateKey, **changed: object) -> httpx.Response:
    """The answer with other facts, signed by a key that nobody certified, under the true certificate."""
    import base64

    body = json.dumps(json.loads(response.content) | changed).encode()
    signature = key.sign(b"windlass lease answer, format 1\n" + f"{response.status_code}\n".encode() + body)
    headers = dict(response.headers) | {"windlass-answer-signature": base64.b64encode(signature).decode()}
    headers["content-length"] = str(len(body))
    return httpx.Response(response.status_code, headers=headers, content=body)


def other_certificate(response: httpx.Response) -> httpx.Response:
    """A certificate that a stranger signed, under the issuer's name."""
    issuer, text, _ = response.headers["windlass-answer-certificate"].split(".")
    import base64

    signature = base64.b64encode(STRANGER.sign(b"windlass answer key, format 1\n" + base64.b64decode(text))).decode()
    headers = dict(response.headers) | {"windlass-answer-certificate": f"{issuer}.{text}.{signature}"}
    return httpx.Response(response.status_code, headers=headers, content=response.content)


ATTACKS = {
    "a fake server": (lambda now, seen: fake(), "carries no signature"),
    "a fake refusal that would end a serving pod": (
        lambda now, seen: fake(403, state="refused", reason="Expired"),
        "carries no signature",
    ),
    "an old grant": (lambda now, seen: seen[0], "another request"),
    "one byte changed": (
        lambda now, seen: httpx.Response(
            200, headers=dict(now.headers), content=now.content.replace(b'"expired":false', b'"expired":true ')
        ),
        "signature does not fit",
    ),
    "a refusal's body under a grant's status": (
        lambda now, seen: httpx.Response(403, headers=dict(now.headers), content=now.content),
        "not as a license server does",
    ),
    "a key that nobody certified": (lambda now, seen: resigned(now, STRANGER), "signature does not fit"),
    "a certificate of a stranger": (lambda now, seen: other_certificate(now), "signature does not fit"),
    "nonsense in the headers": (
        lambda now, seen: httpx.Response(
            200,
            headers={"windlass-answer-certificate": "x.y.z", "windlass-answer-signature": "?"},
            content=now.content,
        ),
        "was certified by",
    ),
}


@pytest.mark.parametrize(("attack", "said"), ATTACKS.values(), ids=ATTACKS)
async def test_nothing_else_is_believed(attack, said: str, tmp_path: Path) -> None:
    """One sentence says why; the pod treats it as no answer, so it waits, or serves on for its grace."""
    async with asking(tmp_path) as (client, way):
        assert isinstance(await client.lease(GPUS, POD), Granted)
        way.change = attack
        answer: Answer = await client.lease(GPUS, POD)
    assert isinstance(answer, Unreachable), answer
    assert said in answer.message


async def test_an_answer_for_other_gpus_or_another_pod(tmp_path: Path) -> None:
    """A true signature over something else: the answer to a neighbour's request, with this pod's nonce."""
    async with asking(tmp_path) as (client, way):

        async def neighbour(request: httpx.Request) -> httpx.Response:
            body = json.loads(request.content) | {"gpus": ["GPU-0"]}
            kept = {name: value for name, value in request.headers.items() if name != "content-length"}
            other = httpx.Request("POST", request.url, headers=kept, content=json.dumps(body).encode())
            return await Kept.handle_async_request(way, other)

        way.handle_async_request = neighbour  # type: ignore[method-assign]
        answer = await client.lease(GPUS, POD)
    assert isinstance(answer, Unreachable)
    assert "other GPUs" in answer.message


async def test_a_license_without_a_certified_key_stays_valid(tmp_path: Path) -> None:
    """A pod with the issuer's key says what to do; one without it goes on as before."""
    async with asking(tmp_path, certified=False) as (client, _way):
        answer = await client.lease(GPUS, POD)
        assert isinstance(answer, Unreachable)
        assert "windlass-license issue --answer-key" in answer.message
    async with asking(tmp_path, certified=False, pem="") as (client, _way):
        assert isinstance(await client.lease(GPUS, POD), Granted)


async def test_an_older_license_needs_a_word(tmp_path: Path) -> None:
    """Finding 10: an older, larger license does not replace a newer one unless it is said, and the audit has it."""
    app = create_app(Settings(tmp_path, by_id([ISSUER.public_key()])))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://ls") as http:

        async def upload(blob: bytes, query: str = "") -> tuple[int, str]:
            reply = await http.post(f"/ls{query}", files={"file": blob})
            return reply.status_code, reply.text

        new, old = a_license(tmp_path, gpus=1, serial=20), a_license(tmp_path, gpus=2, serial=10)
        before_serials = a_license(tmp_path, certified=False, gpus=2)
        assert (await upload(new))[0] == 200
        for blob in (old, before_serials):
            status, said = await upload(blob)
            assert (status, "lower than 20" in said, "allowOlder=true" in said) == (400, True, True)
        assert (await upload(new))[0] == 200
        assert (await upload(old, "?allowOlder=true"))[0] == 200
        records = [json.loads(line) for line in (await http.get("/ls/audit")).text.splitlines()]
    told = [(record["event"], record.get("reason"), record.get("serial"), record.get("older")) for record in records]
    refused = ("uploadRefused", "Older", None, None)
    assert told == [
        ("uploaded", None, 20, None),
        refused,
        refused,
        ("uploaded", None, 20, None),
        ("uploaded", None, 10, True),
    ]
