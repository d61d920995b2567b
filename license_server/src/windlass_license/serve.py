"""Run the app in a process: sockets, logging, stopping. The only file that imports uvicorn."""

import gc
import json
import logging
import socket
import sys
from dataclasses import replace

import uvicorn
from windlass_base import json_lines
from windlass_base.front.connection import Front, guarded, raise_file_limit
from windlass_base.json_lines import LogSettings
from windlass_base.kube.lease import LeaseName

from windlass_license.cluster.callers import Callers
from windlass_license.cluster.pod import api_server
from windlass_license.election.kube_lease import KubeLease
from windlass_license.http import tls
from windlass_license.http.app import create_app
from windlass_license.http.front import allowances
from windlass_license.http.listening import BACKLOG, listening, urls
from windlass_license.license_file.codec import NO_KEY
from windlass_license.settings import KUBERNETES, Settings

log = logging.getLogger("windlass_license")
SWITCH_S = 0.0005
"""The thread that commits and the event loop change places often: a request waits for neither's whole turn."""


def serve(
    settings: Settings, host: str, port: int, lease: LeaseName | None = None, certificate: tls.Tls | None = None
) -> int:
    """Listen until SIGTERM or SIGINT; audit records go to standard output, one JSON object a line."""
    with listening(host, port) as sockets:
        return _serve(settings, sockets, lease, certificate)


def _serve(
    settings: Settings, sockets: list[socket.socket], lease: LeaseName | None, certificate: tls.Tls | None
) -> int:
    _configure_logging(settings.log)
    sys.setswitchinterval(SWITCH_S)
    election = KubeLease(api_server(), lease) if lease is not None else None
    callers = Callers(api_server(), settings.pod_gpus) if settings.lease_auth == KUBERNETES else None
    limits = replace(settings.front, connections=raise_file_limit(settings.front, log.warning))
    front = Front(limits, allowances(limits), tls=certificate.context if certificate else None)
    app = create_app(settings, election=election, turned_away=front.peers.turned_away, callers=callers)
    log.info(
        "trusting public keys %s; data in %s", ", ".join(sorted(settings.public_keys)) or "none", settings.data_dir
    )
    log.info("listening on %s", ", ".join(urls(sockets, "https" if certificate else "http")))
    _warn(settings)
    # One process: a second one would be a stand-by of the first.
    config = uvicorn.Config(
        app,
        http=guarded(front),
        backlog=BACKLOG,
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=10,
    )
    config.load()
    if certificate is not None:
        tls.follow(certificate)
    # A license of 10,000 GPUs and thousands of connections live long: looking through them would stop every request.
    gc.set_threshold(50_000, 20, 100)
    gc.freeze()
    uvicorn.Server(config).run(sockets)
    return 0


def _warn(settings: Settings) -> None:
    """What the settings leave open."""
    if not settings.public_keys:
        log.warning(NO_KEY)
    if settings.lease_auth != KUBERNETES:
        log.warning("--lease-auth is none: whoever reaches this server may lease GPUs under any name")
    if settings.admin_token is None:
        log.warning("no admin token is set: whoever reaches this server may upload a license and read the audit log")


class AuditLines(logging.Formatter):
    """An audit record in the shape of the other lines: its event is the message, its facts are fields."""

    def __init__(self, settings: LogSettings) -> None:
        super().__init__()
        self._settings = settings

    def format(self, record: logging.LogRecord) -> str:
        """A line for each audit record: one write of the store may bring several."""
        return "\n".join(self._line(record, json.loads(one)) for one in record.getMessage().splitlines())

    def _line(self, record: logging.LogRecord, facts: dict[str, object]) -> str:
        event, why = str(facts.pop("event")), facts.pop("message", "")
        message = f"{event}: {why}" if why else event
        return json_lines.line(
            self._settings, record.created, record.levelno, record.name, message, event=event, **facts
        )


class PlainText(logging.Formatter):
    """One line of printable text a record, and a traceback below it: what others sent cannot steer a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the name of the base class
        """Every character that does not print becomes its escape."""
        said = super().formatMessage(record)
        return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in said)


def _says_something(record: logging.LogRecord) -> bool:
    """Not that somebody sent bytes that are no HTTP: anybody can, as often as he likes."""
    return record.levelno != logging.WARNING


def _configure_logging(settings: LogSettings) -> None:
    if settings.is_json:
        json_lines.install(settings, log.name)
    else:
        lines = logging.StreamHandler(sys.stderr)
        lines.setFormatter(PlainText("%(asctime)s %(levelname)s %(name)s %(message)s"))
        logging.basicConfig(level=settings.level, handlers=[lines])
    logging.getLogger("uvicorn.error").addFilter(_says_something)
    audit = logging.getLogger("windlass_license.audit")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(AuditLines(settings) if settings.is_json else logging.Formatter("%(message)s"))
    audit.addHandler(handler)
    audit.setLevel(logging.INFO)
    audit.propagate = False
