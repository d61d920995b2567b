"""The one version of the repository: the workspace's pyproject.toml has it, every other place repeats it.

`make version` prints it, `make version NEW=0.3.0` writes it everywhere; a test compares all places.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed.errors import BedError

NUMBER = r"\d+\.\d+\.\d+(?:rc\d+)?"
PYPROJECT = rf'^version = "({NUMBER})"'
ATTRIBUTE = rf'^__version__ = "({NUMBER})"'
OWN = rf'"windlass-(?:base(?:\[[\w,]+\])?|sizing|api|client|server|lookahead)==({NUMBER})"'


@dataclass(frozen=True, slots=True)
class Place:
    """A file that holds the version, and the pattern whose first group it is."""

    file: str
    pattern: str


SOURCE = Place("pyproject.toml", PYPROJECT)
DISTRIBUTIONS = (
    *("lib/base", "lib/sizing", "lib/api", "operator", "operator/download", "clients/client", "clients/console"),
    *("server", "server/lookahead", "server/deepspeed", "license_server", "tools/testbed"),
)
CHARTS = ("windlass", "windlass-license-server")
PLACES: tuple[Place, ...] = (
    SOURCE,
    *(Place(f"{folder}/pyproject.toml", PYPROJECT) for folder in DISTRIBUTIONS),
    *(
        Place(f"{folder}/pyproject.toml", OWN)
        for folder in (
            "lib/api",
            "operator",
            "operator/download",
            "clients/client",
            "server",
            "license_server",
            "server/deepspeed",
            "clients/console",
        )
    ),
    Place("operator/src/windlass_operator/__init__.py", ATTRIBUTE),
    Place("clients/client/src/windlass_kubectl/__init__.py", ATTRIBUTE),
    Place("license_server/src/windlass_license/__init__.py", ATTRIBUTE),
    Place("server/deepspeed/src/windlass_deepspeed/__init__.py", ATTRIBUTE),
    Place("clients/console/src/windlass_console/__init__.py", ATTRIBUTE),
    *(Place(f"charts/{name}/Chart.yaml", rf"^version: ({NUMBER})$") for name in CHARTS),
    *(Place(f"charts/{name}/Chart.yaml", rf'^appVersion: "({NUMBER})"$') for name in CHARTS),
)


def found(root: Path, place: Place) -> list[str]:
    """Return every version that a place holds."""
    return re.findall(place.pattern, (root / place.file).read_text(), re.M)


def read(root: Path) -> str:
    """Return the version; BedError names the first place that says another."""
    version = found(root, SOURCE)[0]
    for place in PLACES:
        named = found(root, place)
        if set(named) != {version}:
            raise BedError(
                f"{place.file} says {', '.join(named) or 'no version'} and {SOURCE.file} says {version}: "
                f"run `make version NEW={version}`."
            )
    return version


def replaced(text: str, pattern: str, version: str) -> str:
    """Return the text with the first group of every match replaced."""
    return re.sub(pattern, lambda match: match[0].replace(match[1], version), text, flags=re.M)


def write(root: Path, version: str) -> None:
    """Write a version into every place."""
    if not re.fullmatch(NUMBER, version):
        raise BedError(f'"{version}" is no version: write three numbers as in 0.3.0, or 0.3.0rc1.')
    for place in PLACES:
        file = root / place.file
        file.write_text(replaced(file.read_text(), place.pattern, version))
