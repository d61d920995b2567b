"""`kubectl windlass license` and the program `windlass-license`, which meet at options, exit codes and JSON."""

import asyncio
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from windlass_kubectl.licensing.errors import LicensingError
from windlass_kubectl.licensing.gpus import uuids
from windlass_kubectl.licensing.issuer import Issuer, Key, find_program
from windlass_kubectl.licensing.terms import Facts, RequestedTerms, words
from windlass_license.license_file import codec
from windlass_license.license_file.keys import by_id, parse_public

NOW = datetime.now(UTC)
NO_TERMS = RequestedTerms()
LISTING = (
    "GPU 0: NVIDIA L20 (UUID: GPU-a)\n  MIG 1g.10gb     Device  0: (UUID: MIG-b)\nGPU 1: NVIDIA L20 (UUID: GPU-c)\n"
)


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    """The real program and a folder that is not there yet."""
    return Issuer(find_program(""), tmp_path / "deep" / "license")


def make_key(issuer: Issuer, given: str = "") -> Key:
    return asyncio.run(issuer.key(given, may_make=True))


def issue(
    issuer: Issuer, key: Key, tmp_path: Path, asked: RequestedTerms = NO_TERMS, follows: Facts | None = None
) -> Facts:
    listing = tmp_path / "gpus.txt"
    listing.write_text(LISTING)
    said = words(asked, NOW, follows=follows is not None)
    more = ["--from", str(follows.file)] if follows else ["--gpus", str(listing)]
    return asyncio.run(issuer.issue(key, [*said, *more]))


def test_the_program_is_found_beside_the_plug_in_and_its_want_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named one first, then that of this environment, then that of the PATH; else how to get it."""
    assert find_program("/x") == "/x"
    assert find_program("") == str(Path(sys.executable).with_name("windlass-license"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LicensingError, match=r"pip install 'windlass-client\[license\]'"):
        find_program("")


def test_a_key_is_made_once_and_only_its_owner_can_read_it(issuer: Issuer) -> None:
    """The folder is closed to others, too; the second time the same key is found."""
    made, found = make_key(issuer), make_key(issuer)
    assert (made.made, found.made, made.id) == (True, False, found.id)
    assert stat.S_IMODE(made.private.stat().st_mode) == 0o600
    assert stat.S_IMODE(issuer.folder.stat().st_mode) == 0o700
    assert (made.is_open, "PRIVATE" in made.public_pem) == (False, False)
    made.private.chmod(0o640)
    assert make_key(issuer).is_open
    with pytest.raises(LicensingError, match=r"there is no private key /nowhere.*--key"):
        make_key(issuer, "/nowhere/private.pem")


def test_a_license_of_the_plug_in_is_one_that_the_server_takes(issuer: Issuer, tmp_path: Path) -> None:
    """With the GPUs of the listing, read alike on both sides, and terms that go on in the next one."""
    key = make_key(issuer)
    first = issue(issuer, key, tmp_path, RequestedTerms("Example Ltd", "7", 30, 1))
    trusted = by_id(parse_public(key.public_pem, "key"))
    license_ = codec.accept(first.file.read_bytes(), trusted, NOW)
    assert {gpu.uuid for gpu in license_.gpus} == first.uuids == uuids(LISTING)
    assert (license_.customer, license_.appid, license_.limit) == ("Example Ltd", "7", 1)
    assert license_.gpus[0].slices == ("MIG-b",)
    assert first.key_id == key.id
    later = issue(issuer, key, tmp_path, RequestedTerms(days=60), follows=first)
    assert (later.customer, later.limit, later.uuids) == ("Example Ltd", 1, first.uuids)
    assert later.expires - first.expires == timedelta(days=30)


def test_a_refusal_of_the_program_is_reported_in_its_words(issuer: Issuer, tmp_path: Path) -> None:
    """Not as a traceback, and not as a missing field."""
    key = make_key(issuer)
    with pytest.raises(LicensingError, match="--customer and --appid must not be empty"):
        issue(issuer, key, tmp_path, RequestedTerms(customer=" "))
    other = Issuer(issuer.program, tmp_path / "other")
    with pytest.raises(LicensingError, match="was signed with another key"):
        issue(other, make_key(other), tmp_path, follows=issue(issuer, key, tmp_path))
    with pytest.raises(LicensingError, match="/nowhere/program cannot be started"):
        make_key(Issuer("/nowhere/program", issuer.folder))
