"""`windlass-license serve` on the command line: its options, and what they become. `cli` puts it beside the others."""

import argparse
import os
from datetime import timedelta
from pathlib import Path

from windlass_base import json_lines
from windlass_base.front.peers import FrontLimits

from windlass_license.errors import SettingsError
from windlass_license.http import tls
from windlass_license.rules.model import LeaseBounds
from windlass_license.settings import (
    DEFAULT_PORT,
    DEFAULT_TTL,
    KUBE_LEASE_VARIABLE,
    KUBERNETES,
    LEASE_AUTH_VARIABLE,
    NONE,
    Settings,
    parse_kube_lease,
    read_admin_token,
    read_public_keys,
)
from windlass_license.storage.store import AuditBounds
from windlass_license.usage import keys_option, not_negative, port, positive, whole

TTL_MIN_S, TTL_MAX_S = 5, 86400


def serve(options: argparse.Namespace) -> int:
    """Run the license server until it is told to stop."""
    from windlass_license.serve import serve as run_server

    ttl = _ttl(options.ttl_seconds)
    try:
        log = json_lines.read(os.environ)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    kube_lease = parse_kube_lease(options.kube_lease) if options.kube_lease else None
    settings = Settings(
        data_dir=options.data,
        public_keys=read_public_keys(options.public_key, os.environ),
        admin_token=read_admin_token(options.admin_token_file, os.environ),
        ttl=ttl,
        log=log,
        trust_clock=options.trust_clock,
        audit=AuditBounds(options.audit_records, options.audit_mib * 2**20),
        answer_key=options.answer_key,
        lease_auth=_lease_auth(options.lease_auth),
        pod_gpus=options.pod_gpus == "enforce",
        leases=LeaseBounds(options.leases_per_gpu),
        front=FrontLimits(options.connections, options.connections_per_peer, options.requests_per_peer),
    )
    certificate = tls.read(options.tls_dir) if options.tls_dir else None
    return run_server(settings, options.host, options.port, kube_lease, certificate)


def _ttl(seconds: int) -> timedelta:
    """Long enough to be renewed in it, and short enough that a dead pod's seat is free some day."""
    if seconds < TTL_MIN_S:
        raise SettingsError(f"--ttl-seconds {seconds} is too short to be renewed in time; give {TTL_MIN_S} or more")
    if seconds > TTL_MAX_S:
        raise SettingsError(f"--ttl-seconds {seconds} is longer than a day; give {TTL_MAX_S} or less")
    return timedelta(seconds=seconds)


def serve_options(parser: argparse.ArgumentParser) -> None:
    """Every option of `serve`; the docs and the chart are held against it."""
    add = parser.add_argument
    add("--host", default="0.0.0.0", help="address to listen on (default %(default)s)")  # noqa: S104  it runs in a pod
    add("--port", type=port, default=DEFAULT_PORT, help="port to listen on (default %(default)s)")
    add(
        "--data", type=Path, required=True, metavar="DIR", help="directory of the license, the leases and the audit log"
    )
    keys_option(parser, required=False)
    answer_help = "private key that signs answers (default: one that is made in the data directory)"
    add("--answer-key", type=Path, metavar="PRIVATE", help=answer_help)
    add("--admin-token-file", type=Path, metavar="PATH", help="file with the token that upload and audit ask for")
    ttl_help = "how long a lease lasts unless it is renewed (default %(default)s)"
    add("--ttl-seconds", type=whole, default=int(DEFAULT_TTL.total_seconds()), metavar="S", help=ttl_help)
    audit_help = "the audit log keeps this many records (default %(default)s)"
    add("--audit-records", type=positive, default=AuditBounds().rows, metavar="N", help=audit_help)
    add("--audit-mib", type=positive, default=AuditBounds().bytes // 2**20, metavar="N", help="… and this many MiB")
    auth_help = "how a pod shows which it is: by its service account token, or none: under any name that it says"
    default_auth = os.environ.get(LEASE_AUTH_VARIABLE) or KUBERNETES
    add("--lease-auth", choices=[KUBERNETES, NONE], default=default_auth, help=f"{auth_help} (default {KUBERNETES})")
    gpus_help = "whether a pod leases at most as many GPUs as it requests of Kubernetes (default %(default)s)"
    add("--pod-gpus", choices=["enforce", "ignore"], default="enforce", help=gpus_help)
    sharing_help = "leases that may share one GPU, by MIG or in time (default %(default)s)"
    add("--leases-per-gpu", type=positive, default=LeaseBounds().per_gpu, metavar="N", help=sharing_help)
    front = FrontLimits()
    connections_help = "connections open at a time (default %(default)s)"
    add("--connections", type=positive, default=front.connections, metavar="N", help=connections_help)
    peer_help = "… of one address (default %(default)s)"
    add("--connections-per-peer", type=positive, default=front.connections_per_peer, metavar="N", help=peer_help)
    rate_help = "requests a second of one address; 0 is no limit (default %(default)g)"
    add("--requests-per-peer", type=not_negative, default=front.requests_per_s, metavar="N", help=rate_help)
    lease_help = "elect one active replica by this Lease of the cluster; without it, by a lock on the data directory"
    add("--tls-dir", type=Path, metavar="DIR", help="directory with tls.crt and tls.key, to speak HTTPS")
    add("--kube-lease", metavar="NAMESPACE/NAME", default=os.environ.get(KUBE_LEASE_VARIABLE), help=lease_help)
    add(
        "--trust-clock",
        action="store_true",
        help="forget the latest time seen, after the date was once far in the future",
    )


def _lease_auth(word: str) -> str:
    if word not in (KUBERNETES, NONE):  # argparse does not check defaults
        raise SettingsError(f'{LEASE_AUTH_VARIABLE} is "{word}"; write {KUBERNETES} or {NONE}')
    return word
