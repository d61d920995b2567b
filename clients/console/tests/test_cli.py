"""The command line: settings from options and the environment, and one sentence for a wrong one."""

from __future__ import annotations

import pytest
from windlass_console import cli
from windlass_console.settings import Settings, SettingsError


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--prefix=console"], "is no path"),
        (["--prefix=/a/../b"], "is no path"),
        (["--session-hours=0"], "between 1 and 168"),
        (["--origin=https://a.example/x"], "is no origin"),
        (["--session-key-file=/nowhere"], "cannot be read"),
        (["--port=0"], "--port 0 is no port; write a number from 1 to 65535"),
        (["--port=99999"], "--port 99999 is no port; write a number from 1 to 65535"),
        (["--api-server=nonsense"], '--api-server "nonsense" is no URL of a server; write it as https://HOST:6443'),
        (["--api-server=ftp://host"], "is no URL of a server"),
        (["--api-server=https://"], "is no URL of a server"),
        (["--api-server=https://host:99999"], "is no URL of a server"),
        (["--api-server=https://[::1"], "is no URL of a server"),
        (["--ca-file=/nowhere"], "--ca-file /nowhere cannot be read: No such file or directory; name a PEM file"),
        ([f"--ca-file={__file__}"], "holds no certificate; name a PEM file of authorities"),
    ],
    ids=str,
)
def test_a_wrong_option_ends_with_a_sentence(words, sentence, capsys):
    assert cli.main(["--api-server=https://kube.test", *words]) == cli.WRONG
    assert sentence in capsys.readouterr().err


def test_a_short_key_is_refused(capsys, monkeypatch):
    monkeypatch.setenv(cli.KEY_VARIABLE, "short")
    assert cli.main(["--api-server=https://kube.test"]) == cli.WRONG
    assert "fewer than 32 bytes" in capsys.readouterr().err


def test_the_key_comes_from_the_file_before_the_environment(tmp_path):
    (tmp_path / "key").write_text("f" * 40 + "\n")
    parse = cli.command_line().parse_args
    environment = {cli.KEY_VARIABLE: "e" * 40}
    assert cli.settings_of(parse([]), environment).session_key == b"e" * 40
    assert cli.settings_of(parse([f"--session-key-file={tmp_path}/key"]), environment).session_key == b"f" * 40
    assert "eeee" not in repr(cli.settings_of(parse([]), environment))


def test_a_prefix_may_end_with_a_slash_and_names_the_cookies_path():
    parse = cli.command_line().parse_args
    assert cli.settings_of(parse(["--prefix=/a/b/"]), {}).cookie_path == "/a/b"
    assert Settings().cookie_path == "/"
    with pytest.raises(SettingsError):
        Settings(prefix="/a b")
