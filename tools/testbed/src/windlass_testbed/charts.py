"""Installing a chart into the cluster with helm, also over what an interrupted run left half done."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from windlass_testbed.cluster import kubectl
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY, Paths
from windlass_testbed.process import run

CHARTS = REPOSITORY / "charts"


def helm(paths: Paths, *words: str) -> str:
    """Run helm against the cluster, with folders of its own."""
    folder = paths.run / "helm"
    env = {f"HELM_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    return run([paths.bin / "helm", "--kubeconfig", paths.kubeconfig, *words], log="helm", env=env)


def repository_and_tag(image: str) -> tuple[str, str]:
    """Split `name:tag`."""
    repository, _, tag = image.rpartition(":")
    return repository, tag


@dataclass(frozen=True, slots=True)
class Release:
    """One of the project's charts, installed under its own name into a namespace.

    `source` is where helm finds it, such as an address of a registry; empty: the repository's charts folder.
    """

    paths: Paths
    namespace: str
    chart: str
    source: str = ""

    def install(self, values: Sequence[str], more: Sequence[str] = ()) -> None:
        """Install or upgrade the chart with `--set` values and further flags; wait until its pods are ready."""
        flags = ["--namespace", self.namespace, "--create-namespace", "--wait", "--timeout", "180s", *more]
        sets = [word for value in values for word in ("--set", value)]
        self._settle()
        try:
            helm(self.paths, "upgrade", "--install", self.chart, self.source or str(CHARTS / self.chart), *flags, *sets)
        except BedError as error:
            raise BedError(f"{error}\n{self._pods()}") from error

    def _settle(self) -> None:
        """Clear a release that an interrupted run left half done: helm would refuse to touch it."""
        listing = ("--namespace", self.namespace, "--all", "--filter", f"^{self.chart}$", "-o", "json")
        states = {row["status"] for row in json.loads(helm(self.paths, "list", *listing))}
        if states & {"pending-install", "uninstalling"}:
            helm(self.paths, "uninstall", self.chart, "--namespace", self.namespace, "--wait", "--timeout", "60s")
        elif states & {"pending-upgrade", "pending-rollback"}:
            helm(self.paths, "rollback", self.chart, "--namespace", self.namespace)

    def _pods(self) -> str:
        """Its pods and the last lines of their logs, as far as kubectl gives them."""
        words = (["get", "pods", "-o", "wide"],
                 ["logs", "-l", f"app.kubernetes.io/instance={self.chart}", "--tail=15", "--prefix"])  # fmt: skip
        return "\n".join(_or_empty(self.paths, ["-n", self.namespace, *row]) for row in words)


def _or_empty(paths: Paths, words: list[str]) -> str:
    try:
        return kubectl(paths, *words)
    except BedError:
        return ""
