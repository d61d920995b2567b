"""The command line itself: what it says of no word, of a wrong one, and of `--help`."""

from __future__ import annotations

import pytest
from windlass_deepspeed import cli


def ended(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    monkeypatch.setattr("sys.argv", [cli.PROGRAM, *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


def test_without_a_word_it_prints_its_help_and_ends_with_2(monkeypatch, capsys):
    """As `windlass` and `windlass-operator` end."""
    assert ended(monkeypatch) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"{cli.help_text()}\n")


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("help",), ("run", "--help")], ids=str)
def test_help_that_is_asked_for_is_the_answer(words, monkeypatch, capsys):
    assert ended(monkeypatch, *words) == 0
    assert capsys.readouterr().out == f"{cli.help_text()}\n"


def test_an_unknown_command_is_named(monkeypatch, capsys):
    assert ended(monkeypatch, "rnu") == 2
    assert capsys.readouterr().err == 'windlass-deepspeed: "rnu" is no command; write windlass-deepspeed run\n'
