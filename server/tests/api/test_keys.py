"""Keys of a file: replaced while the server runs, and never open by accident."""

from pathlib import Path

import pytest
from windlass.front.keys import KeyFile, KeyRing, lines, words
from windlass.front.refusal import Refusal


class Clock:
    """A clock that stands until it is told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def admits(ring: KeyRing, key: str) -> bool:
    try:
        ring.admit(f"Bearer {key}".encode())
    except Refusal as refusal:
        assert refusal.status == 401
        return False
    return True


def swap(mount: Path, version: str, text: str) -> None:
    """As the kubelet does it: a new directory, then one rename of a link."""
    (mount / version).mkdir()
    (mount / version / "keys").write_text(text)
    (mount / "new").symlink_to(version)
    (mount / "new").replace(mount / "data")
    if not (mount / "keys").is_symlink():
        (mount / "keys").symlink_to("data/keys")


def test_a_swapped_secret_is_seen_within_a_second(tmp_path: Path) -> None:
    """The old key ends, the new one begins; between two looks nothing is read."""
    clock = Clock()
    swap(tmp_path, "v1", "# the first\nsk-old\n\n")
    ring = KeyRing("", KeyFile(str(tmp_path / "keys"), clock))
    assert admits(ring, "sk-old")
    swap(tmp_path, "v2", "sk-new\nsk-too\n")
    clock.now += 0.5
    assert admits(ring, "sk-old")
    clock.now += 0.5
    assert [admits(ring, key) for key in ("sk-old", "sk-new", "sk-too", "# the first", "")] == [
        False,
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("text", [None, "", "# only a comment\n", b"\xff\xfe"])
def test_a_file_without_keys_closes(tmp_path: Path, text: str | bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    """Missing, empty or unreadable: everybody is refused, and the log says why once."""
    path, clock = tmp_path / "keys", Clock()
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    ring = KeyRing("", KeyFile(str(path), clock))
    assert not admits(ring, "")
    clock.now += 2
    assert not admits(ring, "# only a comment")
    assert caplog.text.count(str(path)) == 1
    clock.now += 2
    path.write_text("sk-now")
    assert admits(ring, "sk-now")


def test_a_removed_file_closes_again(tmp_path: Path) -> None:
    """The keys of the variable stay."""
    path, clock = tmp_path / "keys", Clock()
    path.write_text("sk-file")
    ring = KeyRing("sk-listed", KeyFile(str(path), clock))
    assert [admits(ring, key) for key in ("sk-file", "sk-listed")] == [True, True]
    path.unlink()
    clock.now += 1
    assert [admits(ring, key) for key in ("sk-file", "sk-listed")] == [False, True]


def test_no_keys_at_all_is_open_but_a_list_of_none_is_closed() -> None:
    """A variable of blanks is unset; one of commas is a mistake."""
    assert KeyRing("  ", None).admit(b"") == ""
    assert not admits(KeyRing(",", None), "")


def test_the_same_key_is_the_same_asker() -> None:
    """The queue tells keys apart without holding them."""
    ring = KeyRing("sk-a,sk-b", None)
    a, again, b = ring.admit(b"Bearer sk-a"), ring.admit(b"bearer  sk-a"), ring.admit(b"Bearer sk-b")
    assert a == again != b
    assert "sk" not in a


def test_keys_are_read_with_blanks_around() -> None:
    """Lists by comma, files by line."""
    assert words(" a, b,,c ") == ("a", "b", "c")
    assert lines("a\r\n # c\n b \n") == ("a", "b")


def test_all_entries_of_a_mounted_secret_count(tmp_path: Path) -> None:
    """A Secret's directory: several files of keys, and dot entries that are the kubelet's own."""
    mount, clock = tmp_path / "mount", Clock()
    for version, files in (("..1", {"alice": "a1\na2", "bob": "b1"}), ("..2", {"bob": "b2"})):
        (mount / version).mkdir(parents=True)
        for name, text in files.items():
            (mount / version / name).write_text(text)
    point(mount, "..1")
    for name in ("alice", "bob"):
        (mount / name).symlink_to(f"..data/{name}")
    ring = KeyRing("", KeyFile(str(mount), clock))
    assert [admits(ring, key) for key in ("a1", "a2", "b1", "b2")] == [True, True, True, False]
    point(mount, "..2")
    (mount / "alice").unlink()
    clock.now += 1.1
    assert [admits(ring, key) for key in ("a1", "a2", "b1", "b2")] == [False, False, False, True]


def point(mount: Path, version: str) -> None:
    """One rename of the link that all entries go through."""
    (mount / "..new").symlink_to(version)
    (mount / "..new").rename(mount / "..data")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-API-Key": "sk-b"}, 200),
        ({"X-API-Key": "sk-c"}, 401),
        ({"X-API-Key": "Bearer sk-b"}, 401),
        ({"X-API-Key": "sk-b", "Authorization": "Bearer sk-c"}, 401),
        ({"X-API-Key": "sk-c", "Authorization": "Bearer sk-b"}, 200),
    ],
    ids=str,
)
async def test_a_key_may_come_in_a_header_that_proxies_leave(api, headers: dict[str, str], status: int) -> None:
    """The API server's proxy takes Authorization for itself; where both come, that one counts."""
    answer = await api(keys="sk-a,sk-b").client.get("/v1/models", headers=headers)
    assert answer.status_code == status
