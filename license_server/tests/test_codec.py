"""The license file: one byte form, and no other byte is accepted."""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from windlass_license.errors import FileRefusal, LicenseFileError
from windlass_license.license_file import codec
from windlass_license.license_file.issue import issue, listed_in, terms_of
from windlass_license.license_file.keys import by_id, key_id
from windlass_license.rules.model import License, LicensedGpu

MakeLicense = Callable[..., License]
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
TRUSTED = by_id([KEY.public_key()])

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=zones)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
gpus = st.builds(LicensedGpu, texts, texts, moments, moments, st.lists(texts, max_size=2).map(tuple))
licenses = st.builds(
    License,
    texts,
    texts,
    st.integers(0, 10_000),
    st.lists(gpus, min_size=1, max_size=4, unique_by=lambda gpu: gpu.uuid).map(tuple),
    st.integers(0, 10**6),
    st.booleans(),
)


@given(licenses)
@settings(deadline=None)
def test_round_trip(license_: License) -> None:
    """What was signed is what is read, whatever the names hold."""
    assert license_ == codec.verify(codec.sign(license_, KEY), TRUSTED)


def _other(field: "Field[Any]") -> object:
    """A value that a field does not have by default."""
    if isinstance(field.default, bool):
        return not field.default
    return field.default + {int: 1, str: "x", tuple: ("x",)}[type(field.default)]


MADE_BY_SIGNING = ("answer_certificate",)
GIVEN = [one for one in fields(License) if one.default is not MISSING and one.name not in MADE_BY_SIGNING]


@pytest.mark.parametrize("field", GIVEN, ids=lambda one: one.name)
def test_every_field_of_a_license_survives(field: "Field[Any]", a_license: MakeLicense) -> None:
    """A field that the file's form forgets would be dropped without a word."""
    plain = a_license()
    license_ = replace(plain, **{field.name: _other(field)})
    read = codec.verify(codec.sign(license_, KEY), TRUSTED)
    assert getattr(read, field.name) == getattr(license_, field.name) != getattr(plain, field.name)


@pytest.mark.parametrize("field", [one for one in GIVEN if one.name != "serial"], ids=lambda one: one.name)
def test_a_license_that_follows_keeps_every_field(field: "Field[Any]", a_license: MakeLicense) -> None:
    """`issue --from` would drop a field that the terms forget; the serial alone is made anew."""
    old = replace(a_license(), **{field.name: _other(field)})
    new = issue(listed_in(old), terms_of({}, old), datetime(2026, 9, 6, 10, 0, tzinfo=UTC))
    assert getattr(new, field.name) == getattr(old, field.name)


@pytest.mark.parametrize(
    "field", [one for one in fields(LicensedGpu) if one.default is not MISSING], ids=lambda one: one.name
)
def test_every_field_of_a_licensed_gpu_survives(field: "Field[Any]", a_license: MakeLicense) -> None:
    plain = a_license()
    license_ = replace(plain, gpus=(replace(plain.gpus[0], **{field.name: _other(field)}),))
    assert codec.verify(codec.sign(license_, KEY), TRUSTED) == license_ != plain


@given(st.permutations(["GPU-a", "GPU-b", "GPU-c"]))
@settings(deadline=None)
def test_canonical_form(order: list[str]) -> None:
    """The same license gives the same bytes, in whatever order its GPUs were listed."""
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)

    def file(uuids: list[str]) -> bytes:
        rows = tuple(LicensedGpu(uuid, "L20", start, end) for uuid in uuids)
        return codec.sign(License("1", "c", 0, rows), KEY)

    assert file(["GPU-a", "GPU-b", "GPU-c"]) == file(order)


