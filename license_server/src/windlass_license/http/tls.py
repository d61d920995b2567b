"""HTTPS with a certificate that may be replaced while the server runs, as a mounted Secret is when it is renewed."""

import hashlib
import logging
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from windlass_license.errors import SettingsError

log = logging.getLogger("windlass_license")
CERTIFICATE_NAME, KEY_NAME = "tls.crt", "tls.key"
LOOK_EVERY_S = 30.0


class _EncryptedKeyError(OSError):
    """A key that asks for a password; an OSError as what else is wrong with one."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Where certificate and key lie, named as Kubernetes names them in a Secret."""

    certificate: Path
    key: Path
    stamp: bytes
    """Of the bytes that were read; changes with the files."""
    context: ssl.SSLContext
    """Serves what was read."""


def read(directory: Path) -> Tls:
    """The files of a directory; SettingsError when a server could not be made with them."""
    certificate, key = directory / CERTIFICATE_NAME, directory / KEY_NAME
    try:
        return _load(certificate, key)
    except OSError as error:  # ssl.SSLError is one, too
        raise SettingsError(
            f"--tls-dir {directory} has no usable {CERTIFICATE_NAME} with its {KEY_NAME}: {error}; mount a TLS Secret"
        ) from error


class _Newest:
    """The context of the newest certificate, taken up by each handshake.

    A context may not change while another thread makes a handshake with it, so the running server's own stays as it is.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        context.sni_callback = self._take

    def _take(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Before the certificate is sent; OpenSSL asks for clients that name no server, too."""
        connection.context = self.context


def follow(tls: Tls, every_s: float = LOOK_EVERY_S) -> threading.Event:
    """Let the context of a running server serve the files as they are whenever they change; set the event to stop."""
    stop, newest = threading.Event(), _Newest(tls.context)
    threading.Thread(target=_follow, args=(tls, newest, every_s, stop), name="tls", daemon=True).start()
    return stop


def _follow(tls: Tls, newest: _Newest, every_s: float, stop: threading.Event) -> None:
    while not stop.wait(every_s):
        try:
            now = _load(tls.certificate, tls.key)
        except OSError as error:
            log.warning("the new certificate cannot be used, the old one stays: %s", error)
            continue
        if now.stamp != tls.stamp:
            tls, newest.context = now, now.context
            log.info("the certificate was replaced")


def _load(certificate: Path, key: Path) -> Tls:
    certificate_bytes, key_bytes = certificate.read_bytes(), key.read_bytes()
    stamp = hashlib.sha256(certificate_bytes).digest() + hashlib.sha256(key_bytes).digest()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _in_memory(certificate_bytes) as certificate_file, _in_memory(key_bytes) as key_file:
        context.load_cert_chain(certificate_file, key_file, password=_refuse_password)
    return Tls(certificate, key, stamp, context)


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """The path of a file with these bytes that is on no disk: OpenSSL reads paths only, and a key stays secret."""
    handle = os.memfd_create("tls")
    try:
        with os.fdopen(os.dup(handle), "wb") as file:
            file.write(data)
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def _refuse_password() -> NoReturn:
    """OpenSSL would ask on the terminal, in the middle of a start."""
    raise _EncryptedKeyError(
        "the key is encrypted and nobody is there to give its password; store it without a password"
    )
