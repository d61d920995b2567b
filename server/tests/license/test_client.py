"""The license client against a real HTTP server."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from windlass.errors import UsageError
from windlass.license.client import LeaseClient, trust
from windlass.license.model import Granted, Holder, Refused, Unreachable, holder
from windlass_testbed.simulated_time import passed_s

POD = Holder("team-a", "qwen-0", "uid-1", "qwen")
NOBODY = "http://127.0.0.1:9"
GRANT = {"state": "granted", "lease": "L1", "ttlSeconds": 60, "graceSeconds": 600, "expires": None, "message": "yes"}
REFUSAL = {"state": "refused", "reason": "Unlicensed", "message": "GPU GPU-a is not in the license", "gpus": ["GPU-a"]}


async def test_granted(serve) -> None:
    """The request carries all GPUs and who asks; the answer's terms are read."""
    server = serve(lambda seen: (200, json.dumps(GRANT)))
    async with LeaseClient([server.url]) as client:
        answer = await client.lease(("GPU-a", "GPU-b"), POD)
        assert Granted("L1", 60, 600, None, False, "yes") == answer
        await client.release("L1")
    body = {
        "gpus": ["GPU-a", "GPU-b"],
        "holder": {"namespace": "team-a", "pod": "qwen-0", "uid": "uid-1", "service": "qwen"},
    }
    nonce = server.seen[0].body.pop("nonce")
    assert (len(nonce), set(nonce) <= set("0123456789abcdef")) == (32, True)
    assert [("POST", "/v1/leases", body), ("DELETE", "/v1/leases/L1", {})] == [
        (seen.method, seen.path, seen.body) for seen in server.seen
    ]


async def test_refused(serve) -> None:
    """A refusal keeps the server's words."""
    server = serve(lambda seen: (403, json.dumps(REFUSAL)))
    async with LeaseClient([server.url]) as client:
        assert Refused("Unlicensed", "GPU GPU-a is not in the license") == await client.lease(("GPU-a",), POD)


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (200, "<html>", "answered 200, but not as a license server does"),
        (200, "[]", "answered 200, but not as a license server does"),
        (403, "forbidden", "answered 403, but not as a license server does"),
        (500, "oops", "answered 500: oops"),
        (422, '{"message": "holder.uid: too short"}', "answered 422: holder.uid: too short"),
    ],
)
async def test_no_license_server(serve, status: int, text: str, said: str) -> None:
    """Something else that answers is no verdict."""
    server = serve(lambda seen: (status, text))
    async with LeaseClient([server.url]) as client:
        answer = await client.lease(("GPU-a",), POD)
    assert isinstance(answer, Unreachable)
    assert said in answer.message


async def test_addresses_are_tried_in_order_and_the_one_that_answers_is_kept(serve) -> None:
    """A server that is out of reach costs one try, once."""
    server = serve(lambda seen: (200, json.dumps(GRANT)))
    async with LeaseClient([NOBODY, server.url]) as client:
        assert isinstance(await client.lease(("GPU-a",), POD), Granted)
        assert server.url == client._addresses[0]


NO_LICENSE = {"state": "refused", "reason": "NoLicense", "message": "no license is in force", "gpus": []}


async def test_an_address_without_a_license_is_passed_over(serve) -> None:
    """Anybody can say NoLicense, so it neither ends the round nor comes first from then on."""
    empty = serve(lambda seen: (403, json.dumps(NO_LICENSE)))
    real = serve(lambda seen: (500, "starting") if len(real.seen) in (2, 3) else (200, json.dumps(GRANT)))
    async with LeaseClient([empty.url, real.url]) as client:
        assert isinstance(await client.lease(("GPU-a",), POD), Granted)
        assert client._addresses == [real.url, empty.url]
        for _ in range(2):
            assert await client.lease(("GPU-a",), POD) == Refused("NoLicense", "no license is in force")
            assert client._addresses == [real.url, empty.url]
        assert isinstance(await client.lease(("GPU-a",), POD), Granted)
        assert len(empty.seen) == 3


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        (403, REFUSAL, Refused("Unlicensed", "GPU GPU-a is not in the license")),
        (500, {}, Refused("NoLicense", "no license is in force")),
        (403, NO_LICENSE | {"message": "none here either"}, Refused("NoLicense", "no license is in force")),
    ],
)
async def test_no_license_is_the_last_word_of_a_round(serve, status: int, answer: dict, expected: Refused) -> None:
    """A refusal that says more wins; a refusal changes no order."""
    servers = [serve(lambda seen: (403, json.dumps(NO_LICENSE))), serve(lambda seen: (status, json.dumps(answer)))]
    urls = [server.url for server in servers]
    async with LeaseClient(urls) as client:
        assert await client.lease(("GPU-a",), POD) == expected
        assert client._addresses == urls


