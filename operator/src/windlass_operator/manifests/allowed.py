"""Which annotations a service may put on its Ingress and its pods: two tables of key patterns.

Annotations are instructions to programs that serve all namespaces. On an Ingress only listed keys pass, since a
controller writes their values into a configuration that all namespaces share. On a pod every key passes whose domain no
kubelet, container runtime, network plug-in or injecting webhook reads; of those domains only listed keys pass. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

WILD = "*"
MATTERS_OF_TIME = ("proxy-connect-timeout", "proxy-read-timeout", "proxy-send-timeout")


@dataclass(frozen=True, slots=True)
class Annotations:
    """A table: `allowed` keys, each whole or ending with *; `judged` domains, or all where it is empty."""

    allowed: tuple[str, ...]
    judged: tuple[str, ...] = ()

    def permits(self, key: str, further: Iterable[str] = ()) -> bool:
        """Whether the key may be set; `further` are the administrator's rows."""
        if any(_matches(key, row) for row in (*self.allowed, *further)):
            return True
        return bool(self.judged) and not self._is_judged(key)

    def _is_judged(self, key: str) -> bool:
        domain = key.partition("/")[0].lower()
        return any(f".{domain}".endswith(f".{row}") or domain.startswith(f"{row}.") for row in self.judged)


def refused(keys: Iterable[str], table: Annotations, further: Iterable[str] = ()) -> str:
    """The first key that may not be set; empty when all may."""
    rows = tuple(further)
    return next((key for key in sorted(keys) if not table.permits(key, rows)), "")


def _matches(key: str, row: str) -> bool:
    return key.startswith(row[:-1]) if row.endswith(WILD) else key == row


def _under(prefix: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}/{name}" for name in names)


# Left out of each controller: snippets and raw configuration, authentication by another address, mirrors, rewrites and
# anything else whose value is an address, a path or an expression.
INGRESS_ANNOTATIONS = Annotations(
    (
        *_under("nginx.ingress.kubernetes.io", *MATTERS_OF_TIME),
        *_under("nginx.ingress.kubernetes.io", "proxy-buffering", "proxy-body-size", "proxy-buffer-size"),
        *_under("nginx.ingress.kubernetes.io", "proxy-request-buffering", "ssl-redirect", "force-ssl-redirect"),
        *_under("nginx.ingress.kubernetes.io", "limit-rps", "limit-rpm", "limit-connections"),
        *_under("nginx.ingress.kubernetes.io", "whitelist-source-range", "denylist-source-range"),
        *_under("nginx.ingress.kubernetes.io", "enable-cors", "cors-allow-origin", "cors-allow-methods"),
        *_under("nginx.ingress.kubernetes.io", "cors-allow-headers", "cors-allow-credentials", "cors-max-age"),
        *_under("nginx.org", *MATTERS_OF_TIME, "client-max-body-size", "proxy-buffering", "redirect-to-https"),
        *_under("haproxy.org", "timeout-server", "timeout-tunnel", "timeout-connect", "ssl-redirect"),
        *_under("haproxy.org", "rate-limit-requests", "rate-limit-period", "allow-list", "deny-list"),
        *_under("haproxy-ingress.github.io", "timeout-server", "timeout-tunnel", "ssl-redirect", "limit-rps"),
        *_under("haproxy-ingress.github.io", "limit-connections", "allowlist-source-range"),
        *_under("traefik.ingress.kubernetes.io", "router.entrypoints", "router.tls"),
        *_under("alb.ingress.kubernetes.io", "scheme", "target-type", "healthcheck-path", "success-codes"),
        *_under("cert-manager.io", "issuer", "cluster-issuer", "duration", "renew-before"),
        *_under("external-dns.alpha.kubernetes.io", "ttl"),
    )
)

POD_ANNOTATIONS = Annotations(
    allowed=(
        *_under("kubectl.kubernetes.io", "default-container", "default-logs-container", "restartedAt"),
        *_under("cluster-autoscaler.kubernetes.io", "safe-to-evict"),
        *_under("controller.kubernetes.io", "pod-deletion-cost"),
        *_under("sidecar.istio.io", "inject"),
        *_under("linkerd.io", "inject"),
        "kueue.x-k8s.io/*",
    ),
    judged=(
        *("kubernetes.io", "k8s.io", "x-k8s.io"),  # AppArmor, seccomp, CDI devices, load balancers
        *(
            "io.kubernetes",
            "io.containerd",
            "io.katacontainers",
            "crio.io",
            "cri-o.io",
            "cilium.io",
            "projectcalico.org",
        ),
        *("cncf.io", "multus-cni.io", "ovn.org", "nvidia.com", "openshift.io"),
        *("istio.io", "linkerd.io", "vault.hashicorp.com"),
    ),
)
