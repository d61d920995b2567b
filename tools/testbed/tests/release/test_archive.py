"""Archives: the same bytes whatever the clock, the owner, the order of the folder or helm's own time say."""

import gzip
import io
import os
import tarfile

import pytest
from windlass_testbed.release import archive

EPOCH = 1_700_000_000
FILES = {"b/script.sh": 0o755, "a.txt": 0o640, "b/a.txt": 0o600}


def a_tree(folder, order):
    """The same files with a link, written in this order and touched at a time of their own."""
    for number, name in enumerate(order):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}")
        path.chmod(FILES[name])
        os.utime(path, (number, number))
    (folder / "c").symlink_to("b")
    return folder


def test_two_trees_of_the_same_files_are_the_same_bytes(tmp_path):
    """Times, owners' rights and the order in which the files came leave no trace."""
    trees = [a_tree(tmp_path / "one", FILES), a_tree(tmp_path / "two", reversed(FILES))]
    written = []
    for number, tree in enumerate(trees):
        archive.tar_tree(tree, tmp_path / f"{number}.tar", "top/", EPOCH)
        written.append((tmp_path / f"{number}.tar").read_bytes())
    assert written[0] == written[1]
    with tarfile.open(tmp_path / "0.tar") as tar:
        rows = [(entry.name, oct(entry.mode), entry.mtime, entry.uid, entry.uname, entry.linkname) for entry in tar]
    assert rows == [
        ("top/a.txt", "0o644", EPOCH, 0, "", ""),
        ("top/b/a.txt", "0o644", EPOCH, 0, "", ""),
        ("top/b/script.sh", "0o755", EPOCH, 0, "", ""),
        ("top/c", "0o777", EPOCH, 0, "", "b"),
    ]


def test_another_byte_is_another_archive(tmp_path):
    """The comparison above can fail."""
    one, two = a_tree(tmp_path / "one", FILES), a_tree(tmp_path / "two", FILES)
    (two / "a.txt").write_text("text of another")
    for tree in (one, two):
        archive.tar_tree(tree, tmp_path / f"{tree.name}.tar", "", EPOCH)
    assert (tmp_path / "one.tar").read_bytes() != (tmp_path / "two.tar").read_bytes()


def a_package(now, names):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.uname = 3, now, "helm"
            tar.addfile(entry, io.BytesIO(b"abc"))
    return gzip.compress(buffer.getvalue(), mtime=now)


@pytest.mark.parametrize("names", [("w/values.yaml", "w/Chart.yaml"), ("w/Chart.yaml", "w/values.yaml")])
def test_a_chart_packaged_twice_is_the_same_bytes(names):
    """helm writes the time of day into both the tar and the gzip header."""
    settled = archive.settled(a_package(5, names), EPOCH)
    assert settled == archive.settled(a_package(99, names), EPOCH)
    with tarfile.open(fileobj=io.BytesIO(settled)) as tar:
        assert [(entry.name, entry.mtime, entry.uname) for entry in tar] == [
            ("w/Chart.yaml", EPOCH, ""),
            ("w/values.yaml", EPOCH, ""),
        ]
