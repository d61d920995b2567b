"""Which commit, tools and materials made the artefacts: an in-toto statement with SLSA's provenance, version 1.

Functions of values. No clock and no machine's name goes in, so that two builds of a commit say the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://windlass.dev/make-release/v1"
BUILDER = "https://windlass.dev/make-release"


@dataclass(frozen=True, slots=True)
class Made:
    """What a release was made from: the commit and its time, the builder's programs, the materials by digest."""

    version: str
    commit: str
    epoch: int
    programs: Mapping[str, str]  # program of the builder → its version
    modules: Sequence[str]  # Go programs as package@version
    files: Mapping[str, str]  # lock files and Dockerfiles of the commit → sha256
    images: Mapping[str, str]  # images that ours stand on → sha256 of their configuration


def statement(made: Made, subjects: Mapping[str, str]) -> dict[str, object]:
    """Return the statement about the artefacts (path → sha256)."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": made.version, "target": "make release"},
                "internalParameters": {"SOURCE_DATE_EPOCH": made.epoch},
                "resolvedDependencies": _materials(made),
            },
            "runDetails": {"builder": {"id": BUILDER, "version": dict(sorted(made.programs.items()))}},
        },
    }


def _materials(made: Made) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [{"name": "source", "digest": {"gitCommit": made.commit}}]
    rows += [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(made.files.items())]
    rows += [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(made.images.items())]
    rows += [{"uri": f"pkg:golang/{module}"} for module in sorted(made.modules)]
    return rows
