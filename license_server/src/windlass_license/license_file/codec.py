"""The license file: one byte form for one license, signed as a whole.

    windlass license, format 1
    Key: 5d1c9c0d4be0a4c7            the verification key's id
    Customer: …                      a header for people; derived from the JSON, and signed with it
    …
    <blank line>
    {"appid":"1234",…,"gpus":[       canonical JSON, one GPU a line
    {"brand":"NVIDIA L20",…}
    ]}
    <blank line>
    Signature: <88 base64 characters>

The signature covers every byte before its own line, the first line included, so that no byte of a file can change
unnoticed. The JSON is read only after the signature was found good, and the file must then be exactly what this code
writes for it. Pure: called by `issue`, the command line and the server. Must not import the web framework.
"""

import base64
import binascii
import json
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from windlass_license.errors import FileRefusal, LicenseFileError
from windlass_license.license_file import answer_key
from windlass_license.license_file.keys import PublicKeys, key_id
from windlass_license.rules.model import GRACE_MAX_S, License, LicensedGpu

MAGIC = "windlass license, format 1"
NO_KEY = (
    "this license server trusts no issuer's key yet, so it takes no license; run `kubectl windlass license init`, "
    "or upgrade its chart with --set-file 'publicKeys[0]=public.pem'"
)
_SIGNATURE = re.compile(rb"Signature: ([A-Za-z0-9+/]{86}==)\n")
_KEY_LINE = re.compile(rb"Key: ([0-9a-f]{16})")


@dataclass(frozen=True, slots=True)
class Envelope:
    """A file taken apart but not believed: the signed bytes, the id of the key, the signature."""

    signed: bytes
    key_id: str
    signature: bytes


def sign(license_: License, key: Ed25519PrivateKey) -> bytes:
    """The license file of `license_`, with the certificate of its answer key."""
    if license_.answer_key:
        license_ = replace(license_, answer_certificate=answer_key.certify(certified(license_), key))
    signed = _body(license_, key_id(key.public_key()))
    return signed + b"Signature: " + base64.b64encode(key.sign(signed)) + b"\n"


def verify(data: bytes, keys: PublicKeys) -> License:
    """The license in a file, when one of `keys` signed exactly these bytes; LicenseFileError if not."""
    if not keys:
        raise LicenseFileError(FileRefusal.NO_KEY, NO_KEY)
    envelope = open_envelope(data)
    key = keys.get(envelope.key_id)
    if key is None:
        raise LicenseFileError(FileRefusal.UNKNOWN_KEY, _unknown_key(envelope.key_id, keys))
    try:
        key.verify(envelope.signature, envelope.signed)
    except InvalidSignature as error:
        raise LicenseFileError(
            FileRefusal.TAMPERED, "the license file was changed after it was signed; upload the file as it was issued"
        ) from error
    license_ = _canonical(envelope)
    if license_.answer_key and not answer_key.is_certified(certified(license_), license_.answer_certificate, key):
        raise LicenseFileError(FileRefusal.NOT_CANONICAL, _NOT_CANONICAL)
    return license_


def certified(license_: License) -> answer_key.Certified:
    """What the certificate of the answer key says."""
    return answer_key.Certified(
        license_.answer_key, license_.appid, license_.customer, license_.serial, license_.expires_last
    )


def issuer_of(data: bytes) -> str:
    """The id of the key that a verified file names."""
    return open_envelope(data).key_id


def accept(data: bytes, keys: PublicKeys, now: datetime) -> License:
    """The license in a file that may be put in force at `now`: verified, not expired as a whole, with a sane grace.

    A file that is in force already is not held to the last, which earlier versions did not know (`License.grace`).
    """
    license_ = verify(data, keys)
    if license_.grace_s > GRACE_MAX_S:
        raise LicenseFileError(
            FileRefusal.NOT_CANONICAL,
            f"the license file has graceSeconds of {license_.grace_s}, which is longer than ten years; ask for one "
            f"with {GRACE_MAX_S} or less",
        )
    if license_.expires_last <= now:
        raise LicenseFileError(
            FileRefusal.EXPIRED,
            f"the license of customer {license_.customer} expired at {license_.expires_last.isoformat()} "
            f"(it is {now.isoformat(timespec='seconds')}); ask for a new one",
        )
    return license_


def read_unverified(data: bytes) -> tuple[License, str]:
    """What a file claims, and the id of the key it names, without checking the signature (`inspect`)."""
    envelope = open_envelope(data)
    return _canonical(envelope), envelope.key_id


def open_envelope(data: bytes) -> Envelope:
    """Take a file apart; LicenseFileError says whether it is empty, cut off or something else."""
    if not data.strip():
        raise LicenseFileError(FileRefusal.EMPTY, "the license file is empty; upload the .dat file as it was issued")
    magic = f"{MAGIC}\nKey: ".encode()
    if not data.startswith(magic):
        raise _not_a_license(data, magic)
    head, _, _ = data.rpartition(b"Signature: ")
    tail = _SIGNATURE.fullmatch(data, len(head))
    key_line = _KEY_LINE.fullmatch(data.split(b"\n", 2)[1])
    if tail is None or key_line is None or not head.endswith(b"\n"):
        raise LicenseFileError(
            FileRefusal.TRUNCATED, "the license file is cut off or damaged; upload the whole .dat file as it was issued"
        )
    signature = base64.b64decode(tail[1], validate=True)
    if base64.b64encode(signature) != tail[1]:
        raise LicenseFileError(
            FileRefusal.TAMPERED, "the license file's signature line was changed; upload it as issued"
        )
    return Envelope(head, key_line[1].decode(), signature)


