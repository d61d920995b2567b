"""How long a server may take to start, and how soon it counts as unwell. Numbers in, probes out."""

from __future__ import annotations

import math

from windlass_operator.manifests.metadata import Manifest

PERIOD_S = 10
START_FIRST_S = 900  # import, compile and warm-up: peers measured 195 s of compiling on a 27B model
START_GIB_S = 30  # a GiB of weights over a slow shared volume
LICENSE_WAIT_S = 7 * 24 * 3600  # a refused license is waited out inside the pod; the kubelet must not shoot it


def start_seconds(weights_gib: float, license_required: bool) -> int:
    """How long a start may take before the kubelet gives up on it."""
    load_s = START_FIRST_S + math.ceil(weights_gib * START_GIB_S)
    return load_s + (LICENSE_WAIT_S if license_required else 0)


def serving_probes(weights_gib: float, license_required: bool, path: str = "/health", port: str = "http") -> Manifest:
    """Start-up as long as the weights need; then a slow answer makes a pod unready soon and restarts it late."""
    tries = math.ceil(start_seconds(weights_gib, license_required) / PERIOD_S)
    return {
        "startupProbe": _get(path, port, period_s=PERIOD_S, timeout_s=5, tries=tries),
        "readinessProbe": _get(path, port, period_s=5, timeout_s=5, tries=3),
        "livenessProbe": _get(path, port, period_s=10, timeout_s=10, tries=12),
    }


def _get(path: str, port: str, *, period_s: int, timeout_s: int, tries: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period_s,
        "timeoutSeconds": timeout_s,
        "failureThreshold": tries,
    }
