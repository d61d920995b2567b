"""The bundle for sites without internet: one tar with images, charts, CRDs, tools, docs, sums and a script.

Its folders are assembled by hard links, then written in order; layers that images share are in it once.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed.paths import Paths
from windlass_testbed.release import listing, oci
from windlass_testbed.release.archive import tar_tree
from windlass_testbed.release.listing import Released
from windlass_testbed.release.oci import SavedImage
from windlass_testbed.release.version import CHARTS

TOOLS = ("crane", "cosign", "helm")
COPIED = ("crds", "docs", "examples", "LICENSE", "NOTICE", "README.md", "SECURITY.md")
SCRIPT = "tools/testbed/release/load.sh"


@dataclass(frozen=True, slots=True)
class Content:
    """What goes into a bundle: the images with their layers, and the folder of artefacts with charts and SBOMs."""

    images: Sequence[tuple[Released, SavedImage]]
    blobs: Path
    artefacts: Path
    source: Path


def make(paths: Paths, content: Content, work: Path, target: Path, epoch: int) -> None:
    """Assemble the bundle in `work` and write it to `target`."""
    work.mkdir(parents=True)
    _images(content, work)
    for name in ("charts", "sbom", "CHANGELOG.md"):
        copied(content.artefacts / name, work / name)
    for name in COPIED:
        copied(content.source / name, work / name)
    (work / "tools").mkdir()
    for name in TOOLS:
        shutil.copy2(paths.bin / name, work / "tools" / name, follow_symlinks=True)
    (work / "values").mkdir()
    released = [image for image, _ in content.images]
    for chart in CHARTS:
        (work / "values" / f"{chart}.yaml").write_text(listing.values_text(chart, released))
    (work / "images.txt").write_text(listing.images_text(released))
    shutil.copy2(content.source / SCRIPT, work / "load.sh")
    (work / "SHA256SUMS").write_text(listing.sums_text(listing.sums_of(work)))
    tar_tree(work, target, f"{target.stem}/", epoch)


def _images(content: Content, work: Path) -> None:
    """A layout an image, whose blobs are those of one folder."""
    shared = work / "images/blobs"
    for released, image in content.images:
        layout = work / "images" / released.name
        oci.write_layout(image, f"{released.repository}:{released.tag}", content.blobs, layout)
        (shared / "sha256").mkdir(parents=True, exist_ok=True)
        for blob in (layout / "blobs/sha256").iterdir():
            oci.link(blob, shared / "sha256" / blob.name)
        shutil.rmtree(layout / "blobs")
        (layout / "blobs").symlink_to("../blobs")


def copied(source: Path, target: Path) -> None:
    """A file, or a folder by hard links."""
    if source.is_dir():
        shutil.copytree(source, target, copy_function=_linked)
    else:
        shutil.copy2(source, target)


def _linked(source: str, target: str) -> None:
    """The file itself where a symbolic link leads to it, as the CRD of crds/ to the chart's."""
    os.link(Path(source).resolve(), target)
