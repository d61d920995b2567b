"""The YAML form of a key file: what it takes, and what each mistake is answered, without a word of a key."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from windlass.front import key_document
from windlass.front.key_document import Key, KeyDocumentError, Limits, digest_of, is_document, parse
from windlass.front.keys import KeyFile, KeyRing
from windlass.front.refusal import Refusal
from windlass_testbed.cases import every_case

FULL = """\
# the search team's
keys:
  - name: search
    key: [sk-search-old, sk-search-new]
    models: [demo, poet]
    requestsPerMinute: 60
    tokensPerMinute: 10000
    concurrency: 4
    expires: 2027-01-31
  - {name: batch, key: sk-batch-1}
"""


def test_every_field_is_read() -> None:
    """Both keys of a name, its models and limits, and a day that ends with itself."""
    search, batch = parse(FULL)
    assert search.digests == (digest_of("sk-search-old"), digest_of("sk-search-new"))
    assert (search.name, search.models, search.limits) == ("search", ("demo", "poet"), Limits(60, 10_000, 4))
    assert search.expires_at == datetime(2027, 2, 1, tzinfo=UTC).timestamp()
    assert (batch.models, batch.limits.any, batch.expires_at) == ((), False, None)
    assert "sk-" not in repr((search, batch))


def test_json_is_yaml_too() -> None:
    """And a time has its zone."""
    (key,) = parse('{"keys": [{"name": "a", "key": "sk-aaaaaa", "expires": "2027-01-31T12:00:00Z"}]}')
    assert key.expires_at == datetime(2027, 1, 31, 12, tzinfo=UTC).timestamp()


ENTRY = "keys: [{name: a, key: sk-aaaaaa, %s}]"


@every_case(
    "text, words",
    [
        ("keys: [", "is not YAML at line 1"),
        ("keys: *sk-secret-key", "is not YAML at line 1"),
        ("keys: {sk-secret-key: {}}", 'must hold "keys" alone, a list'),
        ("- sk-secret-key", 'must hold "keys" alone, a list'),
        ("keys: []\nextra: 1", 'must hold "keys" alone'),
        ("keys: [sk-secret-key]", "has no mapping as entry 1"),
        ("keys: [{key: sk-secret-key}]", "has no usable name in entry 1"),
        ("keys: [{name: a b, key: sk-secret-key}]", "has no usable name in entry 1"),
        ("keys: [{name: a}]", 'has no usable key in entry 1 ("a")'),
        ("keys: [{name: a, key: short}]", "at least 8 characters"),
        ("keys: [{name: a, key: 12345678}]", "at least 8 characters"),
        (ENTRY % "sk-secret-key: 1", "has 1 unknown field(s)"),
        (ENTRY % "models: demo", "has no usable models"),
        (ENTRY % "models: []", "has no usable models"),
        (ENTRY % "requestsPerMinute: 0", "has no usable requestsPerMinute"),
        (ENTRY % "tokensPerMinute: 1.5", "has no usable tokensPerMinute"),
        (ENTRY % "concurrency: true", "has no usable concurrency"),
        (ENTRY % "expires: soon", "has no usable expires"),
        (ENTRY % "expires: 2027-01-31T12:00:00", "a time with its zone"),
        ("keys: [{name: a, key: sk-aaaaaa}, {name: a, key: sk-bbbbbb}]", "the same name twice"),
        ("keys: [{name: a, key: sk-aaaaaa}, {name: b, key: sk-aaaaaa}]", "the same key twice"),
    ],
)
def test_a_mistake_is_named(text: str, words: str) -> None:
    """What, where, what to do; never a value."""
    with pytest.raises(KeyDocumentError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("keys", "sk-a\nsk-b\n", False),
        ("keys", "# c\n\nkeys:\n- {}", True),
        ("keys", '{"keys": []}', True),
        ("team.yaml", "sk-a", True),
        ("keys", "---\nkeys : []", True),
        ("keys", "keys-of-alice", False),
    ],
)
def test_the_form_is_seen(name: str, text: str, expected: bool) -> None:
    """By the file's name, or by its first line."""
    assert is_document(name, text) is expected


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def admitted(ring: KeyRing, *keys: str) -> list[str]:
    found = []
    for key in keys:
        try:
            found.append(ring.find(f"Bearer {key}".encode()).name)
        except Refusal as refusal:
            found.append(str(refusal.status))
    return found


