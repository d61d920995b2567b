"""The issuer's side: keys and licenses by the program `windlass-license`, which is started beside the plug-in.

The private key never leaves this machine, and the plug-in itself never reads it: it names the file to the program.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from windlass_kubectl.licensing.errors import LicensingError
from windlass_kubectl.licensing.programs import run_program
from windlass_kubectl.licensing.terms import Facts

PROGRAM = "windlass-license"
PRIVATE, PUBLIC = "private.pem", "public.pem"
PATIENCE_S = 60.0
FOLDER_MODE = 0o700
MISSING = (
    f"{PROGRAM} is not on this machine, and it alone makes keys and licenses; "
    "pip install 'windlass-client[license]', or name it with --issuer"
)


@dataclass(frozen=True, slots=True)
class Key:
    """A signing key: where its private half lies, its id in license files, its public half."""

    private: Path
    id: str
    public_pem: str
    made: bool = False

    @property
    def is_open(self) -> bool:
        """Whether others of this machine may read the private half."""
        return bool(stat.S_IMODE(self.private.stat().st_mode) & 0o077)


def default_folder() -> Path:
    """Where keys and licenses lie unless the user names a folder."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "windlass" / "license"


def find_program(given: str) -> str:
    """The named program, the one of this Python environment, or the one on the PATH."""
    if given:
        return given
    beside = Path(sys.executable).with_name(PROGRAM)
    found = str(beside) if beside.exists() else shutil.which(PROGRAM)
    if not found:
        raise LicensingError(MISSING)
    return found


class Issuer:
    """One program and one folder."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.folder = program, folder

    def private(self, given: str) -> Path:
        """The private key's file: the given one, else the folder's."""
        return Path(given) if given else self.folder / PRIVATE

    @staticmethod
    def check(given: str) -> None:
        """LicensingError when a private key is named and is not there."""
        if given and not Path(given).is_file():
            raise LicensingError(f"there is no private key {given}; name the one that signs for this cluster: --key")

    async def key(self, given: str, *, may_make: bool) -> Key:
        """The key pair; made when the folder has none and that is wanted."""
        private = self.private(given)
        made = not private.exists()
        if not may_make:
            self.check(str(private))
        self.check(given)
        if made:
            self._make_folder()
            await self._run("keygen", "--out", str(self.folder))
        facts = _json(await self._run("public-key", str(private), "-o", "json"))
        return Key(private, str(facts["key"]), str(facts["publicKey"]), made)

    async def inspect(self, file: Path) -> Facts:
        """What a license file says; its signature is not looked at."""
        return _facts(file, _json(await self._run("inspect", str(file), "-o", "json")))

    async def issue(self, key: Key, words: Sequence[str]) -> Facts:
        """Sign a license with these options of `windlass-license issue`; it lies in the folder under its usual name."""
        self._make_folder()
        where = ("--key", str(key.private), "--out", str(self.folder), "-o", "json")
        facts = _json(await self._run("issue", *words, *where))
        return await self.inspect(Path(str(facts["file"])))

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        except OSError as error:
            raise LicensingError(f"{self.folder} cannot be made: {error.strerror}; name another --folder") from error

    async def _run(self, *words: str) -> str:
        return await run_program(self.program, *words, patience_s=PATIENCE_S)


def _json(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise LicensingError(f"{PROGRAM} answers otherwise than this plug-in expects: {text[:200]}") from error
    return dict(document)


def _facts(file: Path, said: dict[str, Any]) -> Facts:
    try:
        return Facts(
            file,
            str(said["customer"]),
            str(said["appid"]),
            int(said["limit"]),
            datetime.fromisoformat(said["expires"]),
            frozenset(str(gpu["uuid"]) for gpu in said["gpuinfos"]),
            str(said["keyId"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise LicensingError(f"{PROGRAM} says less of {file} than this plug-in expects: {error}") from error
