"""The decisions about GPU images: parts of a lock, what a check says, what changes a tag; nothing here builds one."""

import importlib.util
import json
import re
import sys

import pytest
from windlass_testbed import gpu_image_checks, images
from windlass_testbed.cases import every_case
from windlass_testbed.gpu_image_checks import (
    CHECKS,
    Outcome,
    answers_as_alone,
    ends_well,
    explains,
    is_whole,
    misses_the_driver_alone,
)
from windlass_testbed.paths import REPOSITORY

ENGINE = REPOSITORY / "images/engine-gpu"
LOCKS = sorted(ENGINE.glob("*.lock"))
SEEN = {
    "user": 10001, "writable": [], "unlisted": [], "absent": [], "broken": {}, "plugins": {"windlass-lookahead": ""},
    "kernels": ["sm_80", "sm_90"], "core": {"file": "_core.abi3.so", "glibcxx": 30},
}  # fmt: skip


@pytest.fixture(scope="module")
def part():
    spec = importlib.util.spec_from_file_location("part", ENGINE / "part.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["part"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_locked_package_is_in_exactly_one_part_with_its_hashes(part, lock):
    text = lock.read_text()
    parts = [part.select(text, name) for name in part.PARTS]
    assert sum(one.count("==") for one in parts) == text.count("==") > 50
    assert sum(one.count("--hash=sha256:") for one in parts) == text.count("--hash=sha256:")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_locked_package_has_a_hash(part, lock):
    entries = part.ENTRY.findall(lock.read_text())
    assert [entry.split("==")[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_a_v100_has_a_torch_and_the_engine_has_its_release():
    """torch 2.7.1 is the last of the package index with kernels of sm_70."""
    assert "\ntorch==2.7.1 " in (ENGINE / "deepspeed.lock").read_text()
    assert re.search(r"^vllm==0\.32\.0 ", (ENGINE / "vllm.lock").read_text(), re.MULTILINE)


@every_case("file", sorted((REPOSITORY / "images").rglob("*Dockerfile*")))
def test_every_image_of_a_registry_is_named_by_its_digest(file):
    """An image of ours is named by a tag of ours; any other by the hash of what it holds."""
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)", file.read_text(), re.MULTILINE))
    stages = set(re.findall(r"^FROM \S+ AS (\w+)", file.read_text(), re.MULTILINE))
    for base in re.findall(r"^FROM (\S+)", file.read_text(), re.MULTILINE):
        name = arguments.get(base.strip("${}"), base)
        assert name in stages or name.startswith("windlass/") or re.search(r"@sha256:[0-9a-f]{64}$", name), name


def test_a_gpu_image_is_built_again_when_its_engine_or_our_code_changes(monkeypatch):
    """Its tag holds the key of what it stands on."""
    server, engine = images.tag_of("server"), images.tag_of("engine-gpu")
    assert images.tag_of("deepspeed-gpu") != server
    monkeypatch.setitem(images.PYTHON_BASES, "python-gpu", "sid")
    assert images.tag_of("engine-gpu") != engine
    assert images.tag_of("server") != server


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"user": 0}, "runs as: [0]"),
        ({"writable": ["/"]}, "can write"),
        ({"unlisted": ["x 1"]}, "not on the list of parts: ['x 1']"),
        ({"absent": ["x 1"]}, "not there"),
        ({"broken": {"windlass.x": "ImportError: y"}}, "does not import"),
        ({"plugins": {"windlass-lookahead": "ImportError: y"}}, "plug-in"),
        ({"core": {"file": "_core.abi3.so", "glibcxx": 31}}, "loads in this image alone"),
        ({"core": {"file": "_core.cpython-313.so", "glibcxx": 30}}, "loads in this image alone"),
        ({"kernels": ["sm_90"]}, "no kernels for: ['sm_80']"),
    ],
)
def test_a_fault_inside_the_image_is_reported(changed, word):
    judge = is_whole("sm_80", "sm_90")
    assert judge(Outcome(0, json.dumps(SEEN))) == ""
    assert word in judge(Outcome(0, json.dumps({**SEEN, **changed})))
    assert "exit 1" in judge(Outcome(1, "", "no module"))


def test_root_is_not_the_user():
    assert "runs as" in is_whole()(Outcome(0, json.dumps({**SEEN, "user": 1})))


def rows(**outcomes):
    return Outcome(1, json.dumps({"checks": [{"name": name, "outcome": said} for name, said in outcomes.items()]}))


def test_doctor_must_miss_the_driver_and_nothing_of_ours():
    good = {"flags": "warn", "engine": "ok", "checkpoint": "ok", "driver": "fail"}
    assert misses_the_driver_alone(rows(**good)) == ""
    assert "engine" in misses_the_driver_alone(rows(**{**good, "engine": "fail"}))
    assert "driver" in misses_the_driver_alone(rows(**{**good, "driver": "ok"}))
    assert "no document" in misses_the_driver_alone(Outcome(1, "Traceback", "boom"))


def test_a_program_must_end_with_0_and_say_something():
    assert ends_well(Outcome(0, "1.0")) == ""
    assert ends_well(Outcome(0, " ")) == "exit 0: "
    assert ends_well(Outcome(2, "x", "why")) == "exit 2: why"
    assert explains(Outcome(0, "engine: vllm serve /data/model")) == ""
    assert explains(Outcome(0, "nothing")) == "no engine line"


def test_answers_out_of_a_batch_are_those_of_a_prompt_alone():
    def said(together, code=0):
        return Outcome(code, "loading\nRESULT " + json.dumps({"together": together, "joined": [["a", "a"]]}), "why")

    assert answers_as_alone(said([["b", "b"]])) == ""
    assert "1 of 2 answers differ" in answers_as_alone(said([["b", "c"]]))
    assert "exit 3: why" in answers_as_alone(said([["b", "b"]], 3))
    assert "exit 0" in answers_as_alone(Outcome(0, "nothing"))


def test_every_check_runs_without_a_network_on_a_root_that_is_read_only():
    for name, checks in CHECKS.items():
        for check in checks:
            words = gpu_image_checks.command(name, check, {})
            assert {"--read-only", "none", "--rm"} <= set(words)
            assert "--user" not in words
