"""The command line `windlass-console`: options, then the environment, as settings of one process."""

from __future__ import annotations

import argparse
import logging
import os
import ssl
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from windlass_base import json_lines
from windlass_base.command_line import output_checked
from windlass_base.kube.errors import AccessError

from windlass_console import __version__
from windlass_console.settings import SESSION_HOURS, Settings, SettingsError

OK, WRONG = 0, 2
EXIT_CODES = ((OK, "the process was asked to stop"), (WRONG, "an option or a setting is wrong"))
KEY_VARIABLE = "WINDLASS_CONSOLE_SESSION_KEY"
PORT = 8080
PORT_MAX = 65535


def command_line() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="windlass-console",
        description="A web console for LLMServices. It has no right of its own: each user signs in with a token.",
    )
    parser.add_argument("--version", action="version", version=f"windlass-console {__version__}")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, help=f"port to listen at (default: {PORT})")
    parser.add_argument("--prefix", default="", help="path below which an ingress shows the console, as /console")
    parser.add_argument("--api-server", default="", help="URL of the API server (default: the kubeconfig's)")
    parser.add_argument("--ca-file", default="", help="PEM file of the API server's authority")
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        help="namespace that is offered to users who may not list namespaces; may be given several times",
    )
    parser.add_argument(
        "--origin",
        action="append",
        default=[],
        help="origin of the pages where an ingress changes the header Host; may be given several times",
    )
    parser.add_argument(
        "--license-address",
        action="append",
        default=[],
        help="URL of a license server that the operator asks; licenses go to those alone; may be given several times",
    )
    parser.add_argument(
        "--session-key-file",
        default="",
        help=f"file with the key of the cookies (default: {KEY_VARIABLE}, else random)",
    )
    parser.add_argument(
        "--session-hours", type=int, default=SESSION_HOURS, help=f"hours a session lasts (default: {SESSION_HOURS})"
    )
    parser.add_argument("--insecure-cookie", action="store_true", help="let browsers send the cookie over plain HTTP")
    return parser


def settings_of(options: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """The settings; SettingsError says what is wrong."""
    if not 1 <= options.port <= PORT_MAX:
        raise SettingsError(f"--port {options.port} is no port; write a number from 1 to {PORT_MAX}")
    _check_api_server(options.api_server)
    _check_ca_file(options.ca_file)
    return Settings(
        prefix=options.prefix.rstrip("/"),
        api_server=options.api_server,
        ca_file=options.ca_file,
        namespaces=tuple(options.namespace),
        origins=tuple(options.origin),
        license_addresses=tuple(options.license_address),
        session_key=_key(options.session_key_file, environment),
        session_hours=options.session_hours,
        secure_cookie=not options.insecure_cookie,
    )


def _check_api_server(url: str) -> None:
    """Empty is the kubeconfig's."""
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bracket that is not closed, or a port that is none
        is_url = False
    if url and not is_url:
        raise SettingsError(f'--api-server "{url}" is no URL of a server; write it as https://HOST:6443')


def _check_ca_file(file: str) -> None:
    """Empty leaves the API server to the authorities of this machine."""
    try:
        if file:
            ssl.create_default_context(cafile=file)
    except ssl.SSLError as error:
        raise SettingsError(f"--ca-file {file} holds no certificate; name a PEM file of authorities") from error
    except OSError as error:
        raise SettingsError(f"--ca-file {file} cannot be read: {error.strerror}; name a PEM file") from error


def _key(file: str, environment: Mapping[str, str]) -> bytes:
    if not file:
        return environment.get(KEY_VARIABLE, "").encode()
    try:
        return Path(file).read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"--session-key-file {file} cannot be read: {error.strerror}") from error


@output_checked("windlass-console")
def main(argv: Sequence[str] | None = None) -> int:
    """Serve, and return the exit code."""
    options = command_line().parse_args(argv)
    try:
        log_settings = json_lines.read(os.environ)
        settings = settings_of(options, os.environ)
        from windlass_console.http.app import create_app
        from windlass_console.identity.access import access_by

        app = create_app(settings, access_by(settings))
    except (SettingsError, AccessError, ValueError) as error:
        print(f"windlass-console: {error}", file=sys.stderr)
        return WRONG
    if log_settings.is_json:
        json_lines.install(log_settings, "windlass_console")
    else:
        logging.basicConfig(level=log_settings.level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it names the address of every request
    if not settings.session_key:
        logging.getLogger(__name__).warning(
            "no session key is set: a restart ends all sessions, and one replica alone can serve; "
            "set --session-key-file or %s",
            KEY_VARIABLE,
        )
    from windlass_console.serve import serve

    return serve(app, options.host, options.port)


if __name__ == "__main__":
    raise SystemExit(main())
