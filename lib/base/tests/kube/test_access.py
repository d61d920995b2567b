"""How the client finds its cluster: kubectl's order, several files, and a sentence for what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from windlass_base.kube.access import context_names
from windlass_client import AccessError, find_access, token_access


def a_config(name: str, *, current: bool = True, **cluster: object) -> dict[str, object]:
    return {
        **({"current-context": name} if current else {}),
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **cluster}}],
        "users": [{"name": name, "user": {"token": f"token-of-{name}", "client-certificate": "user.crt"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-of-{name}"}}],
    }


def write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_current_context_of_the_given_file_is_used(tmp_path):
    """Server, token and namespace come from the context; a namespace that is given wins."""
    file = write(tmp_path / "config", a_config("one"))
    access = find_access(kubeconfig=file, env={})
    assert (access.server, access.namespace) == ("https://one:6443", "ns-of-one")
    assert access.config.user.token == "token-of-one"
    assert find_access(kubeconfig=file, namespace="other", env={}).namespace == "other"


def test_several_files_are_one_and_the_first_wins(tmp_path):
    """As kubectl merges KUBECONFIG; a path inside a file is relative to that file."""
    first = write(tmp_path / "a" / "config", a_config("one"))
    second = write(tmp_path / "b" / "config", a_config("two"))
    env = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    assert find_access(env=env).server == "https://one:6443"
    two = find_access(context="two", env=env)
    assert (two.server, two.config.user.client_cert) == ("https://two:6443", str(tmp_path / "b" / "user.crt"))
    assert context_names(env=env) == ("one", "two")


WRONG = {
    "no such file": (None, {"kubeconfig": "/nowhere/config"}, "kubeconfig /nowhere/config is not there"),
    "not YAML": ("a: [", {}, "cannot be read"),
    "broken YAML is one line": ("a: [\nb: 1", {}, "config cannot be read: it is no YAML: [^\n]+ in line 2$"),
    "clusters are a number": ({"clusters": 3}, {}, "config is not a kubeconfig: its clusters are no list of mappings"),
    "users are a mapping": ({"users": {"a": 1}}, {}, "its users are no list of mappings"),
    "contexts are words": ({"contexts": ["a"]}, {}, "its contexts are no list of mappings"),
    "a cluster that is a word": ({"clusters": [{"name": "a", "cluster": "b"}]}, {}, "a name and a mapping cluster"),
    "a user without a name": ({"users": [{"user": {}}]}, {}, "each of its users needs a name and a mapping user"),
    "a name that is none": ({"contexts": [{"name": ["a"]}]}, {}, "each of its contexts needs a name"),
    "a current context that is none": ({"current-context": ["a"]}, {}, "its current-context is no name"),
    "an authority that is no path": (
        a_config("one", **{"certificate-authority": 3}),
        {},
        "authority of one is no path",
    ),
    "a server that is no URL": (a_config("one", server=3), {}, r"config is not a kubeconfig: Expected .* `\$.server`"),
    "not a mapping": ("- a", {}, "is not a kubeconfig"),
    "no such context": (a_config("one"), {"context": "two"}, 'context "two" is not in the kubeconfig; it has: one'),
    "no current context": (a_config("one", current=False), {}, 'context "" is not in the kubeconfig; it has: one'),
    "context without its cluster": ({**a_config("one"), "clusters": []}, {}, "which the kubeconfig lacks"),
}


@pytest.mark.parametrize(("document", "options", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_is_missing_is_one_sentence(tmp_path, document, options, words):
    """What, where, and what there is instead."""
    file = tmp_path / "config"
    if document is not None:
        file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    with pytest.raises(AccessError, match=words):
        find_access(env={"KUBECONFIG": str(file)}, **options)


def test_without_any_file_and_outside_a_pod_the_places_are_named(tmp_path, monkeypatch):
    """The sentence says where was looked."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AccessError, match=r"--kubeconfig, KUBECONFIG or ~/\.kube/config"):
        find_access(env={})


def test_a_kubeconfig_of_bytes_is_one_sentence(tmp_path):
    (tmp_path / "config").write_bytes(b"\xff\xfe")
    with pytest.raises(AccessError, match=r"config cannot be read: it holds bytes that are no text$"):
        find_access(kubeconfig=tmp_path / "config", env={})


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path, monkeypatch):
    """Each place that was looked at, whether KUBECONFIG names it or it is the usual one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AccessError, match=r"no kubeconfig at /nowhere/a or /nowhere/b and no service account"):
        find_access(env={"KUBECONFIG": "/nowhere/a:/nowhere/b"})
    with pytest.raises(AccessError, match=f"no kubeconfig at {tmp_path}/.kube/config and"):
        find_access(env={})
    assert context_names(env={"KUBECONFIG": "/nowhere/a"}) == ()


def test_a_token_is_enough(tmp_path):
    """For a back end that holds one."""
    access = token_access("https://a:6443", "t", namespace="team")
    assert (access.server, access.namespace, access.config.user.token) == ("https://a:6443", "team", "t")
