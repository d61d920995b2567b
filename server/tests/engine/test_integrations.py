"""Integration points: found in our sources, looked up in an engine's files, held to the record of a release."""

import json

import pytest
from windlass.cli.doctor import engine as command
from windlass.engine.integrations import release
from windlass.engine.integrations.points import compare, points, registered, signatures
from windlass.errors import UsageError

OURS = {
    "windlass.a": "from vllm.worker import Worker, helper\nimport vllm.envs\n"
    "class Mine(Worker):\n    def load(self): ...\n",
    "windlass.b": "from vllm.config import Config as C\nfrom windlass.x import y\n",
}
ENGINE = {
    "vllm": "",
    "vllm.envs": "A = 1",
    "vllm.config": "from .values import *",
    "vllm.config.__init__": "from .values import *",
    "vllm.config.values": "class Config: ...",
    "vllm.worker": "try:\n    from vllm.base import Base\nexcept ImportError:\n    Base = object\n"
    "class Worker(Base): ...\ndef helper(a, *, b=1) -> int: ...",
    "vllm.base": "class Base:\n    async def load(self, size): ...",
}
PLACES = {
    "vllm.worker.Worker": "class",
    "vllm.worker.helper": "(a, *, b) -> int",
    "vllm.envs": "name",
    "vllm.worker.Worker:load": "(self, size)",
    "vllm.config.Config": "class",
}


def seen(**changed):
    return signatures(points(OURS), {**ENGINE, **changed}.get)


def test_every_import_and_every_replaced_method_is_a_place():
    assert set(points(OURS)) == set(PLACES)
    assert points(OURS)["vllm.config.Config"] == "windlass.b"


def test_imports_bases_and_stars_are_followed():
    assert seen() == PLACES


@pytest.mark.parametrize(
    ("changed", "place", "problem"),
    [
        (
            {"vllm.base": "class Base:\n    def load(self): ..."},
            "vllm.worker.Worker:load",
            "was (self, size), is (self)",
        ),
        ({"vllm.base": "class Base: ..."}, "vllm.worker.Worker:load", "is not there"),
        ({"vllm.config.values": ""}, "vllm.config.Config", "is not there"),
        ({"vllm.envs": None}, "vllm.envs", "is not there"),
        (
            {"vllm.worker": "class Worker: ...\ndef helper(a) -> int: ..."},
            "vllm.worker.helper",
            "was (a, *, b) -> int, is",
        ),
    ],
)
def test_a_missing_or_changed_engine_place_is_reported(changed, place, problem):
    rows = {row.place: row.problem for row in compare(PLACES, seen(**changed), points(OURS))}
    assert problem in rows[place]


def test_the_record_holds_every_import_of_ours():
    """Another name of the engine is recorded by `python -m windlass.engine.integrations.release`."""
    imported = {place for place in points(release.sources()) if ":" not in place}
    assert imported - set(release.record().places) == set()


def test_the_record_holds_no_place_that_we_left():
    assert set(release.record().places) - set(points(release.sources())) == set()


@pytest.fixture
def another(tmp_path):
    """A vLLM in a folder that has nothing of what we need."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/__init__.py").write_text("")
    return tmp_path


def test_doctor_names_what_is_gone_and_ends_with_1(another, capsys):
    with pytest.raises(SystemExit):
        command((str(another),), "json")
    document = json.loads(capsys.readouterr().out)
    assert document["built_for"] == release.record().release
    assert {row["problem"] for row in document["places"] if row["place"] != "vllm"} == {"is not there"}


def test_a_release_that_lacks_a_place_is_refused_in_one_sentence(another, monkeypatch):
    monkeypatch.setattr(release, "installed", lambda: another)
    assert release.mismatch(release.record().release) == ""
    reason = release.mismatch("0.99.0")
    assert reason.startswith("vLLM 0.99.0 lacks vllm.")
    assert f"take vLLM {release.record().release}" in reason


def test_a_folder_without_an_engine_is_a_wrong_word(tmp_path):
    with pytest.raises(UsageError, match="has no vLLM"):
        release.verdicts(tmp_path)


def test_names_of_parsers_are_read_from_the_engines_tables():
    """Without importing it; an engine without such a table has none."""
    tables = {"vllm.tool_parsers": 'X = {"no": 1}\n_TOOL_PARSERS_TO_REGISTER = {"b": ("file", "Class"), "a": ()}\n'}
    assert registered(tables.get) == {"tools": ["a", "b"], "reasoning": []}


def test_the_record_names_the_engines_parsers():
    """A tool that read nothing would leave the table of parsers unchecked."""
    known = release.record().parsers
    assert ("hermes" in known["tools"], "deepseek_r1" in known["reasoning"]) == (True, True)
    assert min(map(len, known.values())) > 30
