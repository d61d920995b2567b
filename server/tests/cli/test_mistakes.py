"""The command line from outside: wrong words are one sentence, underscores are dashes, shells are answered."""

import pytest
from windlass.cli import main


def said(words, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["windlass", *words])
    with pytest.raises(SystemExit) as end:
        main.main()
    return end.value.code, capsys.readouterr()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("plan --max-model-len x", '--max-model-len is "x", which is no whole number; write digits, as 8192'),
        ("plan --max_model_len=x", '--max-model-len is "x", which is no whole number; write digits, as 8192'),
        ("plan --gpu-memory-gib x", '--gpu-memory-gib is "x", which is no number; write it as 0.5'),
        ("plan --nodes 0", '--nodes is "0", which is too small; give 1 or more'),
        ("chat --top_p 3 hi", '--top-p is "3", which is too large; give 1 or less'),
        ("plan -o xml", "--output is \"xml\", which is not known; choose 'table', 'json', 'yaml'"),
        ("plan --tensor-parallel-siz 2", "there is no option --tensor-parallel-siz; write --tensor-parallel-size"),
        ("plan a b", '"b" belongs to no option'),
        ("chat --top-p", "--top-p needs a value; write it behind the option"),
        ("pln /m", "there is no command pln; write plan"),
        ("completion tcsh", "shell is \"tcsh\", which is not known; choose 'bash', 'zsh', 'fish'"),
        ("bench replay", "Missing option '--traces'"),
        ("completion", "Missing argument 'shell'; choose one of bash, zsh, fish; see windlass completion --help"),
        ("chat --server http://h:99999 hi", '--server "http://h:99999" is no address'),
        ("chat --server ftp://h hi", '--server "ftp://h" is no address of a server; write it as http://HOST:PORT'),
    ],
)
def test_a_wrong_word_is_one_sentence(line, sentence, capsys, monkeypatch):
    code, shown = said(line.split(), capsys, monkeypatch)
    assert (code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert shown.err.startswith(f"windlass: {sentence}")


def test_a_server_without_a_scheme_is_asked_by_http(capsys, monkeypatch):
    code, shown = said(["chat", "--server", "localhost:9", "hi"], capsys, monkeypatch)
    assert (code, shown.err.startswith("windlass: http://localhost:9 does not answer: ")) == (1, True)
    assert "Errno" not in shown.err


def test_version_is_an_option_too(capsys, monkeypatch):
    assert said(["--version"], capsys, monkeypatch)[1].out == said(["version"], capsys, monkeypatch)[1].out


@pytest.mark.parametrize("line", ["--help", "quantize --help", "bench --help"])
def test_no_help_of_a_command_is_cut(line, capsys, monkeypatch):
    code, shown = said(line.split(), capsys, monkeypatch)
    cut = [row for row in shown.out.splitlines() if row.endswith("...") and not row.startswith("Usage")]
    assert (code, cut) == (0, [])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_asks_this_program(shell, capsys, monkeypatch):
    code, shown = said(["completion", shell], capsys, monkeypatch)
    assert (code, "_WINDLASS_COMPLETE" in shown.out) == (0, True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("windlass pl", {"plan"}),
        ("windlass run --kv-offloading-s", {"--kv-offloading-size"}),
        ("windlass run --use-look", {"--use-lookahead"}),
        ("windlass plan --max-mod", {"--max-model-len"}),
    ],
)
def test_completion_knows_commands_and_flags(line, expected, capsys, monkeypatch):
    monkeypatch.setenv("_WINDLASS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    assert set(said([], capsys, monkeypatch)[1].out.split()) == expected
