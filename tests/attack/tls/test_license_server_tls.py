"""Old TLS versions and weak ciphers against a real license server: a client that offers each of them alone."""

import socket
import ssl
import warnings

import pytest
from windlass_testbed.waiting import HANG_S

WEAK = ("aNULL", "NULL", "AES128-SHA", "AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA", "CAMELLIA")
OLD = (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)


def offer(version: ssl.TLSVersion, ciphers: str) -> ssl.SSLContext:
    """A client of one version and some ciphers, with its own level of security at the lowest."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the old versions, on purpose
        context.minimum_version = context.maximum_version = version
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    return context


def agreed(port: int, context: ssl.SSLContext) -> tuple[str | None, str | None]:
    """The version and the compression that both sides agree upon."""
    with socket.create_connection(("127.0.0.1", port), HANG_S) as plain, context.wrap_socket(plain) as secure:
        return secure.version(), secure.compression()


@pytest.mark.parametrize("version", OLD, ids=str)
def test_old_versions_are_refused(port, version):
    with pytest.raises((ssl.SSLError, ConnectionError), match=r"(?i)protocol|version|alert|reset|EOF"):
        agreed(port, offer(version, "ALL"))


@pytest.mark.parametrize("ciphers", WEAK)
def test_ciphers_without_forward_secrecy_or_authenticated_encryption_are_refused(port, ciphers):
    with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure|EOF"):
        agreed(port, offer(ssl.TLSVersion.TLSv1_2, ciphers))


@pytest.mark.parametrize(
    ("version", "name"), [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")], ids=str
)
def test_current_versions_are_taken_without_compression(port, version, name):
    assert agreed(port, offer(version, "DEFAULT")) == (name, None)
