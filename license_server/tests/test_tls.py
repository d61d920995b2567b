"""A certificate that is replaced while the server runs: a good pair is taken up, anything else changes nothing."""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from windlass_license.cli import main
from windlass_license.errors import SettingsError
from windlass_license.http import tls
from windlass_testbed.waiting import HANG_S, wait_until

EVERY_S = 0.05


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two certificates with their keys in a/ and b/, and one whose key is encrypted in c/."""
    folder = tmp_path_factory.mktemp("pairs")
    for name, secret in (("a", ("-nodes",)), ("b", ("-nodes",)), ("c", ("-passout", "pass:secret"))):
        (folder / name).mkdir()
        files = ("-keyout", str(folder / name / "tls.key"), "-out", str(folder / name / "tls.crt"))
        command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *secret)
        subprocess.run([*command, *files, "-days", "9", "-subj", f"/CN={name}"], check=True, capture_output=True)
    return folder


class Listener:
    """A server that greets by its certificate, from a directory that a test writes to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = tls.read(folder)
        self.context = found.context
        self.stop = tls.follow(found, EVERY_S)

    def name(self) -> str:
        """The certificate that a client sees, or why it sees none."""
        ours, theirs = socket.socketpair()
        served = threading.Thread(target=self._serve, args=(ours,))
        served.start()
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        try:
            with client.wrap_socket(theirs) as seen:
                return "b" if b"\x0c\x01b" in (seen.getpeercert(binary_form=True) or b"") else "a"
        except OSError as error:
            return str(error)
        finally:
            served.join(HANG_S)

    def _serve(self, end: socket.socket) -> None:
        try:
            self.context.wrap_socket(end, server_side=True).close()
        except OSError:
            end.close()


@pytest.fixture
def listener(pairs: Path, tmp_path: Path) -> Iterator[Listener]:
    """With the pair a."""
    made = Listener(Path(shutil.copytree(pairs / "a", tmp_path / "tls")))
    yield made
    made.stop.set()


def test_a_certificate_without_its_key_changes_nothing(
    listener: Listener, pairs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Handshakes go on under the old pair, as the log says; once the key is there too, the new pair serves."""
    shutil.copy(pairs / "b/tls.crt", listener.folder)
    wait_until(lambda: "the new certificate cannot be used, the old one stays" in caplog.text)
    assert listener.name() == "a"
    shutil.copy(pairs / "b/tls.key", listener.folder)
    wait_until(lambda: listener.name() == "b")


@pytest.mark.parametrize("spoiled", ["tls.crt", "tls.key"])
def test_a_file_that_is_away_or_no_file_of_its_kind(
    spoiled: str, listener: Listener, pairs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread outlives both, and takes up what comes later."""
    (listener.folder / spoiled).write_text("nonsense")
    wait_until(lambda: "the new certificate cannot be used, the old one stays" in caplog.text)
    assert listener.name() == "a"
    (listener.folder / spoiled).unlink()
    wait_until(lambda: "the old one stays: [Errno 2] No such file" in caplog.text)
    assert listener.name() == "a"
    for name in ("tls.crt", "tls.key"):
        shutil.copy(pairs / "b" / name, listener.folder)
    wait_until(lambda: listener.name() == "b")


def test_an_encrypted_key_is_a_sentence(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody is asked for its password, at a start or later."""
    monkeypatch.setenv("WINDLASS_LICENSE_PUBLIC_KEYS", "")
    with pytest.raises(SettingsError, match=r"--tls-dir \S+ has no usable tls.crt with its tls.key: the key is encr"):
        tls.read(pairs / "c")
    assert main(["keygen", "--out", str(tmp_path / "keys")]) == 0
    keys = ("--public-key", str(tmp_path / "keys/public.pem"))
    assert main(["serve", "--data", str(tmp_path / "data"), *keys, "--tls-dir", str(pairs / "c")]) == 2
    shown = capsys.readouterr().err
    assert (shown.count("\n"), "store it without a password" in shown) == (1, True)


def test_an_encrypted_key_later(listener: Listener, pairs: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The old pair stays."""
    for name in ("tls.crt", "tls.key"):
        shutil.copy(pairs / "c" / name, listener.folder)
    wait_until(lambda: "the old one stays: the key is encrypted" in caplog.text)
    assert listener.name() == "a"