def test_both_forms_stand_beside_each_other(tmp_path: Path) -> None:
    """A plain key is named after its file; a key of a document by its entry."""
    (tmp_path / "alice").write_text("sk-alice\n")
    (tmp_path / "teams.yaml").write_text(FULL)
    ring = KeyRing("sk-listed", KeyFile(str(tmp_path)))
    assert admitted(ring, "sk-alice", "sk-search-new", "sk-batch-1", "sk-listed", "sk-none") == [
        "alice", "search", "batch", "listed", "401",
    ]  # fmt: skip


def test_a_wrong_document_keeps_the_keys_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A slip closes nobody out; at the start there is nothing to keep, so it closes."""
    path, clock = tmp_path / "keys.yaml", Clock()
    path.write_text(FULL)
    ring = KeyRing("", KeyFile(str(path), clock))
    assert admitted(ring, "sk-batch-1") == ["batch"]
    path.write_text("keys: [{name: batch, key: sk-batch-2, requests: 3}]")
    clock.now += 1
    assert (admitted(ring, "sk-batch-1", "sk-batch-2"), ring.is_wrong) == (["batch", "401"], True)
    assert "unknown field" in caplog.text
    assert "the 2 keys read before stay" in caplog.text
    assert "sk-" not in caplog.text
    assert admitted(KeyRing("", KeyFile(str(path), clock)), "sk-batch-1") == ["401"]
    path.write_text("keys: [{name: batch, key: sk-batch-2}]")
    clock.now += 1
    assert (admitted(ring, "sk-batch-1", "sk-batch-2"), ring.is_wrong) == (["401", "batch"], False)


def test_an_expired_key_says_so(tmp_path: Path) -> None:
    """401 with the key's name and the time."""
    path = tmp_path / "keys.yaml"
    path.write_text(FULL)
    ring = KeyRing("", KeyFile(str(path)), lambda: datetime(2027, 2, 1, tzinfo=UTC).timestamp())
    with pytest.raises(Refusal) as caught:
        ring.find(b"Bearer sk-search-new")
    assert caught.value.status == 401
    assert caught.value.message.startswith('the API key "search" expired at 2027-02-01 00:00 UTC; ask')


@pytest.mark.parametrize("day", ["9999-12-31", '"9999-12-31"'], ids=["a date", "a text"])
def test_the_last_day_of_the_calendar_never_ends(tmp_path: Path, day: str) -> None:
    """People write it for a key without an end."""
    path = tmp_path / "keys.yaml"
    path.write_text(f"keys: [{{name: a, key: sk-aaaaa, expires: {day}}}]")
    ring = KeyRing("", KeyFile(str(path)), lambda: datetime(9999, 12, 31, 23, 59, tzinfo=UTC).timestamp() + 3600)
    assert (admitted(ring, "sk-aaaaa"), ring.is_wrong) == (["a"], False)


def test_a_defect_of_the_reading_keeps_the_keys_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request fails; the file is read again when it changes, and the log has no word of it."""
    path, clock, reads = tmp_path / "keys.yaml", Clock(), list[str]()
    path.write_text(FULL)
    ring = KeyRing("", KeyFile(str(path), clock))
    assert admitted(ring, "sk-batch-1") == ["batch"]

    def broken(text: str) -> tuple[Key, ...]:
        reads.append(text)
        raise OverflowError(text)

    with monkeypatch.context() as patched:
        patched.setattr(key_document, "parse", broken)
        path.write_text("keys: [{name: batch, key: sk-batch-2}]")
        for _ in range(3):
            clock.now += 1
            assert (admitted(ring, "sk-batch-1", "sk-batch-2"), ring.is_wrong) == (["batch", "401"], True)
    assert len(reads) == 1
    assert "cannot be used (OverflowError); undo its last change; the 2 keys read before stay" in caplog.text
    assert "sk-" not in caplog.text
    path.write_text("keys: [{name: batch, key: sk-batch-2 }]")
    clock.now += 1
    assert (admitted(ring, "sk-batch-1", "sk-batch-2"), ring.is_wrong) == (["401", "batch"], False)
