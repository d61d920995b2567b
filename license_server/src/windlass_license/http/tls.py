"""HTTPS with a certificate that may be replaced while the server runs, as a mounted Secret is when it is renewed."""

import logging
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

from windlass_license.errors import SettingsError

log = logging.getLogger("windlass_license")
CERTIFICATE_NAME, KEY_NAME = "tls.crt", "tls.key"
LOOK_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class Tls:
    """Where certificate and key lie, named as Kubernetes names them in a Secret."""

    certificate: Path
    key: Path

    def stamp(self) -> tuple[bytes, bytes]:
        """Changes with the files."""
        return self.certificate.read_bytes(), self.key.read_bytes()


def read(directory: Path) -> Tls:
    """The files of a directory; SettingsError when a server could not be made with them."""
    tls = Tls(directory / CERTIFICATE_NAME, directory / KEY_NAME)
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(tls.certificate, tls.key)
    except OSError as error:  # ssl.SSLError is one, too
        raise SettingsError(
            f"--tls-dir {directory} has no usable {CERTIFICATE_NAME} with its {KEY_NAME}: {error}; mount a TLS Secret"
        ) from error
    return tls


def follow(tls: Tls, context: ssl.SSLContext, every_s: float = LOOK_EVERY_S) -> threading.Event:
    """Load the files into a running server's context whenever they change; set the event to stop."""
    stop = threading.Event()
    threading.Thread(target=_follow, args=(tls, context, every_s, stop), name="tls", daemon=True).start()
    return stop


def _follow(tls: Tls, context: ssl.SSLContext, every_s: float, stop: threading.Event) -> None:
    stamp = tls.stamp()
    while not stop.wait(every_s):
        try:
            if (seen := tls.stamp()) != stamp:
                context.load_cert_chain(tls.certificate, tls.key)
                stamp = seen
                log.info("the certificate was replaced")
        except OSError as error:
            log.warning("the new certificate cannot be used, the old one stays: %s", error)
