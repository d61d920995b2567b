"""Coverage-guided fuzzing (atheris) of all that reads bytes from outside: an input is understood or refused, no more.

    python license_server/fuzz/parsers.py [-max_total_time=60] [CORPUS]

The first byte of an input chooses the parser. A license file is also read as if its signature were good, since that
part of the parser is behind the signature; whatever it accepts must then be the canonical form of what it read.
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["windlass_license"]):
    from windlass_license.errors import KeyFileError, LicenseFileError, ListingError
    from windlass_license.http.wire import BadRequestError, parse_lease
    from windlass_license.license_file import codec, keys
    from windlass_license.license_file.issue import parse_expiry
    from windlass_license.license_file.listing import merge_listings, parse_listing
    from windlass_license.rules.model import License, LicensedGpu

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
TRUSTED = keys.by_id([KEY.public_key()])


def license_file(data: bytes) -> None:
    """Nobody can forge a file, and what is read back is what was written."""
    try:
        codec.verify(data, TRUSTED)
    except LicenseFileError:
        pass
    else:
        assert data in SEEDS[license_file], "a forged license was accepted"
    try:
        license_, _ = codec.read_unverified(data)
    except LicenseFileError:
        return
    signed = codec.sign(license_, KEY)
    assert codec.verify(signed, TRUSTED) == license_


def listing(data: bytes) -> None:
    """`nvidia-smi -L` output: a GPU once, or an error with its line."""
    try:
        gpus = merge_listings([parse_listing(data.decode("utf-8", "replace"))])
    except ListingError:
        return
    assert len({gpu.uuid for gpu in gpus}) == len(gpus)


def lease_request(data: bytes) -> None:
    """The body of POST /v1/leases."""
    try:
        request = parse_lease(data)
    except BadRequestError as error:
        str(error).encode()
        return
    assert request.gpus == tuple(sorted(set(request.gpus)))


def public_keys(data: bytes) -> None:
    """PEM text."""
    try:
        keys.parse_public(data.decode("utf-8", "replace"), "input")
    except KeyFileError:
        return


_NOW, _END = datetime(2026, 9, 6, tzinfo=UTC), parse_expiry("2027-09-06T00:00:00+08:00")
_GPU = LicensedGpu("GPU-a", "NVIDIA L20", _NOW, _END, ("MIG-1", "MIG-2"))
_GPUS = (_GPU, LicensedGpu("GPU-b", 'T4 "€"', _NOW, _END))
SEEDS = {
    license_file: [codec.sign(License("1", "c", 0, (_GPU,)), KEY), codec.sign(License("12", "d", 9, _GPUS), KEY)],
    listing: [b"GPU 0: L20 (UUID: GPU-a)\r\n  MIG 1g.10gb Device 0: (UUID: MIG-b)\n\nGPU 1: T4 (UUID: GPU-c)"],
    lease_request: [b'{"gpus":["GPU-a"],"holder":{"uid":"u","namespace":"n","pod":"p","service":"s"}}'],
    public_keys: [keys.public_pem(KEY.public_key()).encode() * 2],
}
TARGETS = tuple(SEEDS)


def one_input(data: bytes) -> None:
    """Called by the fuzzer."""
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])


def main() -> None:
    """Begin with valid inputs of every kind."""
    with tempfile.TemporaryDirectory() as folder:
        for number, target in enumerate(TARGETS):
            for index, seed in enumerate(SEEDS[target]):
                (Path(folder) / f"{target.__name__}-{index}").write_bytes(bytes([number]) + seed)
        # What broke a parser is printed as Base64; its file goes with the folder.
        atheris.Setup([sys.argv[0], f"-artifact_prefix={folder}/", *sys.argv[1:], folder], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
