"""Programs that are started beside the plug-in: their words when they fail, and the GPUs that pods name by kubectl."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from windlass_kubectl.licensing import collect, server
from windlass_kubectl.licensing.errors import LicensingError
from windlass_kubectl.licensing.gpus import GpuNode, Holder, JobShape
from windlass_kubectl.licensing.programs import run_program
from windlass_testbed.waiting import HANG_S

SHAPE = JobShape("kube-system", "i")


def script(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def test_what_a_program_prints(tmp_path):
    assert asyncio.run(run_program(script(tmp_path, "p", 'echo "$@"'), "a", "b c", patience_s=HANG_S)) == "a b c\n"


@pytest.mark.parametrize(
    ("text", "said", "patience_s"),
    [
        ("echo why >&2; exit 3", "why", HANG_S),
        ("exit 3", "p go ended with code 3", HANG_S),
        ("exec sleep 600", "p go did not end within", 0.2),
    ],
)
def test_a_failure_carries_the_program_s_words(text, said, patience_s, tmp_path):
    """One that hangs is ended."""
    with pytest.raises(LicensingError, match=said):
        asyncio.run(run_program(script(tmp_path, "p", text), "go", patience_s=patience_s))


def test_a_program_that_is_not_there():
    with pytest.raises(LicensingError, match="/nowhere/p cannot be started: No such file"):
        asyncio.run(run_program("/nowhere/p", "go", patience_s=HANG_S))


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session whose kubectl is a script: pods named `bad-…` have no nvidia-smi, `odd-…` print no GPU."""
    text = """case "$*" in
*bad-pod*) echo 'exec: "nvidia-smi": executable file not found' >&2; exit 126;;
*odd-pod*) echo 'No devices were found';;
*) echo "GPU 0: NVIDIA L20 (UUID: GPU-$3)"; echo "$@" >>"$0.log";;
esac"""
    script(tmp_path, "kubectl", text)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    notes: list[str] = []
    return SimpleNamespace(kubectl_flags=lambda place: [f"--namespace={place}"], note=notes.append, notes=notes)


def ask(session, *holders, ready=True, offered=2):
    node = GpuNode("a", ready, offered, {}, holders)
    return asyncio.run(collect.from_nodes(session, [node], SHAPE))


def test_pods_that_hold_gpus_name_them(session, tmp_path):
    """By `nvidia-smi -L` in the very container that holds them."""
    found = ask(session, Holder("team", "pod-1", "main", True), Holder("team", "pod-2", "main", True))
    assert (found.uuids, found.nodes, found.missing) == ({"GPU-pod-1", "GPU-pod-2"}, {"a": 2}, [])
    first = (tmp_path / "kubectl.log").read_text().splitlines()[0]
    assert first == "exec --namespace=team pod-1 --container=main -- nvidia-smi -L"
    assert session.notes == ["  a: 2 of 2 GPUs named"]


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        (Holder("team", "bad-pod", "main", True), "pod team/bad-pod holds GPUs and names none: exec: "),
        (Holder("team", "odd-pod", "main", True), "prints no GPU there: No devices were found"),
        (Holder("team", "new-pod", "main", False), "it does not run yet; try again when it does"),
    ],
    ids=["no program", "no GPU", "not running"],
)
def test_what_a_pod_does_not_name_is_missing_by_name(session, holder, said):
    """The others of the node are named all the same."""
    found = ask(session, holder, Holder("team", "good", "main", True))
    assert found.uuids == {"GPU-good"}
    (missing,) = found.missing
    assert missing.startswith("node a: pod team/")
    assert said in missing


def test_a_node_that_is_not_ready_is_not_asked(session):
    found = ask(session, Holder("team", "pod-1", "main", True), ready=False)
    assert (found.uuids, found.missing) == (frozenset(), ["node a: it is not ready, so its 2 GPUs cannot be named"])


def test_helm_installs_the_chart_into_the_requested_namespace(tmp_path, monkeypatch):
    """Into kube-system unless a namespace is named, with the same kubeconfig and the values that were given."""
    script(tmp_path, "helm", 'echo "$@" >"$0.log"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(server, "find", lambda _: asyncio.sleep(0, "found"))
    options = SimpleNamespace(namespace=None, kubeconfig="/k", context="c")
    session = SimpleNamespace(options=options, note=lambda _: None)
    assert asyncio.run(server.install(session, "chart.tgz", ["a=1", "b=2"])) == "found"
    said = (tmp_path / "helm.log").read_text()
    assert said.startswith("upgrade --install windlass-license-server chart.tgz --namespace=kube-system")
    for words in ("--wait", "--kubeconfig=/k", "--kube-context=c", "--set=a=1 --set=b=2"):
        assert words in said
