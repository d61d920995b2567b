"""A hub that speaks https leads to plain http: neither the token nor a byte of the model goes that way."""

from __future__ import annotations

import socket

import httpcore2
import pytest
from hostile_hub import NAME, TOKEN, Hub, answer, on
from windlass_download.connection import Connection, trusted
from windlass_download.errors import UserError
from windlass_download.hubs import HUBS, wanted_from
from windlass_download.reach import Reach
from windlass_download.wire import Meter, Wire
from windlass_testbed.certificate import certify


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A folder with a certificate for 127.0.0.1 that SSL_CERT_FILE can name."""
    folder = tmp_path_factory.mktemp("tls")
    certify(folder)
    return folder


@pytest.mark.parametrize("way", ["redirect", "next page"])
def test_https_does_not_fall_back(certificate, monkeypatch, way):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "tls.crt"))
    with Hub() as plain, Hub(tls=certificate) as hub:
        reply = {
            "redirect": answer(b"", "302 Go", Location=f"{plain.url}/x"),
            "next page": answer(b"[]", Link=f'<{plain.url}/x>; rel="next"'),
        }
        hub.act = on("tree", reply[way])
        wanted = wanted_from("huggingface", NAME, "", hub.url)
        connection = Connection(wanted, {"Authorization": f"Bearer {TOKEN}"}, 5.0, 2)
        with pytest.raises(UserError, match="leads to where no model is fetched from"):
            HUBS["huggingface"].listing(wanted, connection.ask)
        connection.close()
    assert (len(hub.seen), plain.seen) == (2, [])


NAMES = {
    "hub.example": ["93.184.216.34"],
    "cdn.example": ["93.184.216.35"],
    "inside.example": ["10.0.0.5"],
    "rebound.example": ["127.0.0.1"],
    "metadata.example": ["169.254.169.254"],
    "both.example": ["127.0.0.1", "93.184.216.36"],
}


@pytest.fixture
def connected(monkeypatch):
    """Names as a hostile DNS server answers; which addresses are connected to, without a connection."""
    tried: list[str] = []

    def resolve(host, port, *_, **__):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in NAMES.get(host, [host])]

    def connect(_, host, *__):
        tried.append(host)
        raise httpcore2.ConnectError("not here")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", connect)
    return tried


@pytest.mark.parametrize(
    ("home", "host", "reached"),
    [
        ("hub.example", "cdn.example", ["93.184.216.35"]),
        ("hub.example", "inside.example", None),
        ("hub.example", "rebound.example", None),
        ("hub.example", "metadata.example", None),
        ("hub.example", "both.example", ["93.184.216.36"]),
        ("inside.example", "10.9.9.9", ["10.9.9.9"]),
        ("inside.example", "cdn.example", ["93.184.216.35"]),
        ("inside.example", "rebound.example", None),
        ("rebound.example", "metadata.example", None),
    ],
)
def test_a_name_that_resolves_further_inside_is_not_connected_to(connected, home, host, reached):
    """The address that is checked is the one that is connected to: the name is resolved once."""
    wire = Wire(Meter(), 1.0, Reach(home))
    with pytest.raises(httpcore2.ConnectError):
        wire.connect_tcp(home, 443)
    connected.clear()
    with pytest.raises(httpcore2.ConnectError if reached else UserError):
        wire.connect_tcp(host, 443)
    assert connected == (reached or [])


def test_the_endpoints_own_name_cannot_move_inside(connected, monkeypatch):
    """DNS rebinding: the first answer is public, a later one is not."""
    wire = Wire(Meter(), 1.0, Reach("hub.example"))
    with pytest.raises(httpcore2.ConnectError):
        wire.connect_tcp("hub.example", 443)
    monkeypatch.setitem(NAMES, "hub.example", ["192.168.1.1"])
    with pytest.raises(UserError, match="a private address further inside than the endpoint"):
        wire.connect_tcp("hub.example", 443)


def test_a_site_s_own_authority_is_trusted_when_it_is_given_and_not_before(certificate):
    """The chart's download.caBundle; without it a certificate of the site's is HubUntrusted."""
    with Hub(tls=certificate) as hub:
        wanted = wanted_from("huggingface", NAME, "", hub.url)
        stranger = Connection(wanted, {}, 5.0, 2)
        with pytest.raises(UserError) as refused:
            HUBS["huggingface"].listing(wanted, stranger.ask)
        assert refused.value.reason == "HubUntrusted"
        stranger.close()
        known = Connection(wanted, {}, 5.0, 2, (certificate / "tls.crt").read_text())
        assert HUBS["huggingface"].listing(wanted, known.ask).files
        known.close()
    with pytest.raises(UserError, match=r"download\.caBundle cannot be read"):
        trusted("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
