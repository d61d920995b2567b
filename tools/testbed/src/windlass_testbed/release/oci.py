"""Images out of our container engine as OCI layouts: the stream of `docker save` read once, its layers compressed.

A layout's bytes follow from the image alone: the engine keeps a layer's tar as it was built, and the compressed one
carries no time. Layers that several images share are written once.
"""

import hashlib
import json
import os
import posixpath
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from windlass_testbed.errors import BedError
from windlass_testbed.loading import CONFIG_TYPE, LAYER_TYPE, MANIFEST_TYPE, Blob

GZIP_TYPE = f"{LAYER_TYPE}+gzip"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
GZIP_WINDOW = 31  # zlib's largest window, with a gzip header that holds no name and no time
LEVEL = 4  # of 500 MB of a serving image: level 1 is 8 % larger in 0.7 of the time, level 6 3 % smaller in 2.2 times
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer's tar, and its compressed form as a blob of a layout."""

    diff_id: str
    digest: str
    size: int

    def descriptor(self) -> dict[str, str | int]:
        """The OCI descriptor that names the compressed layer."""
        return {"mediaType": GZIP_TYPE, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True)
class SavedImage:
    """An image of the engine: its tag there, its configuration, its layers from the lowest up."""

    tag: str
    config: Blob
    layers: tuple[Layer, ...]

    def manifest(self) -> Blob:
        """The OCI manifest; its digest is the image's."""
        rows = [layer.descriptor() for layer in self.layers]
        text = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": self.config.descriptor(), "layers": rows}
        return Blob(MANIFEST_TYPE, json.dumps(text).encode())


@dataclass(slots=True)
class _Stream:
    """What of a `docker save` was read so far, by its name there."""

    documents: dict[str, bytes] = field(default_factory=dict)
    layers: dict[str, Layer] = field(default_factory=dict)

    def layer(self, name: str) -> Layer:
        if name not in self.layers:
            raise BedError(f"`docker save` named the layer {name} and did not send it; use Debian's docker.io.")
        return self.layers[name]


def read_saved(stream: IO[bytes], blobs: Path) -> list[SavedImage]:
    """Read a `docker save`, write the compressed layers into `blobs`, and return the images as it names them."""
    blobs.mkdir(parents=True, exist_ok=True)
    read, links = _Stream(), {}
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for entry in tar:
            if entry.issym():
                links[entry.name] = posixpath.normpath(posixpath.join(posixpath.dirname(entry.name), entry.linkname))
            elif data := tar.extractfile(entry):
                if entry.name.endswith("/layer.tar"):
                    read.layers[entry.name] = compress(data, blobs)
                elif entry.name.endswith(".json"):
                    read.documents[entry.name] = data.read()
    read.layers |= {name: read.layer(target) for name, target in links.items()}
    return [_image(row, read) for row in json.loads(read.documents["manifest.json"])]


def _image(row: dict[str, str | list[str]], read: _Stream) -> SavedImage:
    config = Blob(CONFIG_TYPE, read.documents[str(row["Config"])])
    layers = tuple(read.layer(name) for name in row["Layers"])
    if [layer.diff_id for layer in layers] != json.loads(config.data)["rootfs"]["diff_ids"]:
        raise BedError(f"the layers of {row['RepoTags']} are not those that its configuration names; run it again.")
    return SavedImage(row["RepoTags"][0], config, layers)


def compress(source: IO[bytes], blobs: Path) -> Layer:
    """Compress a layer's tar into the folder, under its digest."""
    plain, packed, size = hashlib.sha256(), hashlib.sha256(), 0
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW)
    unnamed = blobs / ".layer"
    with unnamed.open("wb") as target:
        while chunk := source.read(CHUNK):
            plain.update(chunk)
            size += _put(target, packed, compressor.compress(chunk))
        size += _put(target, packed, compressor.flush())
    unnamed.replace(blobs / packed.hexdigest())
    return Layer(f"sha256:{plain.hexdigest()}", f"sha256:{packed.hexdigest()}", size)


def _put(target: IO[bytes], digest: "hashlib._Hash", data: bytes) -> int:
    digest.update(data)
    return target.write(data)


def write_layout(image: SavedImage, name: str, blobs: Path, folder: Path) -> str:
    """Write an OCI layout of one image, its layers linked from `blobs`; return the digest of its manifest."""
    place = folder / "blobs/sha256"
    place.mkdir(parents=True, exist_ok=True)
    manifest = image.manifest()
    for blob in (manifest, image.config):
        (place / _hex(blob.digest)).write_bytes(blob.data)
    for layer in image.layers:
        link(blobs / _hex(layer.digest), place / _hex(layer.digest))
    row = {**manifest.descriptor(), "annotations": {"org.opencontainers.image.ref.name": name}}
    index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [row]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return manifest.digest


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


def link(source: Path, target: Path) -> None:
    """Give a file a second name, in place of what has that name."""
    target.unlink(missing_ok=True)
    os.link(source, target)


def by_tag(images: Sequence[SavedImage], tag: str) -> SavedImage:
    """Return the image of a tag."""
    return next(image for image in images if image.tag == tag)
