"""Takes the cluster's egress away: later installations and downloads then work without an outside network."""

from windlass_testbed import cluster, daemon
from windlass_testbed.paths import Paths

CHAIN = "WINDLASS-NO-EGRESS"
INSIDE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16")
NODES = (f"{cluster.NAME}-control-plane", *cluster.WORKERS)
RULES = (
    f"iptables -N {CHAIN} 2>/dev/null || iptables -F {CHAIN}",
    *(f"iptables -A {CHAIN} -d {place} -j RETURN" for place in INSIDE),
    f"iptables -A {CHAIN} -j REJECT",
    *(f"iptables -C {way} -j {CHAIN} 2>/dev/null || iptables -I {way} -j {CHAIN}" for way in ("OUTPUT", "FORWARD")),
)


def deny_egress(paths: Paths) -> None:
    """Refuse every packet of nodes and pods that would leave private networks."""
    for node in NODES:
        daemon.docker(paths, "exec", node, "sh", "-c", " && ".join(f"({rule})" for rule in RULES))


def refused(paths: Paths, node: str) -> bool:
    """Whether the node has the rules, and the refusing one comes last."""
    rules = daemon.docker(paths, "exec", node, "iptables", "-S")
    rows = [row for row in rules.splitlines() if row.startswith(f"-A {CHAIN}")]
    ways = [row for row in rules.splitlines() if row in (f"-A OUTPUT -j {CHAIN}", f"-A FORWARD -j {CHAIN}")]
    return len(ways) == 2 and rows[-1].startswith(f"-A {CHAIN} -j REJECT")


def refusals(paths: Paths) -> dict[str, int]:
    """The packets that each node has refused since it has the rules."""
    return {node: counted(daemon.docker(paths, "exec", node, "iptables", "-nvxL", CHAIN)) for node in NODES}


def counted(listing: str) -> int:
    """The packets of the refusing rules in iptables' listing."""
    rows = (line.split() for line in listing.splitlines())
    return sum(int(row[0]) for row in rows if row[2:3] == ["REJECT"])
