"""The test bed's decisions: hints, keys, sources, thin archives; nothing here starts a program."""

import io
import json
import sys
import tarfile
from pathlib import Path

import pytest
from windlass_testbed import cluster, content, daemon, golang, loading, machine, node_image, process, rootfs
from windlass_testbed.paths import Paths


@pytest.mark.parametrize(
    ("output", "word"),
    [
        ("write /var/x: no space left on device", "disk"),
        ("Bind for 127.0.0.1:6443 failed: port is already allocated", "port"),
        ("node(s) already exist for a cluster with the name", "cluster-delete"),
        ("x509: certificate signed by unknown authority", "SSL_CERT_FILE"),
        ("Temporary failure resolving 'deb'", "mirror"),
    ],
)
def test_a_known_failure_becomes_a_sentence(output, word):
    assert word in process.explain(output)


def test_an_unknown_failure_shows_its_last_lines():
    message = process.failure(["/usr/bin/kind", "create", "cluster"], 1, "a\nb\nstrange thing", Path("/log"))
    assert "kind create cluster failed (1)" in message
    assert "strange thing" in message


def test_a_content_key_changes_with_a_files_bytes_and_not_with_byte_code(tmp_path):
    (tmp_path / "a.py").write_text("1")
    first = content.key(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/a.pyc").write_text("x")
    assert first == content.key(tmp_path)
    (tmp_path / "a.py").write_text("2")
    assert first != content.key(tmp_path)


def test_a_half_made_thing_is_never_found_as_whole(tmp_path):
    def broken(target):
        target.mkdir()
        (target / "half").write_text("")
        raise OSError("power lost")

    with pytest.raises(OSError, match="power lost"):
        content.once(tmp_path / "tree", broken)
    assert not (tmp_path / "tree").exists()

    def whole(target):
        target.mkdir()
        (target / "all").write_text("")

    assert [p.name for p in content.once(tmp_path / "tree", whole).iterdir()] == ["all"]


@pytest.mark.parametrize(
    ("sources", "mirror"),
    [
        ("deb http://mirror.test/debian bookworm main", "http://mirror.test/debian"),
        ("deb [signed-by=/k] https://m.test/debian bookworm main", "https://m.test/debian"),
        (
            "Types: deb\nURIs: http://m.test/debian-security\n\nTypes: deb\nURIs: http://m.test/debian",
            "http://m.test/debian",
        ),
    ],
)
def test_debootstrap_uses_the_mirror_of_apt(sources, mirror):
    assert mirror == rootfs.first_mirror(sources)


def test_go_is_new_enough_or_not():
    assert golang.go_version("go version go1.26.8 linux/amd64") == (1, 26)
    assert golang.go_version("bash: go: command not found") is None


def test_the_bounding_set_tells_about_cap_sys_resource():
    assert daemon.has_capability("CapBnd:\t000001ffffffffff\n", 24)
    assert not daemon.has_capability("CapBnd:\t000001fffeffffff\n", 24)


def test_available_memory_is_read_in_gib():
    assert machine.available_memory_gib("MemTotal: 1 kB\nMemAvailable:   10485760 kB\n") == 10


def test_kinds_storage_manifest_gets_its_images():
    source = (
        'const storageProvisionerImage = "p:1"\n'
        "const defaultStorageManifest = `image: ` + storageProvisionerImage + `\nend`\n"
    )
    assert node_image.storage_manifest(source) == "image: p:1\nend"


def test_a_thin_archive_names_the_base_and_carries_the_new_layers_only(tmp_path):
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/code.py").write_text("print()")
    layer = loading.Blob(loading.LAYER_TYPE, loading.layer_tar(tmp_path))
    inspected = {"Architecture": "amd64", "Os": "linux", "Config": {"Env": ["A=1"]}}
    data = loading.thin_archive("windlass/server:1", inspected, {"sha256:base": 12}, [layer])
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = tar.getnames()
        index = json.load(tar.extractfile("index.json"))
        manifest = json.load(
            tar.extractfile(f"blobs/{index['manifests'][0]['digest'].replace(':', '/')}"),
        )
    assert [row["digest"] for row in manifest["layers"]] == ["sha256:base", layer.digest]
    assert not any("base" in name for name in names)
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == "docker.io/windlass/server:1"


def test_an_overlay_deletion_becomes_a_whiteout(tmp_path, monkeypatch):
    (tmp_path / "gone").write_text("")
    monkeypatch.setattr(loading.stat, "S_ISCHR", lambda mode: True)
    monkeypatch.setattr(Path, "lstat", lambda self: type("S", (), {"st_mode": 0, "st_rdev": 0})())
    with tarfile.open(fileobj=io.BytesIO(loading.layer_tar(tmp_path))) as tar:
        assert tar.getnames() == [".wh.gone"]


def test_blob_sizes_are_read_by_digest():
    assert loading.blob_sizes("12 /x/sha256/ab\n7 /x/sha256/cd\n") == {"sha256:ab": 12, "sha256:cd": 7}


def test_workers_mount_the_models_and_their_image_store(tmp_path):
    shape = cluster.Shape("node:1", tmp_path / "store", own_network=True)
    config = cluster.kind_config(shape, tmp_path / "nodes", tmp_path / "models")
    mounts = [m["containerPath"] for m in config["nodes"][1]["extraMounts"]]
    assert mounts == ["/models", "/var/lib/containerd"]
    assert config["networking"]["disableDefaultCNI"]


def test_a_pipe_reports_its_sinks_error_and_does_not_wait_for_a_source_that_nobody_reads():
    assert process.pipe(["echo", "x"], ["cat"]) == ""
    assert process.pipe(["yes"], ["sh", "-c", "echo no room >&2; exit 3"]) == "no room"


def test_a_cluster_of_an_earlier_engine_is_not_trusted(tmp_path):
    """Its nodes start again with the engine, but without the routes between them."""
    from windlass_testbed import cluster, daemon
    from windlass_testbed.paths import Paths

    where = Paths(tmp_path, tmp_path)
    shape = cluster.Shape("image", None, own_network=True)
    (tmp_path / "dockerd.pid").write_text("10 500\n")
    (tmp_path / "kubeconfig").write_text("")
    (tmp_path / "cluster-shape").write_text(f"{shape.key} {daemon.identity(where)}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").write_text("#!/bin/sh\n")
    (tmp_path / "bin/kubectl").chmod(0o755)
    assert cluster.healthy(where, shape)
    (tmp_path / "dockerd.pid").write_text("11 900\n")
    assert not cluster.healthy(where, shape)


@pytest.mark.parametrize(
    ("free_gib", "words"),
    [
        (3.2, "3.2 GiB free and needs 10.0 GiB"),
        (9.97, "9.97 GiB free and needs 10.00 GiB"),
        (9.9999, "9.9999 GiB free"),
    ],
    ids=["far", "near", "very near"],
)
def test_a_refusal_says_figures_that_differ(free_gib, words):
    assert words in machine.compared(free_gib, 10.0)


def test_the_environment_of_the_cluster_finds_the_plug_in_and_can_be_taken_twice(monkeypatch, tmp_path):
    """`eval "$(make env)"` puts the checkout's programs before those of the machine, each folder once."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    where = Paths(tmp_path, tmp_path / "run")
    once = daemon.docker_env(where)["PATH"]
    monkeypatch.setenv("PATH", once)
    programs = str(Path(sys.executable).parent)
    assert once.split(":") == [f"{where.bin}/docker-first", str(where.bin), programs, "/usr/bin", "/bin"]
    assert daemon.docker_env(where)["PATH"] == once
