"""Where the server listens: what cannot be had is one sentence and exit code 2, before anything is opened."""

import json
import logging
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from windlass_license import serve as running
from windlass_license.cli import main
from windlass_license.errors import SettingsError
from windlass_license.http.listening import listening, urls
from windlass_license.http.tls import Tls
from windlass_license.settings import NONE, Settings
from windlass_testbed.ports import free_port
from windlass_testbed.waiting import HANG_S


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def serve(folder: Path, *words: str) -> int:
    main(["keygen", "--out", str(folder / "keys")])
    keys = ("--public-key", str(folder / "keys/public.pem"), "--lease-auth", "none")
    return main(["serve", "--data", str(folder / "data"), *keys, *words])


def test_a_port_that_is_taken(taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named with its address; no directory was made for nothing."""
    assert serve(tmp_path, "--host", "127.0.0.1", "--port", str(taken)) == 2
    expected = (
        f"windlass-license: --port {taken} of 127.0.0.1 is taken by another program; stop that, or give another port"
    )
    assert capsys.readouterr().err == f"{expected}\n"
    assert not (tmp_path / "data").exists()


def test_the_sentence_is_a_line_of_the_log_where_that_is_json(
    taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As every other complaint of the server."""
    monkeypatch.setenv("WINDLASS_LOG_FORMAT", "json")
    assert serve(tmp_path, "--host", "127.0.0.1", "--port", str(taken)) == 2
    assert f"--port {taken}" in json.loads(capsys.readouterr().err)["message"]


HOSTS = {
    "no.such.host.invalid": "--host no.such.host.invalid is unknown: ",
    "ü" * 70: f"--host {'ü' * 70} is unknown: ",
    "198.51.100.7": "--host 198.51.100.7 is no address of this machine; give one of its own, or 0.0.0.0 for all",
}


@pytest.mark.parametrize(("host", "expected"), HOSTS.items(), ids=range(len(HOSTS)))
def test_a_host_that_is_none(host: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown, of no shape, or of another machine."""
    assert serve(tmp_path, "--host", host, "--port", "18999") == 2
    shown = capsys.readouterr().err
    assert (shown.startswith(f"windlass-license: {expected}"), shown.count("\n")) == (True, 1), shown


def test_a_free_port_is_bound_on_every_address_of_a_name() -> None:
    """And is free again afterwards."""
    port = free_port()
    for _ in range(2):
        with listening("localhost", port) as sockets:
            assert {one.getsockname()[1] for one in sockets} == {port}
            with pytest.raises(SettingsError, match="is taken"), listening("127.0.0.1", port):
                pytest.fail("bound twice")


def test_an_address_of_a_name_that_this_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ::1 of localhost where there is no IPv6: the others are listened on."""
    foreign = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("198.51.100.7", 0))
    ours = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [foreign, ours, ours])
    with listening("name", 0) as sockets:
        assert [one.getsockname()[0] for one in sockets] == ["127.0.0.1"]


def test_a_port_that_another_program_takes_between_bind_and_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two may bind it with SO_REUSEADDR while neither listens: the second to listen has the same sentence."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]

        class Late(socket.socket):
            """Bound a moment before the other program listens."""

            def bind(self, address: object) -> None:
                super().bind(address)  # type: ignore[arg-type]
                other.listen()

        monkeypatch.setattr(socket, "socket", Late)
        with pytest.raises(SettingsError, match=f"--port {port} .* is taken"), listening("127.0.0.1", port):
            pytest.fail("bound, and listening would have failed later")


def test_connections_are_taken_from_the_beginning() -> None:
    """Nobody else can listen there while the data are opened."""
    with listening("127.0.0.1", 0) as sockets:
        socket.create_connection(sockets[0].getsockname(), timeout=HANG_S).close()


@dataclass(frozen=True)
class Bound:
    """A socket as far as its address is asked for; IPv6 has four parts."""

    address: tuple[str, int] | tuple[str, int, int, int]

    def getsockname(self) -> tuple[str, int] | tuple[str, int, int, int]:
        """What the system gives."""
        return self.address


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    """On every machine, with or without IPv6."""
    sockets: list[Any] = [Bound(("127.0.0.1", 10080)), Bound(("::1", 10080, 0, 0))]
    assert urls(sockets, "https") == ["https://127.0.0.1:10080", "https://[::1]:10080"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_log_has_where_the_server_listens(
    scheme: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line with the port that the system gave."""
    used = list[int]()
    monkeypatch.setattr(running, "_configure_logging", lambda _: None)
    monkeypatch.setattr(running.sys, "setswitchinterval", lambda _: None)
    monkeypatch.setattr(running.gc, "freeze", lambda: None)
    monkeypatch.setattr(running.gc, "set_threshold", lambda *_: None)
    monkeypatch.setattr(running.tls, "follow", lambda *_: None)
    monkeypatch.setattr(uvicorn.Config, "load", lambda _: None)
    monkeypatch.setattr(uvicorn.Server, "run", lambda _, sockets: used.append(sockets[0].getsockname()[1]))
    read = Tls(tmp_path / "tls.crt", tmp_path / "tls.key", b"", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    certificate = read if scheme == "https" else None
    with caplog.at_level(logging.INFO, "windlass_license"):
        assert running.serve(Settings(tmp_path / "data", {}, lease_auth=NONE), "127.0.0.1", 0, None, certificate) == 0
    assert f"listening on {scheme}://127.0.0.1:{used[0]}" in caplog.messages
