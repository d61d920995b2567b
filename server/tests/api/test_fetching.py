"""A name that is allowed and resolves to an address that is not."""

import sys
from types import SimpleNamespace

import aiohttp
import pytest
from windlass.api import fetching
from windlass_testbed.cases import every_case

WHOLE, WILD = ("images.example.com",), ("images.example.com", "*.cdn.example.com")


@every_case(
    "address, domains, allowed",
    [
        ("93.184.216.34", WHOLE, True), ("2606:2800:220:1:248:1893:25c8:1946", WILD, True),
        ("10.0.0.7", WHOLE, True), ("10.0.0.7", WILD, False), ("192.168.1.1", WILD, False),
        ("fd00::1", WILD, False), ("100.64.0.1", WILD, False), ("::ffff:10.0.0.7", WILD, False),
        ("127.0.0.1", WHOLE, False), ("127.0.0.1", ("localhost",), True), ("::1", WHOLE, False),
        ("::ffff:127.0.0.1", WHOLE, False), ("169.254.169.254", ("localhost", *WHOLE), False),
        ("::ffff:169.254.169.254", WHOLE, False), ("fe80::1%eth0", WHOLE, False), ("0.0.0.0", WHOLE, False),
        ("224.0.0.1", WHOLE, False), ("255.255.255.255", WHOLE, False), ("240.0.0.1", WHOLE, False),
    ],
)  # fmt: skip
def test_which_addresses_are_connected_to(address: str, domains: tuple[str, ...], allowed: bool) -> None:
    assert (fetching.objection(address, domains) == "") is allowed


async def test_a_name_that_resolves_to_this_machine_is_not_connected_to(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """By aiohttp itself, as the engine has it; where `localhost` is listed it is."""
    server = serve(lambda _: (200, "{}"))
    url = server.url.replace("127.0.0.1", "localhost")
    connection = SimpleNamespace(_async_client=None)
    monkeypatch.setitem(sys.modules, fetching.CLIENT, SimpleNamespace(global_http_connection=connection))
    assert fetching.guard(WHOLE, {})
    async with connection._async_client as client:
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(url)
    assert server.seen == []
    assert fetching.guard(("localhost",), {})
    async with connection._async_client as client, client.get(url) as answer:
        assert answer.status == 200


def test_a_proxy_connects_by_its_own_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address is private, and it resolves the names."""
    connection = SimpleNamespace(_async_client=None)
    monkeypatch.setitem(sys.modules, fetching.CLIENT, SimpleNamespace(global_http_connection=connection))
    assert not fetching.guard(WHOLE, {"HTTPS_PROXY": "http://10.0.0.1:3128"})
    assert connection._async_client is None
