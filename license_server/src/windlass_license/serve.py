"""Run the app in a process: sockets, logging, stopping. The only file that imports uvicorn."""

import logging
import sys

import uvicorn

from windlass_license.app import create_app
from windlass_license.settings import Settings

log = logging.getLogger("windlass_license")


def serve(settings: Settings, host: str, port: int) -> int:
    """Listen until SIGTERM or SIGINT; audit records go to standard output, one JSON object a line."""
    _configure_logging()
    app = create_app(settings)
    log.info("trusting public keys %s; data in %s", ", ".join(sorted(settings.public_keys)), settings.data_dir)
    if settings.admin_token is None:
        log.warning("no admin token is set: whoever reaches this server may upload a license and read the audit log")
    # One worker: a second process would count its own metrics; the store itself would stay right.
    uvicorn.Server(
        uvicorn.Config(app, host=host, port=port, log_config=None, access_log=False, timeout_graceful_shutdown=10)
    ).run()
    return 0


def _configure_logging() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    audit = logging.getLogger("windlass_license.audit")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    audit.addHandler(handler)
    audit.propagate = False
