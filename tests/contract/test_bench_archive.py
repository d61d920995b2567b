"""What `windlass bench serve --print-archive` prints in a pod, `kubectl windlass bench` reads from the pod's log."""

import base64
import gzip
import hashlib
import io
import tarfile

import pytest
from windlass.bench.serving import archive
from windlass.errors import UsageError
from windlass_base.kube.errors import UnreadableError
from windlass_client import bench_archive
from windlass_client.bench_archive import Archive
from windlass_kubectl.bench_parser import OURS


def taken(lines) -> Archive:
    found = Archive()
    for line in lines:
        assert found.take(line)
    return found


def packed(name: str, kind: bytes = tarfile.REGTYPE) -> list[str]:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        about = tarfile.TarInfo(name)
        about.type, about.linkname = kind, "/etc/passwd"
        tar.addfile(about)
    text, digest = base64.b64encode(out.getvalue()).decode(), hashlib.sha256(out.getvalue()).hexdigest()
    return [f"{archive.MARK} {text}", f"{archive.MARK} sha256={digest}"]


def test_a_folder_comes_back_as_it_was(tmp_path):
    """Folders of runs and bytes of pictures too; other lines of the log are for people."""
    files = {"summary.csv": b"a,b\n", "01-concurrency-1/result.json": b"{}", "ttft.png": bytes(range(256)) * 100}
    for name, content in files.items():
        path = tmp_path / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    lines = list(archive.lines(tmp_path / "out"))
    assert max(map(len, lines)) < 8192
    found = taken(lines)
    assert not found.take("windlass: run 1 of 3")
    assert found.files() == files
    bench_archive.write(tmp_path / "back", found.files())
    assert (tmp_path / "back/01-concurrency-1/result.json").read_bytes() == b"{}"


def test_a_log_that_lost_a_line_is_refused(tmp_path):
    """A kubelet rotates logs; half a result must not look like a whole one."""
    (tmp_path / "noise").write_bytes(b"".join(hashlib.sha256(bytes([one])).digest() for one in range(256)))
    lines = list(archive.lines(tmp_path))
    assert len(lines) > 2
    with pytest.raises(UnreadableError, match="not whole"):
        taken(lines[1:]).files()
    assert not taken(lines[:-1]).is_whole


@pytest.mark.parametrize(
    ("name", "kind"), [("/etc/cron.d/x", tarfile.REGTYPE), ("../x", tarfile.REGTYPE), ("x", tarfile.SYMTYPE)]
)
def test_only_files_below_the_folder_are_taken(name, kind):
    """The log is the pod's word, and a pod may be anybody's."""
    with pytest.raises(UnreadableError, match="plain files"):
        taken(packed(name, kind)).files()


def of_tar(tar: bytes) -> Archive:
    found, packed = Archive(), gzip.compress(tar)
    found.take(f"{archive.MARK} {base64.b64encode(packed).decode()}")
    found.take(f"{archive.MARK} sha256={hashlib.sha256(packed).hexdigest()}")
    return found


def a_head(name: str, size: int, kind: bytes) -> bytes:
    about = tarfile.TarInfo(name)
    about.size, about.type = size, kind
    return about.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.REGTYPE])
def test_an_archive_unpacks_to_no_more_than_is_taken(kind):
    """The bound holds for what the gzip stream brings: heads that tarfile reads by itself count too."""
    with pytest.raises(UnreadableError, match="more than is taken"):
        of_tar(a_head("x", 1 << 30, kind) + bytes(4 << 20)).files((), 2 << 30, total_max=1 << 20)


def test_heads_without_end_are_no_files():
    """Each extended head makes tarfile call itself once more."""
    with pytest.raises(UnreadableError, match="cannot be read"):
        of_tar(a_head("x", 0, tarfile.XHDTYPE) * 5000).files()


def test_named_files_alone_are_kept():
    tar = (
        a_head("a", 2, tarfile.REGTYPE)
        + b"aa".ljust(512, b"\0")
        + a_head("b", 1, tarfile.REGTYPE)
        + b"b".ljust(512, b"\0")
    )
    assert of_tar(tar + bytes(1024)).files(["b"], each_max=1) == {"b": b"b"}
    with pytest.raises(UnreadableError, match="a in the Job's log has 2 bytes"):
        of_tar(tar + bytes(1024)).files(["a"], each_max=1)


def test_what_a_log_may_lose_is_not_printed(tmp_path, monkeypatch):
    """The sentence says what to do instead."""
    monkeypatch.setattr(archive, "LOG_MAX", 10)
    (tmp_path / "a").write_text("x" * 100)
    with pytest.raises(UsageError, match="measure fewer loads at once"):
        list(archive.lines(tmp_path))


def test_the_options_that_the_plug_in_sets_are_the_servers():
    """A renamed option of `windlass bench serve` fails here."""
    from typer.main import get_command
    from windlass.cli.bench import app

    known = {name for one in get_command(app).commands["serve"].params for name in one.opts}
    assert set(OURS) <= known
