"""The key that signs: named by a variable, and a name that leads nowhere ends the release."""

import pytest
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.release import signing


def test_the_key_is_the_one_that_the_variable_names(tmp_path, monkeypatch):
    """No key for trials is made then."""
    named = tmp_path / "cosign.key"
    named.write_text("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----")
    monkeypatch.setenv(signing.KEY_VARIABLE, str(named))
    assert signing.key(Paths(tmp_path / "cache", tmp_path / "run")) == named
    assert not (tmp_path / "cache").exists()


def test_a_key_that_is_not_there_is_named(tmp_path, monkeypatch):
    """A release signed with another key than the one that was meant would be worse than none."""
    monkeypatch.setenv(signing.KEY_VARIABLE, str(tmp_path / "gone.key"))
    with pytest.raises(BedError, match=r"gone\.key, which is no file: make a pair by `cosign generate-key-pair`"):
        signing.key(Paths(tmp_path, tmp_path))