def _refused(data: bytes) -> FileRefusal:
    with pytest.raises(LicenseFileError) as caught:
        codec.verify(data, TRUSTED)
    return caught.value.reason


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_one_bit_flip_is_refused(data: st.DataObject) -> None:
    """Sampled over all licenses: one changed bit anywhere, header included, is refused."""
    file = bytearray(codec.sign(data.draw(licenses), KEY))
    bit = data.draw(st.integers(0, len(file) * 8 - 1))
    file[bit // 8] ^= 1 << bit % 8
    _refused(bytes(file))


def test_every_bit_flip_and_truncation_of_one_file_is_refused(a_license: MakeLicense) -> None:
    """Exhaustive for one small file."""
    file = codec.sign(a_license(1), KEY)
    for bit in range(len(file) * 8):
        flipped = bytearray(file)
        flipped[bit // 8] ^= 1 << bit % 8
        _refused(bytes(flipped))
    for length in range(len(file)):
        _refused(file[:length])


@given(st.binary(max_size=400))
@settings(deadline=None)
def test_noise_is_refused(noise: bytes) -> None:
    """Any bytes end in a refusal, never in another exception."""
    _refused(noise)
    _refused(codec.MAGIC.encode() + b"\nKey: " + noise)


def test_readable_header(a_license: MakeLicense) -> None:
    """A person sees whose license it is and until when, without a tool."""
    text = codec.sign(a_license(3, limit=2), KEY).decode()
    assert text.splitlines()[:8] == [
        "windlass license, format 1",
        f"Key: {key_id(KEY.public_key())}",
        'Customer: "leolingli"',
        'Appid: "1234"',
        "GPUs: 3",
        "Concurrent GPUs: 2",
        "Expires: 2026-10-06T10:00:00+00:00",
        "",
    ]


def test_header_is_part_of_what_is_checked(a_license: MakeLicense) -> None:
    """A header that says more GPUs than were bought does not pass."""
    file = codec.sign(a_license(3), KEY)
    assert _refused(file.replace(b"GPUs: 3", b"GPUs: 9")) is FileRefusal.TAMPERED


REFUSED = {
    "empty": (lambda file: b"", FileRefusal.EMPTY),
    "blank": (lambda file: b"\n \n", FileRefusal.EMPTY),
    "other file": (lambda file: b"\x89PNG\r\n", FileRefusal.NOT_A_LICENSE),
    "cut in the first line": (lambda file: file[:12], FileRefusal.TRUNCATED),
    "cut in the middle": (lambda file: file[: len(file) // 2], FileRefusal.TRUNCATED),
    "last newline missing": (lambda file: file[:-1], FileRefusal.TRUNCATED),
    "newline added": (lambda file: file + b"\n", FileRefusal.TRUNCATED),
    "windows newlines": (lambda file: file.replace(b"\n", b"\r\n"), FileRefusal.TAMPERED),
    "twice": (lambda file: file + file, FileRefusal.TAMPERED),
}


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED)
def test_refusals(change: Callable[[bytes], bytes], reason: FileRefusal, a_license: MakeLicense) -> None:
    """Each kind of damage has its own words."""
    assert _refused(change(codec.sign(a_license(2), KEY))) is reason


def test_foreign_key_is_named(a_license: MakeLicense) -> None:
    """A file of another issuer is refused with both key ids."""
    with pytest.raises(LicenseFileError) as caught:
        codec.verify(codec.sign(a_license(), OTHER_KEY), TRUSTED)
    assert key_id(OTHER_KEY.public_key()) in str(caught.value)
    assert key_id(KEY.public_key()) in str(caught.value)


def test_foreign_signature_under_a_trusted_id(a_license: MakeLicense) -> None:
    """Claiming a trusted key's id does not help a forger."""
    body = codec.open_envelope(codec.sign(a_license(), KEY)).signed
    forged = codec.sign(a_license(9), OTHER_KEY).replace(
        key_id(OTHER_KEY.public_key()).encode(), key_id(KEY.public_key()).encode()
    )
    assert _refused(forged) is FileRefusal.TAMPERED
    assert body not in forged


def test_rotation(a_license: MakeLicense) -> None:
    """While two keys are trusted, licenses of both are in order."""
    both = by_id([KEY.public_key(), OTHER_KEY.public_key()])
    for key in (KEY, OTHER_KEY):
        assert a_license() == codec.verify(codec.sign(a_license(), key), both)


def test_signed_but_not_canonical(a_license: MakeLicense) -> None:
    """Another way to write the same license is refused even with a good signature: one license, one byte form."""
    import base64

    signed = codec.open_envelope(codec.sign(a_license(), KEY)).signed.replace(b'"limit":0', b'"limit": 0')
    file = signed + b"Signature: " + base64.b64encode(KEY.sign(signed)) + b"\n"
    assert _refused(file) is FileRefusal.NOT_CANONICAL


def test_expired_file_is_not_accepted(a_license: MakeLicense, now: datetime) -> None:
    """A file verifies for ever, but is put in force before its end only."""
    file = codec.sign(a_license(days=1), KEY)
    assert codec.accept(file, TRUSTED, now + timedelta(hours=23))
    with pytest.raises(LicenseFileError, match="expired at 2026-09-07T10:00:00"):
        codec.accept(file, TRUSTED, now + timedelta(days=1))


def test_ten_thousand_gpus(a_license: MakeLicense) -> None:
    """A large site fits into one file below the upload limit."""
    slices = tuple(f"MIG-{n}0000000-0000-0000-0000-000000000000" for n in range(7))
    license_ = a_license(10_000)
    license_ = replace(license_, gpus=tuple(replace(gpu, slices=slices) for gpu in license_.gpus))
    file = codec.sign(license_, KEY)
    assert len(file) < 16 * 2**20
    assert license_ == codec.verify(file, TRUSTED)
