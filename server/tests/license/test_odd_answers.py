"""Answers that no license server gives, and answers with terms beyond every date: neither ends a pod."""

import asyncio
import base64
import gzip
import hashlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from windlass.license.client import LeaseClient
from windlass.license.keeper import LicenseFacts, LicenseKeeper
from windlass.license.model import Granted, Holder, Refused, Unreachable
from windlass_testbed.simulated_time import elapse

POD = Holder("team-a", "qwen-0", "uid-1", "qwen")
ISSUER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SERVER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
PEM = ISSUER.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
GRANT = {"lease": "L1", "ttlSeconds": 60, "graceSeconds": 9, "expires": None, "expired": False, "message": "yes"}
REFUSAL = {"reason": "Expired", "message": "it ended"}
PLACE = "http://ls"
DIGITS_400, DIGITS_5000 = "1" + "0" * 400, "1" + "0" * 5000


def response(status: int, body: bytes, **headers: str) -> httpx.Response:
    return httpx.Response(
        status, content=body, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def with_ttl(number: str) -> bytes:
    return json.dumps(GRANT | {"ttlSeconds": 0}).replace('"ttlSeconds": 0', f'"ttlSeconds": {number}').encode()


def signed(
    request: httpx.Request, status: int = 200, ends: str = "2090-01-01T00:00:00Z", **terms: object
) -> httpx.Response:
    """What the license server answers that the issuer certified until `ends`."""
    asked = json.loads(request.content)
    about = {
        "nonce": asked["nonce"],
        "at": datetime.now(UTC).isoformat(),
        "gpus": asked["gpus"],
        "pod": asked["holder"],
    }
    return sealed(status, json.dumps(GRANT | about | terms).encode(), ends)


def sealed(status: int, body: bytes, ends: str = "2090-01-01T00:00:00Z") -> httpx.Response:
    """This body, signed by the certified server whatever it is."""
    facts = {"key": base64.b64encode(SERVER.public_key().public_bytes_raw()).decode(), "expires": ends}
    text = json.dumps(facts).encode()
    by = hashlib.sha256(ISSUER.public_key().public_bytes_raw()).hexdigest()[:16]
    issued = base64.b64encode(ISSUER.sign(b"windlass answer key, format 1\n" + text)).decode()
    proof = SERVER.sign(f"windlass lease answer, format 1\n{status}\n".encode() + body)
    certificate = f"{by}.{base64.b64encode(text).decode()}.{issued}"
    signature = base64.b64encode(proof).decode()
    return response(status, body, windlass_answer_signature=signature, windlass_answer_certificate=certificate)


ODD = {
    "a time of 400 digits": (200, with_ttl(DIGITS_400), {}),
    "a time of 5000 digits": (200, with_ttl(DIGITS_5000), {}),
    "no time": (200, with_ttl("null"), {}),
    "a time in words": (200, with_ttl('"60"'), {}),
    "a time that is a yes": (200, with_ttl("true"), {}),
    "a time without end": (200, with_ttl("Infinity"), {}),
    "a time beyond floating point": (200, with_ttl("1e999"), {}),
    "a time that is no number": (200, with_ttl("NaN"), {}),
    "a time before now": (200, with_ttl("-1"), {}),
    "no time at all": (200, with_ttl("0"), {}),
    "a lease that is a list": (200, json.dumps(GRANT | {"lease": ["L1"]}).encode(), {}),
    "a lease of half a character": (200, json.dumps(GRANT | {"lease": "\ud800"}).encode(), {}),
    "an endless lease": (200, json.dumps(GRANT | {"lease": "L" * 70_000}).encode(), {}),
    "a refusal with a number of 5000 digits": (
        403,
        b'{"reason": "Expired", "message": ' + DIGITS_5000.encode() + b"}",
        {},
    ),
    "a refusal without words": (403, b'{"reason": "Expired"}', {}),
    "deep lists": (403, b"[" * 50_000, {}),
    "half of UTF-16": (500, b"\xff", {"content_type": "text/plain; charset=utf-16"}),
    "a charset that is none": (500, b"hello", {"content_type": "text/plain; charset=undefined"}),
    "a charset of bytes": (500, b"hello", {"content_type": "text/plain; charset=hex"}),
    "a place to go to instead": (302, b"", {"location": "http://xn--a/"}),
    "a body that is packed": (200, gzip.compress(json.dumps(GRANT).encode()), {"content_encoding": "gzip"}),
    "a body that says it is packed": (200, json.dumps(GRANT).encode(), {"content_encoding": "gzip"}),
}


@pytest.mark.parametrize("keys", ["", PEM], ids=["no keys", "keys"])
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_an_odd_answer_is_no_answer(odd: tuple[int, bytes, dict[str, str]], keys: str) -> None:
    """One sentence with the address; whoever answers at an address cannot end a pod by nonsense."""
    status, body, headers = odd
    transport = httpx.MockTransport(lambda _: response(status, body, **headers))
    async with LeaseClient([PLACE], public_keys=keys, transport=transport) as client:
        answer = await client.lease(("GPU-a",), POD)
    assert isinstance(answer, Unreachable), answer
    assert PLACE in answer.message
    assert "\n" not in answer.message


@pytest.mark.parametrize("keys", ["", PEM], ids=["no keys", "keys"])
async def test_an_odd_answer_that_is_signed_is_no_answer(keys: str) -> None:
    """A certified server with a fault is as harmless: signed bytes are read with the same care."""
    for status, body, headers in ODD.values():
        if headers:
            continue

        def answer_with(_: httpx.Request, status: int = status, body: bytes = body) -> httpx.Response:
            return sealed(status, body)

        async with LeaseClient([PLACE], public_keys=keys, transport=httpx.MockTransport(answer_with)) as client:
            assert isinstance(await client.lease(("GPU-a",), POD), Unreachable)


@pytest.mark.parametrize("where", ["httpx.AsyncClient.send", "httpx.AsyncClient.stream"])
async def test_a_fault_of_any_library_is_no_answer(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stranger's bytes do in libraries ends no pod."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("not thought of")

    monkeypatch.setattr(where, fail)
    transport = httpx.MockTransport(lambda _: response(200, b""))
    async with LeaseClient([PLACE], transport=transport) as client:
        answer = await client.lease(("GPU-a",), POD)
    assert isinstance(answer, Unreachable)
    assert "AssertionError: not thought of" in answer.message


async def test_an_endless_answer_is_left_early() -> None:
    """Its bytes are counted as they come."""
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(10_000):
            read += 65_536
            yield b" " * 65_536

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=endless()))
    async with LeaseClient([PLACE], transport=transport) as client:
        answer = await client.lease(("GPU-a",), POD)
    assert isinstance(answer, Unreachable)
    assert "no license server does" in answer.message
    assert read < 2_000_000