@asynccontextmanager
async def listening(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """The address of a server in this event loop, which shares its simulated time."""

    meetings: set[asyncio.Task] = set()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        meetings.add(asyncio.current_task())
        try:
            await reader.readuntil(b"\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                await answer(writer)
        finally:
            writer.transport.abort()

    async with await asyncio.start_server(meet, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for meeting in meetings:
        meeting.cancel()
    await asyncio.gather(*meetings, return_exceptions=True)
    await asyncio.sleep(0)  # the transports' own last step


@pytest.mark.simulated_time
async def test_all_addresses_share_one_time_out() -> None:
    """A server that says nothing is given up in time, and the sentence says what to do."""

    async def silent(_: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)  # clock: simulated

    async with listening(silent) as url, LeaseClient([url, NOBODY], total_timeout_s=8) as client:
        answer = await client.lease(("GPU-a",), POD)
    assert passed_s() == pytest.approx(4)
    assert isinstance(answer, Unreachable)
    assert "no answer in time" in answer.message
    assert "give its address (WINDLASS_LS_ADDR)" in answer.message


async def test_release_of_a_lost_server_is_silent() -> None:
    """A pod may end without its license server."""
    async with LeaseClient([NOBODY]) as client:
        await client.release("L1")


@pytest.mark.simulated_time
async def test_time_that_one_address_leaves_is_for_the_next() -> None:
    """A refused connection costs nothing, so the server after it has nearly the whole time-out."""

    async def late(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2.9)  # clock: simulated
        body = json.dumps(GRANT)
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()

    async with listening(late) as url, LeaseClient([NOBODY, url], total_timeout_s=3) as client:
        assert isinstance(await client.lease(("GPU-a",), POD), Granted)


@pytest.mark.simulated_time
async def test_an_answer_in_drops_is_no_answer() -> None:
    """The time-out bounds the whole, not each byte; the client closes the connection."""
    left = asyncio.Event()

    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        try:
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(1)  # clock: simulated
        finally:
            left.set()

    async with listening(drip) as url, LeaseClient([url], total_timeout_s=8) as client:
        answer = await client.lease(("GPU-a",), POD)
        assert passed_s() == pytest.approx(8)
        await left.wait()
    assert isinstance(answer, Unreachable)
    assert "no answer in time" in answer.message


BROKEN = ("/no/such/file", "/no/such/ü", "-----BEGIN CERTIFICATE-----ü")
NONSENSE = tuple(
    f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----" for text in ("nonsense", "AAAü", "\udcff")
)


@pytest.mark.parametrize("ca", BROKEN + NONSENSE)
def test_a_broken_authority_is_reported(ca: str) -> None:
    """Before anything is asked, with the variable's name."""
    with pytest.raises(UsageError, match="variable WINDLASS_LS_CA holds no certificate that can be read"):
        LeaseClient(["https://a"], ca=ca)


def test_a_comment_in_a_bundle_may_have_any_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """As bundles name their authorities; the certificates themselves are ASCII."""
    given: list[str] = []
    monkeypatch.setattr("ssl.create_default_context", lambda cadata: given.append(cadata) or "trusted")
    assert trust("# Főtanúsítvány\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----") == "trusted"
    assert given[0].isascii()


def test_holder() -> None:
    """In a pod the operator says who asks; elsewhere the host's name does."""
    said = {"WINDLASS_POD_NAMESPACE": "n", "WINDLASS_POD_NAME": "p", "WINDLASS_POD_UID": "u", "WINDLASS_SERVICE": "s"}
    assert Holder("n", "p", "u", "s") == holder(said, "host")
    assert Holder("", "host", "host", "") == holder({}, "host")
