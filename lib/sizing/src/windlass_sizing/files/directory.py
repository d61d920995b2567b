"""A directory inside a mounted volume, and how messages speak of it.

`checkpoint.py` looks at the model's own, `adapters.py` at those of adapters and their base.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from windlass_sizing.errors import CheckpointError
from windlass_sizing.files.weight_files import listed, names_in

T = TypeVar("T")

NAMES_MAX = 20
NAME_LENGTH_MAX = 60
SOURCE_WORDS = {"pvc": "PVC", "nfs": "NFS", "hostPath": "host path"}


@dataclass(frozen=True, slots=True)
class Directory:
    """A path inside a volume; `source` is the volume's name and `field` the path's own, for messages."""

    root: Path
    path: str
    source: str
    field: str = "source.path"

    @property
    def place(self) -> Path:
        """Where it lies on this machine."""
        return self.root.joinpath(*self.parts)

    @property
    def parts(self) -> tuple[str, ...]:
        """The path's components, counted from the volume's root."""
        return tuple(part for part in PurePosixPath(self.path).parts if part != "/")

    @property
    def shown(self) -> str:
        """The field with its value."""
        return f'{self.field} "{self.path}"'

    def there(self, place: Path) -> str:
        """What lies in `place`, as the end of a sentence."""
        names = sorted(names_in(place))
        shown = [name if len(name) <= NAME_LENGTH_MAX else name[: NAME_LENGTH_MAX - 1] + "…" for name in names]
        return listed(shown, NAMES_MAX) if shown else "nothing"

    def named(self, look: Callable[[Path], T]) -> T:
        """Run a look at the files; what it refuses gets the directory's name in front."""
        try:
            return look(self.place)
        except CheckpointError as error:
            raise CheckpointError(error.reason, f"{self.shown} in {self.source}: {error}") from error

    def must_exist(self) -> None:
        """CheckpointError when it is not there, is no directory, or lies outside of the volume."""
        if ".." in self.parts:
            raise CheckpointError("PathEscapes", f'{self.shown} must not contain ".."')
        place, root = self.place, self.root.resolve()
        if not place.resolve().is_relative_to(root):
            raise CheckpointError(
                "PathEscapes", f"{self.shown} is a link that leads out of {self.source}; name the directory itself"
            )
        if place.is_dir():
            return
        parent = next((up for up in place.parents if up.is_dir() and up.resolve().is_relative_to(root)), root)
        above = "/" + "/".join(parent.relative_to(self.root).parts) if parent != root else "/"
        what = "is a file, not a directory," if place.exists() else "is not"
        raise CheckpointError(
            "PathNotFound", f"{self.shown} {what} in {self.source}; {above} has: {self.there(parent)}"
        )


def spoken(source_label: str) -> str:
    """`pvc/models` as a sentence says it."""
    kind, slash, name = source_label.partition("/")
    return f"{SOURCE_WORDS.get(kind, kind)} {name}" if slash else source_label
