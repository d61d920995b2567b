"""The first key of a service's key files, as a client with the files takes it."""

import pytest
from windlass.front.key_document import KeyDocumentError
from windlass.front.key_files import first_key

DOCUMENT = "keys:\n- name: alice\n  key: [key-of-alice-new, key-of-alice-old]\n- name: bob\n  key: key-of-bob\n"


def test_of_a_plain_file_the_first_line_that_is_a_key(tmp_path):
    """Comments and blank lines are none."""
    (tmp_path / "keys").write_text("# ours\n\n  key-one  \nkey-two\n")
    assert first_key(tmp_path / "keys") == "key-one"


def test_of_a_document_the_first_holders_newest(tmp_path):
    """By its name or by how it begins."""
    for name, text in (("keys.yaml", DOCUMENT), ("keys", f"---\n{DOCUMENT}")):
        (tmp_path / name).write_text(text)
        assert first_key(tmp_path / name) == "key-of-alice-new"


def test_of_a_secrets_folder_the_first_file_that_has_one(tmp_path):
    """A mounted Secret has hidden folders beside its links."""
    (tmp_path / "..data").mkdir()
    (tmp_path / "a").write_text("# nothing yet\n")
    (tmp_path / "b").write_text("key-b\n")
    assert first_key(tmp_path) == "key-b"


def test_nothing_usable_is_a_sentence_without_the_key(tmp_path):
    """What is wrong with a document is said as the server says it."""
    (tmp_path / "a.yaml").write_text("keys:\n- name: x\n  key: short\n")
    with pytest.raises(KeyDocumentError, match="has no usable key in entry 1"):
        first_key(tmp_path)
    (tmp_path / "a.yaml").write_text("keys: []\n")
    with pytest.raises(KeyDocumentError, match="has no key"):
        first_key(tmp_path)
