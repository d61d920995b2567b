"""Hostile objects, logs and answers of an API server against `kubectl windlass` as a process."""

from __future__ import annotations

import copy
import gzip
import json
import re
import tarfile

import pytest
import yaml
from api_objects import EVENT, POD, SERVICE, cluster, items
from hostile_server import ACTS, ESCAPES, answer, as_json, flood

COMMANDS = {
    "status": ["status"],
    "status of one": ["status", "demo"],
    "json": ["status", "demo", "-o", "json"],
    "yaml": ["status", "demo", "-o", "yaml"],
    "logs": ["logs", "demo", "--pod", "demo-1"],
    "logs of all": ["logs", "demo"],
    "logs as json": ["logs", "demo", "-o", "json"],
    "logs as yaml": ["logs", "demo", "-o", "yaml"],
    "report": ["report", "demo", "--out", "-"],
    "report as json": ["report", "demo", "-o", "json"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())
def test_nothing_that_acts_reaches_a_terminal(run, words):
    shown = run(cluster(), *words, terminal=True)
    assert shown.code == 0, shown.text[-500:]
    assert ACTS.findall(shown.text) == []
    assert "\r" not in shown.text
    if "-o" not in words and len(words) > 1:
        assert "\\x1b]52;c;" in shown.text


def test_logs_in_a_pipe_are_true_to_the_byte(run):
    """As `kubectl logs`: bytes that are no UTF-8 and carriage returns too."""
    piped = run(cluster(), "logs", "demo", "--pod", "demo-1")
    assert piped.out == f"one{ESCAPES}\r\n".encode() + b"\xff\x80\xfetwo\n"


def test_a_status_in_a_pipe_has_no_lines_of_others(run):
    """Programs read it line by line: a message must not begin one of its own."""
    piped = run(cluster(), "status", "demo")
    assert ACTS.findall(piped.text) == []
    assert not any(line.startswith("faked") for line in piped.text.splitlines())


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents_say_the_same(run, output, read):
    document = read(run(cluster(), "status", "demo", "-o", output).out.decode())
    assert document["status"] == SERVICE["status"]
    assert document["metadata"]["annotations"] == {"a": ESCAPES}


STATUS = {"kind": "Status", "reason": "Forbidden", "message": ESCAPES * 10_000}
PAGE = {"metadata": {"continue": "again"}, "items": [SERVICE]}
BAD = {
    "no JSON": answer(b"<html>log in</html>"),
    "nothing": answer(b""),
    "a list": as_json([1]),
    "a text": as_json("x"),
    "nested 100,000 deep": answer(b'{"items":' + b"[" * 100_000),
    "nested 900 deep": answer(b'{"items":' + b"[" * 900 + b"]" * 900 + b"}"),
    "items that are text": as_json({"items": "abc"}),
    "items that are no objects": as_json({"items": ["abc", 1, None]}),
    "metadata that is a list": as_json({"items": [{"metadata": [1]}]}),
    "a gzip bomb": answer(gzip.compress(bytes(256 << 20)), head="Content-Encoding: gzip\r\n"),
    "an answer without an end": flood(b'{"items": [', b" " * (1 << 20)),
    "pages without an end": as_json(PAGE),
    "a page that is named by a list": as_json({"metadata": {"continue": [1]}, "items": []}),
    "a redirect": answer(b"", "302 Go", "Location: http://169.254.169.254/\r\n"),
    "a long refusal": as_json(STATUS, "403 No"),
    "a refusal without an end": flood(b"", b"x" * 65536, status="500 No"),
    "a refusal nested deep": answer(b"[" * 100_000, "500 No"),
    "causes that are no rows": as_json({"kind": "Status", "details": {"causes": "abc"}}, "422 No"),
    "details that are a list": as_json({"kind": "Status", "details": [1]}, "422 No"),
    "headers of 2 MB": answer(b"{}", head="X: " + "x" * 2_000_000 + "\r\n"),
}  # fmt: skip


ONE = ("no JSON", "a list", "nested 900 deep", "an answer without an end")


@pytest.mark.parametrize(
    ("place", "name"), [*(("/llmservices", name) for name in BAD), *(("/demo", one) for one in ONE)]
)
def test_a_bad_answer_is_a_sentence(run, place, name):
    """As the answer to a list, and as one object."""
    words = ["status", "demo"] if place == "/demo" else ["status"]
    ended = run(cluster(**{"/llmservices/demo" if place == "/demo" else place: BAD[name]}), *words)
    said = ended.err.decode()
    assert ended.why == ""
    assert "Traceback" not in said
    assert ACTS.findall(ended.text) == []
    assert len(said) < 10_000
    assert len(ended.seen) <= 210


WRONG = [None, 7, "abc", [1], ["abc"], {"a": 1}, [{"a": [1]}], 10**30, {"name": {"a": 1}}]
FIELDS = [("metadata",), ("spec",), ("status",), ("spec", "containers"), ("status", "containerStatuses"),
          ("metadata", "name"), ("metadata", "labels"), ("metadata", "creationTimestamp"), ("status", "conditions"),
          ("involvedObject",), ("count",), ("series",)]  # fmt: skip


def twisted(raw: dict, path: tuple[str, ...], value: object) -> dict:
    out = copy.deepcopy(raw)
    inner = out
    for step in path[:-1]:
        inner = inner.setdefault(step, {})
    inner[path[-1]] = value
    return out


@pytest.mark.parametrize("path", FIELDS, ids="-".join)
def test_fields_of_another_type_are_no_crash(run, path):
    """Pods and Events of every wrong shape, in one list each."""
    pods = [twisted(POD, path, value) for value in WRONG if path != ("metadata",) or isinstance(value, dict)]
    events = [twisted(EVENT, path, value) for value in WRONG if path != ("metadata",) or isinstance(value, dict)]
    answers = cluster(**{"/namespaces/default/pods": items(*pods), "/namespaces/default/events": items(*events)})
    ended = run(answers, "status", "demo")
    assert "Traceback" not in ended.err.decode(), ended.err.decode()[-1500:]
    assert ended.code in (0, 1)


def test_a_log_line_without_an_end_costs_no_memory(run):
    """80 MiB without a line feed come through, piece by piece, as they are."""
    ended = run(cluster(**{"/log?": flood(b"", b"x" * (1 << 20), 80)}), "logs", "demo", "--pod", "demo-1")
    assert (ended.why, ended.code) == ("", 0)
    assert ended.out == b"x" * (80 << 20) + b"\n"


def test_a_report_holds_files_of_its_own_folder_alone(run, tmp_path):
    """Pods are named by the API server, and some are called as another user's file."""
    names = ["../../../../tmp/evil", "/etc/cron.d/evil", "..", ".bashrc", "a", "A/../a", "x" * 5000, ESCAPES]
    pods = [{**POD, "metadata": {"name": name}} for name in names]
    answers = cluster(**{"/namespaces/default/pods": items(*pods), "/log?": answer(f"{ESCAPES}\n".encode() * 10)})
    file = tmp_path / "report.tar.gz"
    assert run(answers, "report", "demo", "--out", str(file)).code == 0
    with tarfile.open(file) as archive:
        members = archive.getmembers()
        texts = [archive.extractfile(one).read().decode() for one in members]
    assert all(re.fullmatch(r"report/[A-Za-z0-9_][A-Za-z0-9._-]{0,210}", one.name) for one in members), members
    assert len({one.name.lower() for one in members}) == len(members)
    assert all(one.isreg() for one in members)
    assert [ACTS.findall(text) for text in texts if ACTS.findall(text)] == []


def test_completion_offers_no_name_that_a_shell_would_run(run):
    """Only names that Kubernetes allows."""
    names = ["good", "$(rm -rf ~)", "a\n:0", ESCAPES, "-x y"]
    services = [{**SERVICE, "metadata": {**SERVICE["metadata"], "name": name}} for name in names]
    ended = run(cluster(**{"/llmservices": items(*services)}), "__complete", "status", "")
    assert ended.out.decode().splitlines() == ["good\tm", ":4"]
