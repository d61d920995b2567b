"""Where the test cluster keeps things: one cache root, content-keyed below, and one run directory for daemons."""

import os
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[4]
TESTBED = REPOSITORY / "tools/testbed"


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders of one test cluster; everything under `cache` may be deleted at any time and is made again."""

    cache: Path
    run: Path

    @property
    def bin(self) -> Path:
        """Symbolic links to the built tools, first in PATH of every call."""
        return self.cache / "bin"

    @property
    def logs(self) -> Path:
        """One log file a step; errors name theirs."""
        return self.cache / "log"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the cluster; never the user's own."""
        return self.run / "kubeconfig"


def paths(environment: "os._Environ[str] | dict[str, str]" = os.environ) -> Paths:
    """Return the folders: `WINDLASS_CACHE` or `$XDG_CACHE_HOME/windlass`, else `~/.cache/windlass`."""
    home = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/root")) / ".cache")
    cache = Path(environment.get("WINDLASS_CACHE") or home / "windlass")
    return Paths(cache=cache, run=cache / "run")
