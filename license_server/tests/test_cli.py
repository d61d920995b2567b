"""The vendor's commands, run as a user runs them but in this process."""

import json
import stat
import subprocess
from pathlib import Path

import pytest
from windlass_license.cli import main
from windlass_license.settings import read_public_keys

LISTING = "GPU 0: NVIDIA L20 (UUID: GPU-a)\r\nGPU 1: NVIDIA L20 (UUID: GPU-b)\r\n"


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A directory with keys in keys/ and two listings."""
    assert main(["keygen", "--out", str(tmp_path / "keys")]) == 0
    (tmp_path / "a.txt").write_text(LISTING)
    (tmp_path / "b.txt").write_text("GPU 0: NVIDIA L20 (UUID: GPU-b)\nGPU 1: NVIDIA L20 (UUID: GPU-c)\n")
    capsys.readouterr()
    return tmp_path


def issue(shop: Path, *more: str, out: str = "license.dat", expires: str = "2100-01-01T00:00:00+08:00") -> int:
    base = ["issue", "--gpus", str(shop / "a.txt"), str(shop / "b.txt"), "--customer", "leolingli", "--appid", "1234"]
    key = ["--key", str(shop / "keys" / "private.pem"), "--out", str(shop / out), "--expires", expires]
    return main([*base, *key, *more])


def test_private_key_is_private(shop: Path) -> None:
    """Nobody else on the machine can read the signing key, and it is not overwritten."""
    private = shop / "keys" / "private.pem"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    before = private.read_text()
    assert main(["keygen", "--out", str(shop / "keys")]) == 2
    assert private.read_text() == before


@pytest.mark.parametrize(
    ("out", "why"),
    [
        ("/proc/x", "its file system takes no new directory"),
        (__file__, "it is a file"),
        (f"{__file__}/x", "a part of it is a file"),
    ],
)
def test_a_directory_that_cannot_be_made_is_named_with_the_reason(
    out: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """keygen makes --out, so that its absence is no mistake."""
    assert main(["keygen", "--out", out]) == 2
    said = f"windlass-license: --out {out} cannot be made: {why}; name another directory\n"
    assert capsys.readouterr().err == said


def test_issue_verify_inspect(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way of a license at the vendor's."""
    assert issue(shop, "--max-concurrent", "2") == 0
    assert "GPUs: 3\nConcurrent GPUs: 2\nExpires: 2100-01-01T00:00:00+08:00\n" in capsys.readouterr().out
    file, public = str(shop / "license.dat"), str(shop / "keys" / "public.pem")
    assert main(["verify", file, "--public-key", public]) == 0
    assert "valid; customer leolingli, 3 GPUs" in capsys.readouterr().out
    assert main(["inspect", file]) == 0
    out = capsys.readouterr().out
    assert "the signature was not checked" in out
    assert "GPU-c  NVIDIA L20" in out


def test_issue_into_a_directory(shop: Path) -> None:
    """A directory as --out gives the usual file name."""
    assert issue(shop, out=".") == 0
    (file,) = shop.glob("*.dat")
    assert file.name.startswith("license-windlass_1234-leolingli-20")


