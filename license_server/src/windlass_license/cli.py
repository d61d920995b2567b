"""The command line `windlass-license`: the vendor's side (keygen, public-key, issue, inspect, verify) and the server.

Exit codes are rows of EXIT_CODES. Data goes to standard output, complaints to standard error. The web framework is
imported by `serve` only.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from windlass_base import json_lines
from windlass_base.command_line import OutputError, output_checked

from windlass_license import __version__, shells
from windlass_license.errors import FileRefusal, KeyFileError, LicenseFileError, WindlassLicenseError
from windlass_license.license_file import answer_key, codec, keys
from windlass_license.license_file.issue import file_name, issue, listed_in, parse_expiry, terms_of
from windlass_license.license_file.listing import ListedGpu, merge_listings, parse_listing
from windlass_license.rules.model import DEFAULT_GRACE_S, License
from windlass_license.serve_command import serve, serve_options
from windlass_license.settings import read_public_keys
from windlass_license.usage import Parser, keys_option, make_directory, unusable, whole

DONE, NOT_VALID, WRONG = 0, 1, 2
EXIT_CODES = (
    (DONE, "done"),
    (NOT_VALID, "the license file is not valid"),
    (WRONG, "an option, a file or a setting is wrong"),
)
PRIVATE_NAME, PUBLIC_NAME = "private.pem", "public.pem"


@output_checked("windlass-license")
def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = command_line().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except LicenseFileError as error:
        if options.output == "json":
            _print_json({"file": str(options.file), "valid": False, "reason": error.reason, "message": str(error)})
        print(f"windlass-license: {options.file}: {error}", file=sys.stderr)
        return NOT_VALID
    except WindlassLicenseError as error:
        _complain(str(error), is_server=command is serve)
        return WRONG
    except OutputError:
        raise
    except OSError as error:
        _complain(str(unusable(error)), is_server=command is serve)
        return WRONG


def _complain(sentence: str, *, is_server: bool) -> None:
    """One sentence on standard error; the server's as a JSON object where its log is one."""
    record = json_lines.complaint(os.environ, "windlass_license", sentence) if is_server else ""
    print(record or f"windlass-license: {sentence}", file=sys.stderr)


def keygen(options: argparse.Namespace) -> int:
    """Write a new key pair; never over an old one."""
    directory: Path = options.out
    private, public = directory / PRIVATE_NAME, directory / PUBLIC_NAME
    for path in (private, public):
        if path.exists():
            raise KeyFileError(f"{path} exists and is left as it is; choose another --out directory")
    make_directory(directory, "--out")
    private_pem, public_pem, key = keys.generate()
    with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(private_pem)
    public.write_text(public_pem, encoding="ascii")
    print(f"key {key}\nprivate key: {private} (signs licenses; keep it off the cluster)\npublic key: {public}")
    return DONE


def issue_file(options: argparse.Namespace) -> int:
    """Sign a license for the GPUs of the listings, or one that follows another."""
    key = keys.parse_private(_text(options.key), str(options.key))
    old = _license_to_follow(options, key) if options.file else None
    listings = [_listing(source) for source in options.gpus]
    gpus = merge_listings([listed_in(old), *listings] if old else listings)
    license_ = issue(gpus, terms_of(_requested_terms(options), old), datetime.now(UTC))
    out: Path = options.out / file_name(license_) if options.out.is_dir() else options.out
    out.write_bytes(codec.sign(license_, key))
    if options.output == "json":
        _print_json({"file": str(out), **license_facts(license_)})
    else:
        print(out)
        print("".join(f"{name}: {value}\n" for name, value in codec.header_rows(license_)), end="")
    return DONE


def _requested_terms(options: argparse.Namespace) -> dict[str, Any]:
    """The terms that the command line names, by the names of `Terms`."""
    terms = {
        "customer": options.customer,
        "appid": options.appid,
        "expires": parse_expiry(options.expires) if options.expires else None,
        "limit": options.max_concurrent,
        "grace_s": options.grace_seconds,
        "renew_after_expiry": False if options.stop_at_expiry else None,
        "serial": options.serial,
        "answer_key": _answer_key(options.answer_key) if options.answer_key else None,
    }
    return {name: value for name, value in terms.items() if value is not None}


def _license_to_follow(options: argparse.Namespace, key: Ed25519PrivateKey) -> License:
    """The license of --from, when this key or one of --public-key signed it: its terms are signed again unseen."""
    before = read_public_keys(options.public_key, {}) if options.public_key else {}
    trusted = {**before, **keys.by_id([key.public_key()])}
    try:
        return codec.verify(options.file.read_bytes(), trusted)
    except LicenseFileError as error:
        if error.reason is not FileRefusal.UNKNOWN_KEY:
            raise
        signer = codec.open_envelope(options.file.read_bytes()).key_id
        hint = f"{options.file} was signed with another key, {signer}; add that key's public half with --public-key"
        raise KeyFileError(hint) from error


def public_key(options: argparse.Namespace) -> int:
    """Print the public half of a private key."""
    key = keys.parse_private(_text(options.key), str(options.key)).public_key()
    pem = keys.public_pem(key)
    if options.output == "json":
        _print_json({"key": keys.key_id(key), "publicKey": pem})
    else:
        print(pem, end="")
    return DONE


