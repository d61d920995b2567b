"""Prometheus and promtool, out of Debian's package: its Go module takes many minutes to compile, the package seconds.

The module cannot be installed as other tools are either: its go.mod has a replace line, which `go install` refuses.
"""

import os
import tempfile
from pathlib import Path

from windlass_testbed import content, rootfs
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.process import run
from windlass_testbed.versions import DEBIAN_SUITE

PACKAGE = "prometheus"
PROGRAMS = ("prometheus", "promtool")


def ensure(paths: Paths) -> Path:
    """Return the folder of both programs, unpacked when absent; nothing is installed on the machine."""
    name = f"{PACKAGE}-{content.key(DEBIAN_SUITE, rootfs.mirror())}"
    return content.once(paths.cache / "debian-tools" / name, _unpack) / "usr/bin"


def _unpack(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # apt fetches as a user of its own, who must reach the folder
        command = ["apt-get", "download", "-qq", PACKAGE]
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        try:
            run(command, log="apt", env=env, cwd=Path(folder))
        except BedError:  # no lists yet, or lists of an older point release
            run(["apt-get", "update", "-qq"], log="apt", env=env)
            run(command, log="apt", env=env, cwd=Path(folder))
        (file,) = Path(folder).glob(f"{PACKAGE}_*.deb")
        run(["dpkg-deb", "--extract", file, target], log="apt")
    missing = [name for name in PROGRAMS if not os.access(target / "usr/bin" / name, os.X_OK)]
    if missing:
        raise BedError(f"Debian's package {PACKAGE} has no program {missing[0]}.")
