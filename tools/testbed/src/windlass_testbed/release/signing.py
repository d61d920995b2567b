"""Signatures by cosign with a key pair and without a transparency log: SHA256SUMS is signed, and names all the rest."""

import os
from pathlib import Path

from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.process import run, say

KEY_VARIABLE = "WINDLASS_RELEASE_KEY"
PASSWORD_VARIABLE = "COSIGN_PASSWORD"  # noqa: S105 - a variable's name
PUBLIC = "cosign.pub"
BUNDLE = "SHA256SUMS.sigstore.json"
NO_LOG = ("--use-signing-config=false", "--tlog-upload=false")


def key(paths: Paths) -> Path:
    """Return the private key: the one that WINDLASS_RELEASE_KEY names, else one made once for trials."""
    if named := os.environ.get(KEY_VARIABLE):
        if not Path(named).is_file():
            raise BedError(
                f"{KEY_VARIABLE} names {named}, which is no file: make a pair by `cosign generate-key-pair`."
            )
        return Path(named)
    folder = paths.cache / "release-key"
    if not (folder / "cosign.key").exists():
        folder.mkdir(parents=True, exist_ok=True)
        say(f"  {KEY_VARIABLE} is not set: signing with a key for trials, {folder}/cosign.key")
        _cosign(paths, "generate-key-pair", "--output-key-prefix", str(folder / "cosign"))
    return folder / "cosign.key"


def sign(paths: Paths, folder: Path) -> None:
    """Sign SHA256SUMS, and put the public key beside it."""
    private = key(paths)
    sums, bundle = folder / "SHA256SUMS", folder / BUNDLE
    _cosign(paths, "sign-blob", "--yes", *NO_LOG, "--key", str(private), "--bundle", str(bundle), str(sums))
    bundle.chmod(0o644)  # cosign keeps it from other users, who are the ones to read it
    (folder / PUBLIC).write_text(_cosign(paths, "public-key", "--key", str(private)))


def verify(paths: Paths, folder: Path, public: Path) -> None:
    """Raise BedError unless SHA256SUMS is signed by the key and every file has the sum that it names."""
    words = ("--key", str(public), "--bundle", str(folder / BUNDLE), "--insecure-ignore-tlog=true")
    _cosign(paths, "verify-blob", *words, str(folder / "SHA256SUMS"))
    run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], log="release", cwd=folder)


def _cosign(paths: Paths, *words: str) -> str:
    env = {PASSWORD_VARIABLE: os.environ.get(PASSWORD_VARIABLE, "")}
    return run([paths.bin / "cosign", *words], log="release", env=env)