def inspect_file(options: argparse.Namespace) -> int:
    """Print what a license file claims."""
    license_, key = codec.read_unverified(options.file.read_bytes())
    if options.output == "json":
        gpus = [asdict(gpu) for gpu in license_.gpus]
        _print_json({**license_facts(license_), "keyId": key, "signatureChecked": False, "gpuinfos": gpus})
        return DONE
    rows = (
        *codec.header_rows(license_),
        ("Grace without the server", f"{license_.grace_s} s"),
        ("After expiry", "serving pods go on" if license_.renew_after_expiry else "serving pods are refused, too"),
        ("Key", f"{key} (the signature was not checked: use verify)"),
    )
    print("".join(f"{name}: {value}\n" for name, value in rows), end="")
    for gpu in license_.gpus:
        print(f"{gpu.uuid}  {gpu.brand}  {gpu.issued.isoformat()}  {gpu.expires.isoformat()}")
    return DONE


def verify_file(options: argparse.Namespace) -> int:
    """Say whether a server with these keys would take the file now."""
    trusted = read_public_keys(options.public_key, {})
    license_ = codec.accept(options.file.read_bytes(), trusted, datetime.now(UTC))
    if options.output == "json":
        _print_json({"file": str(options.file), "valid": True, **license_facts(license_)})
        return DONE
    until = license_.expires_last.isoformat()
    print(f"{options.file}: valid; customer {license_.customer}, {len(license_.gpus)} GPUs, until {until}")
    return DONE


def completion(options: argparse.Namespace) -> int:
    """Print a shell's completion, for `source <(windlass-license completion bash)`."""
    print(shells.script(options.shell, option_names(command_line())), end="")
    return DONE


def license_facts(license_: License) -> dict[str, object]:
    """A license for programs; times as ISO 8601 with zone."""
    return {
        "appid": license_.appid,
        "customer": license_.customer,
        "gpus": len(license_.gpus),
        "limit": license_.limit,
        "expires": license_.expires_last,
        "graceSeconds": license_.grace_s,
        "renewAfterExpiry": license_.renew_after_expiry,
        "serial": license_.serial,
        "answerKey": license_.answer_key,
    }


def _print_json(facts: dict[str, object]) -> None:
    print(json.dumps(facts, default=datetime.isoformat, ensure_ascii=False, indent=2))


def _listing(source: str) -> tuple[ListedGpu, ...]:
    if source == "-":
        return parse_listing(sys.stdin.read(), "standard input")
    return parse_listing(_text(Path(source), "utf-8-sig"), source)


def _text(path: Path, encoding: str = "utf-8") -> str:
    try:
        return path.read_text(encoding=encoding)
    except (OSError, UnicodeDecodeError) as error:
        raise unusable(error, path) from error


def command_line() -> argparse.ArgumentParser:
    """Every command and option; the docs and the chart are held against it."""
    parser = Parser(prog="windlass-license", description="Issue, inspect and serve licenses for GPUs.")
    parser.add_argument("--version", action="version", version=f"windlass-license {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, add_options, run in _COMMANDS:
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.set_defaults(command=run, file=None, output="text")
        add_options(command)
    return parser


def option_names(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """The options of each command, long and short."""
    (commands,) = (dict(action.choices) for action in parser._actions if isinstance(action.choices, dict))
    return {name: [word for row in one._actions for word in row.option_strings] for name, one in commands.items()}


def _completion_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=shells.SHELLS, help="bash, zsh or fish")


def _keygen_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="directory of the new key files")


def _issue_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    gpus_help = "output of `nvidia-smi -L`, of any number of machines; - is standard input"
    add("--gpus", default=[], nargs="+", action="extend", metavar="FILE", help=gpus_help)
    from_help = "a license whose GPUs and terms go on where no other option says otherwise"
    add("--from", dest="file", type=Path, metavar="LICENSE", help=from_help)
    add("--customer", metavar="TEXT", help="who bought the license")
    add("--appid", metavar="N", help="the customer's number")
    add("--expires", metavar="ISO8601", help="end of the license with zone, 2027-09-06T00:00:00+08:00")
    add("--max-concurrent", type=whole, metavar="N", help="GPUs in use at a time; 0 (default) is no limit")
    grace_help = f"how long pods serve without the server (default {DEFAULT_GRACE_S})"
    add("--grace-seconds", type=whole, metavar="S", help=grace_help)
    add("--stop-at-expiry", action="store_true", help="refuse serving pods too once the license expired")
    add("--serial", type=whole, metavar="N", help="number that grows with each license (default: the time of issue)")
    answer_help = "the license server's public answer key (GET /ls/answer-key), which this license certifies"
    add("--answer-key", type=Path, metavar="PUBLIC", help=answer_help)
    keys_option(parser, required=False)
    add("--key", type=Path, required=True, metavar="PRIVATE", help="private key made by keygen")
    add("--out", type=Path, required=True, metavar="FILE", help="license file, or a directory to name it in")
    _output_option(parser)


def _file_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="license file")
    _output_option(parser)


def _output_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="form of what is printed")


def _public_key_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", type=Path, metavar="PRIVATE", help="private key made by keygen")
    _output_option(parser)


def _verify_options(parser: argparse.ArgumentParser) -> None:
    _file_option(parser)
    keys_option(parser, required=True)


def _answer_key(path: Path) -> str:
    found = keys.parse_public(_text(path), str(path))
    if len(found) != 1:
        raise KeyFileError(f"{path} holds {len(found)} public keys; give the one answer key of the license server")
    return answer_key.encode(found[0])


_COMMANDS = (
    ("keygen", _keygen_options, keygen),
    ("public-key", _public_key_options, public_key),
    ("issue", _issue_options, issue_file),
    ("inspect", _file_option, inspect_file),
    ("verify", _verify_options, verify_file),
    ("serve", serve_options, serve),
    ("completion", _completion_options, completion),
)

if __name__ == "__main__":
    sys.exit(main())