async def test_no_cookie_is_kept() -> None:
    """A stranger's cookies would pile up in a pod that asks for months."""
    asked: list[httpx.Request] = []

    def with_cookie(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return response(503, b"", set_cookie=f"name-{len(asked)}=value; Max-Age=9999")

    async with LeaseClient(["http://ls.example"], transport=httpx.MockTransport(with_cookie)) as client:
        for _ in range(2):
            await client.lease(("GPU-a",), POD)
    assert "cookie" not in asked[-1].headers


async def test_a_strangers_words_steer_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do those that a library repeats in its error."""

    def fail(*_: object, **__: object) -> None:
        raise httpx.RemoteProtocolError("bad line: \x1b[2J\n" + "x" * 100_000)

    monkeypatch.setattr("httpx.AsyncClient.stream", fail)
    transport = httpx.MockTransport(lambda _: response(200, b""))
    async with LeaseClient([PLACE], transport=transport) as client:
        answer = await client.lease(("GPU-a",), POD)
    assert isinstance(answer, Unreachable)
    assert answer.message.isprintable()
    assert len(answer.message) < 3000


async def test_only_a_signed_grant_or_refusal_is_believed() -> None:
    """And the one refusal that nobody can sign."""
    async with LeaseClient([PLACE], public_keys=PEM, transport=httpx.MockTransport(signed)) as client:
        assert await client.lease(("GPU-a",), POD) == Granted("L1", 60, 9, None, False, "yes")
    for reason, kind in (("Expired", Unreachable), ("NoLicense", Refused)):
        body = json.dumps(REFUSAL | {"reason": reason}).encode()
        transport = httpx.MockTransport(lambda _, body=body: response(403, body))
        async with LeaseClient([PLACE], public_keys=PEM, transport=transport) as client:
            assert isinstance(await client.lease(("GPU-a",), POD), kind)


PERPETUAL = ("9998-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999-12:00")


@pytest.mark.parametrize("ends", PERPETUAL)
async def test_a_perpetual_license_is_granted(ends: str) -> None:
    """A certificate that ends with the calendar is not beyond it."""
    transport = httpx.MockTransport(lambda request: signed(request, ends=ends, expires=ends))
    async with LeaseClient([PLACE], public_keys=PEM, transport=transport) as client:
        answer = await client.lease(("GPU-a",), POD)
    assert isinstance(answer, Granted), answer
    assert answer.expires == ends


async def test_a_certificate_that_ended_long_ago_is_no_proof() -> None:
    """As before; also where the calendar begins."""
    for ends in ("2020-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"):
        transport = httpx.MockTransport(lambda request, ends=ends: signed(request, ends=ends))
        async with LeaseClient([PLACE], public_keys=PEM, transport=transport) as client:
            answer = await client.lease(("GPU-a",), POD)
        assert isinstance(answer, Unreachable)
        assert "ended long ago" in answer.message


@pytest.mark.simulated_time
@pytest.mark.parametrize("grace", ["9999999", "999999999999", "1e300", DIGITS_400])
async def test_a_grace_beyond_every_date_is_a_long_one(grace: str) -> None:
    """The pod is granted, and goes on when the server is away."""
    facts: list[LicenseFacts] = []
    body = json.dumps(GRANT | {"graceSeconds": 0}).replace('"graceSeconds": 0', f'"graceSeconds": {grace}')
    answers = [response(200, body.encode())]
    transport = httpx.MockTransport(lambda _: answers.pop() if answers else response(500, b"down"))
    async with LeaseClient([PLACE], transport=transport) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, facts.append)
        await keeper.obtain()
        keeping = asyncio.create_task(keeper.keep())
        await elapse(3600)
        assert not keeping.done()
        keeping.cancel()
    assert facts[-1].state == "unreachable"
    assert "serves on until 2" in facts[-1].message
