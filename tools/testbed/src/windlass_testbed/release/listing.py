"""SHA256SUMS, the list of images and the charts' values with digests: texts that say what an artefact is."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Released:
    """One image of a release: its short name, its repository, its tag and the digest of its manifest."""

    name: str
    repository: str
    tag: str
    digest: str


def sha256(path: Path) -> str:
    """Return the hex digest of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sums_of(folder: Path, without: Sequence[str] = ()) -> dict[str, str]:
    """Return path → hex digest of every file under a folder, in order; links are left to what they name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = {str(path.relative_to(folder)): path for path in files}
    return {name: sha256(path) for name, path in names.items() if name not in without}


def sums_text(sums: Mapping[str, str]) -> str:
    """Return the text that `sha256sum --check` reads."""
    return "".join(f"{digest}  {name}\n" for name, digest in sums.items())


def images_text(images: Sequence[Released]) -> str:
    """Return a line an image, as the bundle's load.sh reads it: name, repository, tag, digest."""
    return "".join(f"{one.name} {one.repository} {one.tag} {one.digest}\n" for one in images)


# Image → the value of which chart that takes its digest.
DIGEST_VALUES = {
    "operator": ("windlass", "image.digest"),
    "server": ("windlass", "server.image.digest"),
    "server-cpu": ("windlass", "server.image.cpuDigest"),
    "deepspeed-gpu": ("windlass", "server.deepspeed.digest"),
    "deepspeed": ("windlass", "server.deepspeed.cpuDigest"),
    "license-server": ("windlass-license-server", "image.digest"),
    "console": ("windlass", "console.image.digest"),
}


def values_text(chart: str, images: Sequence[Released]) -> str:
    """Return the values file of a chart that names the release's images by digest."""
    tree: dict[str, object] = {}
    for image in images:
        of, value = DIGEST_VALUES[image.name]
        if of == chart:
            *path, last = value.split(".")
            place = tree
            for part in path:
                place = place.setdefault(part, {})  # type: ignore[assignment]  # strings are leaves only
            place[last] = image.digest
    return _yaml(tree)


def _yaml(tree: Mapping[str, object], depth: int = 0) -> str:
    rows = []
    for key, value in tree.items():
        inner = f"\n{_yaml(value, depth + 1)}" if isinstance(value, dict) else f" {value}\n"
        rows.append(f"{'  ' * depth}{key}:{inner}")
    return "".join(rows)