def test_verify_says_why_not(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and the sentence that the server would say."""
    assert issue(shop) == 0
    main(["keygen", "--out", str(shop / "other")])
    capsys.readouterr()
    assert main(["verify", str(shop / "license.dat"), "--public-key", str(shop / "other" / "public.pem")]) == 1
    assert "which this server does not trust" in capsys.readouterr().err


BAD_ISSUES = {
    "no zone": ({"expires": "2100-01-01T00:00:00"}, "has no zone"),
    "no time": ({"expires": "soon"}, "is not an ISO 8601 time"),
    "past": ({"expires": "2020-01-01T00:00:00Z"}, "is not after now"),
}


@pytest.mark.parametrize(("changes", "message"), BAD_ISSUES.values(), ids=BAD_ISSUES)
def test_bad_terms(changes: dict[str, str], message: str, shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Terms that make no sense are refused and no file is written."""
    assert issue(shop, **changes) == 2
    assert message in capsys.readouterr().err
    assert not list(shop.glob("*.dat"))


def test_negative_limit(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A negative number is no limit that anyone meant."""
    assert issue(shop, "--max-concurrent", "-1") == 2
    assert "0 or more" in capsys.readouterr().err


def test_serve_needs_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that could verify nothing does not start."""
    monkeypatch.delenv("WINDLASS_LICENSE_PUBLIC_KEYS", raising=False)
    assert main(["serve", "--data", str(tmp_path)]) == 2
    assert "no public key to verify licenses with" in capsys.readouterr().err


def test_keys_of_a_directory(shop: Path) -> None:
    """Every *.pem file of it counts; an empty one is a server that takes no license yet."""
    (shop / "trusted").mkdir()
    assert read_public_keys([shop / "trusted"], {}) == {}
    for name in ("a", "b"):
        main(["keygen", "--out", str(shop / name)])
        (shop / "trusted" / f"{name}.pem").write_text((shop / name / "public.pem").read_text())
    (shop / "trusted" / "notes.txt").write_text("no key")
    assert len(read_public_keys([shop / "trusted"], {})) == 2


def test_public_key(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The public half that keygen wrote, and the id that license files name."""
    private, public = str(shop / "keys" / "private.pem"), (shop / "keys" / "public.pem").read_text()
    assert main(["public-key", private]) == 0
    assert capsys.readouterr().out == public
    assert main(["public-key", private, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["publicKey"] == public
    assert issue(shop) == 0
    assert f"Key: {found['key']}\n" in (shop / "license.dat").read_text()


def test_a_license_that_follows_another(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """GPUs and terms go on; what the command line says is changed, and the serial grows."""
    assert issue(shop, "--max-concurrent", "2", "--grace-seconds", "60", "--stop-at-expiry", "--serial", "7") == 0
    (shop / "new.txt").write_text("GPU 0: NVIDIA L20 (UUID: GPU-d)\n")
    key = ["--key", str(shop / "keys" / "private.pem")]
    follow = ["issue", "--from", str(shop / "license.dat"), *key, "--out", str(shop / "next.dat")]
    more = ["--gpus", str(shop / "new.txt"), "--expires", "2101-01-01T00:00:00Z", "--customer", "other"]
    assert main([*follow, *more]) == 0
    capsys.readouterr()
    assert main(["inspect", str(shop / "next.dat"), "-o", "json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert [gpu["uuid"] for gpu in seen["gpuinfos"]] == ["GPU-a", "GPU-b", "GPU-c", "GPU-d"]
    assert (seen["customer"], seen["appid"], seen["limit"], seen["graceSeconds"]) == ("other", "1234", 2, 60)
    assert (seen["renewAfterExpiry"], seen["expires"]) == (False, "2101-01-01T00:00:00+00:00")
    assert seen["serial"] > 7


def test_what_follows_must_be_the_issuers_own(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A changed file is refused; one of an earlier key needs that key named; without --from the terms are needed."""
    assert issue(shop) == 0
    main(["keygen", "--out", str(shop / "new")])
    key = ["--key", str(shop / "new" / "private.pem"), "--out", str(shop / "next.dat")]
    follow = ["issue", "--from", str(shop / "license.dat"), *key]
    assert main(follow) == 2
    assert "was signed with another key" in capsys.readouterr().err
    assert main([*follow, "--public-key", str(shop / "keys" / "public.pem")]) == 0
    (shop / "license.dat").write_text((shop / "license.dat").read_text().replace("GPU-c", "GPU-x"))
    assert main([*follow, "--public-key", str(shop / "keys" / "public.pem")]) == 1
    assert "was changed after it was signed" in capsys.readouterr().err
    assert main(["issue", "--gpus", str(shop / "a.txt"), "--customer", "c", *key]) == 2
    assert "--appid, --expires must be given, or --from" in capsys.readouterr().err


def test_serve_refuses_a_private_key(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A signing key given by mistake is pointed out."""
    assert main(["serve", "--data", str(shop), "--public-key", str(shop / "keys" / "private.pem")]) == 2
    assert "holds a private key" in capsys.readouterr().err


def test_json_for_programs(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-o json` of every command that speaks about a license; a refusal has its reason and exit code 1."""
    assert issue(shop, "--max-concurrent", "2", "-o", "json") == 0
    issued = json.loads(capsys.readouterr().out)
    assert (issued["gpus"], issued["limit"], issued["expires"]) == (3, 2, "2100-01-01T00:00:00+08:00")
    file, public = shop / "license.dat", str(shop / "keys" / "public.pem")
    assert main(["inspect", str(file), "-o", "json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert [gpu["uuid"] for gpu in seen["gpuinfos"]] == ["GPU-a", "GPU-b", "GPU-c"]
    assert (seen["signatureChecked"], len(seen["keyId"])) == (False, 16)
    assert main(["verify", str(file), "--public-key", public, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["valid"] is True
    file.write_bytes(file.read_bytes().replace(b"GPUs: 3", b"GPUs: 9"))
    assert main(["verify", str(file), "--public-key", public, "-o", "json"]) == 1
    refused = json.loads(capsys.readouterr().out)
    assert (refused["valid"], refused["reason"]) == (False, "Tampered")


def test_ten_thousand_gpus_of_many_machines(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1,250 machines of eight GPUs in three files, one of them sent twice."""
    for file in range(3):
        machines = range(file, 1250, 3)
        rows = (f"GPU {n}: NVIDIA L20 (UUID: GPU-{m:04d}-{n})\r\n" for m in machines for n in range(8))
        (shop / f"part{file}.txt").write_text("\r\n".join(rows), newline="")
    parts = [str(shop / f"part{file}.txt") for file in (0, 1, 2, 0)]
    assert issue(shop, "--gpus", *parts, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["gpus"] == 10_003
    assert main(["verify", str(shop / "license.dat"), "--public-key", str(shop / "keys" / "public.pem")]) == 0


def test_rotation_on_the_command_line(shop: Path) -> None:
    """Two key files, or one file with both keys: licenses of both are valid, of neither when its key is gone."""
    main(["keygen", "--out", str(shop / "new")])
    old, new = shop / "keys" / "public.pem", shop / "new" / "public.pem"
    both = shop / "both.pem"
    both.write_text(old.read_text() + new.read_text())
    assert issue(shop) == 0
    license_file = str(shop / "license.dat")
    assert main(["verify", license_file, "--public-key", str(new), str(old)]) == 0
    assert main(["verify", license_file, "--public-key", str(both)]) == 0
    assert main(["verify", license_file, "--public-key", str(new)]) == 1


def test_verify_without_the_file(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is wrong usage, not an invalid license."""
    assert main(["verify", str(shop / "nothing.dat"), "--public-key", str(shop / "keys" / "public.pem")]) == 2
    assert "nothing.dat" in capsys.readouterr().err


def test_a_key_of_an_unknown_kind(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Found by fuzzing: a PEM block whose algorithm nobody knows is explained, too."""
    public = shop / "keys" / "public.pem"
    public.write_text(public.read_text().replace("MCowBQYDK2VwAyEA", "MCowBQYDK1VwAyEA"))
    assert issue(shop) == 0
    assert main(["verify", str(shop / "license.dat"), "--public-key", str(public)]) == 2
    assert "cannot be read" in capsys.readouterr().err


SERVE = ("serve", "--data", "/data")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*SERVE, "--port", "99999"), "--port: 99999 is no port; write a number from 1 to 65535"),
        ((*SERVE, "--port", "0"), "--port: 0 is no port; write a number from 1 to 65535"),
        ((*SERVE, "--port", "http"), '--port: "http" is no whole number; write digits, as 5'),
        ((*SERVE, "--ttl_seconds", "x"), '--ttl-seconds: "x" is no whole number; write digits, as 5'),
        ((*SERVE, "--ttl-seconds", "4"), "--ttl-seconds 4 is too short to be renewed in time; give 5 or more"),
        (
            (*SERVE, "--ttl-seconds", "999999999999999"),
            "--ttl-seconds 999999999999999 is longer than a day; give 86400",
        ),
        ((*SERVE, "--audit-records", "0"), "--audit-records: 0 is too small; give 1 or more"),
        ((*SERVE, "--requests-per-peer", "nan"), '--requests-per-peer: "nan" is no number from 0 to 999999999'),
        ((*SERVE, "--prot", "1"), "there is no option --prot; write --port; see"),
        ((*SERVE, "more"), '"more" belongs to no option; see'),
        ((*SERVE, "--public-key", "nofile"), "nofile is not there; name a path that is"),
        (("inspect", "nofile"), "nofile is not there; name a path that is"),
        (("inspect", "/"), "/ is a directory; name a file"),
        (("verify", "x", "--public-key", "/bin/true"), "/bin/true holds bytes that are no text; name a text file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing on standard output, no traceback, no page of usage."""
    try:
        code: object = main(list(words))
    except SystemExit as end:
        code = end.code
    shown = capsys.readouterr()
    assert (code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert shown.err.startswith(f"windlass-license: {said}")


def test_underscores_are_dashes(shop: Path) -> None:
    """In names of options; a value keeps its own."""
    assert issue(shop, "--max_concurrent=2", "--serial", "5") == 0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("iss", {"issue"}),
        ("serve --po", {"--port", "--pod-gpus"}),
        ("verify --pub", {"--public-key"}),
        ("--vers", {"--version"}),
    ],
)
def test_bash_completes_commands_and_options(
    line: str, expected: set[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Asked of a real bash."""
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    words = ["windlass-license", *line.split()]
    program = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _windlass_license"
    done = subprocess.run(
        ["bash", "-c", f"{program}; echo ${{COMPREPLY[@]}}"], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As words of their own scripts."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [
        name for name in ("keygen", "public-key", "issue", "inspect", "verify", "serve") if name not in script
    ] == []
