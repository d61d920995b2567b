"""The command line of the test cluster: `python -m windlass_testbed …`, called by the Makefile."""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from windlass_testbed import cluster, daemon, demo, deploy, golang, gpu_images, machine, process, push, serving
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY, paths
from windlass_testbed.release import make, site, version
from windlass_testbed.versions import APISERVER_TOOLS, TOOL


def _up(_: argparse.Namespace) -> None:
    machine.ensure_packages()
    cluster.check(paths())
    cluster.up(paths(), [])
    print(f"export KUBECONFIG={paths().kubeconfig} PATH={paths().bin}:$PATH")


def _down(_: argparse.Namespace) -> None:
    demo.delete(paths())


def _tool(arguments: argparse.Namespace) -> None:
    names = arguments.name or list(APISERVER_TOOLS)
    unknown = [name for name in names if name not in TOOL]
    if unknown:
        raise BedError(f"no tool {unknown[0]!r}; there are: {', '.join(TOOL)}.")
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        folder = golang.ensure(paths(), names)
    finally:
        sys.stdout = stdout
    print(folder / names[0] if len(names) == 1 else folder)


def _env(_: argparse.Namespace) -> None:
    values = {**daemon.docker_env(paths())}
    print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items()))


def _demo(_: argparse.Namespace) -> None:
    demo.run_demo(paths())


def _chat(_: argparse.Namespace) -> None:
    demo.talk(paths())


def _images(_: argparse.Namespace) -> None:
    machine.ensure_packages()
    daemon.start(paths())
    for name, tag in deploy.prepare_images(paths()).tags.items():
        print(f"{name} {tag}")


def _images_gpu(arguments: argparse.Namespace) -> None:
    if arguments.words:
        name, target = arguments.words
        print(*gpu_images.export(paths(), name, Path(target)), sep="\n")
    else:
        gpu_images.make(paths())


def _push(arguments: argparse.Namespace) -> None:
    push.push(paths(), arguments.registry, gpu=arguments.gpu)


def _release(arguments: argparse.Namespace) -> None:
    make.make(paths(), gpu="gpu" in arguments.words)


def _demo_release(_: argparse.Namespace) -> None:
    site.run_demo(paths())


def _version(arguments: argparse.Namespace) -> None:
    for number in arguments.words:
        version.write(REPOSITORY, number)
    print(version.read(REPOSITORY))


def _gpus(_: argparse.Namespace) -> None:
    print(cluster.gpu_list(paths()), end="")


def _during(arguments: argparse.Namespace) -> int:
    where = paths()
    ours = not daemon.answers(where)
    try:
        serving.ensure(where)
        return subprocess.run(arguments.words, check=False).returncode
    finally:
        if ours and not os.environ.get("WINDLASS_KEEP"):
            demo.delete(where)


def _python(arguments: argparse.Namespace) -> None:
    serving.python(paths(), arguments.words)


INTERRUPTED = 130
COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int | None], str]] = {
    "up": (_up, "bring the cluster up; builds what is missing"),
    "demo": (_demo, "everything, from the tools to an answer of a served model"),
    "chat": (_chat, "talk to the demo's service"),
    "images": (_images, "build the project's images and print their tags"),
    "images-gpu": (
        _images_gpu,
        "build the GPU images and check them without a GPU; `images-gpu server FOLDER` writes our layer of a built one",
    ),
    "down": (_down, "delete the cluster and stop our container engine; caches stay"),
    "tool": (_tool, "build Go programs by name and print where they are"),
    "env": (_env, "print the environment that talks to the cluster and its engine"),
    "python": (_python, "run Python in the CPU serving image: the repository at /repo, the demo model's data at /work"),
    "during": (
        _during,
        "run a command with our container engine up and the serving image built; WINDLASS_KEEP=1 keeps it",
    ),
    "push": (_push, "push the images of this checkout to a registry, and print their digests"),
    "release": (_release, "make every artefact of the commit into dist/; `release gpu` with the images for GPUs"),
    "demo-release": (_demo_release, "install what is in dist/ from a registry of the site, without egress"),
    "version": (_version, "print the version, or write another one into every place that holds it"),
    "gpus": (_gpus, "print the `nvidia-smi -L` lines of the cluster's GPUs"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; a BedError becomes one sentence and exit code 1."""
    parser = argparse.ArgumentParser(prog="windlass_testbed", description="A real cluster on a bare Debian machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (_, text) in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text)
        if name == "tool":
            sub.add_argument("name", nargs="*", help="etcd, kube-apiserver, helm, … (default: those of an API server)")
        if name == "push":
            sub.add_argument("registry", help="registry and path, as registry.example.com/team")
            sub.add_argument("--gpu", action="store_true", help="the images for GPUs too")
        if name in ("python", "during", "images-gpu", "release", "version"):
            sub.add_argument("words", nargs=argparse.REMAINDER, help="the program and its arguments")
    arguments = parser.parse_args(argv)
    try:
        return COMMANDS[arguments.command][0](arguments) or 0
    except BedError as error:
        return process.fail(error)
    except KeyboardInterrupt:
        print("windlass: stopped; the same command goes on from here.", file=sys.stderr)
        return INTERRUPTED
