"""The host's side of `run_forks.py`: a container that has imported the engine runs one script after the other."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from windlass_testbed import daemon, serving
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY, Paths

PROGRAM = "/repo/tests/engine/run_forks.py"
RUN_FOLDER = "/run-folder"
"""The container's name for the folder of this run of the tests, which holds nearly all that scripts mount."""
RIGHTS = ("--interactive", "--init", "--cap-add", "SYS_ADMIN", "--security-opt", "apparmor=unconfined")
"""A script gets mounts of its own, and process 1 is another than the script, which is the first of its own tree."""


@dataclass
class ForkServer:
    """A container of the image, started with the first script. `folder` is the run's."""

    paths: Paths
    image: str
    folder: Path
    answers: Path
    variables: dict[str, str]
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    def run(self, words: tuple[str, ...], mounts: dict[Path, str], timeout_s: float) -> tuple[int, str, str]:
        """Exit code and both streams of a script."""
        process = self._process or self._started()
        job = {
            "words": words,
            "mounts": {self._inside(source): target for source, target in mounts.items()},
            "answers": self._inside(self.answers),
            "timeout_s": timeout_s,
        }
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        if not (reply := process.stdout.readline()):
            raise BedError(f"the container of the scripts ended with {process.wait()}; what it said is above")
        return int(reply), *((self.answers / name).read_text(errors="replace") for name in ("stdout", "stderr"))

    def end(self) -> None:
        """The container ends with its input."""
        if self._process:
            self._process.communicate()

    def _started(self) -> subprocess.Popen[str]:
        command = serving.python_command(self.image, (PROGRAM,), {self.folder: RUN_FOLDER}, self.variables, more=RIGHTS)
        env = os.environ | daemon.docker_env(self.paths)
        self.answers.mkdir(exist_ok=True)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        return self._process

    def _inside(self, path: Path) -> str:
        """The container's name of a folder of the run or of the repository."""
        if path.is_relative_to(self.folder):
            return f"{RUN_FOLDER}/{path.relative_to(self.folder)}"
        return f"/repo/{path.relative_to(REPOSITORY)}"
