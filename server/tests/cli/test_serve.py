"""`windlass-vllm`, which stands in for `vllm`, where no vLLM is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from windlass.cli import serve
from windlass.doctor import checks
from windlass.doctor.findings import Engine


class ReplacedError(Exception):
    """Another program would run now, with these words."""


@pytest.fixture
def start(monkeypatch):
    """Start `windlass-vllm` with words, where vLLM is or is not."""

    def started(*words: str, engine: bool) -> list[str]:
        def execv(_: str, argv: list[str]) -> None:
            raise ReplacedError(argv[2:])

        monkeypatch.setattr("sys.argv", ["vllm", *words])
        monkeypatch.setattr(serve, "find_spec", lambda name: object() if engine else None)
        monkeypatch.setattr("os.execv", execv)
        with pytest.raises(ReplacedError) as replaced:
            serve.vllm()
        return replaced.value.args[0]

    return started


@pytest.mark.parametrize("words", [(), ("serve", "model"), ("serve", "--help"), ("bench",), ("--version",)], ids=str)
def test_without_an_engine_one_sentence_says_where_it_is(words, start, capsys):
    """The doctor's, and not Python's."""
    with pytest.raises(SystemExit) as end:
        start(*words, engine=False)
    assert (end.value.code, capsys.readouterr().err) == (2, f"windlass-vllm: {serve.NO_ENGINE}\n")


def test_the_sentence_is_the_doctors():
    rows = [check.look(SimpleNamespace(engine=Engine())) for check in checks.CHECKS if check.name == "engine"]
    assert [f"{row.seen}; {row.fix}" for row in rows] == [serve.NO_ENGINE]


def test_an_explained_start_needs_no_engine(start):
    assert start("serve", "model", "--explain", engine=False)[0] == "windlass.cli.main"


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (("serve", "model"), "windlass.cli.main"),
        (("serve", "--help"), serve.ENGINE_CLI),
        (("bench",), serve.ENGINE_CLI),
    ],
    ids=str,
)
def test_with_an_engine_it_is_started(words, module, start):
    assert start(*words, engine=True) == [module, *words]
