"""`make release`: every artefact of the commit that is checked out, into `dist/`, checked as its users check it."""

import json
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed import daemon, golang, gpu_images, images, machine
from windlass_testbed.daemon import docker, docker_env
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY, Paths
from windlass_testbed.process import phase, run, say
from windlass_testbed.release import (
    archive,
    bundle,
    changelog,
    listing,
    oci,
    provenance,
    signing,
    source,
    version,
    wheels,
)
from windlass_testbed.release.listing import Released
from windlass_testbed.release.oci import SavedImage
from windlass_testbed.versions import TOOL

DIST = REPOSITORY / "dist"
WORK = REPOSITORY / ".cache/release"
BASES = ("python", "engine-cpu")
GPU = ("server", "deepspeed-gpu")
TOOLS = ("helm", *bundle.TOOLS)
SBOM = "/opt/windlass/sbom.cdx.json"
MATERIALS = ("requirements.lock", "images/**/*.lock", "images/**/*Dockerfile*")


@dataclass(frozen=True, slots=True)
class Release:
    """One release in the making: the commit's hash, time and tree, and the folders that are written."""

    paths: Paths
    version: str
    commit: str
    epoch: int
    source: Path

    @property
    def blobs(self) -> Path:
        """Where the compressed layers of all images lie."""
        return WORK / "blobs"


def make(paths: Paths, *, gpu: bool = False) -> None:
    """Make, sign and check every artefact; with `gpu`, the images for GPUs too."""
    release = _begin(paths)
    with phase("images"):
        saved = _served(release) + (_for_gpus(release) if gpu else [])
    with phase("wheels"):
        wheels.make(paths, release.source, WORK / "wheels", DIST / "wheels", release.epoch)
    with phase("charts"):
        _charts(release)
    _texts(release)
    with phase("archives"):
        _archives(release, saved)
    with phase("bundle"):
        content = bundle.Content(saved, release.blobs, DIST, release.source)
        name = f"windlass-{release.version}"
        bundle.make(paths, content, WORK / "bundle", DIST / f"{name}.tar", release.epoch)
    with phase("provenance, checksums, signature"):
        _sums(release)
        signing.verify(paths, DIST, DIST / signing.PUBLIC)
    shutil.rmtree(WORK)
    for path in sorted(path for path in DIST.rglob("*") if path.is_file()):
        say(f"  {path.stat().st_size:>13,}  {path.relative_to(DIST)}")


def _begin(paths: Paths) -> Release:
    commit = source.commit()
    number = version.read(REPOSITORY)
    say(f"Windlass {number}, commit {commit}")
    machine.ensure_packages()
    golang.ensure(paths, TOOLS)
    daemon.start(paths)
    for folder in (DIST, WORK):
        shutil.rmtree(folder, ignore_errors=True)
    DIST.mkdir()
    return Release(paths, number, commit, source.epoch(), source.export(WORK / "source"))


def _served(release: Release) -> list[tuple[Released, SavedImage]]:
    tags = {name: images.ensure(release.paths, name) for name in images.RELEASED}
    return _save(release, release.paths, tags)


def _for_gpus(release: Release) -> list[tuple[Released, SavedImage]]:
    with gpu_images.engine(release.paths) as where:
        return _save(release, where, {name: images.ensure(where, name) for name in GPU})


def _save(release: Release, engine: Paths, tags: dict[str, str]) -> list[tuple[Released, SavedImage]]:
    """Read images out of an engine; their SBOMs beside them."""
    command = ["/usr/bin/docker", "save", *tags.values()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **docker_env(engine)}) as process:
        if process.stdout is None:
            raise BedError("`docker save` gave no output")
        found = oci.read_saved(process.stdout, release.blobs)
    if process.returncode:
        raise BedError(f"`docker save` ended with {process.returncode}: see the daemon's log in {engine.logs}.")
    (DIST / "sbom").mkdir(exist_ok=True)
    rows = []
    for name, tag in tags.items():
        image = oci.by_tag(found, tag)
        parts = docker(engine, "run", "--rm", "--network", "none", "--entrypoint", "cat", tag, SBOM)
        (DIST / "sbom" / f"{name}.cdx.json").write_text(parts)
        rows.append((Released(name, f"windlass/{name}", release.version, image.manifest().digest), image))
    return rows


def _charts(release: Release) -> None:
    folder = DIST / "charts"
    for name in version.CHARTS:
        words = ("package", release.source / "charts" / name, "--destination", folder)
        run([release.paths.bin / "helm", *words], log="release", env={"HOME": str(WORK)})
        package = folder / f"{name}-{release.version}.tgz"
        package.write_bytes(archive.settled(package.read_bytes(), release.epoch))


def _texts(release: Release) -> None:
    fragments = changelog.fragments(release.source / "changelog.d")
    earlier = release.source / "CHANGELOG.md"
    text = changelog.assembled(
        release.version, source.day(), fragments, earlier.read_text() if earlier.exists() else ""
    )
    (DIST / "CHANGELOG.md").write_text(text)
    for name in wheels.LICENSES:
        shutil.copyfile(release.source / name, DIST / name)


def _archives(release: Release, saved: list[tuple[Released, SavedImage]]) -> None:
    (DIST / "images").mkdir()
    for released, image in saved:
        layout = WORK / "layouts" / released.name
        oci.write_layout(image, f"{released.repository}:{released.tag}", release.blobs, layout)
        archive.tar_tree(layout, DIST / "images" / f"{released.name}-{release.version}.oci.tar", "", release.epoch)
    (DIST / "images.txt").write_text(listing.images_text([released for released, _ in saved]))


def _sums(release: Release) -> None:
    statement = provenance.statement(_made(release), listing.sums_of(DIST))
    (DIST / "provenance.json").write_text(json.dumps(statement, indent=1) + "\n")
    (DIST / "SHA256SUMS").write_text(listing.sums_text(listing.sums_of(DIST)))
    signing.sign(release.paths, DIST)


def _made(release: Release) -> provenance.Made:
    files = sorted({path for pattern in MATERIALS for path in release.source.glob(pattern) if path.is_file()})
    go = run([golang.find_go(release.paths), "version"], log="release").split()[2].removeprefix("go")
    server = docker(release.paths, "version", "--format", "{{.Server.Version}}").strip()
    bases = {name: images.tag_of(name) for name in BASES}
    ids = {name: docker(release.paths, "image", "inspect", "--format", "{{.Id}}", tag) for name, tag in bases.items()}
    return provenance.Made(
        version=release.version,
        commit=release.commit,
        epoch=release.epoch,
        programs={"python": platform.python_version(), "go": go, "docker": server},
        modules=[TOOL[name].package for name in bundle.TOOLS],
        files={str(path.relative_to(release.source)): listing.sha256(path) for path in files},
        images={bases[name]: text.strip().removeprefix("sha256:") for name, text in ids.items()},
    )
