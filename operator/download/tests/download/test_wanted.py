"""What a hub lists is checked before any of it becomes a path."""

from __future__ import annotations

import pytest
from windlass_download.errors import UserError
from windlass_download.hubs import wanted_from
from windlass_download.wanted import GIT_SHA1, SHA256, RemoteFile, digest_of, from_rows, listing
from windlass_testbed.cases import every_case

WANTED = wanted_from("huggingface", "qwen/Qwen2", "", "")
HOSTILE = [
    "../evil",
    "/etc/evil",
    "a/../../evil",
    "a//b",
    "a/",
    ".",
    "..",
    "a/./b",
    "a\nb",
    "a\0b",
    ".windlass-complete.json",
    ".windlass-download-x/claim-1",
    "a\\..\\b",
    "",
    "s" * 300,
    "/".join(["d"] * 600),
    "\u202egpj.exe",
    "\ud800",
]


@every_case("path", HOSTILE)
def test_a_hostile_name_is_refused(path):
    with pytest.raises(UserError) as refused:
        listing("c", [RemoteFile(path, 1)], WANTED)
    assert refused.value.reason == "HubAnswerBroken"
    assert refused.value.message.isascii()


@pytest.mark.parametrize(
    "rows",
    [[("a", 1), ("a/b", 1)], [("a", 1), ("a", 1)], [("a", -1)], [("a", 1 << 60)], [("a", 1 << 49), ("b", 1 << 50)]],
    ids=["file and folder", "twice", "negative", "huge", "huge together"],
)
def test_a_listing_that_cannot_be_is_refused(rows):
    with pytest.raises(UserError) as refused:
        listing("c", [RemoteFile(path, size) for path, size in rows], WANTED)
    assert refused.value.reason == "HubAnswerBroken"


def test_ordinary_names_pass():
    paths = ["config.json", "a b/ü.txt", "..gguf", "x/.hidden", "模型.bin"]
    assert {file.path for file in listing("c", [RemoteFile(path, 1) for path in paths], WANTED).files} == set(paths)


def test_git_s_own_files_are_left_out():
    found = listing("c", [RemoteFile(".gitattributes", 1), RemoteFile("a", 1)], WANTED)
    assert [file.path for file in found.files] == ["a"]


def test_a_commit_that_changes_no_file_is_the_same_work():
    files = [RemoteFile("a", 1, SHA256, "0" * 64)]
    assert listing("one", files, WANTED).key == listing("two", files, WANTED).key
    bare = [RemoteFile("a", 1)]
    assert listing("one", bare, WANTED).key != listing("two", bare, WANTED).key


@pytest.mark.parametrize("value", [None, 3, "", "x" * 64, "0" * 40, "0" * 63])
def test_what_is_no_sha256_is_no_digest(value):
    assert digest_of(value, SHA256) == ("", "")


def test_digests_are_distinguished_by_length():
    assert digest_of("A" * 64, SHA256) == (SHA256, "a" * 64)
    assert digest_of("a" * 40, GIT_SHA1) == (GIT_SHA1, "a" * 40)


@pytest.mark.parametrize("rows", [None, "x", [1], [{}], [{"path": "../x", "size": 1, "algorithm": "", "digest": ""}]])
def test_rows_that_are_not_ours_are_no_files(rows):
    """A marker lies on a shared volume: anybody may have written it."""
    assert from_rows(rows) == ()


@pytest.mark.parametrize("hub", ["huggingface", "modelscope"])
def test_the_hub_s_own_defaults(hub):
    wanted = wanted_from(hub, "a/b", "", "")
    assert wanted.endpoint.startswith("https://")
    assert wanted.revision == {"huggingface": "main", "modelscope": "master"}[hub]
