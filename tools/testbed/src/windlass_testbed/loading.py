"""Bringing an image into the nodes that run it: whole for small ones, only the new layers for those on a large base.

A serving image is a large engine base plus a few MB of our code. The base lies in the node's image store already, so
an OCI archive that names the base's layers and carries only the others is enough; containerd finds the rest.
"""

import hashlib
import io
import json
import os
import stat
import tarfile
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed.daemon import docker
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.store import save_into

LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
BLOBS = "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256"
IMPORT = ("ctr", "--namespace=k8s.io", "images", "import", "--digests", "-")


@dataclass(frozen=True, slots=True)
class Blob:
    """One content-addressed part of an image."""

    media_type: str
    data: bytes

    @property
    def digest(self) -> str:
        """The blob's sha256, in OCI's notation."""
        return f"sha256:{hashlib.sha256(self.data).hexdigest()}"

    def descriptor(self) -> dict[str, str | int]:
        """The OCI descriptor that names this blob."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.data)}


def load(paths: Paths, image: str, nodes: list[str]) -> None:
    """Load a whole image into each node."""
    for node in nodes:
        save_into(paths, [image], ["/usr/bin/docker", "exec", "--interactive", node, *IMPORT])


def stands_on(paths: Paths, image: str, base: str) -> bool:
    """Whether the lowest layers of an image are those of `base`."""
    top, lower = (_inspect(paths, one)["RootFS"]["Layers"] for one in (image, base))
    return top[: len(lower)] == lower


def load_on_base(paths: Paths, image: str, base: str, nodes: list[str]) -> None:
    """Load an image into nodes that hold its base already; raise BedError when a node does not."""
    top, lower = _inspect(paths, image), _inspect(paths, base)["RootFS"]["Layers"]
    if not stands_on(paths, image, base):
        raise BedError(f"{image} is not built on {base}: run `make images` again.")
    new = [Blob(LAYER_TYPE, layer_tar(Path(folder))) for folder in new_layers(top, len(lower))]
    for node in nodes:
        sizes = blob_sizes(docker(paths, "exec", node, "bash", "-c", f'stat -c "%s %n" {BLOBS}/*'))
        absent = [digest for digest in lower if digest not in sizes]
        if absent:
            raise BedError(
                f"node {node} lacks {len(absent)} layers of {base}: run `make cluster-delete` and try again."
            )
        archive = paths.cache / "work" / "image.tar"
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(thin_archive(image, top, {digest: sizes[digest] for digest in lower}, new))
        docker(paths, "cp", archive, f"{node}:/root/image.tar")
        docker(paths, "exec", node, *IMPORT[:-1], "/root/image.tar")
        docker(paths, "exec", node, "rm", "/root/image.tar")
        archive.unlink()


def _inspect(paths: Paths, image: str) -> "dict[str, dict[str, list[str]]]":
    found: dict[str, dict[str, list[str]]] = json.loads(docker(paths, "image", "inspect", image))[0]
    return found


def new_layers(image: "dict[str, dict[str, list[str]]]", base_layers: int) -> list[str]:
    """Return the folders of the layers above the base, lowest first."""
    data: dict[str, str] = image["GraphDriver"]["Data"]  # type: ignore[assignment]  # overlay2: strings in a dict
    folders = [data["UpperDir"], *data.get("LowerDir", "").split(":")]
    count = len(image["RootFS"]["Layers"]) - base_layers
    return folders[:count][::-1]


def blob_sizes(listing: str) -> dict[str, int]:
    """Return digest → bytes from `stat -c "%s %n"` over the blob folder of a content store."""
    rows = (line.split() for line in listing.splitlines())
    return {f"sha256:{Path(name).name}": int(size) for size, name in rows}


def layer_tar(folder: Path) -> bytes:
    """Return an overlay folder as an OCI layer: entries in a stable order, overlay's deletions as `.wh.` files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            _add(tar, folder, path)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, folder: Path, path: Path) -> None:
    name, status = str(path.relative_to(folder)), path.lstat()
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        marker = path.relative_to(folder).parent / f".wh.{path.name}"
        tar.addfile(tarfile.TarInfo(str(marker)))
        return
    tar.add(path, arcname=name, recursive=False)
    if path.is_dir() and not path.is_symlink() and "trusted.overlay.opaque" in os.listxattr(path):
        tar.addfile(tarfile.TarInfo(f"{name}/.wh..wh..opq"))


def thin_archive(
    image: str, inspected: "dict[str, dict[str, list[str]]]", base: dict[str, int], new: list[Blob]
) -> bytes:
    """Return an OCI archive of the image that holds its new layers only; `base` maps layer digests to bytes."""
    config = {
        "architecture": inspected["Architecture"],
        "os": inspected["Os"],
        "config": inspected["Config"],
        "rootfs": {"type": "layers", "diff_ids": [*base, *(blob.digest for blob in new)]},
    }
    config_blob = Blob(CONFIG_TYPE, json.dumps(config, sort_keys=True).encode())
    layers: list[dict[str, str | int]] = [
        {"mediaType": LAYER_TYPE, "digest": digest, "size": size} for digest, size in base.items()
    ]
    layers += [blob.descriptor() for blob in new]
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config_blob.descriptor(), "layers": layers}
    manifest_blob = Blob(MANIFEST_TYPE, json.dumps(manifest).encode())
    tag = image.rpartition(":")[2]
    name = {"io.containerd.image.name": f"docker.io/{image}", "org.opencontainers.image.ref.name": tag}
    index = {"schemaVersion": 2, "manifests": [{**manifest_blob.descriptor(), "annotations": name}]}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _file(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _file(tar, "index.json", json.dumps(index).encode())
        for blob in (config_blob, manifest_blob, *new):
            _file(tar, f"blobs/{blob.digest.replace(':', '/')}", blob.data)
    return buffer.getvalue()


def _file(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
