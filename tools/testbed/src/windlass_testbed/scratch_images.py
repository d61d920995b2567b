"""Images FROM scratch, made of a folder: the programs of Kubernetes, pause, and the Python base of our own images."""

import shutil
import subprocess
from pathlib import Path

from windlass_testbed import content
from windlass_testbed.daemon import docker, docker_env
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.process import pipe, run

PATH_CHANGE = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

PAUSE_SOURCE = """
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void down(int s) { (void)s; exit(0); }
static void reap(int s) { (void)s; while (waitpid(-1, 0, WNOHANG) > 0) ; }
int main(void) {
  struct sigaction end = {0}, child = {0};
  end.sa_handler = down;
  sigaction(SIGINT, &end, 0);
  sigaction(SIGTERM, &end, 0);
  child.sa_handler = reap;
  child.sa_flags = SA_NOCLDSTOP;
  sigaction(SIGCHLD, &child, 0);
  for (;;) pause();
}
"""


def exists(paths: Paths, tag: str) -> bool:
    """Tell whether our daemon holds an image of this tag."""
    return bool(docker(paths, "images", "--quiet", tag).strip())


def import_tree(paths: Paths, tree: Path, tag: str, *changes: str) -> str:
    """Make an image of one layer out of a folder; each change is a Dockerfile line such as `CMD [...]`."""
    flags = [word for change in (PATH_CHANGE, *changes) for word in ("--change", change)]
    tar = ["tar", "--numeric-owner", "-C", str(tree), "-c", "."]
    if error := pipe(tar, ["/usr/bin/docker", "import", *flags, "-", tag], docker_env(paths)):
        raise BedError(f"image {tag} could not be made from {tree}: {error}")
    return tag


def programs(root: Path, files: dict[str, Path]) -> Path:
    """Fill a folder with programs, path in the image → file; a /tmp is made beside them."""
    shutil.rmtree(root, ignore_errors=True)
    (root / "tmp").mkdir(parents=True)
    for target, source in files.items():
        place = root / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place, follow_symlinks=True)
        place.chmod(0o755)
    return root


def pause(paths: Paths) -> Path:
    """Return a folder with the static `pause` program that holds a pod's namespaces."""

    def make(target: Path) -> None:
        target.mkdir(parents=True)
        run(["gcc", "-Os", "-static", "-s", "-xc", "-", "-o", target / "pause"], log="pause", stdin=PAUSE_SOURCE)

    return content.once(paths.cache / "pause" / content.key(PAUSE_SOURCE), make)


def stage_libraries(debian: Path, root: Path, programs_in_tree: list[str]) -> None:
    """Copy programs with every library that they load out of a Debian tree into an image folder."""
    for program in programs_in_tree:
        listed = subprocess.run(["chroot", str(debian), "ldd", program], capture_output=True, text=True, check=False)
        words = (word for line in listed.stdout.splitlines() for word in line.split() if word.startswith("/"))
        for name in (program, *words):
            place = root / name.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            source = Path(run(["chroot", debian, "readlink", "-f", name], log="stage").strip())
            shutil.copy2(debian / source.relative_to("/"), place)
