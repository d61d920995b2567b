"""`docker save` into OCI layouts: layers compressed once, digests that hold, a stream that lies is refused."""

import gzip
import hashlib
import io
import json
import tarfile

import pytest
from windlass_testbed.errors import BedError
from windlass_testbed.release import oci

BASE, OWN, OTHER = b"base layer", b"own layer", b"another layer"


def diff_id(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def saved(*, wrong=False):
    """A stream as Debian's Docker writes it: two images on one base, which the second names by a link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:

        def put(name, data):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))

        rows = []
        for name, own, base in (("one", OWN, "l1/layer.tar"), ("two", OTHER, "l3/layer.tar")):
            layers = [diff_id(BASE), diff_id(OWN if wrong else own)]
            put(f"{name}.json", json.dumps({"rootfs": {"type": "layers", "diff_ids": layers}}).encode())
            put(f"{name}-own/layer.tar", own)
            rows.append(
                {"Config": f"{name}.json", "RepoTags": [f"w/{name}:1"], "Layers": [base, f"{name}-own/layer.tar"]}
            )
        put("l1/layer.tar", BASE)
        entry = tarfile.TarInfo("l3/layer.tar")
        entry.type, entry.linkname = tarfile.SYMTYPE, "../l1/layer.tar"
        tar.addfile(entry)
        put("manifest.json", json.dumps(rows).encode())
    buffer.seek(0)
    return buffer


def test_a_layer_of_two_images_is_written_once(tmp_path):
    """And every blob is the one that its name says."""
    one, two = oci.read_saved(saved(), tmp_path)
    assert (one.tag, two.tag) == ("w/one:1", "w/two:1")
    assert one.layers[0] == two.layers[0]
    plain = {diff_id(gzip.decompress(path.read_bytes())) for path in tmp_path.iterdir()}
    assert plain == {diff_id(BASE), diff_id(OWN), diff_id(OTHER)}
    for path in tmp_path.iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name


def test_a_layout_leads_from_its_index_to_every_layer(tmp_path):
    """By digests alone, as a registry's client walks it."""
    image = oci.read_saved(saved(), tmp_path / "blobs")[1]
    digest = oci.write_layout(image, "w/two:0.2.0", tmp_path / "blobs", tmp_path / "layout")
    (row,) = json.loads((tmp_path / "layout/index.json").read_text())["manifests"]
    assert row["digest"] == digest
    assert row["annotations"] == {"org.opencontainers.image.ref.name": "w/two:0.2.0"}
    folder = tmp_path / "layout/blobs/sha256"
    manifest = json.loads((folder / digest[7:]).read_bytes())
    for blob in (row, manifest["config"], *manifest["layers"]):
        data = (folder / blob["digest"][7:]).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (blob["digest"][7:], blob["size"])
    assert len(list(folder.iterdir())) == 4


def test_two_readings_write_the_same_bytes(tmp_path):
    """Compressed layers carry no time."""
    first, second = (oci.read_saved(saved(), tmp_path / name) for name in ("a", "b"))
    assert [image.manifest().data for image in first] == [image.manifest().data for image in second]


def test_layers_that_the_configuration_does_not_name_are_refused(tmp_path):
    """The engine's answer is checked as a stranger's would be."""
    with pytest.raises(BedError, match=r"w/two:1.* are not those that its configuration names"):
        oci.read_saved(saved(wrong=True), tmp_path)