def _not_a_license(data: bytes, magic: bytes) -> LicenseFileError:
    if magic.startswith(data):
        return LicenseFileError(
            FileRefusal.TRUNCATED, "the license file is cut off after its first bytes; upload it whole"
        )
    if data.startswith(MAGIC.encode() + b"\r\n"):
        message = "the license file's newlines were converted to Windows newlines; transfer it as a binary file"
        return LicenseFileError(FileRefusal.TAMPERED, message)
    message = (
        f'this is not a Windlass license file: it does not begin with "{MAGIC}"; upload the .dat file as it was issued'
    )
    return LicenseFileError(FileRefusal.NOT_A_LICENSE, message)


def _unknown_key(wanted: str, keys: PublicKeys) -> str:
    return (
        f"the license file names signing key {wanted}, which this server does not trust "
        f"(trusted: {', '.join(sorted(keys))}); add its public key or ask for a license signed by another"
    )


def _body(license_: License, signer: str) -> bytes:
    """The signed bytes: header, blank line, JSON, blank line."""
    header = [MAGIC, f"Key: {signer}", *(f"{name}: {value}" for name, value in header_rows(license_))]
    return ("\n".join([*header, "", _payload(license_), "", ""])).encode()


def header_rows(license_: License) -> tuple[tuple[str, str], ...]:
    """The header for people; `inspect` prints the same rows."""
    first, last = license_.expires_first, license_.expires_last
    serial = (("Serial", str(license_.serial)),) if license_.serial else ()
    answers = (("Answer key", license_.answer_key),) if license_.answer_key else ()
    return (
        ("Customer", _json(license_.customer)),
        ("Appid", _json(license_.appid)),
        ("GPUs", str(len(license_.gpus))),
        ("Concurrent GPUs", str(license_.limit) if license_.limit else "no limit"),
        ("Expires", last.isoformat() if first == last else f"{first.isoformat()} to {last.isoformat()}"),
        *serial,
        *answers,
    )


def _payload(license_: License) -> str:
    facts: dict[str, Any] = {
        "appid": license_.appid,
        "customer": license_.customer,
        "graceSeconds": license_.grace_s,
        "limit": license_.limit,
        "renewAfterExpiry": license_.renew_after_expiry,
    }
    if license_.serial:
        facts["serial"] = license_.serial
    if license_.answer_key:
        facts["answerKey"] = {"certificate": license_.answer_certificate, "key": license_.answer_key}
    gpus = ",\n".join(_json(_gpu_row(gpu)) for gpu in license_.gpus)
    return f'{_json(facts)[:-1]},"gpus":[\n{gpus}\n]}}'


def _gpu_row(gpu: LicensedGpu) -> dict[str, Any]:
    times = {"issued": gpu.issued.isoformat(), "expires": gpu.expires.isoformat()}
    return {"uuid": gpu.uuid, "brand": gpu.brand, "slices": list(gpu.slices), **times}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _canonical(envelope: Envelope) -> License:
    """Parse the signed bytes; they must be what this code writes for the license they describe."""
    try:
        text = envelope.signed.partition(b"\n\n")[2]
        license_ = _from_json(json.loads(text.decode()))
        same = _body(license_, envelope.key_id) == envelope.signed
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise LicenseFileError(FileRefusal.NOT_CANONICAL, _NOT_CANONICAL) from error
    if not same:
        raise LicenseFileError(FileRefusal.NOT_CANONICAL, _NOT_CANONICAL)
    return license_


_NOT_CANONICAL = "the license file is not written as this version writes it; issue it with `windlass-license issue`"


def _from_json(facts: dict[str, Any]) -> License:
    answers = facts.get("answerKey", {})
    license_ = License(
        appid=str(facts["appid"]),
        customer=str(facts["customer"]),
        limit=int(facts["limit"]),
        gpus=tuple(_gpu(row) for row in facts["gpus"]),
        grace_s=int(facts["graceSeconds"]),
        renew_after_expiry=bool(facts["renewAfterExpiry"]),
        serial=int(facts.get("serial", 0)),
        answer_key=str(answers.get("key", "")),
        answer_certificate=str(answers.get("certificate", "")),
    )
    if not license_.gpus or license_.limit < 0 or license_.grace_s < 0 or license_.serial < 0:
        raise ValueError("a license names at least one GPU and holds no negative number")
    return license_


def _gpu(row: dict[str, Any]) -> LicensedGpu:
    issued, expires = datetime.fromisoformat(row["issued"]), datetime.fromisoformat(row["expires"])
    if issued.tzinfo is None or expires.tzinfo is None:
        raise ValueError("times carry their zone")
    return LicensedGpu(str(row["uuid"]), str(row["brand"]), issued, expires, tuple(map(str, row["slices"])))
